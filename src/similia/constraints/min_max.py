"""The trace-one semidefinite program: the W whose worst constraint is as good as possible."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from similia.constraints.base import Constraints
from similia.constraints.oracle import ConstraintOracle
from similia.constraints.sets import as_constraints
from similia.constraints.theta_search import NamedSource, Source, ThetaSearch, lowest_value
from similia.contract import Array
from similia.linalg.spectral import hermitian_part
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.validation import boolean, check_parameters, one_of, positive, positive_integer

RULES = {
    "tol": positive,
    "spread": one_of("auto") | positive,
    "max_iter": positive_integer,
    "verbose": boolean,
}


@dataclass(frozen=True)
class MinMaxResult:
    """Result of `minimize_max_constraint`.

    Attributes
    ----------
    W : array of shape (n_features, n_features)
        Positive semidefinite with trace one.
    value : float
        max_j tr(W C_j), an upper bound of the smallest θ.
    lower : float
        Smallest eigenvalue of Σ weights_j C_j, a lower bound of the smallest θ.
    weights : array of shape (n_constraints,)
        The dual solution: non-negative, with sum one; for an oracle, in the order of its `keys`.
    spread : float
        Unit of the requested accuracy.
    n_iter : int
        Eigendecompositions and screenings, of all constraints or of those an oracle has named.
    n_thetas : int
        Values of θ tried.
    n_queries : int
        Questions asked of an oracle; 0 without one.
    status : {"solved", "max_iter", "stalled", "met"}
        "stalled": rounding allows no better point. "met": an oracle named no constraint at W, which
        says that none is violated, so `value` is 0; it cannot tell more.
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
    constraints: Constraints | Sequence[Constraints],
    *,
    tol: float = 1e-2,
    spread: float | str = "auto",
    max_iter: int = 2000,
    verbose: bool = False,
) -> MinMaxResult:
    """Find W ⪰ 0 of trace one whose largest tr(W C_j) is as small as possible.

        min θ  subject to  tr(W C_j) ≤ θ for all j,  tr W = 1,  W ⪰ 0              [Tsuda2005, 4.11]

    by bisection on θ: whether some W meets tr(W (C_j - θI)) ≤ 0 is a problem of `DefiniteBoost`.

    Parameters
    ----------
    constraints : Constraints, list of such, or ConstraintOracle
        Bounds are kept: a constraint zᴴWz ≤ b counts by how far zᴴWz is above b. An oracle must
        name, at every W, the constraint with the largest tr(W C_j), even if it is met; None ends
        the search, see `status` of the result.
    tol : positive number
        Requested accuracy, as a share of `spread`.
    spread : "auto" or positive number
        Unit of accuracy. "auto" is the spread of the constraint values at the start: from the
        largest at W = I/d down to the lowest mean of all values over W. It scales with the
        constraints as θ does and ignores common shifts. 1.0 makes `tol` absolute. For an oracle,
        the constraint that is largest at I/d stands in for the mean.
    max_iter : int
        Maximum number of screenings. Reaching it raises a warning.
    verbose : bool
        Show a progress bar.

    Returns
    -------
    MinMaxResult
        W, the dual weights, and the bracket [lower, value] of the smallest θ that they prove.

    Notes
    -----
    Every W and every combination of constraints on the way proves an end of the bracket; see
    `constraints.theta_search`. With an oracle the search runs among the constraints named so far
    and asks only at a W that seems good enough: each answer proves an upper end or adds a
    constraint. An answer below one that was named before is refused with an error, because then no
    upper end would be proven.

    Examples
    --------
    Three directions, all to be as short as possible under W:

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
    if chosen.finite and not len(chosen):
        raise ValueError(f"{owner}: constraints must be at least one, got none.")
    with single_blas_thread(), progress(owner, max_iter, enabled=verbose) as advance:
        source = NamedSource(chosen) if isinstance(chosen, ConstraintOracle) else Source(chosen)
        search = ThetaSearch(source, tol, spread, max_iter, advance)
        result = _result(search, search.run())
    if result.status != "solved":
        _warn(result, tol)
    return result


def _warn(result: MinMaxResult, tol: float) -> None:
    ends = {
        "max_iter": ("", "raise max_iter or tol"),
        "stalled": (", at the limit of rounding,", "raise max_iter or tol"),
        "met": (", where the oracle named no constraint,", "let it name one at every W"),
    }
    end, advice = ends[result.status]
    warnings.warn(
        f"minimize_max_constraint: stopped after {result.n_iter} screenings{end} with an accuracy "
        f"of {result.accuracy:.3g}, for tol={tol}; {advice}.",
        ConvergenceWarning,
        stacklevel=3,
    )


def _result(search: ThetaSearch, status: str) -> MinMaxResult:
    """The result, with both ends of the bracket recomputed."""
    W = hermitian_part(search.state.matrix())
    return MinMaxResult(
        W=W,
        value=search.source.largest(W, search.upper),
        lower=lowest_value(search.source.constraints, search.weights),
        weights=search.weights,
        spread=search.spread,
        n_iter=len(search.history),
        n_thetas=search.n_thetas,
        n_queries=search.source.n_queries,
        status=status,
        history=np.array(search.history).reshape(-1, 2),
    )
