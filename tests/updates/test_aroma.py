from itertools import pairwise
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize, sparse

from similia.updates import aroma
from similia.updates.aroma import diagonal_pass, factored_analysed_pass, factored_pass
from tests.problems import blocks
from tests.reference import aroma as reference

R = st.sampled_from([0.01, 1.0, 30.0])
MARGIN, MISTAKE = 1.0, float(np.nextafter(0.0, 1.0))
THRESHOLD = st.sampled_from([MARGIN, MISTAKE])
FORM = st.sampled_from([np.asarray, sparse.csr_array])
STEPS = {False: reference.diagonal_step, True: reference.diagonal_analysed_step}


def relative(actual, expected):
    return np.abs(actual - expected).max() / max(1.0, np.abs(expected).max())


def learnt_factored(Q, P, r, threshold, cuts, form=np.asarray, dtype=np.float64):
    m, n = Q.shape[1], P.shape[1]
    W, Lambda, Omega = np.zeros((m, n), dtype), np.eye(m, dtype=dtype), np.eye(n, dtype=dtype)
    moment = np.zeros_like(W)
    for start, stop in pairwise(cuts):
        rows = form(Q[start:stop].astype(dtype)), form(P[start:stop].astype(dtype))
        factored_pass(W, Lambda, Omega, moment, start, *rows, r, threshold)
    return W, Lambda, Omega, moment


def learnt_diagonal(Q, P, r, threshold, analysed, cuts, form=np.asarray, dtype=np.float64):
    W = np.zeros((Q.shape[1], P.shape[1]), dtype)
    Sigma, moment = np.ones_like(W), np.zeros_like(W)
    for start, stop in pairwise(cuts):
        rows = form(Q[start:stop].astype(dtype)), form(P[start:stop].astype(dtype))
        diagonal_pass(W, Sigma, moment, start, *rows, r, threshold, analysed)
    return W, Sigma, moment


@given(blocks(largest=0), R, THRESHOLD, FORM, st.integers(1, 40))
def test_factored_blocks_equal_the_paper_one_triplet_at_a_time(block, r, threshold, form, size):
    Q, P = block
    state = np.zeros((Q.shape[1], P.shape[1])), np.eye(Q.shape[1]), np.eye(P.shape[1])
    total = state[0]
    for q, p in zip(Q, P, strict=True):
        state = reference.factored_step(*state, q, p, r, threshold)
        total = total + state[0]
    cuts = [*range(0, len(Q), size), len(Q)]
    *learnt, moment = learnt_factored(Q, P, r, threshold, cuts, form)
    for actual, expected in zip(learnt, state, strict=True):
        assert relative(actual, expected) < 1e-10
    assert relative((len(Q) + 1) * learnt[0] - moment, total) < 1e-9


@given(blocks(largest=0), st.sampled_from([0.01, 1.0]), THRESHOLD, FORM, st.integers(1, 5))
def test_triplets_that_come_near_on_the_way_are_learnt_in_their_turn(block, r, threshold, form, k):
    """From a W that meets many margins, walks end where an unforeseen triplet falls below it."""
    Q, P = block
    W = Q.T @ P  # right about most triplets
    W /= max(1.0, np.abs(np.einsum("ti,ij,tj->t", Q, W, P)).max() / 2)
    state = W, np.eye(Q.shape[1]), np.eye(P.shape[1])
    actual, moment = [A.copy() for A in state], np.zeros_like(W)
    for q, p in zip(Q, P, strict=True):
        state = reference.factored_step(*state, q, p, r, threshold)
    with patch.multiple("similia.updates.aroma", NEAR=0.0, AT_ONCE=k):
        factored_pass(*actual, moment, 0, form(Q), form(P), r, threshold)
    for found, expected in zip(actual, state, strict=True):
        assert relative(found, expected) < 1e-10


def test_unforeseen_triplets_do_occur(rng, monkeypatch):
    walks = []

    def counted(*arguments):
        walks.append(walk(*arguments))
        return walks[-1]

    walk = aroma._factored_walk
    monkeypatch.setattr(aroma, "_factored_walk", counted)
    Q, P = rng.normal(size=(200, 4)), rng.normal(size=(200, 4))
    state = np.eye(4), np.eye(4), np.eye(4), np.zeros((4, 4))
    updates = factored_pass(*state, 0, Q, P, 0.1, MISTAKE)
    assert len(walks) > 1
    assert sum(count for count, _ in walks) == updates


@given(blocks(largest=3), R, st.integers(1, 40))
def test_rounding_grows_no_faster_than_the_covariances_shrink(block, r, size):
    """With long rows a variance falls by many orders in a block; long doubles know what is lost."""
    Q, P = block
    m, n = Q.shape[1], P.shape[1]
    real = np.longdouble
    state = np.zeros((m, n), real), np.eye(m, dtype=real), np.eye(n, dtype=real)
    for q, p in zip(Q.astype(real), P.astype(real), strict=True):
        state = reference.factored_step(*state, q, p, real(r))
    shrunk = sum(1.0 / np.linalg.eigvalsh(A.astype(float)).min() for A in state[1:])
    *learnt, _ = learnt_factored(Q, P, r, MARGIN, [*range(0, len(Q), size), len(Q)])
    for actual, exact in zip(learnt, state, strict=True):
        assert relative(actual, exact) <= max(1e-12, 10 * np.finfo(float).eps * shrunk)


