"""Bregman divergences by the laws that define them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg
from scipy.special import rel_entr

from similia.linalg.spectral import hermitian_log, hermitian_part
from tests.reference.bregman import (
    frobenius_divergence,
    logdet_divergence,
    von_neumann_divergence,
)

SEED, SIZE = st.integers(0, 2**32 - 1), st.integers(1, 7)
KIND = st.sampled_from(["real", "complex"])
GRADIENTS = {
    frobenius_divergence: lambda W: 2.0 * W,
    logdet_divergence: lambda W: -linalg.inv(W),
    von_neumann_divergence: hermitian_log,
}
DIVERGENCES = pytest.mark.parametrize("divergence", GRADIENTS, ids=lambda f: f.__name__)


def random_matrix(rng, n, kind):
    M = rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))
    return M if kind == "complex" else M.real


def definite(rng, n, kind):
    M = random_matrix(rng, n, kind)
    return hermitian_part(M @ M.conj().T) + 0.1 * np.eye(n)


@DIVERGENCES
@given(seed=SEED, n=SIZE, kind=KIND)
def test_positive_unless_equal(divergence, seed, n, kind):
    rng = np.random.default_rng(seed)
    A = definite(rng, n, kind)
    assert 0.0 <= divergence(A, A) < 1e-10
    for size in (1.0, 0.1):
        B = A + size * definite(rng, n, kind)
        assert divergence(B, A) > 1e-9
        assert divergence(A, B) > 1e-9


@DIVERGENCES
@given(seed=SEED, n=SIZE, kind=KIND)
def test_the_gradient_is_the_difference_of_gradients(divergence, seed, n, kind):
    rng = np.random.default_rng(seed)
    A, B = definite(rng, n, kind), definite(rng, n, kind)
    direction = hermitian_part(random_matrix(rng, n, kind))
    direction /= np.linalg.norm(direction)
    h = 1e-5
    slope = (divergence(B + h * direction, A) - divergence(B - h * direction, A)) / (2 * h)
    gradient = GRADIENTS[divergence](B) - GRADIENTS[divergence](A)
    assert slope == pytest.approx(np.trace(direction @ gradient).real, rel=1e-4, abs=1e-4)


@DIVERGENCES
@given(seed=SEED, n=SIZE, kind=KIND)
def test_invariant_under_a_common_rotation(divergence, seed, n, kind):
    rng = np.random.default_rng(seed)
    A, B = definite(rng, n, kind), definite(rng, n, kind)
    U = np.linalg.qr(random_matrix(rng, n, kind))[0]
    turned = divergence(U @ B @ U.conj().T, U @ A @ U.conj().T)
    assert turned == pytest.approx(divergence(B, A), rel=1e-7, abs=1e-9)


@given(SEED, SIZE, KIND)
def test_logdet_is_invariant_under_any_congruence(seed, n, kind):
    rng = np.random.default_rng(seed)
    A, B = definite(rng, n, kind), definite(rng, n, kind)
    M = random_matrix(rng, n, kind) + 2.0 * n * np.eye(n)
    moved = logdet_divergence(M @ B @ M.conj().T, M @ A @ M.conj().T)
    assert moved == pytest.approx(logdet_divergence(B, A), rel=1e-6, abs=1e-8)


@given(SEED, SIZE, KIND)
def test_they_are_the_formulas_of_the_paper(seed, n, kind):
    rng = np.random.default_rng(seed)
    A, B = definite(rng, n, kind), definite(rng, n, kind)
    ratio = np.linalg.solve(A, B)
    logdet = np.trace(ratio).real - np.linalg.slogdet(ratio)[1] - n
    neumann = np.trace(B @ (hermitian_log(B) - hermitian_log(A)) - B + A).real
    assert logdet_divergence(B, A) == pytest.approx(logdet, rel=1e-6, abs=1e-8)
    assert von_neumann_divergence(B, A) == pytest.approx(neumann, rel=1e-6, abs=1e-8)


def test_von_neumann_of_diagonal_matrices_is_the_relative_entropy(rng):
    p, q = rng.dirichlet(np.ones(5), size=2)
    p[2] = 0.0
    p /= p.sum()
    assert von_neumann_divergence(np.diag(p), np.diag(q)) == pytest.approx(rel_entr(p, q).sum())


@given(SEED, st.integers(2, 7), KIND)
def test_singular_matrices_are_infinitely_far_only_where_they_must_be(seed, n, kind):
    """A and B of rank n-1 with one null space; C with another."""
    rng = np.random.default_rng(seed)
    U = np.linalg.qr(random_matrix(rng, n, kind))[0]
    V = np.linalg.qr(random_matrix(rng, n, kind))[0]
    a, b, c = rng.uniform(0.5, 2.0, size=(3, n))
    a[0] = b[0] = c[0] = 0.0
    A, B, C = ((Q * v) @ Q.conj().T for Q, v in ((U, a), (U, b), (V, c)))
    A, B, C = map(hermitian_part, (A, B, C))
    expected = von_neumann_divergence(np.diag(b[1:]), np.diag(a[1:]))
    assert von_neumann_divergence(B, A) == pytest.approx(expected, abs=1e-9)
    assert von_neumann_divergence(C, A) == np.inf
    assert logdet_divergence(B, np.eye(n)) == np.inf
    assert von_neumann_divergence(B, np.eye(n)) < np.inf


def test_matrices_outside_the_domain_are_refused():
    wrong = np.diag([1.0, -1.0])
    with pytest.raises(ValueError, match=r"^logdet_divergence: A must be positive definite"):
        logdet_divergence(np.eye(2), wrong)
    for arguments, name in (((np.eye(2), wrong), "A"), ((wrong, np.eye(2)), "B")):
        with pytest.raises(ValueError, match=f"^von_neumann_divergence: {name} must be positive"):
            von_neumann_divergence(*arguments)
