"""The k-dimensional passes against the printed d-dimensional update, and the paper's theorems."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.losses import LOSSES
from similia.updates.balanced import CONSTANT, visits_pass
from similia.updates.slnd import block_pass, theorem_pass
from tests.reference.slnd import hessian, low_rank_inverse, risk, slnd_step, theorem_step


@st.composite
def problems(draw, max_classes=4):
    """Rows X, labels of some classes, a basis P D^{-½} of rank k and where each class starts."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    d = draw(st.integers(1, 8))
    # Enough rows for a Hessian that is not nearly singular: both forms divide by its eigenvalues.
    n, k = draw(st.integers(2 * d + 2, 40)), draw(st.integers(1, d))
    classes = draw(st.integers(1, max_classes))
    loss = draw(st.sampled_from(list(LOSSES)))
    X = rng.normal(size=(n, d)) * 10.0 ** draw(st.integers(-1, 1))
    values, vectors = np.linalg.eigh(hessian(X, loss))
    basis = vectors[:, ::-1][:, :k] / np.sqrt(values[::-1][:k])
    signs = rng.choice([-1.0, 1.0], size=(classes, n))
    etas = rng.uniform(0.0, 0.5 / k, size=(classes, n)) * (rng.random((classes, n)) < 0.8)
    return X, signs, etas, basis, low_rank_inverse(hessian(X, loss), k), loss, rng


@given(problem=problems(), started=st.booleans())
def test_blocks_equal_the_printed_update_sample_by_sample(problem, started):
    X, signs, etas, basis, inverse, loss, rng = problem
    w = rng.normal(size=(len(signs), X.shape[1])) * (0.1 if started else 0.0)
    Z, moment = np.zeros((2, len(w), basis.shape[1]))
    start, time = w.copy(), 0.0
    mean = np.zeros_like(w)
    for piece in np.array_split(np.arange(len(X)), 3):
        if len(piece) == 0:
            continue
        U, times = np.ascontiguousarray(X[piece] @ basis), piece + 1.0
        H = np.ascontiguousarray(start @ X[piece].T)
        parts = (np.ascontiguousarray(a[:, piece]) for a in (signs, etas))
        block_pass(Z, moment, U, H, *parts, times, LOSSES[loss].code)
        for i in piece:
            for c in range(len(w)):
                before = w[c].copy()
                w[c] = slnd_step(w[c], X[i], signs[c, i], etas[c, i], inverse, loss)
                mean[c] += (i + 1.0) * (w[c] - before)
            time += 1.0
        scale = max(1.0, np.abs(w).max())
        np.testing.assert_allclose(start + Z @ basis.T, w, atol=1e-10 * scale)
        np.testing.assert_allclose(moment @ basis.T, mean, atol=1e-9 * scale * time)


@given(problem=problems(max_classes=1))
def test_one_class_in_any_order_equals_the_printed_update(problem):
    X, signs, etas, basis, inverse, loss, rng = problem
    visits = rng.integers(len(X), size=2 * len(X))
    Z, w, code = np.zeros((1, basis.shape[1])), np.zeros(X.shape[1]), LOSSES[loss].code
    rows, no_moment = (np.ascontiguousarray(X @ basis), np.zeros(0), np.zeros(0)), np.zeros((0, 0))
    for i in visits:
        ours = np.array([0 if signs[0, i] > 0 else -1])
        steps = (CONSTANT, etas[0, i], 1.0, 1.0, 1.0)
        visit, clock = (np.array([i]), ours, ~ours), (0.0, 0.0, 1.0)
        visits_pass(Z, no_moment, rows, visit, (0, 1), steps, clock, code)
        w = slnd_step(w, X[i], signs[0, i], etas[0, i], inverse, loss)
        np.testing.assert_allclose(basis @ Z[0], w, atol=1e-10 * max(1.0, np.abs(w).max()))


@given(problem=problems())
def test_sparse_rows_give_what_dense_ones_do(problem):
    X, signs, etas, _, _, loss, _ = problem
    etas = etas / (1.0 + (X**2).sum(axis=1))
    X[np.abs(X) < 0.5] = 0.0
    results = []
    for form in (np.asarray, sparse.csr_array):
        Z, moment = np.zeros((2, len(signs), X.shape[1]))
        H, times = np.zeros(signs.shape), np.arange(1.0, len(X) + 1)
        block_pass(Z, moment, form(X), H, signs, etas, times, LOSSES[loss].code)
        results.append((Z, moment))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9 * max(1.0, np.abs(one).max()))


