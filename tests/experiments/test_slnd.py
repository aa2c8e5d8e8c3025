"""The experiments of the SLND paper: contenders, measures and the report of rows."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse
from sklearn.preprocessing import FunctionTransformer

from experiments import slnd, slnd_races, slnd_schedules
from experiments.contenders import CONTENDERS
from experiments.measures import MEASURES
from experiments.plan import final_tasks, read_plan
from experiments.problems import PROBLEMS, Problem, features
from experiments.report import main
from experiments.rows import HERE, append_rows
from experiments.slnd_beyond import forms_part
from experiments.slnd_curves import median_and_interval
from experiments.slnd_hessians import own_part
from experiments.slnd_passes import DIAGONAL, OWN, Point, Side, accuracies, curve, in_coordinates
from experiments.slnd_schedules import PASSES
from similia.linear.examples import with_intercept


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


def scheme(contender, schedule, passes, value, seconds, **more):
    """The two rows of a number of passes, as `slnd_schedules` writes them."""
    given = {"schedule": schedule, "max_iter": passes, "rank": more.pop("rank", None)}
    one = {**row(contender, passes, value, seconds), "parameters": json.dumps(given), **more}
    return [one, {**one, "measure": "validated"}]


def with_five(rows):
    """The same accuracies in top-5, too."""
    return rows + [{**r, "measure": "top5"} for r in rows if r["measure"] == "top1"]


def races(arrives=0.72):
    """SGD is best at 0.72 after 20 falling passes, SLND with constant steps after two."""
    rows = []
    for seed in (0, 1):
        for schedule, last in (("constant", 0.6), ("linear", 0.72), ("sqrt", 0.65)):
            rows += scheme("SGD", schedule, 1, 0.3, 0.1, seed=seed)
            rows += scheme("SGD", schedule, 20, last, 2.0, seed=seed)
        for schedule, last in (("constant", arrives), ("linear", 0.7)):
            rows += scheme("SLND", schedule, 1, 0.6, 0.5, seed=seed, rank=25)
            rows += scheme("SLND", schedule, 2, last, 1.0, seed=seed, rank=25)
    return rows


def test_passes_are_those_to_99_percent_of_sgd_with_its_better_schedule(tmp_path):
    (race,) = slnd_races.races(races())
    assert race.constant == [(2, 1.0)] * 2
    assert race.falling == race.plain == [(math.inf, math.inf)] * 2
    assert race.sgd == [(20, 2.0)] * 2
    assert race.ratio == 10
    append_rows(tmp_path / "results" / "isolet.csv", races())
    main(["slnd", "--results", str(tmp_path / "results"), "--reports", str(tmp_path)])
    text = (tmp_path / "slnd.md").read_text()
    assert "| Isolet (2 seeds): × 10 | yes |" in text
    assert "Isolet (2 seeds): × 2 | partly: first on 1 of 1 sets, × 2.0 at best |" in text
    assert "the same in top-5 accuracy" not in text
    assert (tmp_path / "figures" / "slnd_passes.png").exists()


def test_a_set_on_which_slnd_never_arrives_has_no_ratio():
    (race,) = slnd_races.races(races(arrives=0.7))
    assert race.ratio == 0
    speed, seconds, *_ = slnd.claims(races(arrives=0.7), {})
    assert "SLND arrives for 0 of 2 seeds" in speed.measured
    assert speed.reproduced == seconds.reproduced == "no"


def test_the_five_best_classes_are_a_race_of_their_own(tmp_path):
    rows = with_five(races())
    assert any(claim.claim == "the same in top-5 accuracy" for claim in slnd.claims(rows, {}))
    assert "Top-5 accuracy:" in slnd.report(rows, {}, tmp_path)
    assert slnd_races.races(races(), measure="top5") == []


def test_a_million_rows_are_a_claim_and_a_part_of_their_own(tmp_path):
    largest = [{**r, "problem": "drawn_features"} for r in races()]
    assert slnd.claims(largest, {}) == []  # without the seven sets there is nothing to compare
    told = {claim.claim: claim for claim in slnd.claims(races() + largest, {})}
    claim = told["the same on a million rows (one seed)"]
    assert "× 10, and × 2 in seconds" in claim.measured
    assert claim.reproduced == "partly: first on 1 of 1 sets, × 2.0 at best"
    assert "## A million rows" in slnd.report(races() + largest, {}, tmp_path)
    slow = [{**r, "seconds": 9.0} if r["contender"] == "SLND" else r for r in largest]
    told = {claim.claim: claim.reproduced for claim in slnd.claims(races() + slow, {})}
    verdict = told["the same on a million rows (one seed)"]
    assert verdict == "partly: ten times in passes on 1 of 1 sets, not in seconds"


def test_own_hessians_are_shown_beside_the_shared_one():
    own = [{**r, "contender": OWN} for r in races() if r["contender"] == "SLND"]
    assert own_part(races()) == []
    assert "| Isolet | 2 | 0.600 ± 0.000 | 0.720 ± 0.000 | 2 | 0.5 |" in own_part(races() + own)[-1]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ([2.0], "2"),
        ([5.0, 1.0], "3 (1 to 5)"),
        ([1.0, *[2.0] * 8, math.inf], "2"),  # of ten values, the second and the ninth
        ([1.0, 1.0, *[2.0] * 6, math.inf, math.inf], "2 (1 to never)"),
        ([1.0] * 4 + [math.inf] * 6, "never (1 to never)"),
    ],
)
def test_a_median_has_an_interval_of_order_statistics(values, told):
    assert median_and_interval(values) == told


def side_of(problem):
    return Side(
        with_intercept(problem.X_train), problem.y_train, with_intercept(problem.X_test),
        problem.y_test, "logistic",
    )  # fmt: skip


@pytest.mark.parametrize("contender", ["SLND", "SGD", DIAGONAL, OWN])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_rows_in_coordinates_are_learnt_pass_by_pass(problem, contender, form):
    if contender == OWN and form is sparse.csr_array:
        pytest.skip("texts have no Hessians of their own")
    side = side_of(problem)
    side = side._replace(U=form(side.U), U_test=form(side.U_test))
    side = in_coordinates(side, contender, 6, 0)
    found = curve(side, "constant", 0.5, 0, (2, 4))
    assert 1 / 3 < found[2].top1 <= found[2].top5 <= 1
    assert found[2].seconds <= found[4].seconds
    if contender in ("SLND", DIAGONAL):  # the mean of F''(0)|u|² is the number of directions
        squares = (side.U**2).sum(axis=1).mean()
        assert squares == pytest.approx(side.U.shape[1], rel=1e-3)


def test_the_hessian_of_a_class_is_half_of_it_and_half_of_all_others(problem):
    side = in_coordinates(side_of(problem), OWN, 6, 0)
    assert side.directions == 6
    for c, U in enumerate(side.own):
        ours = side.y == c
        moment = 0.5 * (np.cov(U[ours].T, bias=True) + np.outer(*[U[ours].mean(axis=0)] * 2))
        moment += 0.5 * U[~ours].T @ U[~ours] / (~ours).sum()
        np.testing.assert_allclose(moment, np.eye(6), atol=1e-3)
    two = side.first(2)
    assert two.directions == 2
    assert all(np.array_equal(U[:, :2], V) for U, V in zip(side.own, two.own, strict=True))
    # All six directions of their own decide as well as six of all classes.
    assert curve(side, "constant", 0.5, 0, (4,))[4].top1 > 0.6


def test_the_class_is_among_the_five_best_if_four_scores_are_larger():
    scores = np.zeros((4, 7))  # of class 0
    scores[0, 1:5] = scores[1, 1:6] = scores[2, 0] = 1.0
    scores[3] = np.inf - np.inf
    side = Side(None, None, scores, np.zeros(4, int), "logistic")
    assert accuracies(side, np.eye(7)) == (0.25, 0.5)


def test_a_grid_whose_best_is_at_its_end_grows(monkeypatch):
    tried = []

    def fake(side, schedule, eta, seed, wanted):
        tried.append(eta)
        return {n: Point(-abs(np.log(eta / 80.0)), 0.0, 0.0) for n in wanted}

    monkeypatch.setattr(slnd_schedules, "curve", fake)
    side = Side(*[None] * 4, "logistic")
    chosen = slnd_schedules.choose(side, (None,), "constant", PASSES, 0)
    assert {eta for _, _, eta in chosen.values()} == {81.0}
    assert max(tried) == 243.0


def test_a_run_has_rows_of_each_schedule_and_of_the_five_best(monkeypatch):
    monkeypatch.setattr(slnd_schedules, "PASSES", (1, 2))
    monkeypatch.setattr(slnd_schedules, "RANKS", (4, 40))
    monkeypatch.setattr(slnd_schedules, "MANY_CLASSES", 6)
    options = {"n": 400, "d": 12, "classes": 6, "noise": 0.5}
    rows = list(slnd_schedules.run("many_classes", options, "SLND", 0))
    given = [json.loads(r["parameters"]) for r in rows]
    assert {(g["schedule"], g["max_iter"]) for g in given} == {
        (schedule, n) for schedule in ("constant", "linear") for n in (1, 2)
    }
    assert {g["rank"] for g in given} <= {4, 13}  # there are no more directions than columns
    assert {r["measure"] for r in rows} == {"top1", "top5", "validated"}
    assert all(0.3 < float(r["value"]) <= 1 for r in rows)


def test_the_report_compares_the_default_with_sgd_seed_by_seed():
    def after_five(contender, seed, value):
        return {**row(contender, 5, value, 1.0), "seed": seed}

    rows = [
        after_five(name, seed, value + 0.01 * (seed - 10))
        for name, value in (("SLND, our defaults", 0.9), ("SGD, all examples, tuned", 0.91))
        for seed in (0, 10, 11, 12)  # the first one is not among those that judge
    ]
    *_, told = forms_part(rows)
    assert told.endswith("Isolet -1.00 ± 0.00; behind on Isolet.")
    assert "91.0 ± 2.5" in forms_part(rows)[2]


@pytest.mark.parametrize("gains", [(-0.01, -0.02, 0.0), (-0.01, 0.02, -0.02), (0.01, 0.01, 0.01)])
def test_behind_is_said_at_the_95_percent_level_only(gains):
    """By Student's t with two degrees of freedom, 4.3 standard errors are needed."""
    rows = [
        {**row(name, 5, value, 1.0), "seed": seed}
        for seed, gain in enumerate(gains, 10)
        for name, value in (("SLND, our defaults", 0.9 + gain), ("SGD, all examples, tuned", 0.9))
    ]
    assert forms_part(rows)[-1].endswith("behind on none of them.")


