"""What is proven of MEG [Tsuda2005], under the conditions in which it is true."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from similia import MEG
from similia.linalg.gibbs import GibbsState
from similia.linalg.spectral import hermitian_part, von_neumann_divergence
from tests.reference.meg import matrix, meg_step, start

SEED, SIZE = st.integers(0, 2**32 - 1), st.integers(1, 7)
KIND = st.sampled_from([float, complex])


def square_matrix(rng, d, kind):
    M = rng.normal(size=(d, d)) + 1j * rng.normal(size=(d, d))
    return M if kind is complex else M.real


def density(rng, d, kind, rank=None):
    """A matrix of trace one; singular if a rank is given."""
    M = square_matrix(rng, d, kind)[:, :rank]
    W = hermitian_part(M @ M.conj().T)
    return W / np.trace(W).real


@given(SEED, SIZE, KIND, st.floats(-2, 1))
def test_golden_thompson(seed, d, kind, exponent):
    """tr exp(A + B) ≤ tr(exp(A) exp(B)) for Hermitian A and B (2.3)."""
    rng = np.random.default_rng(seed)
    A, B = (10.0**exponent * hermitian_part(square_matrix(rng, d, kind)) for _ in range(2))
    together = np.trace(linalg.expm(A + B)).real
    apart = np.trace(linalg.expm(A) @ linalg.expm(B)).real
    assert together <= apart * (1.0 + 1e-10)


@given(SEED, SIZE, KIND, st.floats(-5, 5), st.floats(-5, 5))
def test_lemma_2_1(seed, d, kind, one, other):
    """exp(ρ₁A + ρ₂(I - A)) ⪯ exp(ρ₁)A + exp(ρ₂)(I - A) for 0 ⪯ A ⪯ I."""
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(square_matrix(rng, d, kind))[0]
    A = hermitian_part((Q * rng.uniform(size=d)) @ Q.conj().T)
    rest = np.eye(d) - A
    gap = np.exp(one) * A + np.exp(other) * rest - linalg.expm(one * A + other * rest)
    assert np.linalg.eigvalsh(gap)[0] >= -1e-9 * np.exp(max(one, other))


@given(SEED, SIZE, KIND, st.booleans())
def test_lemma_2_2(seed, d, kind, singular):
    """tr(AB) ≤ tr(AC) for A ⪰ 0 and Hermitian B ⪯ C."""
    rng = np.random.default_rng(seed)
    A = density(rng, d, kind, 1 if singular else None)
    B = hermitian_part(square_matrix(rng, d, kind))
    C = B + density(rng, d, kind, 1 if singular else None)
    assert np.trace(A @ B).real <= np.trace(A @ C).real + 1e-12 * (1.0 + np.abs(B).sum())


def test_lemma_2_2_needs_a_positive_semidefinite_matrix():
    A, B, C = np.diag([1.0, -1.0]), np.zeros((2, 2)), np.diag([0.0, 1.0])
    assert np.linalg.eigvalsh(C - B).min() >= 0.0
    assert np.trace(A @ B) > np.trace(A @ C)


@given(SEED, SIZE, KIND, st.floats(-3, 3), st.floats(-2, 2), st.booleans())
def test_lemma_3_1(seed, d, kind, label, exponent, singular):
    """a loss(W) - b loss(U) ≤ Δ(U, W) - Δ(U, W') for trace one, any X with range r, any b > 0.

    The paper says "any" U, but its proof needs the trace one of U as well as of W.
    """
    rng = np.random.default_rng(seed)
    X, b = square_matrix(rng, d, kind), 10.0**exponent
    r = np.ptp(np.linalg.eigvalsh(hermitian_part(X)))
    a = 2.0 * b / (2.0 + r**2 * b)
    G = 2.0 * hermitian_part(square_matrix(rng, d, kind))
    U = density(rng, d, kind, 1 if singular else None)
    W = GibbsState(G).matrix()
    loss_of_U = (np.trace(U @ X).real - label) ** 2
    after, loss = meg_step(G, X, label, a)
    progress = von_neumann_divergence(U, W) - von_neumann_divergence(U, matrix(after))
    assert a * loss - b * loss_of_U <= progress + 1e-7 * (1.0 + abs(progress) + b * loss_of_U)


def test_lemma_3_1_needs_a_comparison_matrix_of_trace_one():
    """X = I predicts 1 for trace one; U = yI/d explains any other y, yet W cannot come nearer."""
    d, y = 3, 4.0
    U, X = y * np.eye(d) / d, np.eye(d)
    after, loss = meg_step(start(d), X, y, 1.0)
    progress = von_neumann_divergence(U, matrix(start(d))) - von_neumann_divergence(
        U, matrix(after)
    )
    assert loss == pytest.approx(9.0)
    assert progress == pytest.approx(0.0, abs=1e-9)


@given(SEED, st.integers(2, 6), KIND, st.floats(-2, 2), st.sampled_from([0.0, 0.3, 3.0]))
def test_lemma_3_2(seed, d, kind, exponent, noise):
    """The total loss is within (3.7) of that of any U, for every c and η = 2c/(r²(2 + c))."""
    rng = np.random.default_rng(seed)
    instances = [hermitian_part(square_matrix(rng, d, kind)) for _ in range(40)]
    r, c = max(np.ptp(np.linalg.eigvalsh(X)) for X in instances), 10.0**exponent
    U = density(rng, d, kind)
    y = np.array([np.trace(U @ X).real for X in instances]) + noise * rng.normal(size=40)
    eta, G, loss = 2.0 * c / (r**2 * (2.0 + c)), start(d, kind), 0.0
    for X, label in zip(instances, y, strict=True):
        G, lost = meg_step(G, X, label, eta)
        loss += lost
    divergence = von_neumann_divergence(U, np.eye(d) / d)
    loss_of_U = sum((np.trace(U @ X).real - t) ** 2 for X, t in zip(instances, y, strict=True))
    bound = (1.0 + c / 2.0) * loss_of_U + (0.5 + 1.0 / c) * r**2 * divergence
    assert loss <= bound * (1.0 + 1e-9)
    # The learner knows a bound on the range with zero in it, so it says no less.
    learner = MEG(eta=eta, trace=1.0, field="complex").learn_matrices(instances, y)
    assert learner.total_loss_ == pytest.approx(loss, rel=1e-8)
    if eta * learner.range_**2 < 2.0:
        assert loss <= learner.loss_bound(U, loss_of_U) * (1.0 + 1e-9)


@given(SEED, st.integers(2, 6), st.sampled_from([0.0, 0.01, 0.3, 3.0]))
def test_the_tuned_rate_has_the_bound_with_the_square_root(seed, d, noise):
    """L_MEG - L_U ≤ r√(2 L_max d_max) + r²Δ/2, and no other c makes (3.7) smaller."""
    rng = np.random.default_rng(seed)
    instances = [hermitian_part(square_matrix(rng, d, float)) for _ in range(40)]
    r = max(np.ptp(np.linalg.eigvalsh(X)) for X in instances)
    U = density(rng, d, float)
    y = np.array([np.trace(U @ X) for X in instances]) + noise * rng.normal(size=40)
    loss_of_U = sum((np.trace(U @ X) - t) ** 2 for X, t in zip(instances, y, strict=True))
    loss_of_U = loss_of_U if noise else 0.0
    divergence = von_neumann_divergence(U, np.eye(d) / d)
    eta = MEG.tuned_eta(loss_of_U, divergence, r)
    G, loss = start(d), 0.0
    for X, label in zip(instances, y, strict=True):
        G, lost = meg_step(G, X, label, eta)
        loss += lost
    promised = r * np.sqrt(2 * loss_of_U * divergence) + r**2 / 2 * divergence
    assert loss - loss_of_U <= promised * (1 + 1e-9)

    def bound(rate):
        """(3.7) for η = rate/r² = 2c/(r²(2 + c))."""
        own = 2 / (2 - rate) * loss_of_U if noise else 0.0
        return own + r**2 * divergence / rate

    rate = eta * r**2
    assert bound(rate) == pytest.approx(loss_of_U + promised, rel=1e-6)
    assert all(bound(rate) <= bound(some) * (1 + 1e-9) for some in (0.5 * rate, 0.5 * (rate + 2)))


def test_the_tuned_rate_refuses_what_has_no_bound():
    with pytest.raises(ValueError, match=r"MEG\.tuned_eta: divergence must be"):
        MEG.tuned_eta(1.0, 0.0, 1.0)


def test_the_implicit_form_has_no_proven_bound(rng):
    X, pairs, y, U = problem(rng, 0.0)
    learner = MEG(update="implicit").learn(X, pairs, y)
    assert np.isfinite(learner.total_loss_)
    with pytest.raises(ValueError, match='update must be "explicit"'):
        learner.loss_bound(U)


def problem(rng, noise, d=6, n=25, length=300):
    """Points of very different lengths, so that the ranges of instances differ, too."""
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-1.0, 0.5, size=(n, 1))
    U = d * density(rng, d, float)
    pairs = rng.integers(n, size=(length, 2))
    Z = X[pairs[:, 0]] - X[pairs[:, 1]]
    y = np.sqrt(np.einsum("ti,ij,tj->t", Z, U, Z))
    return X, pairs, y * np.exp(noise * rng.normal(size=length)), U


@given(
    SEED, st.sampled_from([0.0, 0.1, 0.5]), st.sampled_from(["auto", 0.1, 1.0, 1.9, 2.0]),
    st.sampled_from(["identity", "random", "near"]),
)  # fmt: skip
def test_the_total_loss_is_within_the_bound_at_any_time(seed, noise, rate, where):
    """A number for eta by Lemma 3.2; "auto" by Lemma 3.1 with an η of its own for each instance."""
    rng = np.random.default_rng(seed)
    X, pairs, y, U = problem(rng, noise)
    starts = {"random": 6.0 * density(rng, 6, float), "near": 0.99 * U + 0.01 * np.eye(6)}
    start = starts.get(where, where)
    Z = X[pairs[:, 0]] - X[pairs[:, 1]]
    largest = 6.0 * (Z**2).sum(axis=1).max()
    learner = MEG(eta=rate if rate == "auto" else rate / largest**2, start=start)
    for stop in (1, 20, 300):
        seen = getattr(learner, "n_seen_", 0)
        learner.learn(X, pairs[seen:stop], y[seen:stop])
        loss_of_U = learner.comparison_loss(U, X, pairs[:stop], y[:stop])
        bound = learner.loss_bound(U, 0.0 if noise == 0.0 else loss_of_U)
        assert learner.total_loss_ <= bound * (1.0 + 1e-9)
    assert learner.range_ == pytest.approx(largest)


def test_too_large_an_eta_has_no_bound(rng):
    X, pairs, y, U = problem(rng, 0.0)
    learner = MEG(eta=1.0).learn(X, pairs, y)
    assert learner.loss_bound(U) == np.inf


def test_the_comparison_loss_is_that_of_the_learner_if_it_stood_still(rng):
    X, pairs, y, _ = problem(rng, 0.1)
    learner = MEG(eta=1e-300).learn(X, pairs, y)
    start_matrix = np.eye(6)
    expected = learner.comparison_loss(start_matrix, X, pairs, y)
    assert learner.total_loss_ == pytest.approx(expected)


# -- misprints ---------------------------------------------------------------------------------


def test_the_gradient_of_section_2_3_has_the_other_sign(rng):
    """∇(-log det W) = -W⁻¹, along any symmetric direction."""
    W, D = 4.0 * density(rng, 4, float), hermitian_part(square_matrix(rng, 4, float))

    def F(t):
        return -np.linalg.slogdet(W + t * D)[1]

    slope = (F(1e-6) - F(-1e-6)) / 2e-6
    assert slope == pytest.approx(-np.trace(np.linalg.inv(W) @ D), rel=1e-4)


def test_delta_of_appendix_b_has_the_other_sign(rng):
    """exp(G - δI) has trace one for δ = +log tr exp(G)."""
    G = hermitian_part(square_matrix(rng, 4, float))
    delta = np.log(np.trace(linalg.expm(G)))
    assert np.trace(linalg.expm(G - delta * np.eye(4))) == pytest.approx(1.0)
    assert abs(np.trace(linalg.expm(G + delta * np.eye(4))) - 1.0) > 0.1


@given(st.floats(0, 1), st.floats(-20, 20))
def test_the_inequality_of_appendix_c_is_for_p_between_0_and_1(p, q):
    """log(1 - p(1 - exp q)) ≤ pq + q²/8, where the paper prints 0 ≤ q ≤ 1."""
    with np.errstate(divide="ignore"):  # p = 1 and a large negative q
        assert np.log1p(-p * -np.expm1(q)) <= p * q + q * q / 8 + 1e-9
    assert 1 - -1.0 * (1 - np.exp(1.0)) < 0  # no logarithm for p = -1, q = 1


def test_z_of_appendix_d_is_no_logarithm(rng):
    """W = exp(log W₁ - αC)/Z has trace one for Z = tr exp(log W₁ - αC)."""
    log_start, C = (hermitian_part(square_matrix(rng, 4, float)) for _ in range(2))
    W = linalg.expm(log_start - 0.5 * C)
    assert np.trace(W / np.trace(W)) == pytest.approx(1.0)
    assert abs(np.trace(W / -np.log(np.trace(W))) - 1.0) > 0.1


def test_the_constraints_of_5_2_bound_squared_distances():
    """tr(WC) ≤ 0 with C = X - γI and X = zzᵀ/2 says |x_a - x_b|² ≤ 2γ, not |x_a - x_b| ≤ γ."""
    z, gamma = np.array([1.0, -1.0]), 0.2
    C = np.outer(z, z) / 2 - gamma * np.eye(2)
    for squared, met in ((0.3, True), (0.5, False)):
        off = (1.0 - squared) / 2  # W of trace one with zᵀWz = squared
        W = np.array([[0.5, off], [off, 0.5]])
        assert z @ W @ z == pytest.approx(squared)
        assert (np.trace(W @ C) <= 0) == met == (squared <= 2 * gamma)
        assert np.sqrt(squared) > gamma