@given(problem=problems())
def test_lemma_1_no_matrix_of_rank_k_is_closer_to_the_inverse(problem):
    """|I - H H'|² over rank k is least for P D⁻¹Pᵀ, where it is d - k."""
    X, _, _, basis, inverse, loss, rng = problem
    H, (d, k) = hessian(X, loss), basis.shape
    np.testing.assert_allclose(basis @ basis.T, inverse, atol=1e-7 * np.abs(inverse).max())
    least = np.sum((np.eye(d) - H @ inverse) ** 2)
    assert least == pytest.approx(d - k, abs=1e-6)
    for scale in (1e-3, 1e-1, 1.0):
        left = basis + scale * rng.normal(size=basis.shape) * np.abs(basis).max()
        right = basis + scale * rng.normal(size=basis.shape) * np.abs(basis).max()
        assert np.sum((np.eye(d) - H @ left @ right.T) ** 2) >= least - 1e-6


@given(problem=problems(max_classes=1), epsilon=st.floats(0.05, 0.95))
def test_theorem_2_step_is_the_printed_one_and_the_risk_falls_as_promised(problem, epsilon):
    """The decrease 2ε(1-ε)ρ/(m F''(0)) of (24), ρ being what the separability assumption bounds.

    It holds for the step backwards of a negative η as well, which a pass does not take: where (14)
    fails, it leaves the weights as they are.
    """
    X, signs, _, basis, inverse, loss, rng = problem
    y, steepest, code = signs[0], LOSSES[loss].steepest, LOSSES[loss].code
    U = np.ascontiguousarray(X @ basis)
    z, w, h = np.zeros(basis.shape[1]), np.zeros(X.shape[1]), np.zeros(len(X))
    for i in rng.integers(len(X), size=10):
        p = -LOSSES[loss].slope(y * (X @ w))
        if abs(p[i]) < 1e-6 or U[i] @ U[i] < 1e-12:
            continue
        products = U @ U[i]
        rho = np.sum(p * y * products) ** 2 / np.sum(products**2)
        eta = theorem_step(w, X, y, i, inverse, loss, epsilon)
        after = slnd_step(w, X[i], y[i], eta, inverse, loss)
        promised = 2 * epsilon * (1 - epsilon) * rho / (len(X) * steepest)
        assert risk(after, X, y, loss) <= risk(w, X, y, loss) - promised + 1e-9
        if abs(eta) * np.abs(products).max() < 1e-9:  # rounding decides the sign
            continue
        visits = (np.array([i]), h, y, np.ones(len(X)))
        steps = theorem_pass(z, U, *visits, steepest, epsilon, code)
        assert steps == (eta > 0)
        w = after if steps else w
        np.testing.assert_allclose(basis @ z, w, atol=1e-8 * max(1.0, np.abs(w).max()))


@given(problem=problems(max_classes=1), epsilon=st.floats(0.05, 0.95))
def test_a_whole_weight_counts_a_row_as_often_in_theorem_2(problem, epsilon):
    """In e and in Π alike: the pass over repeated rows, of which the first copies are visited."""
    X, signs, _, basis, _, loss, rng = problem
    weights, U = rng.integers(1, 4, size=len(X)), np.ascontiguousarray(X @ basis)
    repeated = np.repeat(np.arange(len(X)), weights)
    firsts = np.cumsum(weights) - weights
    steepest, code = LOSSES[loss].steepest, LOSSES[loss].code
    visits = rng.integers(len(X), size=10)
    weighted, told = np.zeros((2, basis.shape[1]))
    h, repeated_h = np.zeros(len(X)), np.zeros(len(repeated))
    y, ones = signs[0][repeated], np.ones(len(repeated))
    for visit in visits[:, None]:
        before = told.copy()
        rows = (visit, h, signs[0], weights.astype(float))
        n = theorem_pass(weighted, U, *rows, steepest, epsilon, code)
        rows = (firsts[visit], repeated_h, y, ones)
        steps = theorem_pass(told, U[repeated], *rows, steepest, epsilon, code)
        scale = max(1.0, np.abs(told).max())
        np.testing.assert_allclose(weighted, told, atol=1e-9 * scale)
        if np.abs(told - before).max() > 1e-9 * scale:  # of less, rounding decides the sign
            assert n == steps == 1