@given(blocks(), R, THRESHOLD, st.booleans(), FORM, st.integers(1, 40))
def test_diagonal_blocks_equal_the_paper(block, r, threshold, analysed, form, size):
    Q, P = block
    state = np.zeros((Q.shape[1], P.shape[1])), np.ones((Q.shape[1], P.shape[1]))
    total = state[0]
    for q, p in zip(Q, P, strict=True):
        state = STEPS[analysed](*state, q, p, r, threshold)
        total = total + state[0]
    cuts = [*range(0, len(Q), size), len(Q)]
    *learnt, moment = learnt_diagonal(Q, P, r, threshold, analysed, cuts, form)
    for actual, expected in zip(learnt, state, strict=True):
        assert relative(actual, expected) < 1e-10
    assert relative((len(Q) + 1) * learnt[0] - moment, total) < 1e-9


@given(blocks(largest=0), R, THRESHOLD, FORM, st.integers(1, 40))
def test_analysed_factored_blocks_equal_the_naive_form(block, r, threshold, form, size):
    Q, P = block
    m, n = Q.shape[1], P.shape[1]
    state = np.zeros((m, n)), np.eye(m), np.eye(n)
    learnt, moment, total = [A.copy() for A in state], np.zeros((m, n)), state[0]
    updates = 0
    for q, p in zip(Q, P, strict=True):
        if q.any() and p.any():
            updates += q @ state[0] @ p < threshold
            state = reference.factored_analysed_step(*state, q, p, r, threshold)
        total = total + state[0]
    found = 0
    for start in range(0, len(Q), size):
        rows = form(Q[start : start + size]), form(P[start : start + size])
        found += factored_analysed_pass(*learnt, moment, start, *rows, r, threshold)
    for actual, expected in zip(learnt, state, strict=True):
        assert relative(actual, expected) < 1e-9
    assert relative((len(Q) + 1) * learnt[0] - moment, total) < 1e-8
    assert found == updates


def test_thousands_of_triplets_do_not_drift_from_the_paper(rng):
    Q, P = rng.normal(size=(3000, 12)), rng.normal(size=(3000, 9))
    state = np.zeros((12, 9)), np.eye(12), np.eye(9)
    for q, p in zip(Q, P, strict=True):
        state = reference.factored_step(*state, q, p, 0.5)
    *learnt, _ = learnt_factored(Q, P, 0.5, MARGIN, [*range(0, 3000, 128), 3000])
    for actual, expected in zip(learnt, state, strict=True):
        assert relative(actual, expected) < 1e-10


def test_blocks_that_are_shared_out_among_processors_equal_the_paper(rng, monkeypatch):
    monkeypatch.setattr("similia.linalg.blas.processors", lambda: 3)
    Q, P = rng.normal(size=(64, 300)) / 17, rng.normal(size=(64, 310)) / 17
    state = np.zeros((300, 310)), np.eye(300), np.eye(310)
    for q, p in zip(Q, P, strict=True):
        state = reference.factored_step(*state, q, p, 0.1)
    for form in (np.asarray, sparse.csr_array):
        *learnt, _ = learnt_factored(Q, P, 0.1, MARGIN, [0, 64], form)
        for actual, expected in zip(learnt, state, strict=True):
            assert relative(actual, expected) < 1e-10


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_single_precision_follows_double(rng, form):
    Q, P = rng.normal(size=(300, 8)) / 3, rng.normal(size=(300, 8)) / 3
    for learnt, arguments in ((learnt_factored, ()), (learnt_diagonal, (False,))):
        wide = learnt(Q, P, 1.0, MARGIN, *arguments, [0, 128, 300], form)
        narrow = learnt(Q, P, 1.0, MARGIN, *arguments, [0, 128, 300], form, np.float32)
        for actual, expected in zip(narrow[:-1], wide[:-1], strict=True):
            assert actual.dtype == np.float32
            assert relative(actual, expected) < 1e-4


@given(blocks(), R)
def test_covariances_stay_symmetric_positive_definite_and_only_shrink(block, r):
    Q, P = block
    _, Lambda, Omega, _ = learnt_factored(Q, P, r, MARGIN, [0, len(Q)])
    for A in (Lambda, Omega):
        np.testing.assert_allclose(A, A.T, atol=1e-12)
        values = np.linalg.eigvalsh(A)
        assert values.min() > 0
        assert values.max() <= 1 + 1e-9
    _, Sigma, _ = learnt_diagonal(Q, P, r, MARGIN, False, [0, len(Q)])
    assert Sigma.min() > 0
    assert Sigma.max() <= 1


