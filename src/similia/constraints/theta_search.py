"""Search for the smallest θ for which some W of trace one has tr(W C_j) ≤ θ for all j.

For each θ the dual of (4.12) is ascended in all variables (`constraints.dual`), from the dual
variables of the last θ, rescaled to fit the new one. Every point α on the way proves both ends of a
bracket: max_j tr(W C_j) at its W is an upper bound, and with p = α/Σα the smallest eigenvalue of
Σ p_j C_j is a lower one, which is free as the eigenvalues of log W are known. When either end has
moved far enough, θ is chosen again, in the middle.

An oracle's constraints are searched among those it has named, a smaller problem whose lower ends
hold for all. Its upper ends do not, so the oracle is asked at any W that seems good enough. The
value of the constraint it names there, the worst of all, is a proven upper end; if that is not good
enough, the smaller problem has gained a constraint.
"""

from typing import NoReturn

import numpy as np

from similia.constraints.base import Constraints
from similia.constraints.dual import DualPoint, ascend
from similia.constraints.oracle import ConstraintOracle
from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.linalg.roots import decreasing_bracket, decreasing_root
from similia.linalg.spectral import gibbs_weights
from similia.progress import Advance
from similia.updates.definite_boost import approximate_step

#: share of the bracket to cut off before θ is chosen again
CUT = 0.4
#: largest factor of the dual variables when they are fitted to a new θ
GROWTH = 64.0
#: difference between two computations of a value, relative to the size of the constraints
ROUNDING = 1e-8


class Source:
    """Constraints that are all known: a finite set to search among, and proofs for all of them."""

    #: questions asked of an oracle
    n_queries = 0
    #: whether an oracle has said that no constraint is violated: θ ≤ 0, and it knows no more
    met = False

    def __init__(self, constraints: Constraints) -> None:
        self.constraints = constraints

    def first(self, center: GibbsState) -> tuple[Array, float]:
        """Weights that prove a first lower end, and the upper end that W = I/d proves."""
        n = len(self.constraints)
        return np.full(n, 1.0 / n), float(self.constraints.state_values(center).max())

    def upper_end(self, point: DualPoint, theta: float, wanted: float) -> float:
        """Upper end that a point at θ proves; may be infinite if it is not below `wanted`."""
        return float(point.values.max()) + theta

    def largest(self, W: Array, upper: float) -> float:
        """max_j tr(W C_j) over all constraints, for the W that proved `upper`."""
        return float(self.constraints.values(W).max())

    def has_more(self) -> bool:
        """Whether constraints have become known that `constraints` lacks."""
        return False

    def take_in(self) -> None:
        """Add those to `constraints`."""


class NamedSource(Source):
    """Constraints that an oracle has named so far; it is asked for proofs and for more."""

    def __init__(self, oracle: ConstraintOracle) -> None:
        super().__init__(oracle.named())
        self.oracle = oracle

    def first(self, center: GibbsState) -> tuple[Array, float]:
        """All weight on the constraint that is worst at I/d, and its value."""
        upper = self._ask(center, self.oracle.state_values(center))
        self.take_in()
        weights = np.zeros(len(self.oracle))
        if len(weights):
            weights[self.oracle.state_values(center).argmax()] = 1.0
        return weights, upper

    def upper_end(self, point: DualPoint, theta: float, wanted: float) -> float:
        """The value of the constraint named at a point that seems good enough."""
        values = point.values + theta
        return np.inf if values.max() > wanted else self._ask(point.state, values)

    def largest(self, W: Array, upper: float) -> float:
        """The largest value at W of the constraints named, which the oracle has vouched for."""
        known = self.oracle.values(W)
        worst = float(known.max(initial=-np.inf))
        if worst > upper + self._rounding():
            self._refuse("another one", upper, known)
        return max(worst, upper) if self.met else worst

    def has_more(self) -> bool:
        """Whether the oracle has named constraints that are not searched yet."""
        return len(self.oracle) > len(self.constraints)

    def take_in(self) -> None:
        """Search among all constraints named so far."""
        self.constraints = self.oracle.named()

    def _ask(self, state: GibbsState, known: Array) -> float:
        """max_j tr(W C_j) over all constraints, from the one that the oracle names."""
        j = self.oracle.search(state.matrix())
        self.n_queries += 1
        if j is None:
            self.met, named = True, 0.0
        else:
            named = float(known[j] if j < len(known) else self.oracle.state_values(state, [j])[0])
        worst = float(known.max(initial=-np.inf))
        if worst > named + self._rounding():
            self._refuse("None" if j is None else repr(self.oracle.keys[j]), named, known)
        return max(worst, named)

    def _rounding(self) -> float:
        sizes = (np.abs(bound).max(initial=0.0) for bound in self.oracle.bounds())
        return ROUNDING * float(max(sizes))

    def _refuse(self, what: str, value: float, known: Array) -> NoReturn:
        key = self.oracle.keys[int(known.argmax())]
        raise ValueError(
            "minimize_max_constraint: find must name the constraint with the largest tr(WC), "
            f"got {what:.60}, with {value:.6g}, where {key!r:.60} has {known.max():.6g}."
        )