@given(st.integers(0, 2**32 - 1), st.sampled_from(list(LOSSES)), st.floats(0.1, 0.9))
def test_so_many_visits_as_theorem_2_says_are_enough(seed, loss, epsilon):
    """T ≥ (F(0) - F°) F''(0) m/(2γ²ε(1-ε)) visits for a risk of F°, with (14) at each of them.

    γ is the smallest of those visits, so each step may make F° and T anew.
    """
    rng = np.random.default_rng(seed)
    y = rng.choice([-1.0, 1.0], size=20)
    X = y[:, None] * (1.0 + 0.5 * rng.random((20, 1)))  # each row helps all others
    inverse = low_rank_inverse(hessian(X, loss), 1)
    w, gamma, risks = np.zeros(1), np.inf, [risk(np.zeros(1), X, y, loss)]
    for visit in range(1, 41):
        i = rng.integers(len(X))
        p, s = -LOSSES[loss].slope(y * (X @ w)), y[i] * y * (X @ inverse @ X[i])
        gamma = min(gamma, p @ s / np.abs(s).sum())
        if gamma <= 0.0:  # the squared loss may overshoot
            break
        eta = theorem_step(w, X, y, i, inverse, loss, epsilon)
        w = slnd_step(w, X[i], y[i], eta, inverse, loss)
        risks.append(risk(w, X, y, loss))
        steepest = LOSSES[loss].steepest
        per_visit = 2 * gamma**2 * epsilon * (1 - epsilon) / (steepest * len(X))
        wanted = risks[0] - per_visit * visit  # the F° for which T is this visit
        assert risks[-1] <= wanted + 1e-12
    assert len(risks) > 1


@given(problem=problems())
def test_lemma_1_is_attained_by_any_k_eigenvectors(problem):
    """So it does not say that they should be the leading ones."""
    X, _, _, basis, _, loss, rng = problem
    H, (d, k) = hessian(X, loss), basis.shape
    values, vectors = np.linalg.eigh(H)
    some = rng.choice(d, size=k, replace=False)
    inverse = (vectors[:, some] / values[some]) @ vectors[:, some].T
    assert np.sum((np.eye(d) - H @ inverse) ** 2) == pytest.approx(d - k, abs=1e-6)


def separable(rng, n=60, d=4):
    X = rng.normal(size=(n, d))
    return X, np.sign(X[:, 0] + 0.01)


def test_13_as_printed_lacks_the_label_of_the_visited_example(rng):
    """At w = 0, with classes apart along one axis: with y_i most visits satisfy (14), without it
    nearly all visits of negative examples break it.
    """
    X, y = separable(rng)
    inverse = low_rank_inverse(hessian(X, "logistic"), X.shape[1])
    p = np.full(len(X), 0.5)
    S = y[None, :] * (X @ inverse @ X.T)  # a row for each visit, as printed
    printed, corrected = S @ p > 0, (y[:, None] * S) @ p > 0
    assert corrected.mean() > 0.9
    assert printed[y > 0].mean() > 0.9 > 0.1 > printed[y < 0].mean()


def test_16_as_printed_is_not_the_update_11(rng):
    """x° has k entries and w has d; with k = d the two still differ: the step is along x*."""
    X, y = separable(rng)
    H = hessian(X, "logistic")
    values, vectors = np.linalg.eigh(H)
    inverse = low_rank_inverse(H, X.shape[1])
    step = slnd_step(np.zeros(X.shape[1]), X[0], y[0], 1.0, inverse, "logistic")
    basis = vectors / np.sqrt(values)  # of x° = basisᵀx, so that x* = basis x°
    circle = basis.T @ X[0]
    np.testing.assert_allclose(step, 0.5 * y[0] * basis @ circle, atol=1e-10)
    assert np.abs(step - 0.5 * y[0] * circle).max() > 0.1


def test_24_lacks_the_number_of_examples(rng):
    """For the squared loss the bound is an equality: the risk falls by 2ε(1-ε)ρ/(m F''(0))."""
    X, y = separable(rng)
    inverse, epsilon = low_rank_inverse(hessian(X, "squared"), X.shape[1]), 0.3
    w, i = np.zeros(X.shape[1]), 0
    eta = theorem_step(w, X, y, i, inverse, "squared", epsilon)
    after = slnd_step(w, X[i], y[i], eta, inverse, "squared")
    products, p = X @ inverse @ X[i], np.full(len(X), 0.5)
    rho = np.sum(p * y * products) ** 2 / np.sum(products**2)
    fallen = risk(w, X, y, "squared") - risk(after, X, y, "squared")
    assert fallen == pytest.approx(2 * epsilon * (1 - epsilon) * rho / (len(X) * 0.5))
