"""The experiments of the MEG paper: problems, contenders, measures and the report of rows."""

import json

import numpy as np
import pytest
import sklearn
from scipy.optimize import check_grad
from sklearn.utils.fixes import parse_version

from experiments.contenders import CONTENDERS
from experiments.contenders.kernels import squared_distances
from experiments.contenders.ordinal import shares_of_unlike, tste_loss
from experiments.contenders.states import nearest_state
from experiments.contenders.triplet_constraints import TripletConstraints, weighted_sum
from experiments.measures import MEASURES
from experiments.plan import final_tasks, read_plan, tuning_tasks
from experiments.problems import PROBLEMS, Problem
from experiments.report import main
from experiments.rows import HERE, append_rows
from similia import DefiniteBoost

N = 12


@pytest.fixture
def points():
    return np.random.default_rng(0).normal(size=(N, 2))


@pytest.fixture
def triplets(points):
    return true_triplets(points, 600, 1)


def true_triplets(points, n, seed):
    rng = np.random.default_rng(seed)
    found = np.array([rng.choice(N, 3, replace=False) for _ in range(n)])
    squares = squared_distances(points @ points.T)
    a, b, c = found.T
    wrong = squares[a, b] > squares[a, c]
    found[wrong] = found[wrong][:, [0, 2, 1]]
    return found