class ThetaSearch:
    """The bracket of the smallest θ, what proves its ends, and the search that closes it."""

    def __init__(
        self, source: Source, tol: float, spread: float | str, max_iter: int, advance: Advance
    ) -> None:
        self.source, self.max_iter, self.advance = source, max_iter, advance
        d = source.constraints.n_features
        # log I instead of log I/d: the same problem, and G then belongs to α alone.
        self.log_start = np.zeros((d, d), dtype=source.constraints.dtype)
        self.history: list[tuple[float, float]] = []
        self.n_thetas = 0
        self.state = GibbsState(self.log_start)
        self.weights, self.upper = source.first(self.state)
        self.lower = lowest_value(source.constraints, self.weights)
        width = self.upper - self.lower
        self.spread = width if isinstance(spread, str) else float(spread)
        self.goal = tol * self.spread if width < np.inf else 0.0
        self.alpha = self.weights * (np.log(d) / width if width > 0.0 and d > 1 else 1.0)

    def run(self) -> str:
        """Close the bracket; return the status."""
        while self.upper - self.lower > self.goal:
            if self.source.met:
                return "met"
            if len(self.history) >= self.max_iter:
                return "max_iter"
            before = self.upper - self.lower
            theta = 0.5 * (self.lower + self.upper)
            self.n_thetas += 1
            cut = self._look_at(theta, CUT * before)
            grown = self._grow(theta)
            if not (cut or grown or self.upper - self.lower < before):
                return "stalled"
        return "solved"

    def _look_at(self, theta: float, cut: float) -> bool:
        """Ascend the dual at θ until the bracket is cut; return whether it was."""
        lowest, highest = self.lower + cut, self.upper - cut
        done = False

        def enough(point: DualPoint) -> bool:
            nonlocal done
            self._note(point, theta, max(highest, self.lower + self.goal))
            done = (
                self.source.met
                or self.upper - self.lower <= self.goal
                or self.lower >= lowest
                or self.upper <= highest
            )
            return done or self.source.has_more() or len(self.history) >= self.max_iter

        constraints = self.source.constraints.shifted(theta)
        self.alpha = ascend(constraints, self.log_start, self._fitted(theta), enough).alpha
        return done

    def _note(self, point: DualPoint, theta: float, wanted: float) -> None:
        """Move the ends to what a point at θ proves."""
        upper = self.source.upper_end(point, theta, wanted)
        if upper < self.upper:
            self.upper, self.state = upper, point.state
        total = point.alpha.sum()
        if total > 0.0:
            lower = theta - point.state.largest / total
            if lower > self.lower:
                self.lower, self.weights = lower, point.alpha / total
        self.history.append((self.lower, self.upper))
        self.advance(1)

    def _grow(self, theta: float) -> bool:
        """Take in constraints named during the ascent at θ; return whether there were any."""
        if not self.source.has_more():
            return False
        known = len(self.source.constraints)
        self.source.take_in()
        constraints = self.source.constraints
        new = np.zeros(len(constraints) - known)
        self.weights, self.alpha = np.append(self.weights, new), np.append(self.alpha, new)
        state = GibbsState(-constraints.combination(self.alpha))
        values = constraints.state_values(state, slice(known, None)) - theta
        low, high = (bound[known:] - theta for bound in constraints.bounds())
        best = int(low.argmax())
        if low[best] + theta > self.lower:
            self.lower = float(low[best]) + theta
            self.weights = np.zeros(len(constraints))
            self.weights[known + best] = 1.0
        can = (values > 0.0) & (low < 0.0) & (values < high)
        self.alpha[known:][can] = approximate_step(values[can], low[can], high[can])
        return True

    def _fitted(self, theta: float) -> Array:
        """The multiple of α that maximizes the dual for θ: a problem in one number."""
        total = self.alpha.sum()
        G = -self.source.constraints.combination(self.alpha)
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
    """Smallest eigenvalue of Σ weights_j C_j; no θ is below it if the weights have sum one."""
    if not len(weights):
        return -np.inf
    return float(np.linalg.eigvalsh(constraints.combination(weights))[0])
