"""The mistake bounds of [Crammer2012], under the conditions in which they hold."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia import FactoredAROMA
from tests.reference import aroma as reference


@st.composite
def sequences(draw):
    """A sequence of triplets, sometimes ordered by a matrix V, and V itself at some scale."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n, length = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(1, 60))
    Q = rng.normal(size=(length, m)) * 10.0 ** draw(st.integers(-1, 1))
    P = rng.normal(size=(length, n))
    V = rng.normal(size=(m, n))
    if draw(st.booleans()):
        Q *= np.sign(scores(V, Q, P))[:, None]
    return Q, P, V * draw(st.sampled_from([0.0, 0.03, 0.3, 1.0, 10.0]))


R = st.sampled_from([1e-3, 0.1, 1.0, 30.0, 3000.0])


def scores(V, Q, P):
    return np.einsum("ti,ij,tj->t", Q, V, P)


def hinge(V, Q, P):
    return np.maximum(0.0, 1.0 - scores(V, Q, P)).sum()


def test_the_bilinear_form_is_the_inner_product_with_qp(rng):
    """The notation of the paper has pqᵀ, of which the columns stack in another order."""
    q, W, p = rng.normal(size=3), rng.normal(size=(3, 2)), rng.normal(size=2)

    def vec(M):
        return M.ravel(order="F")

    assert vec(W) @ vec(np.outer(q, p)) == pytest.approx(q @ W @ p)
    assert abs(vec(W) @ vec(np.outer(p, q)) - q @ W @ p) > 1e-6


def diagonal_run(step, Q, P, r):
    """Run to the end; give the numbers of mistakes and other updates, and the rounds of either."""
    W, Sigma = np.zeros((Q.shape[1], P.shape[1])), np.ones((Q.shape[1], P.shape[1]))
    before = []
    for q, p in zip(Q, P, strict=True):
        before.append(q @ W @ p)
        W, Sigma = step(W, Sigma, q, p, r)
    s = np.array(before)
    return np.sum(s <= 0), np.sum((s > 0) & (s < 1)), s < 1


def theorem_1(V, Q, P, r, other_updates, rounds):
    Q, P = Q[rounds], P[rounds]
    squares = np.einsum("ti,tj->ij", Q**2, P**2)
    return (
        hinge(V, Q, P)
        - other_updates
        + np.sqrt(np.sum(V**2) + np.sum(V**2 * squares) / r)
        * np.sqrt(r * np.sum(np.log(squares / r + 1.0)) + 2 * other_updates)
    )


@given(sequences(), R)
@settings(max_examples=150)
def test_theorem_1_bounds_the_mistakes_of_the_analysed_diagonal_form(sequence, r):
    Q, P, V = sequence
    mistakes, others, rounds = diagonal_run(reference.diagonal_analysed_step, Q, P, r)
    assert mistakes <= theorem_1(V, Q, P, r, others, rounds) + 1e-6


def test_theorem_1_does_not_hold_for_the_printed_diagonal_form():
    """One easy triplet sixty times: with a large r the printed step hardly moves towards it."""
    Q = P = np.ones((60, 1))
    V, r = np.ones((1, 1)), 1e4
    printed = diagonal_run(reference.diagonal_step, Q, P, r)
    analysed = diagonal_run(reference.diagonal_analysed_step, Q, P, r)
    assert printed[0] > theorem_1(V, Q, P, r, *printed[1:]) + 40
    assert analysed[0] <= theorem_1(V, Q, P, r, *analysed[1:])


def factored_run(step, Q, P, r):
    """Run mistake-driven; return the rounds of mistakes, the factors, and the sum of Lemma 3."""
    state = np.zeros((Q.shape[1], P.shape[1])), np.eye(Q.shape[1]), np.eye(P.shape[1])
    rounds, total = [], 0.0
    for q, p in zip(Q, P, strict=True):
        rounds.append(q @ state[0] @ p <= 0)
        if rounds[-1]:
            state = step(*state, q, p, r, np.inf)
            total += (q @ state[1] @ q) * (p @ state[2] @ p)
    return np.array(rounds), state[1], state[2], total


def log_determinants(Lambda, Omega, r):
    m, n = len(Lambda), len(Omega)
    return -r * m * np.linalg.slogdet(Omega)[1], -r * n * np.linalg.slogdet(Lambda)[1]


def theorem_2(V, Q, P, r, rounds, Lambda, Omega):
    spread = np.trace(V @ np.linalg.inv(Omega) @ V.T @ np.linalg.inv(Lambda))
    return hinge(V, Q[rounds], P[rounds]) + 2 * np.sqrt(
        max(spread, 0.0) * min(log_determinants(Lambda, Omega, r))
    )


