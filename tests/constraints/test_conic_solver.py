"""DefiniteBoost and the semidefinite programme against a conic solver."""

import numpy as np
import pytest

from similia import (
    DefiniteBoost,
    DistanceConstraints,
    MatrixConstraints,
    RankOneConstraints,
    minimize_max_constraint,
)
from tests.constraint_problems import density, hermitian, met_by, near_and_far, oracle_of
from tests.reference.definite_boost import logarithm

cp = pytest.importorskip("cvxpy", reason="cvxpy is not installed")

ACCURATE = {"tol_gap_abs": 1e-9, "tol_gap_rel": 1e-9, "tol_feas": 1e-9}


def nearest(start, matrices, price=None):
    """Δ(W, W₀) and W where all constraints are met; with a price, the objective that has it."""
    W = cp.Variable(start.shape, symmetric=True)
    objective = -cp.von_neumann_entr(W) - cp.trace(W @ logarithm(start))
    slack = 0.0 if price is None else cp.Variable(len(matrices), nonneg=True)
    if price is not None:
        objective += price * cp.sum(slack)
    values = cp.hstack([cp.trace(W @ C) for C in matrices])
    problem = cp.Problem(cp.Minimize(objective), [cp.trace(W) == 1, values <= slack])
    problem.solve(solver=cp.CLARABEL, **ACCURATE)
    return problem.value, W.value


def least_largest(matrices):
    d, hermitian = matrices.shape[1], np.iscomplexobj(matrices)
    W = cp.Variable((d, d), hermitian=True) if hermitian else cp.Variable((d, d), symmetric=True)
    theta, real = cp.Variable(), cp.real if hermitian else (lambda expression: expression)
    meets = [real(cp.trace(W @ C)) <= theta for C in matrices]
    problem = cp.Problem(cp.Minimize(theta), [W >> 0, real(cp.trace(W)) == 1, *meets])
    problem.solve(solver=cp.CLARABEL)
    return problem.value


def all_matrices(constraints):
    return np.array([constraints.matrix(j) for j in range(len(constraints))])


def problems(rng):
    U = density(rng, 4)
    pairs, bounds, sense, _ = near_and_far(rng, 5, 8)
    X = rng.normal(size=(6, 3))
    rows = np.array([(a, b) for a in range(6) for b in range(a)])
    metric = density(rng, 3)
    z = X[rows[:, 0]] - X[rows[:, 1]]
    distances = np.sqrt(np.vecdot(z @ metric, z))
    return {
        "matrices": MatrixConstraints(met_by(rng, U, 5)),
        "objects": DistanceConstraints(pairs, bounds, sense, n_objects=5),
        "features": DistanceConstraints(rows, 1.05 * distances, X=X),
    }


@pytest.mark.parametrize("name", ["matrices", "objects", "features"])
@pytest.mark.parametrize("uniform", [True, False])
def test_the_nearest_matrix_is_the_solvers(rng, name, uniform):
    constraints = problems(rng)[name]
    d = constraints.n_features
    start = np.eye(d) / d if uniform else density(rng, d)
    value, W = nearest(start, all_matrices(constraints))
    for parameters in ({"choice": "all"}, {}, {"projection": "exact"}):
        boost = DefiniteBoost(tol=1e-8, max_iter=100_000, **parameters)
        boost.fit(constraints, start=start)
        assert boost.status_ == "solved"
        np.testing.assert_allclose(boost.W_, W, atol=1e-5)
        assert boost.divergence_ == pytest.approx(value, abs=1e-6)
        assert boost.dual_ == pytest.approx(value, abs=1e-6)
        assert boost.gap_ < 1e-6


def contradictions(rng):
    pairs, bounds, sense, _ = near_and_far(rng, 5, 10, slack=0.3)
    wrong = np.where(sense == "<=", ">=", "<=")
    turned = np.where(np.arange(10) % 3 == 0, wrong, sense)
    return {
        "matrices": MatrixConstraints([hermitian(rng, 4) + 0.2 * np.eye(4) for _ in range(6)]),
        "vectors": RankOneConstraints(rng.normal(size=(8, 4)), 0.2),
        "objects": DistanceConstraints(pairs, bounds, turned, n_objects=5),
    }


@pytest.mark.parametrize("name", ["matrices", "vectors", "objects"])
@pytest.mark.parametrize("price", [0.5, 5.0])
def test_the_solution_with_a_price_is_the_solvers(rng, name, price):
    constraints = contradictions(rng)[name]
    start = density(rng, constraints.n_features)
    value, W = nearest(start, all_matrices(constraints), price)
    for parameters in ({"choice": "all"}, {}, {"projection": "exact"}):
        boost = DefiniteBoost(C=price, tol=1e-8, max_iter=100_000, **parameters)
        boost.fit(constraints, start=start)
        assert boost.status_ == "solved"
        np.testing.assert_allclose(boost.W_, W, atol=1e-5)
        assert boost.objective_ == pytest.approx(value, abs=1e-6)
        assert boost.dual_ == pytest.approx(value, abs=1e-6)
        assert boost.gap_ < 1e-6


def test_the_solver_also_finds_no_solution_where_we_prove_that_there_is_none(rng):
    near = DistanceConstraints([[0, 1], [1, 2]], 0.1, n_objects=3)
    far = DistanceConstraints([[0, 2]], 0.5, ">=", n_objects=3)
    matrices = np.concatenate([all_matrices(near), all_matrices(far)])
    assert least_largest(matrices) > 0
    with pytest.warns(UserWarning, match="no W meets all constraints"):
        boost = DefiniteBoost().fit([near, far])
    # The certificate is a dual point of the semidefinite programme, so it is below its value.
    assert boost.certificate_.smallest <= least_largest(matrices) + 1e-8


def sets_for_min_max(rng):
    Z = rng.normal(size=(12, 4)) + 1j * rng.normal(size=(12, 4))
    return {
        "matrices": MatrixConstraints([hermitian(rng, 4) for _ in range(6)]),
        "vectors": RankOneConstraints(rng.normal(size=(30, 5)), rng.normal(size=30), ">="),
        "complex": RankOneConstraints(Z, 0.0),
        "objects": DistanceConstraints(
            [[0, 1], [1, 2], [2, 3], [0, 3], [0, 2]], [0.2, 0.2, 0.2, 0.8, 0.9],
            ["<=", "<=", "<=", ">=", ">="],
        ),
        "one": MatrixConstraints([hermitian(rng, 3)]),
    }  # fmt: skip


@pytest.mark.parametrize("name", ["matrices", "vectors", "complex", "objects", "one"])
def test_the_smallest_theta_is_the_solvers(rng, name):
    constraints = sets_for_min_max(rng)[name]
    theta = least_largest(all_matrices(constraints))
    for given in (constraints, oracle_of(constraints)):
        found = minimize_max_constraint(given, tol=1e-5, spread=1.0, max_iter=20_000)
        assert found.status == "solved"
        assert found.lower - 1e-6 <= theta <= found.value + 1e-6
        assert found.value - found.lower <= 1e-5 * (1 + 1e-6)