@pytest.fixture
def kernel_problem(points):
    """Two groups that are far apart."""
    y = np.arange(N) % 2
    K = (points + 5.0 * y[:, None]) @ (points + 5.0 * y[:, None]).T + 0.1 * np.eye(N)
    order = np.random.default_rng(0).permutation(N)
    train, test = order[: N // 2], order[N // 2 :]
    return Problem(train, y[train], test, y[test], "kernel", K / np.trace(K))


def measured(contender, problem):
    found = MEASURES[problem.measured_by](contender, problem, None, True)
    return {measure: value for _, _, measure, value in found}


# -- kernels ---------------------------------------------------------------------------------------


def test_meg_stays_below_its_bound_and_learns_the_groups(kernel_problem):
    contender = CONTENDERS["MEG kernel"](kernel_problem, 0, eta=2.0)
    contender.learn_to(10)
    early = measured(contender, kernel_problem)
    contender.learn_to(3000)
    late = measured(contender, kernel_problem)
    assert 0 < early["total_loss"] < late["total_loss"] <= late["loss_bound"]
    target = measured(CONTENDERS["target kernel"](kernel_problem, 0), kernel_problem)
    assert late["error"] == target["error"] == 0
    assert "total_loss" not in target


def test_the_stream_of_distances_does_not_depend_on_the_steps(kernel_problem):
    losses = []
    for steps in ([40], [3, 17, 40]):
        contender = CONTENDERS["MEG kernel"](kernel_problem, 3, eta=2.0)
        for step in steps:
            contender.learn_to(step)
        losses.append(contender.quantities()["total_loss"])
    # The losses of a call are summed before they are added to those of earlier calls.
    assert losses[0] == pytest.approx(losses[1], rel=1e-13)


def test_the_loss_is_in_the_units_of_the_paper(kernel_problem):
    """One distance, at W = I/n: tr(WX) = 1/n and y is half of the squared distance."""
    contender = CONTENDERS["MEG kernel"](kernel_problem, 4, eta=2.0)
    contender.learn_to(1)
    a, b = (np.random.default_rng(4).random((1, 2)) * N).astype(int)[0]
    y = 0.5 * squared_distances(kernel_problem.context)[a, b]
    assert a != b
    assert contender.quantities()["total_loss"] == pytest.approx((1 / N - y) ** 2)


def test_no_bound_is_stated_where_there_is_none(kernel_problem):
    contender = CONTENDERS["MEG kernel"](kernel_problem, 0, eta=20.0)
    contender.learn_to(50)
    assert set(contender.quantities()) == {"total_loss"}


def test_definite_boost_meets_the_bounds_of_the_target(kernel_problem):
    contender = CONTENDERS["DefiniteBoost kernel"](kernel_problem, 0, gamma=0.5)
    contender.learn_to(2)
    early = measured(contender, kernel_problem)
    contender.learn_to(2000)
    late = measured(contender, kernel_problem)
    assert early["violated"] > 0 == late["violated"]
    assert early["dual"] < late["dual"]
    # The first steps are along constraints that do not meet: there the bound is the dual value.
    assert early["dual"] == pytest.approx(early["dual_bound"], rel=1e-12)
    assert late["dual"] > late["dual_bound"]
    assert late["iterations"] < 2000
    half = 0.5 * squared_distances(contender.kernel)
    near = 0.5 * squared_distances(kernel_problem.context) < 0.5 / N
    assert half[near].max() <= 0.5 / N + 1e-4 + 1e-9


# -- triplets --------------------------------------------------------------------------------------


def test_a_sum_of_triplets_has_the_difference_of_distances_as_its_value(points, triplets):
    K = points @ points.T
    squares = squared_distances(K)
    weights = np.random.default_rng(2).random(len(triplets))
    a, b, c = triplets.T
    expected = weights @ (squares[a, b] - squares[a, c])
    assert np.sum(K * weighted_sum(triplets, weights, N)) == pytest.approx(expected)


@pytest.mark.parametrize("group", [1, 7])
def test_triplet_constraints_agree_with_their_matrices(points, triplets, group):
    constraints = TripletConstraints(triplets[:30], N, 0.1, group)
    W = points @ points.T
    W /= np.trace(W)
    matrices = [constraints.matrix(j) for j in range(len(constraints))]
    assert len(matrices) == 30 // group
    np.testing.assert_allclose(constraints.values(W), [np.sum(W * C) for C in matrices])
    which = np.array([2, 0])
    np.testing.assert_allclose(constraints.values(W, which), constraints.values(W)[which])
    low, high = constraints.bounds()
    for j, C in enumerate(matrices):
        values = np.linalg.eigvalsh(C)
        assert low[j] - 1e-12 <= values[0]
        assert values[-1] <= high[j] + 1e-12


def test_definite_boost_takes_triplet_constraints(triplets):
    constraints = TripletConstraints(triplets[:40], N, 0.01)
    for choice in ("most_violated", "all"):
        boost = DefiniteBoost(choice=choice, nearest=False).fit(constraints)
        assert boost.status_ == "solved"
        assert constraints.values(boost.W_).max() <= 1e-4


def test_the_slope_of_tste_is_that_of_its_loss(points, triplets):
    def loss(flat):
        return tste_loss(flat.reshape(N, 2), triplets[:50])

    error = check_grad(lambda x: loss(x)[0], lambda x: loss(x)[1].ravel(), points.ravel())
    assert error < 1e-6


def test_pairs_that_were_less_alike_have_a_larger_share():
    shares = shares_of_unlike(np.array([[0, 1, 2], [0, 1, 3], [2, 0, 1]]), 4, prior=1.0)
    assert shares[0, 1] == 0.5 / 3
    assert shares[0, 2] == shares[1, 2] - 0.25 == 0.5
    np.testing.assert_array_equal(shares, shares.T)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("MEG triplets", {"eta": 100.0, "margin": 2.0}),
        ("DefiniteBoost triplets", {"group": 5, "margin": 0.5}),
        ("DefiniteBoost triplets", {"group": 5, "margin": 0.5, "features": 0.5}),
        ("t-STE triplets", {"n_components": 2}),
        ("MDS triplets", {"n_components": 2, "prior": 1.0}),
    ],
)
def test_an_embedding_predicts_triplets_that_it_has_not_seen(points, triplets, kind, parameters):
    if kind == "MDS triplets" and parse_version(sklearn.__version__) < parse_version("1.8"):
        pytest.skip("scikit-learn before 1.8 has another interface")
    unseen, noise = true_triplets(points, 400, 5), np.random.default_rng(9).normal(size=(N, 5))
    problem = Problem(triplets, np.ones(600), unseen, np.ones(400), "triplets", noise)
    base = CONTENDERS["cosine triplets"](problem, 0)
    contender = CONTENDERS[kind](problem, 0, **parameters)
    for one in (base, contender):
        one.learn_to(0)
    satisfied = measured(contender, problem)["satisfied"]
    assert satisfied > 0.8
    assert measured(base, problem)["satisfied"] < 0.7


# -- states ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        ("MEG state", {"eta": 2.0}),
        ("MEG state", {"eta": 2.0, "average": True}),
        ("MEG state", {"eta": 8.0, "decay": True}),
        ("linear inversion", {}),
    ],
)
def test_a_state_is_found(kind, parameters):
    problem = PROBLEMS["quantum_state"](0, qubits=2, n_measured=1500)
    contender = CONTENDERS[kind](problem, 0, **parameters)
    distances = []
    for step in (20, 1500):
        contender.learn_to(step)
        found = measured(contender, problem)
        distances.append(found["trace_distance"])
        assert np.trace(contender.state).real == pytest.approx(1.0)
        assert np.linalg.eigvalsh(contender.state)[0] > -1e-9
        # Fuchs and van de Graaf
        fidelity = min(found["fidelity"], 1.0)
        assert 1 - np.sqrt(fidelity) <= distances[-1] + 1e-9
        assert distances[-1] <= np.sqrt(1 - fidelity) + 1e-6
    assert distances[1] < min(0.15, distances[0])


