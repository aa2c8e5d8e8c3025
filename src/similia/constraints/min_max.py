"""The trace-one semidefinite program: the W whose worst constraint is as good as possible.

The search is for the smallest θ for which some W of trace one has tr(W C_j) ≤ θ for all j. For each
θ the dual of (4.12) is ascended in all variables, from the dual variables of the last θ, rescaled.
Every point α on the way proves both ends of a bracket: max_j tr(W C_j) at its W is an upper bound;
the smallest eigenvalue of Σ p_j C_j, p = α/Σα, is a lower one, free as those of log W are known.

An oracle's constraints are searched among those it has named, whose lower ends hold for all. Upper
ends do not, so the oracle is asked at any W that seems good enough: the value of the constraint it
names, the worst of all, is proven; if it is not good enough, the search has gained a constraint.
"""

import warnings
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from similia.constraints.base import Constraints
from similia.constraints.dual import DualPoint, ascend, dual_point
from similia.constraints.oracle import ConstraintOracle
from similia.constraints.sets import GivenConstraints, as_constraints
from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.linalg.roots import decreasing_bracket, decreasing_root
from similia.linalg.spectral import gibbs_weights, hermitian_part
from similia.linalg.threads import single_blas_thread
from similia.progress import Advance, progress
from similia.safety.bounds import check_room
from similia.updates.definite_boost import approximate_step
from similia.validation import boolean, check_parameters, one_of, positive, positive_integer

#: share of the bracket to cut off before θ is chosen again
BRACKET_CUT = 0.4
#: largest factor of the dual variables when they are fitted to a new θ
MAX_ALPHA_GROWTH = 64.0
#: questions to an oracle between two ascents
QUESTIONS_PER_ASCENT = 12
#: difference between two computations of a value, relative to the size of the constraints
VALUE_ROUNDING = 1e-8
MIN_MAX_RULES = {"tol": positive, "spread": one_of("auto") | positive,
         "max_iter": positive_integer, "verbose": boolean}  # fmt: skip


@dataclass(frozen=True)
class MinMaxResult:
    """Result of `minimize_max_constraint`.

    Attributes
    ----------
    W : array of shape (n_features, n_features)
    value, lower : float
        max_j tr(W C_j) and the smallest eigenvalue of Σ weights_j C_j, which bracket the least θ.
    weights : array of shape (n_constraints,)
        The dual solution: non-negative, with sum one; for an oracle, in the order of its `keys`.
    spread : float, unit of the requested accuracy
    n_iter, n_thetas, n_queries : int
        Screenings, each with an eigendecomposition; values of θ tried; questions to an oracle.
    status : {"solved", "max_iter", "stalled", "met"}
        "stalled": rounding allows no better point. "met": an oracle named no constraint at W, which
        says that none is violated, so `value` is 0; it cannot tell more.
    history : array of shape (n_iter, 2), the bracket after each screening
    """

    W: Array
    value: float
    lower: float
    weights: Array
    spread: float
    n_iter: int
    n_thetas: int
    n_queries: int
    status: str
    history: Array

    @property
    def accuracy(self) -> float:
        """Accuracy reached, (value - lower)/spread."""
        if self.lower == -np.inf:
            return np.inf
        return (self.value - self.lower) / self.spread if self.value > self.lower else 0.0


def minimize_max_constraint(
    constraints: GivenConstraints,
    *,
    tol: float = 1e-2,
    spread: float | str = "auto",
    max_iter: int = 2000,
    verbose: bool = False,
) -> MinMaxResult:
    """Find W ⪰ 0 of trace one whose largest tr(W C_j) is as small as possible.

        min θ  subject to  tr(W C_j) ≤ θ for all j,  tr W = 1,  W ⪰ 0              [Tsuda2005, 4.11]

    by bisection on θ. Each θ is decided in the dual, by ascent in all variables at once
    (L-BFGS, then Newton steps), not by the projections of DefiniteBoost, which the paper suggests.

    Parameters
    ----------
    constraints : Constraints, list of such, or ConstraintOracle
        A constraint zᴴWz ≤ b counts by how far zᴴWz is above b. An oracle must name, at every W,
        the constraint with the largest tr(W C_j), even if it is met.
    tol : positive number
        Requested accuracy, as a share of `spread`.
    spread : "auto" or positive number
        Unit of accuracy; 1.0 makes `tol` absolute. "auto" is the spread of the constraint values at
        the start: from the largest at W = I/d down to the lowest mean of all values over W (for an
        oracle, of the largest at I/d). It scales with the constraints and ignores common shifts.
    max_iter : int
        Most screenings before a warning ends the search.
    verbose : bool

    Returns
    -------
    MinMaxResult
        W, the dual weights, and the bracket [lower, value] of the smallest θ that they prove.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import RankOneConstraints, minimize_max_constraint
    >>> Z = np.array([[1.0, 0.0, 0.0], [0.995, 0.1, 0.0], [0.0, 0.0, 1.0]])
    >>> found = minimize_max_constraint(RankOneConstraints(Z, 0.0), tol=1e-3)
    >>> bool(found.lower <= 0.0025 <= found.value)
    True
    """
    given = {"tol": tol, "spread": spread, "max_iter": max_iter, "verbose": verbose}
    check_parameters(owner := "minimize_max_constraint", MIN_MAX_RULES, given)
    chosen = as_constraints(owner, constraints)
    if chosen.finite and not len(chosen):
        raise ValueError(f"{owner}: constraints must not be empty.")
    with single_blas_thread(), progress(owner, max_iter, enabled=verbose) as advance:
        source = (
            OracleSource(chosen)
            if isinstance(chosen, ConstraintOracle)
            else ConstraintSource(chosen)
        )
        search = ThetaSearch(source, tol, spread, max_iter, advance)
        status = search.run()
        W = hermitian_part(search.state.matrix())
        # Both ends of the bracket are recomputed.
        value = source.largest(W, search.upper)
        lower = lowest_value(source.constraints, search.weights)
        counts = len(search.history), search.n_thetas, source.n_queries
        history = np.array(search.history).reshape(-1, 2)
    result = MinMaxResult(W, value, lower, search.weights, search.spread, *counts, status, history)
    if status != "solved":
        _warn(result, tol)
    return result


