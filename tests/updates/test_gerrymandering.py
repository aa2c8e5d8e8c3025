"""Inference over sets of neighbors against trying them all, and gradients against differences."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.neighbors.training import REGULARIZERS
from similia.updates.gerrymandering import adam_step, infer, pulls
from tests.reference import gerrymandering as reference


@st.composite
def problems(draw, distinct=True):
    """Few items of few classes, some of them small or empty, with any costs and with ties."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n_classes, n = draw(st.integers(2, 4)), draw(st.integers(3, 8))
    k = draw(st.integers(1, n - 1))
    labels = np.sort(rng.integers(n_classes, size=n))
    lattice = draw(st.booleans()) and not distinct
    Z = rng.integers(-2, 3, size=(n, 3)).astype(float) if lattice else rng.normal(size=(n, 3))
    cost = rng.choice([0.0, 0.5, 1.0, 3.0], size=(n_classes, n_classes))
    np.fill_diagonal(cost, 0.0)
    if draw(st.booleans()):
        cost = 1.0 - np.eye(n_classes)
    U, V = rng.normal(size=(2, 2, 3))
    own = np.arange(n) if draw(st.booleans()) else np.full(n, -1)
    return U, V, Z, labels, own, cost, k, draw(st.booleans())


def starts_of(labels, cost):
    return np.searchsorted(labels, np.arange(len(cost) + 1))


@given(problems(distinct=False))
def test_inference_is_that_over_all_sets(problem):
    U, V, Z, labels, own, cost, k, ties = problem
    pull = infer(Z @ U.T, Z @ V.T, starts_of(labels, cost), own, labels, cost, k, ties)
    for i in range(len(Z)):
        right, rival = reference.best_sets(U, V, Z[i], Z, labels, own[i], cost[labels[i]], k, ties)
        assert pull.solvable[i] == (right[1] is not None)
        if right[1] is not None:
            assert pull.losses[i] == pytest.approx(rival[0] - right[0], abs=1e-9)


@given(problems())
def test_the_sets_themselves_are_those_of_all_sets(problem):
    U, V, Z, labels, own, cost, k, ties = problem
    pull = infer(Z @ U.T, Z @ V.T, starts_of(labels, cost), own, labels, cost, k, ties)
    for i in range(len(Z)):
        right, rival = reference.best_sets(U, V, Z[i], Z, labels, own[i], cost[labels[i]], k, ties)
        if right[1] is None:
            continue
        expected = dict.fromkeys(set(right[1]) - set(rival[1]), 1.0)
        expected |= dict.fromkeys(set(rival[1]) - set(right[1]), -1.0)
        pairs = zip(pull.rows[i].tolist(), pull.weights[i].tolist(), strict=True)
        assert {row: weight for row, weight in pairs if row >= 0} == expected


@given(problems(distinct=False))
def test_the_greedy_transcription_agrees_too(problem):
    U, V, Z, labels, own, cost, k, ties = problem
    for i in range(len(Z)):
        given_ = (Z, labels, own[i], cost[labels[i]], k, ties)
        exact = reference.best_sets(U, V, Z[i], *given_)
        distances = np.sum((U @ Z[i] - Z @ V.T) ** 2, axis=1)
        greedy = reference.greedy_sets(distances, *given_[1:])
        for one, other in zip(exact, greedy, strict=True):
            assert one[0] == pytest.approx(other[0], abs=1e-9)


@given(problems(distinct=False))
def test_the_loss_is_an_upper_bound_of_the_cost_of_the_nearest_set(problem):
    U, V, Z, labels, own, cost, k, ties = problem
    pull = infer(Z @ U.T, Z @ V.T, starts_of(labels, cost), own, labels, cost, k, ties)
    for i in np.flatnonzero(pull.solvable):
        distances = np.sum((U @ Z[i] - Z @ V.T) ** 2, axis=1)
        if own[i] >= 0:
            distances[i] = np.inf
        nearest = np.argsort(distances, kind="stable")[:k]
        Delta = reference.loss_of_set(cost[labels[i]], labels, nearest, ties)
        assert pull.losses[i] >= Delta - 1e-9


@pytest.mark.parametrize("n", [1, 17, 200])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_panels_of_many_queries_are_as_one_by_one(n, dtype, rng):
    labels = np.sort(rng.integers(5, size=300))
    B, A = rng.normal(size=(300, 4)).astype(dtype), rng.normal(size=(n, 4)).astype(dtype)
    y, own, cost = rng.integers(5, size=n), np.full(n, -1), 1.0 - np.eye(5)
    pull = infer(A, B, starts_of(labels, cost), own, y, cost, 7, False)
    for i in range(n):
        distances = np.sum((A[i] - B) ** 2, axis=1, dtype=np.float64)
        right, rival = reference.greedy_sets(distances, labels, -1, cost[y[i]], 7, False)
        tolerance = 1e-3 if dtype == "float32" else 1e-9
        assert pull.losses[i] == pytest.approx(rival[0] - right[0], abs=tolerance)