def test_the_nearest_state_of_a_state_is_itself():
    state = PROBLEMS["quantum_state"](1, rank=2, n_measured=1).X_test
    np.testing.assert_allclose(nearest_state(state), state, atol=1e-12)
    pure = nearest_state(np.diag([3.0, 1.0, -1.0]))
    np.testing.assert_allclose(pure, np.diag([1.0, 0.0, 0.0]), atol=1e-12)


# -- plan and report -------------------------------------------------------------------------------


def test_every_learner_of_triplets_has_the_same_number_of_settings():
    plan = read_plan(HERE / "meg.toml")
    tasks = [task for task in tuning_tasks(plan) if task.seed == 0]
    counts = {}
    for task in tasks:
        key = (task.contender, task.options)
        counts[key] = counts.get(key, 0) + 1
    assert set(counts.values()) == {4}
    long = [task for task in final_tasks(plan, []) if max(task.steps) > 100_000]
    assert [max(task.steps) for task in long] == [200_000]


def test_the_report_states_what_the_rows_say(tmp_path):
    rows = []
    for seed in (0, 1, 2):
        for step, loss, error in ((1000, 0.3, 0.4), (20_000, 0.5, 0.1)):
            rows += [
                _row("MEG, eta = 2", seed, step, "total_loss", loss),
                _row("MEG, eta = 2", seed, step, "loss_bound", 1.0),
                _row("MEG, eta = 2", seed, step, "error", error),
                _row("MEG, eta = 20", seed, step, "error", 0.1),
            ]
        rows.append(_row("target kernel", seed, 0, "error", 0.1))
        kernel = {"kernel": "spectrum3"}
        rows.append(_row("target kernel", seed, 0, "error", 0.1, kernel))
        rows.append(_row("target kernel", seed, 0, "error_loo", 0.0, kernel))
        for measure, value in (
            ("dual", 1.5),
            ("dual_bound", 1.6),
            ("iterations", 30),
            ("constraints", 40),
            ("violated", 0),
            ("iteration_bound", 900),
            ("error_loo", 2 / 52),
            ("error", 0.2 + 0.01 * seed),
        ):
            rows.append(_row("DefiniteBoost", seed, 100, measure, value, kernel))
        many = {"kernel": "composition"}
        for measure, value in (
            ("iterations", 30),
            ("constraints", 980),
            ("violated", 0),
            ("gamma", 0.02),
            ("iteration_bound", 900),
        ):
            rows.append(_row("DefiniteBoost, 980 constraints", seed, 100, measure, value, many))
        for count, value in ((500, 0.6), (2000, 0.7)):
            given = {"n_triplets": count}
            rows.append(_row("t-STE", seed, 0, "satisfied", value, given, problem="zappos"))
    append_rows(tmp_path / "results" / "all.csv", rows)
    folder = tmp_path / "reports"
    main(["meg", "--results", str(tmp_path / "results"), "--reports", str(folder)])
    text = (folder / "meg.md").read_text()
    lines = text.splitlines()
    (ratio,) = [line for line in lines if line.startswith("| total loss below its bound")]
    assert "× 2.00 ± 0.00 after 20,000 distances (3 seeds) | yes |" in ratio
    (fall,) = [line for line in lines if "target kernel's, eta = 2" in line]
    assert (
        "20,000 at most (40.0 % → 10.0 %, target 10.0 %) | yes, in a tenth of the distances |"
        in fall
    )
    (faster,) = [line for line in lines if "same with eta = 20" in line]
    assert "| 1,000 at most" in faster
    (dual,) = [line for line in lines if "bound of Theorem 4.1 | always" in line]
    assert dual.endswith("| no |"), "a dual value below its bound must be said"
    (lost,) = [line for line in lines if line.startswith("| 1-NN error")]
    told = "spectrum3, 40 constraints: 21.0 ± 2.5 % over 10.0 ± 0.0 %, left one out 2 over 0 of 52"
    assert f"| higher | {told} | yes |" in lost
    (met,) = [line for line in lines if line.startswith("| DefiniteBoost meets")]
    assert "composition: 980 constraints, 30 steps, 0 violated | yes |" in met
    assert "−γ, 900 to 900." in text
    assert "| t-STE | 60.0 ± 0.0 | 70.0 ± 0.0 |" in text
    figures = list((folder / "figures").glob("*.png"))
    assert len(figures) == 6
    assert all(f"figures/{figure.name}" in text for figure in figures)
    assert all(figure.stat().st_size < 80_000 for figure in figures)


def _row(contender, seed, step, measure, value, options=None, problem="gyrb"):
    return {
        "stage": "run",
        "problem": problem,
        "options": json.dumps(options or {}),
        "contender": contender,
        "parameters": "{}",
        "seed": seed,
        "step": step,
        "queries": 10,
        "score": "l2",
        "measure": measure,
        "value": value,
        "seconds": 1.0,
        "versions": "similia 0",
        "note": "",
    }
