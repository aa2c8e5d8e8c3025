"""The losses against finite differences of their values, and the conditions of calibration."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.losses import LOSSES

margins = st.floats(-30.0, 30.0)


@pytest.fixture(params=LOSSES)
def loss(request):
    return LOSSES[request.param]


@pytest.mark.parametrize("name", LOSSES)
@given(x=margins)
def test_slope_is_the_difference_quotient_of_the_value(name, x):
    loss, h = LOSSES[name], 1e-5
    quotient = (loss.value(x + h) - loss.value(x - h)) / (2 * h)
    assert loss.slope(x) == pytest.approx(quotient, abs=1e-5)


@pytest.mark.parametrize("name", LOSSES)
@given(x=margins)
def test_curvature_is_the_second_difference_quotient_of_the_value(name, x):
    loss, h = LOSSES[name], 1e-3
    quotient = (loss.value(x + h) - 2 * loss.value(x) + loss.value(x - h)) / h**2
    assert loss.curvature(x) == pytest.approx(quotient, abs=1e-3)


@pytest.mark.parametrize("name", LOSSES)
@given(x=margins, z=margins, share=st.floats(0.0, 1.0))
def test_losses_are_convex(name, x, z, share):
    value = LOSSES[name].value
    between = value(share * x + (1 - share) * z)
    assert between <= share * value(x) + (1 - share) * value(z) + 1e-9


@pytest.mark.parametrize("name", LOSSES)
@given(x=margins)
def test_link_is_symmetric_and_increasing(name, x):
    link = LOSSES[name].link
    assert link(-x) == pytest.approx(1.0 - link(x), abs=1e-12)
    assert 0.0 <= link(x) <= link(x + 0.5) <= 1.0


def test_slope_at_zero_is_minus_a_half(loss):
    assert loss.slope(0.0) == -0.5
    assert loss.link(0.0) == 0.5


def test_both_sides_of_zero_agree(loss):
    for function in (loss.value, loss.slope, loss.curvature):
        assert function(1e-12) == pytest.approx(function(-1e-12), abs=1e-11)


@pytest.mark.parametrize("name", LOSSES)
@given(x=margins)
def test_curvature_is_largest_at_zero(name, x):
    assert 0.0 <= LOSSES[name].curvature(x) <= LOSSES[name].steepest


def test_known_curvatures_at_zero():
    assert [LOSSES[name].steepest for name in ("logistic", "hinge", "squared")] == [0.25, 0.25, 0.5]


def test_huge_margins_neither_overflow_nor_lose_the_slope(loss):
    x = np.array([-1e6, 1e6])
    assert np.isfinite(loss.value(x)).all()
    if loss is not LOSSES["squared"]:
        np.testing.assert_allclose(loss.slope(x), [-1.0, 0.0], atol=1e-5)
    np.testing.assert_allclose(loss.link(x), [0.0, 1.0], atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_keep_shape_and_dtype(loss, dtype):
    x = np.linspace(-2, 2, 6).astype(dtype).reshape(2, 3)
    for function in (loss.value, loss.slope, loss.curvature, loss.link):
        assert function(x).shape == (2, 3)
        assert function(x).dtype == dtype
        np.testing.assert_allclose(
            function(x), [[function(float(v)) for v in row] for row in x], rtol=1e-5, atol=1e-6
        )
