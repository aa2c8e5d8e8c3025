"""Roots in one dimension."""

import math
import sys
from collections.abc import Callable

HALVINGS = 200  #: evaluations after which an interval of doubles cannot shrink any more


def decreasing_root(
    f: Callable[[float], tuple[float, float]], low: float, high: float, start: float, tol: float
) -> float:
    """X between low and high with |f(x)| ≤ tol, for a decreasing f with f(low) ≥ 0 ≥ f(high).

    `f` returns value and slope. Newton's steps, or halves where these hardly shrink the bracket.
    """
    x = start if low < start < high else 0.5 * (low + high)
    width = high - low
    for _ in range(HALVINGS):
        value, slope = f(x)
        if abs(value) <= tol:
            return x
        if value > 0.0:
            low = x
        else:
            high = x
        newton = x - value / slope if slope < 0.0 else math.nan
        slow = high - low > 0.5 * width
        width = high - low
        if low < newton < high and not (slow and abs(newton - x) > 0.5 * width):
            x = newton
        else:
            x = 0.5 * (low + high)
        if x in (low, high):
            break
    return x


def decreasing_bracket(
    f: Callable[[float], float], start: float, longest: float = math.inf
) -> tuple[float, float]:
    """(low, high), 0 ≤ low < high ≤ longest, around the root of a decreasing f with f(0) > 0.

    If f is still positive at `longest`, both are `longest`.
    """
    low, high = 0.0, min(max(start, sys.float_info.min), longest)
    while f(high) > 0.0:
        if high >= longest:
            return longest, longest
        low, high = high, min(2.0 * high, longest)
    return low, high
