"""DefiniteBoost: the matrix nearest to a given one among those that meet linear constraints."""

import warnings
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted

from similia.constraints import Constraints, as_constraints
from similia.constraints.ascent import DualPoint, ascend
from similia.constraints.choice import Asked, InTurn, MostViolated
from similia.constraints.projections import Certificate, Choice, Projections
from similia.constraints.start import checked_alpha, log_of_start
from similia.contract import Array
from similia.linalg.psd import psd_factor
from similia.linalg.threads import single_blas_thread
from similia.progress import Advance, progress
from similia.validation import Rule, boolean, check_parameters, none, one_of, positive, seed
from similia.validation import positive_integer as counting

#: steps taken by compiled code at a time, between looks for a proof that there is no solution
PASS = 32


class DefiniteBoost(BaseEstimator):
    """Matrix of trace one that meets linear constraints, nearest to a start: Bregman projections.

    With the von Neumann divergence Δ(W, W₀) = tr(W log W - W log W₀),

        min Δ(W, W₀)  subject to  tr(W C_j) ≤ 0 for all j,  tr W = 1,  W ⪰ 0        [Tsuda2005, 4.1]

    is solved by moving log W along one violated C_j after another, or along all of them. Symmetric
    or, for complex constraints, Hermitian; boosting is the diagonal case. Where constraints
    contradict each other, as judgements do, they can be given a price instead (`C`):

        min Δ(W, W₀) + C Σ ξ_j  subject to  tr(W C_j) ≤ ξ_j,  ξ_j ≥ 0,  tr W = 1,  W ⪰ 0.

    Parameters
    ----------
    C : positive number or None
        Price of violating a constraint by one, in units of Δ; None: all have to be met. A larger C
        allows less: altogether the constraints are violated by no more than the least that is
        possible plus (log d)/C, for W₀ = I/d. It is the most that a dual variable can be, so no
        constraint outweighs the others by more; and one of at least the largest dual variable
        without it changes nothing where all constraints can be met.
    projection : {"approximate", "exact"}
        Step onto a constraint: in closed form, which raises the dual by at least what Theorem 4.1
        says; or to the point where the constraint holds with equality. An exact step costs several
        times as much, and there are often fewer of them.
    choice : {"most_violated", "cyclic", "random", "all"}
        Which constraint comes next: after screening all; in their order; in random orders, each
        seen once. "all" moves along all of them together, by quasi-Newton steps: by far the
        fastest to an accurate nearest W, but without the bound on the number of steps.
    nearest : bool
        Go on until W is the nearest, to accuracy `tol`. False stops as soon as all constraints are
        met, as the paper does: W then meets them but need not be the nearest, because a constraint
        may have been pushed too far before others came into play. With `C`, the nearest is the
        solution with the price, and those whose dual variable is C need not be met.
    tol : positive number
        ε, the violation that counts as none: the search ends when tr(W C_j) ≤ tol for all j, and,
        for `nearest`, tr(W C_j) ≥ -tol for all that have pushed. In units of the constraints.
    max_iter : int
        Most steps; most screenings with choice "all". A warning says so if that ended the search.
    random_state : int, RandomState or None
        Seed of the random orders.
    verbose : bool
        Show a progress bar.

    Attributes
    ----------
    W_ : array of shape (n_features, n_features)
    alpha_ : array of shape (n_constraints,)
        Dual variables, non-negative: log W = log W₀ - Σ alpha_j C_j, up to a multiple of I.
    status_ : {"solved", "infeasible", "max_iter", "stalled"}
        "stalled" is choice "all" where rounding lets it find no better point.
    certificate_ : Certificate or None
        Where infeasible, the proof: weights with sum one and the smallest eigenvalue, positive, of
        the combination of the C_j with these weights.
    n_iter_ : int
    slack_ : array of shape (n_constraints,)
        ξ_j = max(0, tr(W C_j)): how much each constraint is violated.
    violation_ : float
        The largest of them.
    dual_ : float
        h(α) = -log tr exp(log W₀ - Σ α_j C_j): no W that meets all constraints is nearer than that;
        with `C`, no W has a lower objective.
    divergence_ : float
        Δ(W, W₀).
    objective_ : float
        Δ(W, W₀) + C Σ ξ_j; the divergence alone without `C`.
    gap_ : float
        Duality gap; see the notes.
    iteration_bound_ : float
        Steps at violated constraints after which a problem that can be solved is solved; of an
        oracle's, for the constraints that it has named. With `C`, those that end there not counted.
    history_ : dict of arrays
        For each step: "constraint", its "value" tr(W C_j) before, the length of the "step"; "dual"
        and "dual_bound", the dual value after it and what Theorem 4.1 has promised; "violation"
        and "gap" before it, NaN where not all constraints were looked at.

    Notes
    -----
    *Gap.* W itself need not meet the constraints, so Δ(W, W₀) - h(α) = -Σ α_j r_j, with
    r_j = tr(W C_j), can be negative. But W meets all tr(W C_j) ≤ v for v = `violation_`, and the
    dual of *that* problem is h(α) - v Σ α_j. So

        gap = Δ(W, W₀) - (h(α) - v Σ α_j) = Σ α_j (v - r_j) ≥ 0,

    and W is within `gap_` of the nearest among all that violate no constraint by more than v. It is
    the usual duality gap where v = 0. From any W* that meets all constraints W is no farther than
    Δ(W*, W) ≤ Δ(W*, W₀) - h(α).

    *Price.* The dual with `C` is the same, under α_j ≤ C (the Lagrangian C Σ ξ_j + Σ α_j (tr(W C_j)
    - ξ_j) is bounded below in ξ ≥ 0 just then). Any W has slacks with which it counts, so there is
    always a solution, and

        gap = objective - h(α) = Σ (C - α_j) max(0, r_j) + Σ α_j max(0, -r_j) ≥ 0

    is the usual duality gap. A constraint that stays violated has α_j = C. To allow all constraints
    the same slack instead, the least that will do, take it from `minimize_max_constraint`:
    ``fit(constraints.shifted(result.value))``.

    *Step.* (4.6) as printed holds for λmin = -λmax only; see `updates.definite_boost`. A step with
    tr(WC) < 0, for `nearest`, is the same formula, cut off where α_j becomes zero; and any step is
    cut off where it becomes `C`, which leaves it the part of Theorem 4.1's progress that its bound
    has at this length.

    *Bound.* Corollary 4.2 is for eigenvalues in [-λ, λ] and W₀ = I/d. Its argument gives in general
    (-log λmin(W₀) - h)/min_j(-log ρ_j(ε)) steps at violated constraints, at most 2λ² log d / ε² in
    that case. It also bounds the search for a proof that there is no solution: h cannot grow beyond
    -log λmin(W₀) without Σ α_j C_j becoming positive definite.

    *Cost.* A step along a rank-one constraint (distances, `RankOneConstraints`) updates the
    eigendecomposition of log W in O(d²) and a matrix product; a general matrix needs a new one.
    All attributes are numbers and plain arrays: keep `alpha_` (and W₀), and
    ``fit(constraints, alpha=alpha_)`` goes on from there.

    References
    ----------
    .. [Tsuda2005] K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for
       On-line Learning and Bregman Projection", JMLR 6, 2005.

    Examples
    --------
    Four objects of which two pairs are to be near and one is to be far, as a kernel matrix:

    >>> from similia import DefiniteBoost, DistanceConstraints
    >>> pairs, sense = [[0, 1], [2, 3], [0, 2]], ["<=", "<=", ">="]
    >>> boost = DefiniteBoost().fit(DistanceConstraints(pairs, [0.3, 0.3, 0.9], sense))
    >>> boost.status_
    'solved'
    >>> boost.pairwise_distance().round(2)
    array([[0.  , 0.3 , 0.9 , 0.77],
           [0.3 , 0.  , 0.77, 0.66],
           [0.9 , 0.77, 0.  , 0.3 ],
           [0.77, 0.66, 0.3 , 0.  ]])
    """

    _rules: ClassVar[dict[str, Rule]] = {
        "C": none | positive,
        "projection": one_of("approximate", "exact"),
        "choice": one_of("most_violated", "cyclic", "random", "all"),
        "nearest": boolean,
        "tol": positive,
        "max_iter": counting,
        "random_state": seed,
        "verbose": boolean,
    }

    W_: Array
    alpha_: Array
    certificate_: Certificate | None

    def __init__(
        self,
        *,
        C: float | None = None,
        projection: str = "approximate",
        choice: str = "most_violated",
        nearest: bool = True,
        tol: float = 1e-4,
        max_iter: int = 10_000,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.C = C
        self.projection = projection
        self.choice = choice
        self.nearest = nearest
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.verbose = verbose

    # -- solving -------------------------------------------------------------------------------

    def fit(self, constraints: Any, *, start: Any = None, alpha: Any = None) -> Self:
        """Find W.

        Parameters
        ----------
        constraints : Constraints, list of such, or ConstraintOracle
        start : array of shape (n_features, n_features) or None
            W₀, positive definite with trace one; I/d if None.
        alpha : array or None
            Dual variables to begin with, as `alpha_` of an earlier call with the same start and
            the same first constraints; those that are missing begin at zero, as all do if None.

        Returns
        -------
        The estimator itself. On an error nothing has changed.
        """
        check_parameters("DefiniteBoost", self._rules, self.get_params(deep=False))
        where = "DefiniteBoost.fit"
        chosen = as_constraints(where, constraints)
        if not chosen.finite and self.choice != "most_violated":
            raise ValueError(
                f'{where}: choice must be "most_violated" with an oracle, which does the '
                f"choosing, got {self.choice!r}."
            )
        if not chosen.finite and self.C is not None:
            raise ValueError(
                f"{where}: C must be None with an oracle, which would name a constraint that stays "
                f"violated again and again, got {self.C}."
            )
        log_start = log_of_start(where, start, chosen)
        cap = np.inf if self.C is None else float(self.C)
        first = checked_alpha(where, alpha, len(chosen), cap)
        with (
            single_blas_thread(),
            progress("DefiniteBoost", self.max_iter, enabled=self.verbose) as advance,
        ):
            run = Projections(chosen, log_start, first, float(self.tol), cap)
            solve = self._in_all if self.choice == "all" else self._one_by_one
            status, certificate = solve(run, advance)
            self._finish(run, status, certificate)
        self._warn()
        return self

    def _one_by_one(self, run: Projections, advance: Advance) -> tuple[str, Certificate | None]:
        choice, exact = self._new_choice(run.constraints), self.projection == "exact"
        compiled = run.terms() if isinstance(choice, MostViolated) and not exact else None
        taken, most = 0, 1 if compiled is None else PASS
        while taken < self.max_iter:
            certificate = run.certificate()
            if certificate is not None:
                return "infeasible", certificate
            steps = min(most, self.max_iter - taken)
            if compiled is None:
                done = run.step(choice, exact)
            else:
                done = run.run_pass(compiled, steps, self.nearest)
            taken += done
            advance(done)
            if done < steps:
                return "solved", None
        return ("solved", None) if choice.next(run) is None else ("max_iter", run.certificate())

    def _in_all(self, run: Projections, advance: Advance) -> tuple[str, Certificate | None]:
        reason: list[str] = []

        def enough(point: DualPoint) -> bool:
            run.move_to(point)
            advance(1)
            if run.certificate() is not None:
                reason.append("infeasible")
            elif run.settled(point.values, self.nearest):
                reason.append("solved")
            elif len(run.history["dual"]) >= self.max_iter:
                reason.append("max_iter")
            return bool(reason)

        best = ascend(run.constraints, run.log_start, run.alpha, enough, self.max_iter, run.cap)
        run.take(best)
        return (reason[0] if reason else "stalled"), run.certificate()

    def _new_choice(self, constraints: Constraints) -> Choice:
        if not constraints.finite:
            return Asked(self.nearest)
        if self.choice == "most_violated":
            return MostViolated(self.nearest)
        return InTurn(self.nearest, self._rng() if self.choice == "random" else None)

    def _rng(self) -> np.random.Generator:
        state = self.random_state
        if isinstance(state, np.random.RandomState):
            return np.random.default_rng(state.randint(2**32, dtype=np.uint64))
        return np.random.default_rng(state)

    def _finish(self, run: Projections, status: str, certificate: Certificate | None) -> None:
        result = run.result()
        self.W_, self.alpha_ = result.W, run.alpha
        self.status_ = "infeasible" if certificate is not None else status
        self.certificate_ = certificate
        self.n_iter_ = len(run.history["dual"])
        self.slack_, self.violation_, self.gap_ = result.slack, result.violation, result.gap
        self.dual_, self.divergence_ = result.dual, result.divergence
        self.objective_ = result.divergence + (self.C or 0.0) * float(result.slack.sum())
        self.iteration_bound_ = run.iteration_bound()
        self.history_ = run.history_arrays()
        self.n_features_in_ = len(self.W_)

    def _warn(self) -> None:
        if self.status_ == "solved":
            return
        if self.certificate_ is not None:
            words = (
                "no W meets all constraints: a combination of them, in certificate_, has the "
                f"smallest eigenvalue {self.certificate_.smallest:.3g} > 0; with C they can be "
                "violated at a price"
            )
        else:
            end = "" if self.status_ == "max_iter" else ", where rounding let it go no further,"
            words = (
                f"stopped after {self.n_iter_} steps{end} with a violation of "
                f"{self.violation_:.3g} and a gap of {self.gap_:.3g}, for tol={self.tol}; "
                "raise max_iter or tol"
            )
        warnings.warn(f"DefiniteBoost: {words}.", ConvergenceWarning, stacklevel=3)

    # -- using ---------------------------------------------------------------------------------

    @property
    def components_(self) -> Array:
        """L with W = LᴴL; its columns are the objects' vectors where W is a kernel matrix."""
        check_is_fitted(self, "W_")
        return psd_factor(self.W_)

    def transform(self, X: Any = None) -> Array:
        """Map x to Lx, so that Euclidean distances become the learnt ones.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features), or None
            Feature vectors, where W is a metric over features. None gives the embedding of the
            objects, one row for each, where W is a kernel matrix.
        """
        L = self.components_
        if X is None:
            return L.T.copy()
        X = check_array(X, accept_sparse="csr", dtype=np.float64)
        if X.shape[1] != len(self.W_):
            raise ValueError(
                f"DefiniteBoost.transform: X must have {len(self.W_)} features, got {X.shape[1]}."
            )
        return np.asarray(X @ L.T)

    def pairwise_distance(self, X: Any = None, Z: Any = None) -> Array:
        """Give √((x-z)ᵀW(x-z)) for all pairs of rows; of the objects among themselves without X."""
        left = self.transform(X)
        right = left if Z is None else self.transform(Z)
        squares = (np.abs(left) ** 2).sum(1)[:, None] + (np.abs(right) ** 2).sum(1)
        squares = squares - 2.0 * (left @ right.conj().T).real
        if Z is None:
            np.fill_diagonal(squares, 0.0)
        return np.sqrt(np.maximum(squares, 0.0))
