import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.roots import decreasing_bracket, decreasing_root

FUNCTIONS = {
    "line": (lambda x: 1.0 - x, lambda x: -1.0, 1.0),
    "flat then steep": (lambda x: 1.0 - x**9, lambda x: -9.0 * x**8, 1.0),
    "steep then flat": (lambda x: np.exp(-30.0 * x) - 1e-6, lambda x: -30.0 * np.exp(-30.0 * x),
                        np.log(1e6) / 30.0),
    "slope unknown": (lambda x: 2.0 - x**3, lambda x: 0.0, 2.0 ** (1 / 3)),
    "slope wrong": (lambda x: 2.0 - x**3, lambda x: -1e-3, 2.0 ** (1 / 3)),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
@given(start=st.floats(-1.0, 6.0), high=st.floats(1.5, 5.0))
def test_the_root_is_found_whatever_the_start_and_the_slope(name, start, high):
    f, slope, root = FUNCTIONS[name]
    x = decreasing_root(lambda x: (f(x), slope(x)), 0.0, high, start, 1e-14)
    assert x == pytest.approx(root, abs=1e-7)


def test_newton_needs_few_evaluations():
    calls = []

    def f(x):
        calls.append(x)
        return 1.0 - np.expm1(x), -np.exp(x)

    assert decreasing_root(f, 0.0, 10.0, 0.5, 1e-14) == pytest.approx(np.log(2.0), abs=1e-14)
    assert len(calls) < 10


def test_a_bracket_doubles_until_the_sign_turns_or_the_end_is_reached():
    def f(x):
        return 5.0 - x

    assert decreasing_bracket(f, 1.0) == (4.0, 8.0)
    assert decreasing_bracket(f, 1.0, 6.0) == (4.0, 6.0)
    assert decreasing_bracket(f, 1.0, 3.0) == (3.0, 3.0)
    assert decreasing_bracket(f, 7.0) == (0.0, 7.0)
    low, high = decreasing_bracket(f, 0.0)
    assert low < 5.0 <= high