def _warn(result: MinMaxResult, tol: float) -> None:
    ends = {
        "max_iter": ("", "raise max_iter or tol"),
        "stalled": (", at the limit of rounding,", "raise max_iter or tol"),
        "met": (", where the oracle named no constraint,", "let it name one at every W"),
    }
    end, advice = ends[result.status]
    accuracy = f"with an accuracy of {result.accuracy:.3g}, for tol={tol}"
    words = f"stopped after {result.n_iter} screenings{end} {accuracy}; {advice}"
    warnings.warn(f"minimize_max_constraint: {words}.", ConvergenceWarning, stacklevel=3)


class ConstraintSource:
    """A finite set of known constraints, and proofs that hold for all of them."""

    n_queries = 0  # questions asked of an oracle
    met = False  # an oracle has said that no constraint is violated: θ ≤ 0, and it knows no more

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

    def more(self) -> Constraints | None:
        """All constraints known by now, if they are more than `constraints`."""
        return None


class OracleSource(ConstraintSource):
    """Constraints that an oracle has named so far; it is asked for proofs and for more."""

    def __init__(self, oracle: ConstraintOracle) -> None:
        super().__init__(oracle.named())
        self.oracle = oracle

    def first(self, center: GibbsState) -> tuple[Array, float]:
        """All weight on the constraint that is worst at I/d, and its value."""
        upper = self._ask(center, self.oracle.state_values(center))
        self.constraints = self.oracle.named()
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

    def more(self) -> Constraints | None:
        """All constraints named so far, if there are new ones."""
        return self.oracle.named() if len(self.oracle) > len(self.constraints) else None

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
        return VALUE_ROUNDING * float(max(sizes))

    def _refuse(self, what: str, value: float, known: Array) -> NoReturn:
        key = self.oracle.keys[int(known.argmax())]
        raise ValueError(
            "minimize_max_constraint: find must name the constraint with the largest tr(WC), "
            f"got {what:.60}, with {value:.6g}, where {key!r:.60} has {known.max():.6g}."
        )


class ThetaSearch:
    """The bracket of the smallest θ, what proves its ends, and the search that closes it."""

    def __init__(
        self,
        source: ConstraintSource,
        tol: float,
        spread: float | str,
        max_iter: int,
        advance: Advance,
    ) -> None:
        self.source, self.max_iter, self.advance = source, max_iter, advance
        d = source.constraints.n_features
        check_room("minimize_max_constraint", d, source.constraints.dtype, (d, d))
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
            cut = self._look_at(theta, BRACKET_CUT * before)
            grown = self._name_more(theta)
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
            closed = self.source.met or self.upper - self.lower <= self.goal
            done = closed or self.lower >= lowest or self.upper <= highest
            grown = self.source.more() is not None
            return done or grown or len(self.history) >= self.max_iter

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

    def _name_more(self, theta: float) -> bool:
        """Take in constraints named at θ, and ask again after a projection on each."""
        grown = False
        for _ in range(QUESTIONS_PER_ASCENT):
            if not self._grow(theta):
                break
            grown = True
            if len(self.history) >= self.max_iter or self.source.met:
                break
            shifted = self.source.constraints.shifted(theta)
            self._note(dual_point(shifted, self.log_start, self.alpha), theta, np.inf)
        return grown

    def _grow(self, theta: float) -> bool:
        """Take in constraints named during the ascent at θ; return whether there were any."""
        known, constraints = len(self.source.constraints), self.source.more()
        if constraints is None:
            return False
        self.source.constraints = constraints
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
            return -float(w @ g), -float(w @ (g - w @ g) ** 2)

        if slope(1.0 / MAX_ALPHA_GROWTH)[0] <= 0.0:
            return self.alpha
        low, high = decreasing_bracket(lambda t: slope(t)[0], 1.0, MAX_ALPHA_GROWTH)
        t = low if low == high else decreasing_root(slope, low, high, 1.0, 1e-3 * abs(slope(0)[0]))
        return t * self.alpha


def lowest_value(constraints: Constraints, weights: Array) -> float:
    """Smallest eigenvalue of Σ weights_j C_j; no θ is below it if the weights have sum one."""
    if not len(weights):
        return -np.inf
    return float(np.linalg.eigvalsh(constraints.combination(weights))[0])