def test_fewer_classes_and_images_are_drawn(monkeypatch):
    y = np.repeat(np.arange(20), 10)
    whole = SimpleNamespace(X=np.ones((200, 3)), y=y, train=np.arange(200) % 2 == 0)
    monkeypatch.setattr(features, "load_tiny_imagenet", lambda: whole)
    some = PROBLEMS["tiny_imagenet"](0, classes=6, per_class=3)
    assert np.bincount(some.y_train).tolist().count(3) == len(np.unique(some.y_test)) == 6
    assert len(some.y_train) == 18
    assert set(some.y_train) == set(some.y_test)


def test_rows_are_drawn_like_those_of_a_set(monkeypatch):
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(30), 40)
    X = rng.standard_normal((30, 3))[y] * [4, 1, 0] + 0.5 * rng.standard_normal((1200, 3))
    whole = SimpleNamespace(X=X, y=y, train=np.ones(1200, bool))
    monkeypatch.setattr(features, "load_tiny_imagenet", lambda: whole)
    drawn = PROBLEMS["drawn_features"](0, n=20_000, classes=300, n_test=100, spread=0.5)
    assert drawn.X_train.shape == (20_000, 3)
    assert len(np.unique(drawn.y_train)) == 300
    assert len(drawn.y_test) == 100
    centers = np.array([drawn.X_train[drawn.y_train == c].mean(axis=0) for c in range(300)])
    within = drawn.X_train - centers[drawn.y_train]
    np.testing.assert_allclose(within.std(axis=0), 0.5, rtol=0.05)
    means = np.array([X[y == c].mean(axis=0) for c in range(30)])
    np.testing.assert_allclose(centers.std(axis=0), means.std(axis=0) / 2, rtol=0.2, atol=0.05)


def test_images_are_moved_by_up_to_two_pixels(monkeypatch):
    images = np.zeros((40, 28, 28))
    images[:, 14, 14] = 1.0
    whole = SimpleNamespace(X=images.reshape(40, -1), y=np.arange(40) % 4, train=np.arange(40) < 30)
    monkeypatch.setattr(features, "load_mnist", lambda: whole)
    monkeypatch.setattr(features, "_fourier", lambda X, n, seed: FunctionTransformer())
    moved = PROBLEMS["shifted_mnist"](0, n=750, fourier=784)  # each image, each way
    places = np.argwhere(moved.X_train.reshape(-1, 28, 28))
    assert len(places) == 750
    assert {(i, j) for _, i, j in places} == {(i, j) for i in range(12, 17) for j in range(12, 17)}
    assert np.bincount(moved.y_train).tolist() == [25 * 8, 25 * 8, 25 * 7, 25 * 7]
    assert len(moved.X_test) == 10


def test_problems_have_float32_rows_and_a_measure(problem):
    assert isinstance(problem, Problem)
    assert problem.measured_by == "classes"
    assert problem.X_train.dtype == np.float32
