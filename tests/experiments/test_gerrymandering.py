"""Votes with a chosen number of voters, databases of their own, and the report on the rows."""

import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from experiments import gerrymandering
from experiments.contenders import CONTENDERS
from experiments.measures import MEASURES
from experiments.peers import call
from experiments.problems import PROBLEMS, domains, validation
from experiments.problems.base import Problem
from experiments.problems.domains import Held
from tests.reference import gerrymandering as reference

TASK = SimpleNamespace(cuts=(1, 3, 5))


def split(rng, n_queries=0):
    """Two classes; with queries of their own, these are mirrored."""

    def points(n, sign):
        y = np.arange(n) % 2
        return (sign * (rng.normal(size=(n, 3)) + 4.0 * y[:, None] - 2.0)).astype(np.float32), y

    sign = -1.0 if n_queries else 1.0
    items, queries = points(60, 1.0), points(n_queries, sign)
    X, y = (np.concatenate(part) for part in zip(queries, items, strict=True))
    held, test = points(20, sign), points(30, sign)
    return Problem(X, y, *test, measured_by="voting", context=Held(*held, n_queries))


def measured(kind, problem, **parameters):
    contender = CONTENDERS[kind](problem, 0, **parameters)
    contender.learn_to(0)
    found = MEASURES["voting"](contender, problem, TASK, True)
    return {measure: value for _, _, measure, value in found}


def test_the_number_of_voters_is_chosen_on_points_held_out(rng):
    problem = split(rng)
    values = measured("identity", problem)
    assert values["accuracy"] == values[f"accuracy@{values['chosen_k']:.0f}"]
    wrong = problem._replace(context=problem.context._replace(y=1 - problem.context.y))
    assert measured("identity", wrong)["accuracy@3"] == values["accuracy@3"]


def test_queries_are_mapped_to_a_database_of_another_kind(rng):
    problem = split(rng, n_queries=40)
    assert measured("identity", problem)["accuracy"] < 0.2
    assert measured("class regression", problem, tied=False)["accuracy"] > 0.9
    found = measured("gerrymandering", problem, asymmetric=True, init="classes")
    assert found["accuracy"] > 0.9


@pytest.mark.parametrize("n_queries", [0, 40])
def test_only_queries_are_held_out_for_tuning(n_queries, rng):
    problem = split(rng, n_queries)
    part = validation(problem, 0.25, 0)
    n = n_queries or 60
    assert len(part.y_test) == n // 4
    assert len(part.y_train) == len(problem.y_train) - n // 4
    assert part.context.n_queries == (30 if n_queries else 0)
    items = slice(part.context.n_queries, None)
    if n_queries:
        np.testing.assert_array_equal(part.X_train[items], problem.X_train[n_queries:])


def row(
    problem, contender, seed, value, options="{}", measure="accuracy", stage="run", parameters="{}"
):
    return {
        "stage": stage,
        "problem": problem,
        "options": options,
        "contender": contender,
        "parameters": parameters,
        "seed": seed,
        "step": 0,
        "queries": 10,
        "score": "l2",
        "measure": measure,
        "value": value,
        "seconds": 1.0,
        "versions": "",
        "note": "",
    }


def test_the_report_says_who_won_by_paired_splits(tmp_path):
    rows = []
    for seed in range(5):
        noise = 0.001 * seed
        for max_iter, value in ((10, 0.94), (30, 0.95 + noise)):
            own = f'{{"max_iter":{max_iter},"n_points":9}}'
            rows.append(row("isolet", "NCA, tuned", seed, value, stage="tune", parameters=own))
        rows.append(row("isolet", "NCA, tuned", seed, 0.95 + noise, parameters=own))
        rows.append(row("isolet", "symmetric, tuned", seed, 0.96 + noise))
        rows.append(row("isolet", "asymmetric, tuned", seed, 0.94 - noise))
        rows.append(row("isolet", "gerrymandering, asymmetric", seed, 0.97))
        for size, value in ((500, 0.9), (2000, 0.95)):
            own = f'{{"n_database":{size}}}'
            rows.append(row("isolet", "asymmetric, sampled", seed, value, parameters=own))
            rows.append(row("mnist_votes", "asymmetric, sampled", seed, value, parameters=own))
        options = '{"centered":false,"pair":"webcam to amazon"}'
        rows.append(row("domain_pair", "symmetric", seed, 0.5 + noise, options))
        rows.append(row("domain_pair", "asymmetric", seed, 0.7, options))
    exhibits = {"two_embeddings": pictures()}
    text = "\n\n".join(gerrymandering.report(rows, exhibits, tmp_path / "figures"))
    assert "| symmetric, tuned against NCA, tuned | 5 of 5 | −1.0 ± 0.0 |" in text
    assert "| asymmetric, tuned against NCA, tuned | 0 of 5 |" in text
    assert "| max_iter=30 (×5) | 1.0, 2.0 |" in text
    assert "| Isolet | 500 | 5 | 10.0 ± 0.0 |" in text
    assert "| Isolet | all | 5 | 3.0 ± 0.0 |" in text
    assert text.count("| asymmetric, sampled | 5.0 ± 0.0 |") == 1
    assert "webcam to amazon" in text
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        "gerrymandering_domains.png",
        "gerrymandering_embeddings.png",
    }


