"""Search for the smallest θ for which some W of trace one has tr(W C_j) ≤ θ for all j.

For each θ the dual of (4.12) is ascended in all constraints at once (`distance.ascent`), from the
dual variables of the last θ, made longer or shorter to fit the new one. Every point α that is
looked at gives both ends of a bracket: max_j tr(W C_j) at its W is an upper bound, and with
p = α/Σα the smallest eigenvalue of Σ p_j C_j is a lower one, which costs nothing as the eigenvalues
of log W are known. θ is chosen anew, in the middle, when either end has passed it.
"""

from typing import Any

import numpy as np

from similia.constraints import Constraints
from similia.constraints.ascent import DualPoint, ascend
from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.linalg.roots import decreasing_bracket, decreasing_root
from similia.linalg.spectral import gibbs_weights

#: share of the bracket by which its ends must be cut before θ is chosen anew
CUT = 0.4
#: factors by which dual variables may grow at once when they are fitted to a new θ
GROWTH = 64.0


class ThetaSearch:
    """The bracket of the smallest θ, with what proves its ends, and the search that closes it."""

    #: times that an oracle was asked
    n_queries = 0

    def __init__(
        self, constraints: Constraints, tol: float, spread: Any, max_iter: int, advance: Any
    ) -> None:
        self.constraints, self.max_iter, self.advance = constraints, max_iter, advance
        d = constraints.n_features
        # log I rather than log I/d: that is the same problem, and G then belongs to α alone.
        self.log_start = np.zeros((d, d), dtype=constraints.dtype)
        self.history: list[tuple[float, float]] = []
        self.n_thetas = 0
        self.weights = self._first_weights()
        self.lower = lowest_value(constraints, self.weights)
        self.state = GibbsState(self.log_start)
        self.upper = self._first_upper()
        width = self.upper - self.lower
        self.spread = width if isinstance(spread, str) else float(spread)
        self.goal = tol * self.spread if width < np.inf else 0.0
        self.alpha = self.weights * (np.log(d) / width if width > 0.0 and d > 1 else 1.0)

    def _first_weights(self) -> Array:
        return np.full(len(self.constraints), 1.0 / len(self.constraints))

    def _first_upper(self) -> float:
        return float(self.constraints.state_values(self.state).max())

    def run(self) -> str:
        """Choose θ, look for a W, choose anew; give the status."""
        while not self.closed():
            if len(self.history) >= self.max_iter:
                return "max_iter"
            before = self.upper - self.lower
            theta = 0.5 * (self.lower + self.upper)
            self.n_thetas += 1
            cut = self.look_at(theta, CUT * before)
            grown = self.grow(theta)
            if not (cut or grown or self.upper - self.lower < before):
                return "stalled"
        return "solved"

    def closed(self) -> bool:
        """Say whether the bracket is as narrow as asked for."""
        return self.upper - self.lower <= self.goal

    def look_at(self, theta: float, cut: float) -> bool:
        """Ascend the dual at θ until the bracket is cut; say whether it was."""
        lowest, highest = self.lower + cut, self.upper - cut
        cuts: list[bool] = []

        def enough(point: DualPoint) -> bool:
            self.note(point, theta, highest)
            if self.closed() or self.lower >= lowest or self.upper <= highest:
                cuts.append(True)
            return bool(cuts) or self.interrupted() or len(self.history) >= self.max_iter

        constraints = self.constraints.shifted(theta)
        first = self.fitted(theta)
        best = ascend(constraints, self.log_start, first, enough, self.max_iter)
        self.alpha = best.alpha
        return bool(cuts)

    def note(self, point: DualPoint, theta: float, highest: float) -> None:
        """Take from a point at θ what it proves."""
        upper = self.proven(point, float(point.values.max()) + theta, theta, highest)
        if upper < self.upper:
            self.upper, self.state = upper, point.state
        total = point.alpha.sum()
        if total > 0.0:
            lower = theta - point.state.largest / total
            if lower > self.lower:
                self.lower, self.weights = lower, point.alpha / total
        self.history.append((self.lower, self.upper))
        self.advance(1)

    def largest_value(self, W: Array) -> float:
        """Give max_j tr(W C_j) for the W of the upper end."""
        return float(self.constraints.values(W).max())

    # What a search over constraints that are not all known does otherwise:

    def proven(self, point: DualPoint, largest: float, theta: float, highest: float) -> float:
        """Give the upper end that a point proves, where `largest` is that of the values looked at.

        One above `highest` would not be the end of the ascent at θ.
        """
        return largest

    def interrupted(self) -> bool:
        """Say whether the ascent must end and begin anew."""
        return False

    def grow(self, theta: float) -> bool:
        """Take in constraints that have become known in the ascent at θ; say whether there are."""
        return False

    def fitted(self, theta: float) -> Array:
        """Give the multiple of α at which the dual for θ is largest: a problem in one number."""
        total = self.alpha.sum()
        G = -self.constraints.combination(self.alpha)
        g = np.linalg.eigvalsh(G) + theta * total

        def slope(t: float) -> tuple[float, float]:
            w = gibbs_weights(t * g)
            mean = float(w @ g)
            return -mean, -(float(w @ (g - mean) ** 2))

        if slope(1.0 / GROWTH)[0] <= 0.0:
            return self.alpha
        low, high = decreasing_bracket(lambda t: slope(t)[0], 1.0, GROWTH)
        t = low if low == high else decreasing_root(slope, low, high, 1.0, 1e-3 * abs(slope(0)[0]))
        return t * self.alpha


def lowest_value(constraints: Constraints, weights: Array) -> float:
    """Give the smallest eigenvalue of Σ weights_j C_j: no θ is below, if they have sum one."""
    if not len(weights):
        return -np.inf
    return float(np.linalg.eigvalsh(constraints.combination(weights))[0])
