"""The dual of the projection problem ascended in all constraints at once.

Where there are more constraints than features, screening them costs more than a step along one. So
each screening is used in full: as the gradient of the dual, for a quasi-Newton step under α ≥ 0.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

import numpy as np
from scipy.optimize import Bounds, minimize

from similia.constraints import Constraints
from similia.contract import Array
from similia.linalg.gibbs import GibbsState

#: pairs of steps and changes of the gradient that the quasi-Newton method remembers
MEMORY = 10
#: tries to find a better point on one line
LINE = 40


class DualPoint(NamedTuple):
    """α with the W that belongs to it, and the values of all constraints there."""

    alpha: Array
    state: GibbsState
    values: Array

    @property
    def dual(self) -> float:
        """h(α) = -log tr exp(log W₀ - Σ α_j C_j)."""
        return -self.state.log_trace


class _Enough(Exception):
    pass


def dual_point(constraints: Constraints, log_start: Array, alpha: Array) -> DualPoint:
    """Give W and all values at α: one eigendecomposition and one screening."""
    state = GibbsState(log_start - constraints.combination(alpha))
    return DualPoint(alpha, state, constraints.state_values(state))


def ascend(
    constraints: Constraints,
    log_start: Array,
    alpha: Array,
    enough: Callable[[DualPoint], bool],
    max_points: int,
    cap: float = np.inf,
) -> DualPoint:
    """Maximise h over 0 ≤ α ≤ cap by L-BFGS-B from `alpha`; give the best point seen.

    `enough` is shown every point that is looked at; the search ends where it says so, after
    `max_points` of them, or where no better one can be found.
    """
    low, high = constraints.bounds()
    # In these units a step of length one changes log W by the order of one.
    unit = 1.0 / max(float(np.max(np.maximum(np.abs(low), np.abs(high)))), np.finfo(float).tiny)
    longest = cap / unit
    best: list[DualPoint] = []

    def negative_dual(x: Array) -> tuple[float, Array]:
        # At its cap α is exactly that, so that one can tell.
        alpha = np.where(x >= longest, cap, np.maximum(x, 0.0) * unit)
        point = dual_point(constraints, log_start, alpha)
        if not best or point.dual >= best[0].dual:
            best[:] = [point]
        if enough(point):
            best[:] = [point]
            raise _Enough
        return -point.dual, -unit * point.values

    options = {
        "maxcor": MEMORY, "maxls": LINE, "maxfun": max_points, "maxiter": max_points,
        "ftol": 0.0, "gtol": 0.0,
    }  # fmt: skip
    how = {"jac": True, "method": "L-BFGS-B", "bounds": Bounds(0.0, longest), "options": options}
    with suppress(_Enough):
        minimize(negative_dual, alpha / unit, **how)
    return best[0]
