"""The search for the smallest θ over constraints that only an oracle knows.

Those that it has named are a smaller problem, whose θ is not above that of all: its lower ends hold
for all. Its upper ends do not, so the oracle is asked at a W that seems good enough. The value of
what it names there, the worst of all, is an upper end that is proven. If that is not good enough,
the smaller problem has got a constraint more, and the search goes on from where it stands.
"""

from typing import Any, NoReturn

import numpy as np

from similia.constraints import ConstraintOracle
from similia.constraints.ascent import DualPoint
from similia.constraints.theta_search import ThetaSearch
from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.updates.definite_boost import approximate_step

#: share of the size of constraints by which two ways to compute their values may differ
ROUNDING = 1e-8


class OracleSearch(ThetaSearch):
    """A search over the constraints that an oracle has named, which grow while it lasts."""

    constraints: Any

    def __init__(
        self, oracle: ConstraintOracle, tol: float, spread: Any, max_iter: int, advance: Any
    ) -> None:
        self.oracle, self.n_queries = oracle, 0
        #: whether the oracle has said that no constraint is violated: θ ≤ 0, and it knows no more
        self.met = False
        d = oracle.n_features
        center = GibbsState(np.zeros((d, d), dtype=oracle.dtype))
        self._at_center = self._ask(center, oracle.state_values(center))
        super().__init__(oracle.named(), tol, spread, max_iter, advance)

    def _first_weights(self) -> Array:
        """All on the constraint that is the worst at I/d."""
        weights = np.zeros(len(self.oracle))
        if len(weights):
            center = np.eye(self.oracle.n_features) / self.oracle.n_features
            weights[self.oracle.values(center).argmax()] = 1.0
        return weights

    def _first_upper(self) -> float:
        return self._at_center

    def run(self) -> str:
        """Choose θ, look for a W, choose anew; give the status."""
        status = super().run()
        return "met" if self.met and self.upper - self.lower > self.goal else status

    def closed(self) -> bool:
        """Say whether the bracket is as narrow as asked for, or as the oracle can make it."""
        return self.met or super().closed()

    def largest_value(self, W: Array) -> float:
        """Give max_j tr(W C_j) for the W of the upper end, which the oracle has proven."""
        known = self.oracle.values(W)
        worst = float(known.max(initial=-np.inf))
        if worst > self.upper + self._rounding():
            key = self.oracle.keys[int(known.argmax())]
            self._refuse("another one", self.upper, key, worst)
        return max(worst, self.upper) if self.met else worst

    def proven(self, point: DualPoint, largest: float, theta: float, highest: float) -> float:
        """Give the upper end that a point proves; infinity where asking does not seem worth it."""
        if largest > max(highest, self.lower + self.goal):
            return np.inf
        return self._ask(point.state, point.values + theta)

    def interrupted(self) -> bool:
        """Say whether there are constraints that the ascent does not know of."""
        return len(self.oracle) > len(self.constraints)

    def grow(self, theta: float) -> bool:
        """Take in the constraints that were named during an ascent, which ended where that was."""
        known = len(self.constraints)
        if len(self.oracle) == known:
            return False
        self.constraints = self.oracle.named()
        state = GibbsState(-self.constraints.combination(_padded(self.alpha, len(self.oracle))))
        values = self.constraints.state_values(state, slice(known, None)) - theta
        low, high = (bound[known:] - theta for bound in self.constraints.bounds())
        self.weights, self.alpha = (
            _padded(array, len(self.oracle)) for array in (self.weights, self.alpha)
        )
        best = int(low.argmax())
        if low[best] + theta > self.lower:
            self.lower = float(low[best]) + theta
            self.weights = np.zeros(len(self.oracle))
            self.weights[known + best] = 1.0
        can = (values > 0.0) & (low < 0.0) & (values < high)
        self.alpha[known:][can] = approximate_step(values[can], low[can], high[can])
        return True

    def _ask(self, state: GibbsState, known: Array) -> float:
        """Give max_j tr(W C_j) over all constraints, by the one that the oracle names."""
        j = self.oracle.search(state.matrix())
        self.n_queries += 1
        if j is None:
            self.met, named = True, 0.0
        else:
            named = float(known[j] if j < len(known) else self.oracle.state_values(state, [j])[0])
        worst = float(known.max(initial=-np.inf))
        if worst > named + self._rounding():
            what = "None" if j is None else repr(self.oracle.keys[j])
            self._refuse(what, named, self.oracle.keys[int(known.argmax())], worst)
        return max(worst, named)

    def _rounding(self) -> float:
        sizes = (np.abs(bound).max(initial=0.0) for bound in self.oracle.bounds())
        return ROUNDING * float(max(sizes))

    def _refuse(self, what: str, named: float, key: Any, worst: float) -> NoReturn:
        raise ValueError(
            "minimize_max_constraint: find must name the constraint with the largest tr(WC), "
            f"got {what:.60}, with {named:.6g}, where {key!r:.60} has {worst:.6g}."
        )


def _padded(array: Array, n: int) -> Array:
    return np.concatenate([array, np.zeros(n - len(array))])
