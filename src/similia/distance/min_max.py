"""The trace-one semidefinite programme: the W whose worst constraint is as good as can be."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from similia.base import Array
from similia.distance.ascent import DualPoint, ascend
from similia.distance.constraints import Constraints, as_constraints
from similia.linalg.gibbs import GibbsState
from similia.linalg.roots import decreasing_bracket, decreasing_root
from similia.linalg.spectral import gibbs_weights, hermitian_part
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.validation import boolean, check_parameters, one_of, positive, positive_integer

#: share of the bracket by which its ends must be cut before θ is chosen anew
CUT = 0.4
#: factors by which dual variables may grow at once when they are fitted to a new θ
GROWTH = 64.0

RULES = {
    "tol": positive,
    "spread": one_of("auto") | positive,
    "max_iter": positive_integer,
    "verbose": boolean,
}


@dataclass(frozen=True)
class MinMaxResult:
    """What `minimize_max_constraint` found.

    Attributes
    ----------
    W : array of shape (n_features, n_features)
        Positive semidefinite with trace one.
    value : float
        max_j tr(W C_j): the smallest θ is at most that.
    lower : float
        Smallest eigenvalue of Σ weights_j C_j: the smallest θ is at least that.
    weights : array of shape (n_constraints,)
        The dual solution: non-negative, with sum one.
    spread : float
        The unit of the accuracy asked for.
    n_iter : int
        Eigendecompositions and screenings of all constraints that it took.
    n_thetas : int
        Values of θ that were tried.
    status : {"solved", "max_iter", "stalled"}
        "stalled": rounding let no better point be found.
    history : array of shape (n_iter, 2)
        Bracket of the smallest θ after each screening.
    """

    W: Array
    value: float
    lower: float
    weights: Array
    spread: float
    n_iter: int
    n_thetas: int
    status: str
    history: Array

    @property
    def accuracy(self) -> float:
        """(value - lower)/spread: the accuracy reached."""
        return (self.value - self.lower) / self.spread if self.value > self.lower else 0.0


def minimize_max_constraint(
    constraints: Any,
    *,
    tol: float = 1e-2,
    spread: Any = "auto",
    max_iter: int = 2000,
    verbose: bool = False,
) -> MinMaxResult:
    """Find W ⪰ 0 of trace one whose largest tr(W C_j) is as small as possible.

        min θ  subject to  tr(W C_j) ≤ θ for all j,  tr W = 1,  W ⪰ 0              [Tsuda2005, 4.11]

    by bisection on θ: whether some W meets tr(W (C_j - θI)) ≤ 0 is a problem of `DefiniteBoost`.

    Parameters
    ----------
    constraints : Constraints or list of such
        Bounds in it are kept: a constraint zᴴWz ≤ b counts by how far zᴴWz is above b.
    tol : positive number
        Accuracy asked for, as a share of `spread`.
    spread : "auto" or positive number
        The unit of accuracy. "auto" takes the spread of the constraint values that is left at the
        start: from the largest at W = I/d down to the lowest mean of all values that any W has.
        It changes with shifts and scales of the constraints as θ does. 1.0 makes `tol` absolute.
    max_iter : int
        Most screenings. A warning says so if that ended the search.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    MinMaxResult
        With W, the dual weights, and the bracket [lower, value] of the smallest θ that they prove.

    Notes
    -----
    For each θ the dual of (4.12) is ascended in all constraints at once (`distance.ascent`), from
    the dual variables of the last θ, made longer or shorter to fit the new one. Every point α that
    is looked at gives both ends of a bracket: max_j tr(W C_j) at its W is an upper bound, and with
    p = α/Σα the smallest eigenvalue of Σ p_j C_j is a lower one, which costs nothing as the
    eigenvalues of log W are known. θ is chosen anew, in the middle, when either end has passed it.

    Examples
    --------
    Three directions, to be as short as possible under W at once; it finds the one between them:

    >>> import numpy as np
    >>> from similia import RankOneConstraints, minimize_max_constraint
    >>> Z = np.array([[1.0, 0.0, 0.0], [0.995, 0.1, 0.0], [0.0, 0.0, 1.0]])
    >>> found = minimize_max_constraint(RankOneConstraints(Z, 0.0), tol=1e-3)
    >>> bool(found.lower <= 0.0025 <= found.value)
    True
    """
    given = {"tol": tol, "spread": spread, "max_iter": max_iter, "verbose": verbose}
    owner = "minimize_max_constraint"
    check_parameters(owner, RULES, given)
    chosen = as_constraints(owner, constraints)
    if not chosen.finite or not len(chosen):
        raise ValueError(f"{owner}: constraints must be a finite set with at least one of them.")
    with (
        single_blas_thread(),
        progress(owner, max_iter, enabled=verbose) as advance,
    ):
        search = _Search(chosen, tol, spread, max_iter, advance)
        status = search.run()
        result = search.result(status)
    if status != "solved":
        end = "" if status == "max_iter" else ", where rounding let it go no further,"
        warnings.warn(
            f"{owner}: stopped after {result.n_iter} screenings{end} with an accuracy of "
            f"{result.accuracy:.3g}, for tol={tol}; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=2,
        )
    return result


class _Search:
    """The bracket of the smallest θ, with what proves its ends, and the search that closes it."""

    def __init__(
        self, constraints: Constraints, tol: float, spread: Any, max_iter: int, advance: Any
    ) -> None:
        self.constraints, self.max_iter, self.advance = constraints, max_iter, advance
        n, d = len(constraints), constraints.n_features
        # log I rather than log I/d: that is the same problem, and G then belongs to α alone.
        self.log_start = np.zeros((d, d), dtype=constraints.dtype)
        self.history: list[tuple[float, float]] = []
        self.n_thetas = 0
        self.weights = np.full(n, 1.0 / n)
        self.lower = float(np.linalg.eigvalsh(constraints.combination(self.weights))[0])
        self.state = GibbsState(self.log_start)
        self.upper = float(constraints.state_values(self.state).max())
        width = self.upper - self.lower
        self.spread = width if isinstance(spread, str) else float(spread)
        self.goal = tol * self.spread
        self.alpha = self.weights * (np.log(d) / width if width > 0.0 and d > 1 else 1.0)

    def run(self) -> str:
        """Choose θ, look for a W, choose anew; give the status."""
        while not self.closed():
            if len(self.history) >= self.max_iter:
                return "max_iter"
            before = len(self.history), self.upper - self.lower
            theta = 0.5 * (self.lower + self.upper)
            cut = CUT * (self.upper - self.lower)
            self.n_thetas += 1
            if not self.look_at(theta, cut) and self.upper - self.lower >= before[1]:
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
            self.note(point, theta)
            if self.closed() or self.lower >= lowest or self.upper <= highest:
                cuts.append(True)
            return bool(cuts) or len(self.history) >= self.max_iter

        constraints = self.constraints.shifted(theta)
        first = self.fitted(theta)
        best = ascend(constraints, self.log_start, first, enough, self.max_iter)
        self.alpha = best.alpha
        return bool(cuts)

    def note(self, point: DualPoint, theta: float) -> None:
        """Take from a point at θ what it proves."""
        upper = float(point.values.max()) + theta
        if upper < self.upper:
            self.upper, self.state = upper, point.state
        total = point.alpha.sum()
        if total > 0.0:
            lower = theta - point.state.largest / total
            if lower > self.lower:
                self.lower, self.weights = lower, point.alpha / total
        self.history.append((self.lower, self.upper))
        self.advance(1)

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

    def result(self, status: str) -> MinMaxResult:
        """Give what was found, with both ends of the bracket computed afresh."""
        W = hermitian_part(self.state.matrix())
        return MinMaxResult(
            W=W,
            value=float(self.constraints.values(W).max()),
            lower=float(np.linalg.eigvalsh(self.constraints.combination(self.weights))[0]),
            weights=self.weights,
            spread=self.spread,
            n_iter=len(self.history),
            n_thetas=self.n_thetas,
            status=status,
            history=np.array(self.history).reshape(-1, 2),
        )