def test_the_report_compares_maps_with_and_without_a_kernel(tmp_path):
    rows = []
    for seed in range(2):
        for options, value in (("{}", 0.90), ('{"kernel":500}', 0.92)):
            for contender, gain in (("Euclidean", 0.0), ("gerrymandering, default", 0.05)):
                rows.append(row("usps", contender, seed, value + gain + 0.01 * seed, options))
    text = "\n\n".join(gerrymandering.report(rows, {}, tmp_path))
    assert "| USPS, official test images | 9.5 ± 6.4 | 7.5 ± 6.4 | 4.5 ± 6.4 | 2.5 ± 6.4 |" in text
    assert "−2.0 ± 0.0 |" in text


def test_kernel_features_come_before_the_reduction(monkeypatch):
    X, y = np.random.default_rng(0).normal(size=(60, 5)), np.arange(60) % 3
    data = SimpleNamespace(X=X, y=y, train=np.arange(60) < 40)
    monkeypatch.setattr(domains, "load_usps", lambda: data)
    plain, mapped = (PROBLEMS["usps"](0, n_components=9, kernel=k) for k in (0, 8))
    assert (plain.X_train.shape[1], mapped.X_train.shape[1]) == (5, 8)
    np.testing.assert_array_equal(plain.y_test, mapped.y_test)


def pictures():
    rng = np.random.default_rng(0)
    found = {"query_labels": np.arange(12) % 3, "item_labels": np.arange(20) % 3}
    for title in ("before", "one map", "two maps"):
        found[f"{title}, queries"] = rng.normal(size=(12, 2))
        found[f"{title}, items"] = rng.normal(size=(20, 2))
    return found


def test_a_peer_that_is_missing_or_late_says_so(rng, monkeypatch, tmp_path):
    call.metric_learner.cache_clear()
    monkeypatch.setattr(call, "PYTHON", tmp_path / "nowhere")
    with pytest.raises(call.CannotRunError, match="make peers"):
        CONTENDERS["LMNN"](split(rng), 0)
    monkeypatch.setattr(call, "PYTHON", Path(sys.executable))
    monkeypatch.setattr(call, "__file__", str(tmp_path / "call.py"))
    for answer, words in (
        ("time.sleep(60)", "not done within the budget of 0.5 s"),
        ("print(json.dumps({'failure': 'it is singular'}), flush=True)", "LMNN failed: it is sing"),
        ("sys.exit()", "LMNN ended its process"),
    ):
        first = "import json, sys, time; print('ready', flush=True)"
        (tmp_path / "fit.py").write_text(f"{first}\nfor line in sys.stdin:\n    {answer}\n")
        with pytest.raises(call.CannotRunError, match=words):
            call.fit_peer("LMNN", np.ones((3, 2)), np.ones(3), {}, 0, 0.5)
        call.metric_learner.cache_clear()


def test_the_norm_of_w_itself_is_its_square_with_another_weight(rng):
    """(8) prints |W|, the update (11), (12) is closer to that of |W|².

    The gradient of |W| is that of |W|² over 2|W|: wherever λ|W| balances the losses, so does
    λ/(2|W|) times |W|², and the two forms have the same solutions over all weights.
    """
    U, V = rng.normal(size=(2, 3, 4))
    square, by_U, by_V = reference.regularizer("joint", U, V)
    for which, gradient in ((0, by_U), (1, by_V)):
        for i, j in np.ndindex(3, 4):
            ends = []
            for step in (1e-6, -1e-6):
                maps = [U.copy(), V.copy()]
                maps[which][i, j] += step
                ends.append(np.sqrt(reference.regularizer("joint", *maps)[0]))
            slope = (ends[0] - ends[1]) / 2e-6
            assert slope == pytest.approx(gradient[i, j] / (2 * np.sqrt(square)), rel=1e-5)