@given(blocks())
def test_a_met_margin_leaves_the_state_untouched(block):
    Q, P = block
    W = np.zeros((Q.shape[1], P.shape[1]))
    state = [W, np.eye(Q.shape[1]), np.eye(P.shape[1])]
    before = [A.copy() for A in state]
    assert factored_pass(*state, np.zeros((0, 0)), 0, Q, P, 1.0, -np.inf) == 0
    for actual, expected in zip(state, before, strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_the_factored_step_solves_the_papers_problem_for_w(rng):
    """(11) in W alone is a convex quadratic beside a squared hinge; a generic solver agrees."""
    m, n, r = 3, 2, 0.7
    q, p = rng.normal(size=m), rng.normal(size=n)
    factors = [B @ B.T + np.eye(len(B)) for B in (rng.normal(size=(m, m)), rng.normal(size=(n, n)))]
    inverse = [np.linalg.inv(A) for A in factors]
    W0 = rng.normal(size=(m, n))
    W0 *= -1 if q @ W0 @ p > 0 else 1

    def objective(flat):
        D = flat.reshape(m, n) - W0
        hinge = max(0.0, 1.0 - q @ (W0 + D) @ p)
        return 0.5 * np.trace(inverse[0] @ D @ inverse[1] @ D.T) + hinge**2 / (2 * r)

    solved = optimize.minimize(objective, W0.ravel(), tol=1e-12).x.reshape(m, n)
    stepped, _, _ = reference.factored_step(W0, *factors, q, p, r)
    np.testing.assert_allclose(stepped, solved, atol=1e-4)


def objective_in_covariances(Lambda, Omega, old_Lambda, old_Omega, q, p, r):
    """(11) without the terms in W."""
    m, n = len(Lambda), len(Omega)
    logs = n * np.linalg.slogdet(Lambda)[1] + m * np.linalg.slogdet(Omega)[1]
    ratios = [
        np.trace(np.linalg.solve(old_Lambda, Lambda)),
        np.trace(np.linalg.solve(old_Omega, Omega)),
    ]
    return 0.5 * (ratios[0] * ratios[1] - logs + (p @ Omega @ p) * (q @ Lambda @ q) / r)


def test_13_minimises_the_objective_with_the_old_lambda_only(rng):
    """d(11)/dΩ at Ω of (13) is zero for the Λ before the update, and not for the one after it."""
    m, n, r = 3, 2, 0.7
    q, p = rng.normal(size=m), rng.normal(size=n)
    Lambda, Omega = (
        B @ B.T + np.eye(len(B)) for B in (rng.normal(size=(m, m)), rng.normal(size=(n, n)))
    )
    _, new_Lambda, new_Omega = reference.factored_step(np.zeros((m, n)), Lambda, Omega, q, p, r)

    def gradient(Lambda_there):
        slopes = np.empty((n, n))
        for i in range(n):
            for j in range(n):
                E = np.zeros((n, n))
                E[i, j] = E[j, i] = 1e-5
                up, down = (
                    objective_in_covariances(
                        Lambda_there, new_Omega + sign * E, Lambda, Omega, q, p, r
                    )
                    for sign in (1, -1)
                )
                slopes[i, j] = (up - down) / 2e-5
        return np.abs(slopes).max()

    assert gradient(Lambda) < 1e-7
    assert gradient(new_Lambda) > 1e-2


@pytest.mark.parametrize("pass_of", ["factored", "diagonal"])
def test_zero_vectors_and_equal_items_change_nothing(pass_of):
    Q, P = np.array([[0.0, 0.0], [1.0, 2.0]]), np.array([[1.0, 1.0], [0.0, 0.0]])
    cuts = [0, 2]
    if pass_of == "factored":
        W, Lambda, Omega, _ = learnt_factored(Q, P, 1.0, MARGIN, cuts)
        np.testing.assert_array_equal(Lambda, np.eye(2))
        np.testing.assert_array_equal(Omega, np.eye(2))
    else:
        W, Sigma, _ = learnt_diagonal(Q, P, 1.0, MARGIN, False, cuts)
        np.testing.assert_array_equal(Sigma, 1.0)
    np.testing.assert_array_equal(W, 0.0)


def test_the_update_of_sigma_before_5_has_x_in_place_of_sigma_i(rng):
    """σ -= σ⊙x⊙x⊙σ/(r + xᵀΣx) is the diagonal of (4); the printed σ⊙x⊙σ_i⊙σ is not, and grows."""
    sigma, x, r = rng.uniform(0.5, 1.0, size=4), -rng.uniform(0.5, 1.0, size=4), 1.0
    scale = r + np.sum(x * sigma * x)
    Sx = sigma * x
    diagonal = np.diag(np.diag(sigma) - np.outer(Sx, Sx) / scale)
    np.testing.assert_allclose(sigma - sigma * x * x * sigma / scale, diagonal)
    printed = sigma / (1.0 + sigma * x * sigma / scale)  # solved for σ_i, on both sides
    np.testing.assert_allclose(printed, sigma - sigma * x * printed * sigma / scale)
    assert (printed > sigma).all()
    assert (diagonal < sigma).all()
