"""Margin losses F(yh) of a score h and a label y = ±1, for minimizing a risk.

They are *classification calibrated* [BelHajAli2013]: convex, differentiable, f = 1 + F' increasing
with f(-x) = 1 - f(x), the probability that a score stands for. F'' is largest at 0, F'(0) = -½.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array
from similia.loss_functions import (
    CURVATURE,
    HINGE,
    LOGISTIC,
    SLOPE,
    SQUARED,
    VALUE,
    fill_losses,
)

__all__ = ["LOSSES", "Loss"]


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
        return float(self.curvature(0.0))

    def _map(self, which: int, x: ArrayLike) -> Array:
        x = np.asarray(x, np.result_type(np.asarray(x).dtype, np.float32))
        out = np.empty(x.size, x.dtype)
        fill_losses(which, self.code, np.ascontiguousarray(x).reshape(-1), out)
        return out.reshape(x.shape)[()]


LOSSES = {"logistic": Loss(LOGISTIC), "hinge": Loss(HINGE), "squared": Loss(SQUARED)}
