"""DefiniteBoost: the matrix nearest to a start among those that meet linear constraints."""

import warnings
from collections.abc import Sequence
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array, check_is_fitted

from similia.base import generator
from similia.constraints.base import Constraints
from similia.constraints.dual import checked_alpha, log_of_start
from similia.constraints.projections import Choice, Projections
from similia.constraints.search import InTurn, asked, most_violated, solve_in_turn, solve_together
from similia.constraints.sets import as_constraints
from similia.contract import Array, Matrix
from similia.linalg.spectral import psd_factor
from similia.linalg.threads import single_blas_thread
from similia.parameters import check_declared, parameter, parameterized
from similia.progress import progress
from similia.validation import boolean, none, one_of, positive, positive_integer, seed


@parameterized
class DefiniteBoost(BaseEstimator):
    """Matrix of trace one that meets linear constraints, nearest to a start: Bregman projections.

    With the von Neumann divergence Δ(W, W₀) = tr(W log W - W log W₀),

        min Δ(W, W₀)  subject to  tr(W C_j) ≤ 0 for all j,  tr W = 1,  W ⪰ 0        [Tsuda2005, 4.1]

    is solved by moving log W along one violated C_j after another, or along all of them. W is
    symmetric or, for complex constraints, Hermitian; boosting is the diagonal case. Constraints
    that contradict each other, as judgements do, can have a price instead (`C`):

        min Δ(W, W₀) + C Σ ξ_j  subject to  tr(W C_j) ≤ ξ_j,  ξ_j ≥ 0,  tr W = 1,  W ⪰ 0.

    Attributes
    ----------
    W_ : array of shape (n_features, n_features)
    alpha_ : array of shape (n_constraints,)
        Dual variables, non-negative: log W = log W₀ - Σ alpha_j C_j, up to a multiple of I.
    status_ : {"solved", "infeasible", "max_iter", "stalled"}
        "stalled" occurs with choice "all" if rounding allows no better point.
    certificate_ : Certificate or None
        If infeasible, the proof: weights with sum one and the positive smallest eigenvalue of the
        combination of the C_j with these weights.
    n_iter_ : int
    slack_, violation_ : array of shape (n_constraints,) and float
        ξ_j = max(0, tr(W C_j)), the violation of each constraint, and the largest of them.
    dual_ : float
        h(α) = -log tr exp(log W₀ - Σ α_j C_j): no W that meets all constraints is nearer; with `C`,
        no W has a lower objective.
    divergence_, objective_ : float
        Δ(W, W₀), and with `C` added to it C Σ ξ_j.
    gap_ : float
        Duality gap; see the notes.
    iteration_bound_ : float
        Steps at violated constraints after which a feasible problem is solved; for an oracle, of
        the constraints named. With `C`, steps that end there are not counted.
    history_ : dict of arrays
        For each step: "constraint", its "value" tr(W C_j) before, and the length of the "step";
        "dual" and "dual_bound", the dual value after it and what Theorem 4.1 promises; "violation"
        and "gap" before it, NaN unless all constraints were screened.

    Notes
    -----
    *Gap.* W need not meet the constraints exactly, so Δ(W, W₀) - h(α) = -Σ α_j r_j, with
    r_j = tr(W C_j), can be negative. But W meets tr(W C_j) ≤ v for v = `violation_`, and so

        gap = Δ(W, W₀) - (h(α) - v Σ α_j) = Σ α_j (v - r_j) ≥ 0

    bounds how far W is from the nearest of all that violate no constraint by more than v. Any W*
    that meets all constraints has Δ(W*, W) ≤ Δ(W*, W₀) - h(α).

    *Price.* The dual with `C` is the same under α_j ≤ C. There is always a solution, and

        gap = objective - h(α) = Σ (C - α_j) max(0, r_j) + Σ α_j max(0, -r_j) ≥ 0.

    A constraint that stays violated has α_j = C. To allow all constraints the same slack instead,
    the least that suffices: ``fit(constraints.shifted(minimize_max_constraint(...).value))``.

    *Where we differ from the paper.* (4.6) as printed holds for λmin = -λmax only; see
    `updates.definite_boost`. Steps with tr(WC) < 0, for `nearest`, use the same formula, cut off
    where α_j is zero; any step is cut off where α_j is `C`. Corollary 4.2 is for eigenvalues in
    [-λ, λ] and W₀ = I/d; in general its argument gives (-log λmin(W₀) - h)/min_j(-log ρ_j(ε)) steps
    at violated constraints, at most 2λ² log d / ε² in that case. It also bounds the search for a
    proof of infeasibility: h exceeds -log λmin(W₀) only if Σ α_j C_j is positive definite.

    *Cost.* A step along a rank-one constraint (distances, `RankOneConstraints`) updates the
    eigendecomposition of log W in O(d²) and a matrix product; a general matrix needs a new one.
    To resume, keep `alpha_` and W₀: ``fit(constraints, alpha=alpha_)``.

    References
    ----------
    .. [Tsuda2005] K. Tsuda, G. Rätsch, M. K. Warmuth, "Matrix Exponentiated Gradient Updates for
       On-line Learning and Bregman Projection", JMLR 6, 2005.

    Examples
    --------
    A kernel matrix over four objects, with two pairs to be near and one to be far:

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

    C: float | None = parameter(
        default=None,
        rule=none | positive,
        doc="Price of violating a constraint by one, in units of Δ; None means that all must be "
        "met. A larger C allows less: with W₀ = I/d, the total violation exceeds the least "
        "possible by at most (log d)/C. C bounds the dual variables, so that no constraint "
        "outweighs the others by more; if all constraints can be met, a C of at least the largest "
        "unbounded dual variable changes nothing.",
    )
    projection: str = parameter(
        default="approximate",
        rule=one_of("approximate", "exact"),
        doc="Step onto a constraint: in closed form, raising the dual by at least the bound of "
        "Theorem 4.1; or to the point where the constraint holds with equality. An exact step "
        "costs several times as much, and often fewer are needed.",
    )
    choice: str = parameter(
        default="most_violated",
        rule=one_of("most_violated", "cyclic", "random", "all"),
        doc="Which constraint comes next: the most violated after screening all; in order; in "
        'random orders, each seen once. "all" moves along all of them together, by quasi-Newton '
        "and then Newton steps: by far the fastest way to an accurate nearest W, but without the "
        "bound on the number of steps.",
    )
    nearest: bool = parameter(
        default=True,
        rule=boolean,
        doc="Continue until W is the nearest, to accuracy `tol`. False stops as soon as all "
        "constraints are met, as the paper does; W then need not be the nearest, because a "
        "constraint may have been pushed too far before others came into play. With `C`, the "
        "nearest is the solution with the price, and constraints whose dual variable is C need "
        "not be met.",
    )
    tol: float = parameter(
        default=1e-4,
        rule=positive,
        doc="ε, the violation that counts as none: the search ends when tr(W C_j) ≤ tol for all j "
        "and, for `nearest`, tr(W C_j) ≥ -tol for all that have pushed. In units of the "
        "constraints.",
    )
    max_iter: int = parameter(
        default=10_000,
        rule=positive_integer,
        doc='Most steps, or points with choice "all", before a warning ends the search.',
    )
    random_state: int | np.random.RandomState | None = parameter(
        default=None, rule=seed, doc="Seed of the random orders."
    )
    verbose: bool = parameter(default=False, rule=boolean, doc="Show a progress bar.")

    # -- solving -------------------------------------------------------------------------------

    def fit(
        self,
        constraints: Constraints | Sequence[Constraints],
        *,
        start: ArrayLike | None = None,
        alpha: ArrayLike | None = None,
    ) -> Self:
        """Find W.

        Parameters
        ----------
        constraints : Constraints, list of such, or ConstraintOracle
        start : array of shape (n_features, n_features) or None
            W₀, positive definite with trace one; I/d if None.
        alpha : array or None
            Dual variables to begin with, such as `alpha_` of an earlier call with the same start
            and the same first constraints; missing ones begin at zero.

        Returns
        -------
        The estimator itself. On an error nothing has changed.
        """
        check_declared(self)
        where = "DefiniteBoost.fit"
        chosen = as_constraints(where, constraints)
        if not chosen.finite:
            self._check_oracle(where)
        log_start = log_of_start(where, start, chosen)
        cap = np.inf if self.C is None else float(self.C)
        first = checked_alpha(where, alpha, len(chosen), cap)
        bar = progress("DefiniteBoost", self.max_iter, enabled=self.verbose)
        with single_blas_thread(), bar as advance:
            run = Projections(chosen, log_start, first, float(self.tol), cap, bool(self.nearest))
            if self.choice == "all":
                status = solve_together(run, self.max_iter, advance)
            else:
                exact = self.projection == "exact"
                status = solve_in_turn(run, self._choice(chosen), exact, self.max_iter, advance)
            self.__dict__.update(run.result())
        self.certificate_ = None if status == "solved" else run.certificate()
        self.status_ = status if self.certificate_ is None else "infeasible"
        self.n_features_in_ = chosen.n_features
        self._warn()
        return self

    def _check_oracle(self, where: str) -> None:
        if self.choice != "most_violated":
            raise ValueError(
                f'{where}: choice must be "most_violated" with an oracle, which chooses itself, '
                f"got {self.choice!r}."
            )
        if self.C is not None:
            raise ValueError(
                f"{where}: C must be None with an oracle, which would name a constraint that stays "
                f"violated again and again, got {self.C}."
            )

    def _choice(self, constraints: Constraints) -> Choice:
        if not constraints.finite:
            return asked
        if self.choice == "most_violated":
            return most_violated
        return InTurn(generator(self.random_state) if self.choice == "random" else None)

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
            end = "" if self.status_ == "max_iter" else ", at the limit of rounding,"
            words = (
                f"stopped after {self.n_iter_} steps{end} with a violation of "
                f"{self.violation_:.3g} and a gap of {self.gap_:.3g}, for tol={self.tol}; "
                "raise max_iter or tol"
            )
        warnings.warn(f"DefiniteBoost: {words}.", ConvergenceWarning, stacklevel=3)

    # -- using ---------------------------------------------------------------------------------

    @property
    def components_(self) -> Array:
        """L with W = LᴴL; its columns are the objects' vectors if W is a kernel matrix."""
        check_is_fitted(self, "W_")
        return psd_factor(self.W_)

    def transform(self, X: Matrix | None = None) -> Array:
        """Map x to Lx, so that Euclidean distances become the learnt ones.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features), or None
            Feature vectors, if W is a metric over features. None returns the embedding of the
            objects, one row each, if W is a kernel matrix.
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

    def pairwise_distance(self, X: Matrix | None = None, Z: Matrix | None = None) -> Array:
        """√((x-z)ᵀW(x-z)) of all pairs of rows; without X, of all pairs of objects."""
        left = self.transform(X)
        right = left if Z is None else self.transform(Z)
        squares = (np.abs(left) ** 2).sum(1)[:, None] + (np.abs(right) ** 2).sum(1)
        squares = squares - 2.0 * (left @ right.conj().T).real
        if Z is None:
            np.fill_diagonal(squares, 0.0)
        return np.sqrt(np.maximum(squares, 0.0))
