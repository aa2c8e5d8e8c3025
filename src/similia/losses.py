"""Margin losses F(yh) of a score h and a label y = ±1, for minimising a risk.

They are *classification calibrated* in the sense of [BelHajAli2013]: convex, differentiable, and
F(x) = -x + ∫f with f increasing and f(-x) = 1 - f(x). So F'(0) = -½, and f = 1 + F' turns a score
into the probability of the class. Their curvature is largest at 0, which bounds steps.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from similia.linalg.compiled import compiled

LOGISTIC, HINGE, SQUARED = range(3)


@compiled
def loss_value(code, x):
    """F(x): logistic ln(1 + e⁻ˣ); calibrated hinge max(0, -x) - ln(2 + |x|); squared ¼(1 - x)²."""
    if code == LOGISTIC:
        return max(-x, 0.0) + np.log1p(np.exp(-abs(x)))
    if code == HINGE:
        return max(-x, 0.0) - np.log(2.0 + abs(x))
    return 0.25 * (1.0 - x) ** 2


@compiled
def loss_slope(code, x):
    """F'(x), never positive for the first two.

    Without a branch on the sign of x, which no processor can foresee: a wrong guess costs as much
    as the exponential. Where that overflows, the slope is 0, as it should be.
    """
    if code == LOGISTIC:
        return -1.0 / (1.0 + np.exp(x))
    if code == HINGE:
        return np.copysign(0.5 - 1.0 / (2.0 + abs(x)), x) - 0.5
    return 0.5 * (x - 1.0)


@compiled
def loss_curvature(code, x):
    """F''(x), at most F''(0)."""
    if code == LOGISTIC:
        e = np.exp(-abs(x))
        return min(e / (1.0 + e) ** 2, 0.25)  # near 0 rounding would lift it above the bound
    if code == HINGE:
        return 1.0 / (2.0 + abs(x)) ** 2
    return 0.5


@compiled
def loss_link(code, x):
    """f(x) = 1 + F'(x), between 0 and 1: the probability that a score x stands for.

    The squared loss has f = ½(1 + x), which leaves that range with |x| > 1 and is cut there.
    """
    return min(max(1.0 + loss_slope(code, x), 0.0), 1.0)


@compiled
def _mapped(function, code, x, out):
    for i in range(len(x)):
        out[i] = function(code, x[i])


class Loss(NamedTuple):
    """A loss: its number for compiled code, and F, F', F'' and f of arrays."""

    code: int

    def value(self, x: Any) -> Any:
        """F(x) of every entry."""
        return self._map(loss_value, x)

    def slope(self, x: Any) -> Any:
        """F'(x) of every entry."""
        return self._map(loss_slope, x)

    def curvature(self, x: Any) -> Any:
        """F''(x) of every entry."""
        return self._map(loss_curvature, x)

    def link(self, x: Any) -> Any:
        """Probability f(x) of every entry."""
        return self._map(loss_link, x)

    @property
    def steepest(self) -> float:
        """F''(0), the largest curvature."""
        return float(loss_curvature(self.code, 0.0))

    def _map(self, function: Callable[..., Any], x: Any) -> Any:
        x = np.asarray(x)
        x = x.astype(np.result_type(x.dtype, np.float32), copy=False)
        out = np.empty(x.size, x.dtype)
        _mapped(function, self.code, np.ascontiguousarray(x).reshape(-1), out)
        return out.reshape(x.shape)[()]


LOSSES = {"logistic": Loss(LOGISTIC), "hinge": Loss(HINGE), "squared": Loss(SQUARED)}
