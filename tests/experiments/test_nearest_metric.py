"""The solver of POLA's batch problem."""

import numpy as np
import pytest

from experiments.contenders.nearest_metric import NearestMetric, nearest_metric
from experiments.problems import Problem
from similia import POLA


def judged_pairs(rng, n=40, d=4):
    """Differences that a random metric tells apart: similar below 2, dissimilar above 4."""
    M = rng.normal(size=(d, d))
    Z = rng.normal(size=(4 * n, d))
    squares = np.square(Z @ M.T).sum(axis=1)
    kept = np.flatnonzero((squares < 2) | (squares > 4))[:n]
    return Z[kept], np.where(squares[kept] < 2, 1, -1)


def test_another_solver_finds_the_same_metric(rng):
    cp = pytest.importorskip("cvxpy", reason="cvxpy is not installed")
    Z, y = judged_pairs(rng)
    A, b = cp.Variable((4, 4), PSD=True), cp.Variable()
    losses = [label * (z @ A @ z - b) + 1 for z, label in zip(Z, y, strict=True)]
    problem = cp.Problem(
        cp.Minimize(0.5 * cp.sum_squares(A) + 0.5 * cp.square(b - 1)),
        [b >= 1, *(loss <= 0 for loss in losses)],
    )
    problem.solve(solver=cp.CLARABEL)
    found = nearest_metric(Z, y, tolerance=1e-5)
    assert found.lower * (1 - 1e-6) <= problem.value <= found.upper * (1 + 1e-6)
    np.testing.assert_allclose(found.L.T @ found.L, A.value, atol=0.02 * np.abs(A.value).max())
    assert found.b == pytest.approx(float(b.value), rel=0.02)


def test_the_certificate_holds(rng):
    Z, y = judged_pairs(rng, n=60, d=6)
    found = nearest_metric(Z, y, tolerance=0.01)
    losses = y * (np.square(Z @ found.L.T).sum(axis=1) - found.b) + 1
    assert found.gap <= 0.01
    assert losses.max() <= found.largest + 1e-9
    # Scaled, it satisfies every pair, and its value is the upper end.
    A, b = (part / (1 - found.largest) for part in (found.L.T @ found.L, found.b))
    assert (y * (np.vecdot(Z @ A, Z) - b) + 1).max() <= 1e-9
    assert found.upper == pytest.approx(0.5 * np.square(A).sum() + 0.5 * (b - 1) ** 2)


def test_repeated_pairs_end_no_nearer_to_the_start(rng):
    """Passes of projections end at some metric that satisfies all pairs, not the nearest one."""
    Z, y = judged_pairs(rng)
    pairs = np.column_stack([np.arange(len(Z)), np.full(len(Z), len(Z))])
    printed = {"start": "zero", "gamma": 0.0, "unit": 1.0, "threshold_rate": 1.0}
    learner = POLA(**printed, start_threshold=1.0, beta=1e-4, max_passes=100_000)
    learner.fit_pairs(np.vstack([Z, np.zeros(Z.shape[1])]), pairs, y)
    reached = 0.5 * np.square(learner.A_).sum() + 0.5 * (learner.b_ - 1) ** 2
    assert learner.largest_loss_ <= 1e-4
    assert reached >= 0.999 * nearest_metric(Z, y).lower


def test_pairs_that_contradict_each_other_have_no_certificate(rng):
    Z, y = judged_pairs(rng)
    found = nearest_metric(np.vstack([Z, Z[:1]]), [*y, -y[0]], evaluations=200)
    assert found.gap == 1.0
    assert found.evaluations <= 250  # a line search is not cut short


def test_the_contender_solves_the_first_pairs_of_the_stream(rng):
    y = np.arange(40) % 2
    X = (rng.normal(size=(40, 3)) + 6 * y[:, None]).astype(np.float32)
    problem = Problem(X, y, X, y, measured_by="neighbors")
    contender = NearestMetric(problem, 0, n_pairs=30, tolerance=0.01)
    contender.learn_to(0)
    pairs, signs = contender._drawn(0)
    Z = X[pairs[:30, 0]] - X[pairs[:30, 1]]
    found = nearest_metric(Z, signs[:30], tolerance=0.01)
    mapped = contender.scorers()["last"].query_vectors(Z)
    squares = np.square(Z @ found.L.T).sum(axis=1)
    np.testing.assert_allclose(np.square(mapped).sum(axis=1), squares, rtol=1e-5)
    assert contender.note.startswith("gap ")
