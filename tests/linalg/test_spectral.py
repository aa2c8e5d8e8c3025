import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from similia.linalg.gibbs import GibbsState
from similia.linalg.spectral import (
    from_eigenpairs,
    gibbs_weights,
    hermitian_log,
    hermitian_part,
    log_trace_exp,
)

SEED, SIZE = st.integers(0, 2**32 - 1), st.integers(1, 8)
KIND = st.sampled_from(["real", "complex"])


def hermitian(seed, n, kind, scale=1.0):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(n, n)) + 1j * rng.normal(size=(n, n))
    return scale * hermitian_part(M if kind == "complex" else M.real)


@given(SEED, SIZE, KIND)
def test_exp_is_scipys_and_log_its_inverse(seed, n, kind):
    G = hermitian(seed, n, kind)
    values, vectors = linalg.eigh(G)
    E = from_eigenpairs(np.exp(values), vectors)
    np.testing.assert_allclose(E, linalg.expm(G), rtol=1e-9, atol=1e-9 * np.abs(E).max())
    np.testing.assert_array_equal(E, E.conj().T)
    assert E.dtype == G.dtype
    np.testing.assert_allclose(hermitian_log(E), G, atol=1e-9)


@given(SEED, SIZE, KIND, st.floats(-1e6, 1e6))
def test_a_gibbs_state_is_the_normalised_exponential_whatever_the_shift(seed, n, kind, shift):
    G = hermitian(seed, n, kind)
    E = linalg.expm(G)
    W = GibbsState(G + shift * np.eye(n)).matrix()
    np.testing.assert_allclose(W, E / np.trace(E), atol=1e-9)
    assert np.trace(W).real == pytest.approx(1.0)


@given(SEED, st.integers(2, 8), KIND)
def test_no_exponent_overflows_a_gibbs_state(seed, n, kind):
    G = hermitian(seed, n, kind, 1e5)
    W, values = GibbsState(G).matrix(), linalg.eigvalsh(G)
    assert np.isfinite(W).all()
    assert np.trace(W).real == pytest.approx(1.0)
    assert log_trace_exp(values) >= values[-1]
    assert gibbs_weights(values).sum() == pytest.approx(1.0)


@given(SEED, SIZE, KIND)
def test_a_gibbs_state_maximises_its_variational_problem(seed, n, kind):
    """log tr exp(G) = max tr(WG) - tr(W log W) over trace one; any other W has less."""
    G = hermitian(seed, n, kind)
    best = log_trace_exp(linalg.eigvalsh(G))

    def objective(W):
        return np.trace(W @ G).real - np.trace(W @ hermitian_log(W)).real

    assert objective(GibbsState(G).matrix()) == pytest.approx(best, abs=1e-9)
    assert objective(GibbsState(hermitian(seed + 1, n, kind)).matrix()) <= best + 1e-9


@pytest.mark.parametrize("smallest", [0.0, -1.0, 1e-17])
def test_a_matrix_without_logarithm_is_refused_unless_a_floor_is_given(smallest):
    W = np.diag([1.0, smallest, 0.5])
    with pytest.raises(ValueError, match=r"^hermitian_log: W must be positive definite, got"):
        hermitian_log(W)
    floored = hermitian_log(W, floor=1e-6)
    np.testing.assert_allclose(floored, np.diag(np.log([1.0, 1e-6, 0.5])), atol=1e-12)


def test_a_matrix_with_no_positive_eigenvalue_has_no_logarithm_even_with_a_floor():
    with pytest.raises(ValueError, match="must be positive definite"):
        hermitian_log(np.zeros((2, 2)), floor=1e-6)
