import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.spectral import psd_factor, quick_factor


@st.composite
def semidefinite(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 30))
    B = rng.normal(size=(draw(st.integers(0, n)), n)) * 10.0 ** draw(st.integers(-3, 3))
    A = B.T @ B
    return (A + A.T) / 2


@given(semidefinite(), st.sampled_from([np.float64, np.float32]))
@pytest.mark.parametrize("factor", [psd_factor, quick_factor])
def test_a_factor_squares_to_the_matrix(factor, A, dtype):
    L = factor(A.astype(dtype))
    assert L.dtype == dtype
    size = max(np.abs(A).max(), 1e-300)
    np.testing.assert_allclose(L.T @ L, A, atol=1e3 * np.finfo(dtype).eps * size)


@given(semidefinite(), st.integers(1, 40))
def test_few_rows_give_the_nearest_matrix_of_that_rank(A, rank):
    """[Eckart & Young 1936]: what is missing are the smallest eigenvalues."""
    L = psd_factor(A, rank)
    assert len(L) == min(rank, len(A))
    values = np.sort(np.linalg.eigvalsh(A))[::-1]
    missing = np.sqrt(np.sum(values[rank:] ** 2))
    size = max(values[0], 1e-300)
    assert np.linalg.norm(A - L.T @ L) == pytest.approx(missing, abs=1e-10 * size)
