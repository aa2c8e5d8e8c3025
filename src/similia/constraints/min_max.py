"""The trace-one semidefinite programme: the W whose worst constraint is as good as can be."""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from similia.constraints import ConstraintOracle, as_constraints
from similia.constraints.oracle_search import OracleSearch
from similia.constraints.theta_search import ThetaSearch, lowest_value
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
        The dual solution: non-negative, with sum one; of an oracle's constraints, in the order of
        its `keys`.
    spread : float
        The unit of the accuracy asked for.
    n_iter : int
        Eigendecompositions and screenings, of all constraints or of those that an oracle has named.
    n_thetas : int
        Values of θ that were tried.
    n_queries : int
        Times that an oracle was asked; 0 without one.
    status : {"solved", "max_iter", "stalled", "met"}
        "stalled": rounding let no better point be found. "met": an oracle named no constraint at W,
        by which it says that none is violated, so that `value` is 0; more it could not tell.
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
        """(value - lower)/spread: the accuracy reached."""
        if self.lower == -np.inf:
            return np.inf
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
    constraints : Constraints, list of such, or ConstraintOracle
        Bounds in it are kept: a constraint zᴴWz ≤ b counts by how far zᴴWz is above b. An oracle
        has to name, at every W, the constraint with the largest tr(W C_j), also if that is met;
        None ends the search, see `status` of the result.
    tol : positive number
        Accuracy asked for, as a share of `spread`.
    spread : "auto" or positive number
        The unit of accuracy. "auto" takes the spread of the constraint values that is left at the
        start: from the largest at W = I/d down to the lowest mean of all values that any W has.
        It changes with shifts and scales of the constraints as θ does. 1.0 makes `tol` absolute.
        Of an oracle's constraints the one that is largest at I/d stands for their mean.
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
    Every W and every combination of constraints that the search comes across proves an end of the
    bracket; see `distance.theta_search`. With an oracle it goes on among the constraints that were
    named, and asks only where one of their W seems good enough: each answer proves an upper end,
    or is a constraint more. An answer that is below one that was named before is refused with an
    error, because then no upper end would be proven.

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
    if chosen.finite and not len(chosen):
        raise ValueError(f"{owner}: constraints must be at least one, got none.")
    with (
        single_blas_thread(),
        progress(owner, max_iter, enabled=verbose) as advance,
    ):
        kind: Any = OracleSearch if isinstance(chosen, ConstraintOracle) else ThetaSearch
        search = kind(chosen, tol, spread, max_iter, advance)
        result = _result(search, search.run())
    if result.status != "solved":
        _warn(result, tol)
    return result


def _warn(result: MinMaxResult, tol: float) -> None:
    ends = {
        "max_iter": ("", "raise max_iter or tol"),
        "stalled": (", where rounding let it go no further,", "raise max_iter or tol"),
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
    """Give what was found, with both ends of the bracket computed afresh."""
    W = hermitian_part(search.state.matrix())
    return MinMaxResult(
        W=W,
        value=search.largest_value(W),
        lower=lowest_value(search.constraints, search.weights),
        weights=search.weights,
        spread=search.spread,
        n_iter=len(search.history),
        n_thetas=search.n_thetas,
        n_queries=search.n_queries,
        status=status,
        history=np.array(search.history).reshape(-1, 2),
    )
