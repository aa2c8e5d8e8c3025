import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg

from similia.linalg.eigen_update import orthogonality_defect, orthogonalize

SEED = st.integers(0, 2**32 - 1)


def worn(rng, n, size, kind):
    M = rng.normal(size=(2, n, n)) + 1j * rng.normal(size=(2, n, n))
    M = M if kind == "complex" else M.real
    return np.linalg.qr(M[0])[0] + size * M[1] / n


@given(SEED, st.integers(1, 30), st.sampled_from(["real", "complex"]), st.floats(-15, -2))
def test_the_nearest_orthonormal_rows_are_found(seed, n, kind, exponent):
    rows = worn(np.random.default_rng(seed), n, 10.0**exponent, kind)
    nearest, _ = linalg.polar(rows)
    orthogonalize(rows)
    np.testing.assert_allclose(rows, nearest, atol=1e-13 * n)
    assert np.abs(rows @ rows.conj().T - np.eye(n)).max() < 1e-14 * n


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_rows_that_are_far_off_become_orthonormal_too(rng, kind):
    rows = 3.0 * worn(rng, 9, 5.0, kind)
    first = rows[0] / np.linalg.norm(rows[0])
    assert orthogonalize(rows) > 0.5
    assert np.abs(rows @ rows.conj().T - np.eye(9)).max() < 1e-14
    np.testing.assert_allclose(rows[0], first, atol=1e-14)


@pytest.mark.parametrize("kind", ["real", "complex"])
def test_the_estimate_is_of_the_size_of_the_defect(rng, kind):
    for size in (1e-12, 1e-6, 1e-2):
        rows = worn(rng, 200, size, kind)
        true = np.linalg.norm(rows @ rows.conj().T - np.eye(200))
        assert orthogonality_defect(rows) == pytest.approx(true, rel=0.3)


def test_the_defect_of_orthonormal_rows_is_rounding(rng):
    assert orthogonality_defect(worn(rng, 100, 0.0, "real")) < 1e-13
