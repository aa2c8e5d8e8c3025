"""DefiniteBoost: the matrix nearest to a start among those that meet linear constraints."""

import warnings
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, TransformerTags
from sklearn.utils.validation import check_is_fitted

from similia.base import generator
from similia.constraints import projections
from similia.constraints.base import Constraints
from similia.constraints.dual import checked_alpha, log_of_start
from similia.constraints.sets import GivenConstraints, as_constraints
from similia.contract import Array, Matrix
from similia.linalg.spectral import psd_factor
from similia.linalg.threads import single_blas_thread
from similia.parameters import check_declared, parameter, parameterized
from similia.progress import progress
from similia.safety.whole import held_signals
from similia.validation import (
    boolean,
    checked_matrix,
    none,
    one_of,
    positive,
    positive_integer,
    seed,
)


@parameterized
class DefiniteBoost(BaseEstimator):
    """Matrix of trace one that meets linear constraints, nearest to a start: Bregman projections.

    With the von Neumann divergence Δ(W, W₀) = tr(W log W - W log W₀),

        min Δ(W, W₀)  subject to  tr(W C_j) ≤ 0 for all j,  tr W = 1,  W ⪰ 0        [Tsuda2005, 4.1]

    is solved by moving log W along one violated C_j after another, or along all of them. W is
    symmetric or, for complex constraints, Hermitian; boosting is the diagonal case. With a price
    `C` on violations, constraints may contradict each other:

        min Δ(W, W₀) + C Σ ξ_j  subject to  tr(W C_j) ≤ ξ_j,  ξ_j ≥ 0,  tr W = 1,  W ⪰ 0.

    Attributes
    ----------
    W_ : array of shape (n_features, n_features)
    alpha_ : array of shape (n_constraints,)
        Dual variables, non-negative: log W = log W₀ - Σ alpha_j C_j, up to a multiple of I.
    status_ : {"solved", "infeasible", "max_iter", "stalled"}
        "stalled" occurs with choice "all" if rounding allows no better point.
    certificate_ : Certificate or None
        If infeasible, the proof: weights of the C_j whose combination is positive definite.
    slack_, violation_ : array of shape (n_constraints,) and float
        ξ_j = max(0, tr(W C_j)), the violation of each constraint, and the largest of them.
    divergence_, objective_ : float
        Δ(W, W₀), and with `C` added to it C Σ ξ_j.
    dual_, gap_ : float
        h(α) = -log tr exp(log W₀ - Σ α_j C_j): no W that meets all constraints is nearer; with `C`,
        no W has a lower objective. The duality gap bounds how far W is from optimal.
    n_iter_, iteration_bound_ : int and float
        Steps taken, and steps at violated constraints (of an oracle, those named) after which a
        feasible problem is solved. With `C`, steps cut off at α_j = C are not counted.
    history_ : dict of arrays
        For each step: "constraint", its "value" tr(W C_j) before, and the length of the "step";
        "dual" and "dual_bound", the dual value after it and what Theorem 4.1 promises; "violation"
        and "gap" before it, NaN unless all constraints were screened.

    Notes
    -----
    *Where we differ from the paper.* (4.6) as printed holds for λmin = -λmax only; see
    `updates.definite_boost`. Steps with tr(WC) < 0, for `nearest`, use the same formula, cut off
    where α_j is zero; any step is cut off where α_j is `C`. Corollary 4.2 is extended to any W₀ and
    any eigenvalues. The guide on positive definite matrices has the formulas of bound and gap.

    *Cost.* A step along a rank-one constraint (distances, `RankOneConstraints`) updates the
    eigendecomposition of log W in O(d²) and a matrix product; a general matrix needs a new one.

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
        "met. C bounds the dual variables, so a larger one allows less; if all constraints can be "
        "met, a C of at least the largest unbounded dual variable changes nothing.",
    )
    projection: str = parameter(
        default="approximate",
        rule=one_of("approximate", "exact"),
        doc="Step onto a constraint: in closed form, raising the dual as Theorem 4.1 promises, or "
        "until it holds with equality. Exact steps cost several times as much; often fewer do.",
    )
    choice: str = parameter(
        default="most_violated",
        rule=one_of("most_violated", "cyclic", "random", "all"),
        doc="Which constraint comes next: the most violated after screening all; in order; in "
        'random orders, each seen once. "all" moves along all together, by quasi-Newton and then '
        "Newton steps: by far the fastest to an accurate W, but without a bound on the steps.",
    )
    nearest: bool = parameter(
        default=True,
        rule=boolean,
        doc="Continue until W is the nearest, to accuracy `tol`. False stops as soon as all "
        "constraints are met (with `C`: or have that dual variable), as the paper does; some may "
        "then have been pushed too far before others came into play.",
    )
    tol: float = parameter(
        default=1e-4,
        rule=positive,
        doc="Violation that counts as none: the search ends when tr(W C_j) ≤ tol for all j and, "
        "for `nearest`, tr(W C_j) ≥ -tol for all that have pushed.",
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

    def fit(
        self,
        constraints: GivenConstraints,
        *,
        start: ArrayLike | None = None,
        alpha: ArrayLike | None = None,
    ) -> Self:
        """Find W; on an error nothing has changed.

        Parameters
        ----------
        constraints : Constraints, list of such, or ConstraintOracle
        start : array of shape (n_features, n_features) or None
            W₀, positive definite with trace one; I/d if None.
        alpha : array or None
            Dual variables to resume from: `alpha_` of an earlier call with the same start and the
            same first constraints; missing ones begin at zero.
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
            rules = float(self.tol), cap, bool(self.nearest)
            run = projections.Projections(chosen, log_start, first, *rules)
            if self.choice == "all":
                status = projections.solve_together(run, self.max_iter, advance)
            else:
                choice, exact = self._choice(chosen), self.projection == "exact"
                status = projections.solve_in_turn(run, choice, exact, self.max_iter, advance)
            result = run.result()
        certificate = None if status == "solved" else run.certificate()
        with held_signals():
            self.__dict__.update(result)
            self.certificate_ = certificate
            self.status_ = status if certificate is None else "infeasible"
            self.n_features_in_ = chosen.n_features
        self._warn()
        return self

    def _check_oracle(self, where: str) -> None:
        if self.choice != "most_violated":
            rule = 'choice must be "most_violated" with an oracle, which chooses itself'
            raise ValueError(f"{where}: {rule}, got {self.choice!r}.")
        if self.C is not None:
            why = "which would name a constraint that stays violated again and again"
            raise ValueError(f"{where}: C must be None with an oracle, {why}, got {self.C}.")

    def _choice(self, constraints: Constraints) -> projections.Choice:
        if not constraints.finite:
            return projections.asked
        if self.choice == "most_violated":
            return projections.most_violated
        rng = generator(self.random_state) if self.choice == "random" else None
        return projections.InTurn(rng)

    def _warn(self) -> None:
        if self.status_ == "solved":
            return
        if self.certificate_ is not None:
            proof = f"has the smallest eigenvalue {self.certificate_.smallest:.3g} > 0"
            words = f"no W meets all constraints: a combination of them, in certificate_, {proof}"
            advice = "with C they can be violated at a price"
        else:
            end = "" if self.status_ == "max_iter" else ", at the limit of rounding,"
            found = f"with a violation of {self.violation_:.3g} and a gap of {self.gap_:.3g}"
            words = f"stopped after {self.n_iter_} steps{end} {found}, for tol={self.tol}"
            advice = "raise max_iter or tol"
        warnings.warn(f"DefiniteBoost: {words}; {advice}.", ConvergenceWarning, stacklevel=3)

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
            If W is a kernel matrix, None returns the embedding of the objects, one row each.
        """
        L, d = self.components_, len(self.W_)
        if X is None:
            return L.T.copy()
        X = checked_matrix("DefiniteBoost.transform", "X", X, dtype=np.float64)
        if X.shape[1] != d:
            raise ValueError(
                f"DefiniteBoost.transform: X must have {d} features, got {X.shape[1]}."
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

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False  # `fit` takes constraints
        tags.no_validation = True
        tags.transformer_tags = TransformerTags(preserves_dtype=[])
        tags.non_deterministic = self.choice == "random"
        return tags