def tightness(Q, P, r, rounds, Lambda, Omega):
    """tr(SᵀΛSΩ) / (4r min{m log det Ω⁻¹, n log det Λ⁻¹}), S = Σ qpᵀ over the mistakes.

    Theorem 2 holds for *all* V iff this is at most 1. If it is: |M| - hinge(V) ≤ tr(VᵀS), which is
    at most √(tr(VᵀΛ⁻¹VΩ⁻¹) tr(SᵀΛSΩ)) by Cauchy and Schwarz. If it is not, a small multiple of
    V = ΛSΩ violates it: with all scores below 1, |M| - hinge(V) = tr(VᵀS), and that is an equality.
    """
    S = Q[rounds].T @ P[rounds]
    return np.trace(S.T @ Lambda @ S @ Omega) / (4 * min(log_determinants(Lambda, Omega, r)))


def hardest(Q, P, rounds, Lambda, Omega):
    """The V of `tightness`, at a scale at which no score exceeds 1."""
    V = Lambda @ (Q[rounds].T @ P[rounds]) @ Omega
    return V / max(1.0, np.abs(scores(V, Q, P)).max())


@given(sequences(), R)
@settings(max_examples=150)
def test_theorem_2_holds_for_all_matrices_in_the_analysed_form_with_half_its_second_term(
    sequence, r
):
    """tr(SᵀΛSΩ) ≤ Σ (qᵀΛq)(pᵀΩp), since Λ and Ω shrink and a mistake scores 0 or less."""
    Q, P, V = sequence
    rounds, Lambda, Omega, total = factored_run(reference.factored_analysed_step, Q, P, r)
    given_ = (Q, P, r, rounds, Lambda, Omega)
    S = Q[rounds].T @ P[rounds]
    assert np.trace(S.T @ Lambda @ S @ Omega) <= total * (1 + 1e-6) + 1e-9
    assert tightness(*given_) <= 0.25 * (1 + 1e-6)
    for matrix in (V, hardest(Q, P, rounds, Lambda, Omega)):
        assert rounds.sum() <= theorem_2(matrix, *given_) * (1 + 1e-6) + 1e-6


def alternating(pair, times, m):
    """(e, e), (e, -pair·e) again and again, in m dimensions of which one is in use."""
    Q, P = np.zeros((2, 2 * times, m))
    Q[:, 0], P[::2, 0], P[1::2, 0] = 1.0, 1.0, -pair
    return Q, P


def test_theorem_2_does_not_hold_for_the_printed_form():
    """In one dimension: a triplet and a shorter one against it; mistakes nearly all on one side."""
    Q, P = alternating(0.5, 80, 1)
    r = 0.0316
    run = factored_run(reference.factored_step, Q, P, r)[:3]
    assert tightness(Q, P, r, *run) > 1.3
    V = hardest(Q, P, *run)
    assert run[0].sum() > theorem_2(V, Q, P, r, *run) * (1 + 1e-4)


def test_theorem_2_does_not_hold_for_new_factors_with_the_printed_length():
    """(1-s)/(r+ab) lets long differences move the mean less than short ones; r ≪ ab ≪ mr."""
    Q, P = alternating(0.03, 500, 100)
    r = 0.178
    run = factored_run(reference.factored_new_factors_step, Q, P, r)[:3]
    assert tightness(Q, P, r, *run) > 1.5
    V = hardest(Q, P, *run)
    assert run[0].sum() > theorem_2(V, Q, P, r, *run) * (1 + 1e-4)
    analysed = factored_run(reference.factored_analysed_step, Q, P, r)[:3]
    assert tightness(Q, P, r, *analysed) <= 0.25


@given(sequences(), R)
def test_the_bound_holds_for_all_matrices_iff_the_sum_of_mistakes_is_short(sequence, r):
    """The criterion itself, at its own hardest V, whatever the rule that made the mistakes."""
    Q, P, _ = sequence
    run = factored_run(reference.factored_step, Q, P, r)[:3]
    V, ratio = hardest(Q, P, *run), tightness(Q, P, r, *run)
    gap = theorem_2(V, Q, P, r, *run) - run[0].sum()
    reached = scores(V, Q[run[0]], P[run[0]]).sum()
    assert gap == pytest.approx(reached * (np.sqrt(1 / ratio) - 1), rel=1e-5, abs=1e-9)


def test_the_strict_condition_never_starts_from_zero():
    """0 > qᵀWp, as printed before Theorem 2, is false for W = 0, so nothing is ever learnt."""
    learner = FactoredAROMA(r=1.0, prior="zero", update="analysed").learn(
        np.eye(2), [[0, 0, 1], [1, 1, 0]]
    )
    assert learner.n_updates_ == 2
    W, *_ = reference.factored_analysed_step(
        np.zeros((2, 2)), np.eye(2), np.eye(2), np.eye(2)[0], np.array([1.0, -1.0]), 1.0, 0.0
    )
    assert not W.any()


@given(sequences(), R)
def test_lemma_3_bounds_the_sum_of_variances(sequence, r):
    Q, P, _ = sequence
    _, Lambda, Omega, total = factored_run(reference.factored_step, Q, P, r)
    for bound in log_determinants(Lambda, Omega, r):
        assert total <= bound * (1 + 1e-9) + 1e-9