def total_loss(U, V, Z, labels, own, cost, k, ties):
    pull = infer(Z @ U.T, Z @ V.T, starts_of(labels, cost), own, labels, cost, k, ties)
    return pull.losses.sum()


def difference(f, M, eps=1e-6):
    """Give the gradient of f by M by central differences."""
    G = np.zeros_like(M)
    for place in np.ndindex(M.shape):
        step = np.zeros_like(M)
        step[place] = eps
        G[place] = (f(M + step) - f(M - step)) / (2 * eps)
    return G


@given(problems())
def test_gradients_of_the_loss_are_those_of_differences(problem):
    U, V, Z, *rest = problem
    labels, own, cost, k, ties = rest
    A, B = Z @ U.T, Z @ V.T
    pull = infer(A, B, starts_of(labels, cost), own, labels, cost, k, ties)
    by_query, by_item, touched = pulls(A, B, pull)
    np.testing.assert_allclose(
        2 * by_query.T @ Z, difference(lambda M: total_loss(M, V, Z, *rest), U), atol=1e-5
    )
    np.testing.assert_allclose(
        2 * by_item.T @ Z[touched], difference(lambda M: total_loss(U, M, Z, *rest), V), atol=1e-5
    )


@pytest.mark.parametrize("name", REGULARIZERS)
def test_gradients_of_the_regularizer_are_those_of_differences(name, rng):
    U, V = rng.normal(size=(3, 5)), rng.normal(size=(3, 4 if name != "joint" else 5))
    value, G_U, G_V = REGULARIZERS[name](U, V)
    assert value == pytest.approx(reference.regularizer(name, U, V)[0])
    for G, f, M in (
        (G_U, lambda M: REGULARIZERS[name](M, V)[0], U),
        (G_V, lambda M: REGULARIZERS[name](U, M)[0], V),
    ):
        np.testing.assert_allclose(G, difference(f, M), rtol=1e-6, atol=1e-6)


def test_the_joint_regularizer_is_the_norm_of_the_whole_matrix(rng):
    U, V = rng.normal(size=(3, 5)), rng.normal(size=(3, 4))
    W = np.block([[U.T @ U, -U.T @ V], [-V.T @ U, V.T @ V]])
    assert REGULARIZERS["joint"](U, V)[0] == pytest.approx(np.sum(W**2))


def test_gradients_as_printed_are_not_those_of_differences(rng):
    """(11) of the notes is the gradient of neither ‖W‖ nor ‖W‖²."""
    U, V = rng.normal(size=(2, 3, 3))
    printed = 2 * U @ U.T @ U + 4 * V @ V.T @ U
    square = difference(lambda M: REGULARIZERS["joint"](M, V)[0], U)
    norm = difference(lambda M: np.sqrt(REGULARIZERS["joint"](M, V)[0]), U)
    for truth in (square, norm):
        ratio = np.vdot(printed, truth) / np.vdot(truth, truth)
        assert np.abs(printed - ratio * truth).max() > 0.01 * np.abs(printed).max()


def test_adam_is_that_of_its_paper(rng):
    M, first, second = rng.normal(size=(3, 4)), np.zeros((3, 4)), np.zeros((3, 4))
    expected, m, v = M.copy(), 0.0, 0.0
    for t in range(1, 6):
        G = rng.normal(size=(3, 4))
        adam_step(M, G, first, second, t, 0.1)
        m, v = 0.9 * m + 0.1 * G, 0.999 * v + 0.001 * G**2
        expected -= 0.1 * (m / (1 - 0.9**t)) / np.sqrt(v / (1 - 0.999**t))
    np.testing.assert_allclose(M, expected, rtol=1e-6)


def test_maps_of_d_dimensions_do_not_reach_every_w_of_2d(rng):
    """W = [U -V]ᵀ[U -V] has rank d at most, so not every W ⪰ 0 of 2d × 2d is one."""
    U, V = rng.normal(size=(2, 3, 3))
    W = np.hstack([U, -V]).T @ np.hstack([U, -V])
    assert np.linalg.matrix_rank(W) == 3 < np.linalg.matrix_rank(np.eye(6))
    taller = rng.normal(size=(6, 6))  # with 2d rows they do
    values, vectors = np.linalg.eigh(taller @ taller.T)
    L = np.sqrt(values)[:, None] * vectors.T
    np.testing.assert_allclose(L.T @ L, taller @ taller.T, atol=1e-9)
