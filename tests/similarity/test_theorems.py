"""The mistake bounds of [Crammer2012], under the conditions in which they hold."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

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


def factored_run(Q, P, r):
    """Run mistake-driven; give the rounds of mistakes, the factors, and the sum of Lemma 3."""
    state = np.zeros((Q.shape[1], P.shape[1])), np.eye(Q.shape[1]), np.eye(P.shape[1])
    rounds, total = [], 0.0
    for q, p in zip(Q, P, strict=True):
        rounds.append(q @ state[0] @ p <= 0)
        if rounds[-1]:
            state = reference.factored_step(*state, q, p, r)
            total += (q @ state[1] @ q) * (p @ state[2] @ p)
    return np.array(rounds), state[1], state[2], total


def log_determinants(Lambda, Omega, r):
    m, n = len(Lambda), len(Omega)
    return -r * m * np.linalg.slogdet(Omega)[1], -r * n * np.linalg.slogdet(Lambda)[1]


@given(sequences(), R)
@settings(max_examples=150)
def test_theorem_2_bounds_the_mistakes_of_the_factored_form(sequence, r):
    Q, P, V = sequence
    rounds, Lambda, Omega, _ = factored_run(Q, P, r)
    spread = np.trace(V @ np.linalg.inv(Omega) @ V.T @ np.linalg.inv(Lambda))
    bound = hinge(V, Q[rounds], P[rounds]) + 2 * np.sqrt(
        max(spread, 0.0) * min(log_determinants(Lambda, Omega, r))
    )
    assert rounds.sum() <= bound + 1e-6


@given(sequences(), R)
def test_lemma_3_bounds_the_sum_of_variances(sequence, r):
    Q, P, _ = sequence
    _, Lambda, Omega, total = factored_run(Q, P, r)
    for bound in log_determinants(Lambda, Omega, r):
        assert total <= bound * (1 + 1e-9) + 1e-9
