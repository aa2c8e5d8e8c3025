"""The experiments of the SLND paper: contenders, measures and the report of rows."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import slnd
from experiments.contenders import CONTENDERS
from experiments.measures import MEASURES
from experiments.plan import final_tasks, read_plan
from experiments.problems import PROBLEMS, Problem, features
from experiments.report import main
from experiments.rows import HERE, append_rows


@pytest.fixture
def problem():
    return PROBLEMS["many_classes"](0, n=600, d=12, classes=6, noise=0.3)


def test_the_plan_names_what_exists():
    plan = read_plan(HERE / "slnd.toml")
    assert {block["problem"] for block in plan["blocks"]} <= set(PROBLEMS)
    tasks = final_tasks(plan, [])
    assert {task.kind for task in tasks} <= set(CONTENDERS)
    assert any("eta_scale" in task.parameters for task in tasks)


@pytest.mark.parametrize(
    "parameters",
    [
        {"learner": "SLNDClassifier", "max_iter": 2},
        {"learner": "SGDOneVsRest", "eta_scale": 1.0, "sampling": "balanced"},
        {"learner": "SGDQN"},
    ],
    ids=str,
)
def test_classifiers_are_measured_by_their_best_classes(problem, parameters):
    contender = CONTENDERS["classifier"](problem, 0, **parameters)
    contender.learn_to(0)
    found = {m: value for _, _, m, value in MEASURES["classes"](contender, problem, None, True)}
    assert found["top1"] == pytest.approx(contender.model.score(problem.X_test, problem.y_test))
    assert 0.9 < found["top1"] <= found["top5"] <= 1.0


def test_the_spectrum_is_of_the_second_moment(problem):
    contender = CONTENDERS["spectrum"](problem, 0)
    contender.learn_to(0)
    found = {m: value for _, _, m, value in MEASURES["classes"](contender, problem, None, True)}
    values = np.linalg.eigvalsh(problem.X_train.T @ problem.X_train)[::-1]
    assert found["eigenvalue@1"] == pytest.approx(values[0] / values.sum(), rel=1e-4)
    assert found["energy@12"] == pytest.approx(1.0, rel=1e-4)


def row(contender, passes, value, seconds, **more):
    return {
        "stage": "run", "problem": "isolet_letters", "options": "{}", "contender": contender,
        "parameters": json.dumps({"max_iter": passes, **more}), "seed": 0, "step": 0,
        "queries": 10, "score": "scores", "measure": "top1", "value": value, "seconds": seconds,
        "versions": "", "note": "",
    }  # fmt: skip


def test_the_report_takes_the_validated_setting_and_the_first_run_that_reaches(tmp_path, capsys):
    rows = [
        row("SGD", 1, 0.9, 0.1, eta_scale=3.0),  # the better one on the test part is not taken
        *(
            {**row("SGD", 20, v, 1.0, eta_scale=e), "stage": "tune"}
            for e, v in ((1.0, 0.8), (3.0, 0.7))
        ),
        *(row("SGD", n, v, n / 10, eta_scale=1.0) for n, v in ((1, 0.3), (20, 0.7))),
        *(row("SLND logistic", n, v, n / 2) for n, v in ((1, 0.6), (2, 0.72))),
    ]
    assert slnd.best_curve(rows, "SGD") == {1: (0.1, 0.3), 20: (2.0, 0.7)}
    assert slnd.reached(slnd.best_curve(rows, "SLND logistic"), 0.693) == (2, 1.0)
    assert slnd.reached(slnd.best_curve(rows, "SGD"), 0.8) == (math.inf, math.inf)
    spent = [{**r, "measure": "processor_seconds", "value": r["seconds"]} for r in rows]
    append_rows(tmp_path / "results" / "isolet.csv", [*rows, *spent])
    main(["slnd", "--results", str(tmp_path / "results"), "--reports", str(tmp_path)])
    text = (tmp_path / "slnd.md").read_text()
    assert "2 (1.00 s)" in text
    assert "the ratios are 10.0" in text
    assert "1.00 s beside 2.00 s on Isolet" in text
    assert (tmp_path / "figures" / "slnd_passes_2.png").exists()


def test_the_report_compares_the_default_with_sgd_seed_by_seed():
    def after_five(contender, seed, value):
        return {**row(contender, 5, value, 1.0), "seed": seed}

    rows = [
        after_five(name, seed, value + 0.01 * (seed - 10))
        for name, value in (("SLND, our defaults", 0.9), ("SGD, all examples, tuned", 0.91))
        for seed in (0, 10, 11, 12)  # the first one is not among those that judge
    ]
    *_, told = slnd.forms_part(rows)
    assert told.endswith("Isolet -1.00 ± 0.00; behind on Isolet.")
    assert "91.0 ± 0.6" in slnd.forms_part(rows)[2]


@pytest.mark.parametrize("gains", [(-0.01, -0.02, 0.0), (-0.01, 0.02, -0.02), (0.01, 0.01, 0.01)])
def test_behind_is_said_at_the_95_percent_level_only(gains):
    """By Student's t with two degrees of freedom, 4.3 standard errors are needed."""
    rows = [
        {**row(name, 5, value, 1.0), "seed": seed}
        for seed, gain in enumerate(gains, 10)
        for name, value in (("SLND, our defaults", 0.9 + gain), ("SGD, all examples, tuned", 0.9))
    ]
    assert slnd.forms_part(rows)[-1].endswith("behind on none of them.")


def test_fewer_classes_and_images_are_drawn(monkeypatch):
    y = np.repeat(np.arange(20), 10)
    whole = SimpleNamespace(X=np.ones((200, 3)), y=y, train=np.arange(200) % 2 == 0)
    monkeypatch.setattr(features, "load_tiny_imagenet", lambda: whole)
    some = PROBLEMS["tiny_imagenet"](0, classes=6, per_class=3)
    assert np.bincount(some.y_train).tolist().count(3) == len(np.unique(some.y_test)) == 6
    assert len(some.y_train) == 18
    assert set(some.y_train) == set(some.y_test)


def test_problems_have_float32_rows_and_a_measure(problem):
    assert isinstance(problem, Problem)
    assert problem.measured_by == "classes"
    assert problem.X_train.dtype == np.float32
