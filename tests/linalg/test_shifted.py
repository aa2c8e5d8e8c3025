import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.lanczos import negative_eigenpair, shifted_eigenpair
from tests.linalg.test_lanczos import subtracted, subtractions

EPS = np.finfo(np.float64).eps


@given(subtractions(), st.sampled_from([1e-12, 1e-6, 1.0]))
def test_the_pair_is_that_of_a_full_decomposition_from_any_start(problem, start):
    A, _, _, v, alpha = problem
    if not v.any():
        return
    M = subtracted(A, v, alpha)
    values = np.linalg.eigvalsh(M)
    size = np.abs(values).max() + np.trace(A)
    drop, zero = alpha * (v @ v), 4.0 * EPS * size
    value, u = shifted_eigenpair(A, v / np.linalg.norm(v), drop, -start * size, zero, 1e-12 * size)
    if value == 1.0:  # rounding made A indefinite by more than λ: Lanczos goes on
        assert values[0] >= -1e-11 * size
    elif value < 0.0:
        assert value == pytest.approx(values[0], abs=1e-11 * size)
        assert np.linalg.norm(u) == pytest.approx(1.0, abs=1e-12)
        assert np.linalg.norm(M @ u - value * u) <= 1e-10 * size
    else:
        assert values[0] >= -1e-11 * size


def test_only_the_upper_half_is_read(rng):
    B = rng.normal(size=(3, 9))
    v = rng.normal(size=9)
    v /= np.linalg.norm(v)
    whole = shifted_eigenpair(B.T @ B, v, 0.7, -0.1, 1e-15, 1e-12)
    half = shifted_eigenpair(np.triu(B.T @ B), v, 0.7, -0.1, 1e-15, 1e-12)
    assert whole[0] < 0.0
    assert half[0] == whole[0]
    np.testing.assert_array_equal(half[1], whole[1])


def test_a_matrix_that_is_not_semidefinite_is_told_apart():
    value, _ = shifted_eigenpair(-np.eye(4), np.eye(4)[0], 1.0, -0.1, 1e-15, 1e-12)
    assert value == 1.0


@pytest.mark.parametrize("n", [40, 300])
def test_both_ways_agree_in_the_update(rng, n):
    """Up to 320 dimensions POLA factors after some products; beyond, it goes on with Lanczos."""
    B = rng.normal(size=(n, n)) * np.logspace(-5, 0, n)
    A, v = B @ B.T, rng.normal(size=n)
    padded = np.zeros((400, 400))  # the same problem, too large for factors
    padded[:n, :n] = A
    none = np.empty((0, n)), np.empty(0)
    small, u = negative_eigenpair(A, *none, v, 1e-3, 1e-12)
    large, w = negative_eigenpair(
        padded, np.empty((0, 400)), np.empty(0), np.r_[v, np.zeros(400 - n)], 1e-3, 1e-12
    )
    assert small < 0.0
    assert small == pytest.approx(large, rel=1e-9)
    assert abs(u @ w[:n]) == pytest.approx(1.0, abs=1e-8)
