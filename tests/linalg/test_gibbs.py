"""exp(G)/tr exp(G), and log tr exp along lines, against plain eigendecompositions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.gibbs import LOOK, GibbsState, divided_difference
from similia.linalg.threads import single_blas_thread
from tests.constraint_problems import SEEDS, hermitian
from tests.reference.definite_boost import density

KINDS = st.sampled_from(["real", "complex"])


@pytest.fixture(autouse=True)
def _one_thread():
    with single_blas_thread():
        yield


def vector(rng, d, kind):
    return rng.normal(size=d) + (1j * rng.normal(size=d) if kind == "complex" else 0.0)


@given(SEEDS, st.integers(1, 12), KINDS, st.sampled_from([0.0, 0.1, 3.0, 100.0]))
def test_changes_of_the_logarithm_give_the_density_of_the_changed_matrix(seed, d, kind, scale):
    rng = np.random.default_rng(seed)
    G = hermitian(rng, d, kind, scale)
    state = GibbsState(G)
    for _ in range(4):
        z, rho, C = vector(rng, d, kind), rng.normal(), hermitian(rng, d, kind)
        state.add_rank_one(z, rho)
        state.add_matrix(C, rho)
        state.add_identity(0.7)
        G = G + rho * np.outer(z, z.conj()) + rho * C + 0.7 * np.eye(d)
    W, log_trace = density(G)
    size = np.abs(G).max() + 1.0
    np.testing.assert_allclose(state.matrix(), W, atol=1e-12 * size)
    assert state.log_trace == pytest.approx(log_trace, abs=1e-12 * size)
    assert state.largest == pytest.approx(np.linalg.eigvalsh(G)[-1], abs=1e-12 * size)
    np.testing.assert_allclose(state.log_matrix(), G - log_trace * np.eye(d), atol=1e-11 * size)
    B = state.factor()
    np.testing.assert_allclose(B.T @ B.conj(), W, atol=1e-12 * size)


@given(SEEDS, st.integers(1, 9), KINDS, st.sampled_from([-3.0, -0.2, 0.0, 0.5, 2.0]))
def test_slope_and_curvature_are_those_of_the_value(seed, d, kind, t):
    rng = np.random.default_rng(seed)
    G, z = hermitian(rng, d, kind), vector(rng, d, kind)
    C, h = np.outer(z, z.conj()), 1e-4
    state = GibbsState(G)
    general = state.matrix_line(C)
    for line in (state.rank_one_line(z), general):
        value, slope, curvature = line(t)
        # The state is normalised, so values are those of G less its own.
        start = density(G)[1]
        values = [density(G + s * C)[1] - start for s in (t - h, t, t + h)]
        size = 1.0 + np.linalg.norm(z) ** 4
        assert value == pytest.approx(values[1], abs=1e-10)
        assert slope == pytest.approx((values[2] - values[0]) / (2 * h), abs=1e-6 * size)
        slopes = [general(s)[1] for s in (t - h, t + h)]
        assert curvature == pytest.approx((slopes[1] - slopes[0]) / (2 * h), abs=1e-6 * size)
        assert curvature >= -1e-12 * size


@given(st.floats(-40, 0), st.floats(0, 30))
def test_divided_differences_have_full_accuracy(g, gap):
    exact = np.exp(np.longdouble(g)) * (
        -np.expm1(-np.longdouble(gap)) / np.longdouble(gap) if gap > 0 else 1
    )
    h = g - gap
    gap = np.longdouble(g) - np.longdouble(h)  # as far apart as the rounded arguments are
    if gap > 0:
        exact = np.exp(np.longdouble(g)) * (-np.expm1(-gap) / gap)
    found = divided_difference(g, np.exp(g), h, np.exp(h))
    assert found == pytest.approx(float(exact), rel=1e-13)


def test_many_changes_leave_the_eigenvectors_orthogonal(rng):
    d = 8
    state, G = GibbsState(np.zeros((d, d))), np.zeros((d, d))
    for t in range(20 * LOOK):
        z = rng.normal(size=d)
        rho = 0.1 * (-1.0) ** t
        state.add_rank_one(z, rho)
        G += rho * np.outer(z, z)
    np.testing.assert_allclose(state.rows @ state.rows.T, np.eye(d), atol=1e-12)
    np.testing.assert_allclose(state.matrix(), density(G)[0], atol=1e-9)
