import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.bound import symmetric_product
from similia.linalg.lanczos import negative_eigenpair


@st.composite
def subtractions(draw):
    """A semidefinite matrix of any rank and spread, some of it still in terms, a vector and α."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 70))
    rank = draw(st.integers(0, n))
    values = 10.0 ** rng.uniform(-draw(st.integers(0, 6)), 0, rank)
    if draw(st.booleans()):
        values[: rank // 2] = 1.0  # equal eigenvalues
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0][:, :rank]
    A = (vectors * values) @ vectors.T
    v = rng.normal(size=n) * 10.0 ** draw(st.integers(-2, 2))
    if draw(st.booleans()):
        v = A @ v  # within the range of A: often there is no negative eigenvalue
    R, c = rng.normal(size=(2, n)), np.array([0.5, -0.5])
    R[1] = R[0]  # terms that cancel
    A = A + A.T
    return A / 2, R, c, v, 10.0 ** draw(st.integers(-6, 2)) / max(v @ v, 1e-12)


def size_of(M, A, R, c):
    """The size that rounding is relative to: of the matrices, and of terms though they cancel."""
    return np.abs(np.linalg.eigvalsh(M)).max() + np.trace(A) + np.abs(c) @ (R * R).sum(axis=1)


def subtracted(A, v, alpha):
    return A - alpha * np.outer(v, v)


@given(subtractions())
def test_the_pair_is_that_of_a_full_decomposition(problem):
    A, R, c, v, alpha = problem
    if not v.any():
        return
    M = subtracted(A, v, alpha)
    lowest = np.linalg.eigvalsh(M)[0]
    value, u = negative_eigenpair(A, R, c, v, alpha, 1e-12)
    size = size_of(M, A, R, c)
    if value < 0.0:
        assert value == pytest.approx(lowest, abs=1e-11 * size)
        assert np.linalg.norm(u) == pytest.approx(1.0, abs=1e-12)
        assert np.linalg.norm(M @ u - value * u) <= 1e-10 * size
    else:
        assert lowest >= -1e-11 * size


@given(subtractions())
def test_what_is_left_is_semidefinite_and_the_nearest_such_matrix(problem):
    """By interlacing there is at most one negative eigenvalue, so removing one is projecting."""
    A, R, c, v, alpha = problem
    if not v.any():
        return
    M = subtracted(A, v, alpha)
    value, u = negative_eigenpair(A, R, c, v, alpha, 1e-12)
    left = M - min(value, 0.0) * np.outer(u, u)
    values, vectors = np.linalg.eigh(M)
    size = size_of(M, A, R, c)
    assert np.sum(values < -1e-12 * size) <= 1
    nearest = (vectors * np.maximum(values, 0.0)) @ vectors.T
    np.testing.assert_allclose(left, nearest, atol=1e-10 * size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_terms_that_wait_count_like_the_matrix_itself(rng, dtype):
    n = 40
    B = rng.normal(size=(5, n)).astype(dtype)
    R, c = rng.normal(size=(3, n)).astype(dtype), np.array([0.3, 1.0, 2.0], dtype)
    A, v = B.T @ B, rng.normal(size=n).astype(dtype)
    whole = A + (R.T * c) @ R
    whole = (whole + whole.T) / 2
    tol = float(100 * np.finfo(dtype).eps)
    none = np.empty((0, n), dtype), np.empty(0, dtype)
    apart, u = negative_eigenpair(A, R, c, v, 0.1, tol)
    together, w = negative_eigenpair(whole, *none, v, 0.1, tol)
    assert apart == pytest.approx(together, rel=1e3 * tol)
    assert abs(u @ w) == pytest.approx(1.0, abs=1e3 * tol)


@pytest.mark.parametrize("n", [100, 340])
def test_a_matrix_that_rounding_took_below_zero_gives_a_finite_pair(rng, n):
    """POLA in single precision: A drifts, pivots end on their floor, and their ratios are large."""
    values = 10.0 ** rng.uniform(-6, 0, n)
    values[:2] = -2.6e-5, 1.0
    vectors = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A = ((vectors * values) @ vectors.T).astype(np.float32)
    A = (A + A.T) / 2
    v = rng.normal(size=n).astype(np.float32)
    none = np.empty((0, n), np.float32), np.empty(0, np.float32)
    for alpha in np.geomspace(1e-9, 1e-2, 60):
        value, u = negative_eigenpair(A, *none, v, alpha, 2e-6)
        lowest, second = np.linalg.eigvalsh(subtracted(A.astype(float), v.astype(float), alpha))[:2]
        assert lowest - 1e-6 <= value <= 0.0
        assert value <= second + 5e-5
        if value < 0.0:
            assert np.linalg.norm(u) == pytest.approx(1.0, abs=1e-5)


def test_nothing_is_left_of_a_zero_matrix():
    v = np.array([3.0, 4.0])
    value, u = negative_eigenpair(np.zeros((2, 2)), np.empty((0, 2)), np.empty(0), v, 0.1, 1e-12)
    assert value == pytest.approx(-2.5)
    np.testing.assert_allclose(u, v / 5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 3, 64])
def test_a_product_reads_half_of_a_symmetric_matrix(rng, dtype, n):
    B, x = rng.normal(size=(n, n)).astype(dtype), rng.normal(size=n).astype(dtype)
    A, y = B + B.T, np.full(n, np.nan, dtype)
    expected = A @ x
    A[np.triu_indices(n, 1)] = np.nan
    symmetric_product(A.T.copy(), x, y)
    np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)
