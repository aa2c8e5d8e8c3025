"""Margin losses F(yh) of a score h and a label y = ±1, for minimizing a risk.

They are *classification calibrated* [BelHajAli2013]: convex, differentiable, f = 1 + F' increasing
with f(-x) = 1 - f(x), the probability that a score stands for. F'' is largest at 0, F'(0) = -½.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array
from similia.linalg.compiled import compiled

LOGISTIC, HINGE, SQUARED = range(3)
VALUE, SLOPE, CURVATURE = range(3)


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
    """F'(x), never positive for the first two; 0, as it should be, if the exponential overflows."""
    if code == LOGISTIC:
        return -1.0 / (1.0 + np.exp(x))  # a mispredicted branch on x would cost as much as exp
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
def _fill(which, code, x, out):
    # By number: a function as an argument is another type in every process, and never cached.
    for i in range(len(x)):
        if which == VALUE:
            out[i] = loss_value(code, x[i])
        elif which == SLOPE:
            out[i] = loss_slope(code, x[i])
        else:
            out[i] = loss_curvature(code, x[i])


class Loss(NamedTuple):
    """A loss: its code for compiled functions, and F, F', F'' and f of arrays."""

    code: int

    def value(self, x: ArrayLike) -> Array:
        """F(x) of every entry."""
        return self._map(VALUE, x)

    def slope(self, x: ArrayLike) -> Array:
        """F'(x) of every entry."""
        return self._map(SLOPE, x)

    def curvature(self, x: ArrayLike) -> Array:
        """F''(x) of every entry."""
        return self._map(CURVATURE, x)

    def link(self, x: ArrayLike) -> Array:
        """Probability f(x) of every entry; the squared loss's ½(1 + x) is clipped to [0, 1]."""
        return np.clip(1.0 + self.slope(x), 0.0, 1.0)

    @property
    def steepest(self) -> float:
        """F''(0), the largest curvature."""
        return float(loss_curvature(self.code, 0.0))

    def _map(self, which: int, x: ArrayLike) -> Array:
        x = np.asarray(x, np.result_type(np.asarray(x).dtype, np.float32))
        out = np.empty(x.size, x.dtype)
        _fill(which, self.code, np.ascontiguousarray(x).reshape(-1), out)
        return out.reshape(x.shape)[()]


LOSSES = {"logistic": Loss(LOGISTIC), "hinge": Loss(HINGE), "squared": Loss(SQUARED)}
