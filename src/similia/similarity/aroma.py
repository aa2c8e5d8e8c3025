"""AROMA: a distribution over bilinear similarities, learnt from triplets.

Its mean scores; its covariance says how sure a score is, and what to ask next.
"""

import copy
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils import check_random_state

from similia.base import accepts_one_query
from similia.contract import Array, Indices, Matrix, State
from similia.linalg.blas import bilinear_forms, products, row_products
from similia.linalg.blocks import aligned, squared, triplet_rows
from similia.linalg.gaussian import mean_precision, mean_variances
from similia.linalg.spectral import psd_factor
from similia.parameters import parameter
from similia.similarity.base import BilinearSimilarity
from similia.updates.aroma import diagonal_pass, factored_analysed_pass, factored_pass
from similia.validation import one_of, positive

# An update needs score < threshold. A score of 0 is a mistake too: from a zero W all scores are 0.
THRESHOLDS = {"margin": 1.0, "mistake": float(np.nextafter(0.0, 1.0))}
#: candidates that a batch of suggestions is chosen from, for each suggestion
SHORTLIST = 50


def expected_regret(score: Array, std: Array) -> Array:
    """E[|f|; f has not the sign of `score`] for f ~ N(score, std²): the cost of trusting the order.

    It is std·(φ(z) - z Φ(-z)) with z = |score|/std.
    """
    z = np.abs(score) / np.maximum(std, np.finfo(std.dtype).tiny)
    return std * (norm.pdf(z) - z * norm.sf(z))


class GaussianSimilarity(BilinearSimilarity):
    """A distribution over W: its mean scores, its covariance says how far to trust a score."""

    r: str | float = parameter(
        default="auto",
        rule=one_of("auto") | positive,
        doc="Larger r follows each triplet less closely and lets uncertainty shrink more slowly. A "
        "number is the paper's, for a covariance that starts from the identity, and so in units "
        'of the rows\' lengths. "auto" takes r = 1 and starts from a covariance scaled by '
        "1/(E|q|² E|p|²), means over random triplets: the prior is as unsure of a typical gap as "
        "one judgement is, and X and 10·X are ranked alike.",
    )
    update_on: str = parameter(
        default="mistake",
        rule=one_of(*THRESHOLDS),
        doc="Learn only from triplets that score 0 or less, so that a prior which is right stays "
        "as it is, or from all that score below the margin 1: the paper's rule, right where the "
        "prior is poor or labels are many.",
    )

    def _init_state(self, X: Matrix, Z: Matrix) -> tuple[float, float]:
        """Start the mean; return the initial variances of queries' and items' directions.

        With r = "auto" they are in the data's own units, and the r of the updates is 1.
        """
        of_queries, of_gaps = super()._init_state(X, Z)
        if not isinstance(self.r, str):
            return 1.0, 1.0
        least = float(np.finfo(X.dtype).max) ** -0.25  # below, variances are no numbers
        if min(of_queries, of_gaps) < least:
            raise ValueError(
                f"{self._owner}: X must have rows whose lengths and differences are typically at "
                f"least {least:.1e} for {X.dtype}, got {min(of_queries, of_gaps):.1e}; scale it up."
            )
        return of_queries**-2, of_gaps**-2

    def _noise(self) -> float:
        """The updates' r."""
        return 1.0 if isinstance(self.r, str) else float(self.r)

    def _bolder(self, n: int) -> dict[str, Any]:
        return {"r": self._noise() / n}

    @abstractmethod
    def _variances(self, Q: Matrix, Z: Matrix) -> Array:
        """Posterior variances of qᵀWz for all pairs of rows."""

    @abstractmethod
    def _row_variances(self, Q: Matrix, P: Matrix) -> Array:
        """Posterior variances of qᵀWp for corresponding rows."""

    @abstractmethod
    def _draw(self, rng: np.random.RandomState) -> Array:
        """One draw of W minus its mean."""

    @accepts_one_query
    def pairwise_score(
        self, Q: Matrix, Z: Matrix | None = None, *, return_std: bool = False
    ) -> Array | tuple[Array, Array]:
        """Scores qᵀWz of all pairs of rows; larger is closer.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or one vector
        Z : array or CSR matrix of shape (n_items, n_item_features), optional
            The items; the queries themselves if not given.
        return_std : bool
            Return the posterior standard deviation of each score too, in units of the margin.

        Returns
        -------
        scores : array of shape (n_queries, n_items), or (n_items,) for one vector
        std : array of the same shape, with ``return_std=True`` only
        """
        Q, Z = self._checked_sides(Q, Z, finite=True)
        scores = self._scores(Q, Z)
        if not return_std:
            return scores
        return scores, np.sqrt(np.maximum(self._variances(Q, Z), 0.0))

    def triplet_scores(
        self,
        X: Matrix,
        triplets: ArrayLike,
        *,
        items: Matrix | None = None,
        return_std: bool = False,
    ) -> Any:
        """Margins qᵀW(better - worse); with `return_std` also their standard deviations."""
        sides = self._checked_triplets(X, triplets, items)
        margins = self.margins(*sides)
        return (margins, self._triplet_std(*sides)) if return_std else margins

    def _triplet_std(self, X: Matrix, Z: Matrix, triplets: Indices) -> Array:
        variances = np.empty(len(triplets), self.W_.dtype)
        for block, Q, P in triplet_rows(X, Z, triplets, self.W_.dtype, 1024):
            variances[block] = self._row_variances(Q, P)
        return np.sqrt(np.maximum(variances, 0.0))

    def sample_posterior(self, n_draws: int = 1, *, random_state: Any = None) -> Array:
        """Posterior draws of W, of shape (n_draws, n_features, n_item_features).

        Scoring with a draw instead of the mean is Thompson sampling.
        """
        W = self._scoring_state()
        rng = check_random_state(random_state)
        draws = np.empty((n_draws, *W.shape), dtype=W.dtype)
        for draw in draws:
            draw[:] = W + self._draw(rng)
        return draws

    def suggest(
        self,
        X: Matrix,
        candidates: ArrayLike,
        n_suggestions: int = 1,
        *,
        items: Matrix | None = None,
    ) -> Indices:
        """Choose the comparisons whose answers would teach most.

        A candidate is a question (query, one item, another item), in either order. The best one has
        the largest expected regret: the present order is likely to be wrong, and by much. Further
        ones are chosen as if the earlier had been answered: what an answer does to the covariance
        does not depend on the answer.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features)
        candidates : integer array of shape (n_candidates, 3)
        n_suggestions : int
            How many to choose, at most as many as there are candidates.
        items : array or CSR matrix of shape (n_items, n_item_features), optional

        Returns
        -------
        chosen : array of shape (n_suggestions,)
            Rows of `candidates`, best first.
        """
        X, Z, triplets = self._checked_triplets(X, candidates, items)
        if not 1 <= n_suggestions <= len(triplets):
            raise ValueError(
                f"{self._owner}.suggest: n_suggestions must be between 1 and the number of "
                f"candidates, {len(triplets)}, got {n_suggestions}."
            )
        margins = self.margins(X, Z, triplets)
        regrets = expected_regret(margins, self._triplet_std(X, Z, triplets))
        if n_suggestions == 1:
            return np.array([np.argmax(regrets)])
        short = np.argsort(-regrets, kind="stable")[: n_suggestions * SHORTLIST]
        return short[self._greedy(X, Z, triplets[short], margins[short], n_suggestions)]

    def _greedy(self, X: Matrix, Z: Matrix, triplets: Indices, margins: Array, n: int) -> Indices:
        imagined = copy.deepcopy(self)
        imagined.set_params(update_on="margin", average=False)
        open_ = np.ones(len(triplets), dtype=bool)
        chosen = []
        for _ in range(n):
            regrets = expected_regret(margins, imagined._triplet_std(X, Z, triplets))
            best = int(np.argmax(np.where(open_, regrets, -np.inf)))
            open_[best] = False
            chosen.append(best)
            # Without a mean every question is open, so the covariance learns from this one.
            imagined.W_.fill(0.0)
            for _, Q, P in triplet_rows(X, Z, triplets[[best]], self.W_.dtype, 1):
                imagined._learn_block(Q, P)
        return np.array(chosen)


class FactoredAROMA(GaussianSimilarity):
    """Bilinear similarity with a matrix-variate Gaussian over W, its covariance Ω ⊗ Λ factored.

    Λ holds how uncertain the directions of queries still are, Ω those of items. A triplet (query q,
    better and worse item with difference p) that scores s = qᵀWp < 1 moves, all with the matrices
    before the update, a = qᵀΛq and b = pᵀΩp,

        W += (1-s)/(r+ab) Λq pᵀΩ                                               [Crammer2012, 12]
        Ω -= a/(mr+ab) Ωp pᵀΩ,   Λ -= b/(nr+ab) Λq qᵀΛ                         [Crammer2012, 13, 14]

    Attributes
    ----------
    W_ : array of shape (n_features, n_item_features)
        Mean of the distribution, after the last triplet.
    W_average_ : array of the same shape
        Mean of those means over the stream, with ``average=True``.
    Lambda_, Omega_ : arrays of shape (n_features, n_features), (n_item_features, n_item_features)
        Covariance of queries' and items' directions.
    prior_scale_ : float
    n_seen_, n_updates_ : int
        Triplets learnt from, and those of them that changed the state.

    Notes
    -----
    A triplet costs 2 mn flops (m = n) for its score and 10 mn more if it is learnt from, in matrix
    products over blocks of triplets: the states are those of the one-at-a-time form up to rounding.
    Memory is the state, mn + m² + n², and a block.

    The paper's experiments are with ``update_on="margin"``. Its Theorem 2 is about mistakes alone
    and about a mean that moves with the new Λ and Ω, but with the length (1-s)/(r+ab) it fails for
    some sequences, as it does for the update above. It holds, with half of its second term, for
    ``update="analysed"``, ``update_on="mistake"``, ``prior="zero"`` and a number for r. The
    theorem's condition 0 > s is never met from W = 0; here a score of 0 is a mistake too.

    (13) minimises the objective (11) in Ω with the old Λ, and (14) in Λ with the old Ω; together
    they are not its minimum.

    References
    ----------
    .. [Crammer2012] K. Crammer, G. Chechik, "Adaptive Regularization for Weight Matrices",
       ICML 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import FactoredAROMA
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = FactoredAROMA(n_triplets=2000, random_state=0).fit(X, y)
    >>> score, std = learner.pairwise_score(X[:1], X[:2], return_std=True)
    >>> score.shape, bool((std > 0).all())
    ((1, 2), True)
    """

    update: str = parameter(
        default="printed",
        rule=one_of("printed", "analysed"),
        doc="The update above, or the one that the proof of the paper's Theorem 2 covers: W = ΛθΩ "
        "with the new Λ and Ω and θ += qpᵀ, one triplet at a time. See the notes.",
    )

    _state: ClassVar = (*GaussianSimilarity._state, "Lambda_", "Omega_")
    _forms: ClassVar = ("mn", "mm", "nn")

    def _init_state(self, X: Matrix, Z: Matrix) -> tuple[float, float]:
        variances = of_queries, of_items = super()._init_state(X, Z)
        self.Lambda_ = (of_queries * np.eye(X.shape[1])).astype(self.W_.dtype)
        self.Omega_ = (of_items * np.eye(Z.shape[1])).astype(self.W_.dtype)
        return variances

    def _learn_block(self, Q: Matrix, P: Matrix) -> int:
        state = (self.W_, self.Lambda_, self.Omega_, self.moment_, self.n_seen_)
        learn = factored_analysed_pass if self.update == "analysed" else factored_pass
        return learn(*state, Q, P, self._noise(), THRESHOLDS[self.update_on])

    def _variances(self, Q: Matrix, Z: Matrix) -> Array:
        QL, ZO = products((Q, self.Lambda_), (Z, self.Omega_))
        return np.outer(row_products(QL, Q), row_products(ZO, Z))

    def _row_variances(self, Q: Matrix, P: Matrix) -> Array:
        QL, PO = products((Q, self.Lambda_), (P, self.Omega_))
        return row_products(QL, Q) * row_products(PO, P)

    def _draw(self, rng: np.random.RandomState) -> Array:
        noise = rng.standard_normal(self.W_.shape).astype(self.W_.dtype)
        return psd_factor(self.Lambda_).T @ noise @ psd_factor(self.Omega_)

    def _merged_state(self, parts: Sequence[Self]) -> State:
        factors = {
            name: mean_precision([getattr(part, name) for part in parts])
            for name in ("Lambda_", "Omega_")
        }
        return {**super()._merged_state(parts), **factors}

    def _steps_to_merge(self) -> int:
        """Three times as many of the small steps below the margin as of corrected mistakes."""
        return sum(self.W_.shape) * (3 if self.update_on == "margin" else 1)


class DiagonalAROMA(GaussianSimilarity):
    """Bilinear similarity with an independent Gaussian over each entry of W.

    A triplet (query q, better and worse item with difference p) that scores s = qᵀWp < 1 moves,
    with x = qpᵀ and v = Σ_kl x²Σ before the update,

        W += (1-s)/(v+r) Σ⊙x,   Σ -= (Σ⊙x)²/(v+r)                              [Crammer2012, 5, 6]

    Attributes
    ----------
    W_ : array of shape (n_features, n_item_features)
        Mean of the distribution, after the last triplet.
    W_average_ : array of the same shape
        Mean of those means over the stream, with ``average=True``.
    Sigma_ : array of the same shape
        Variance of each entry of W.
    prior_scale_ : float
    n_seen_, n_updates_ : int
        Triplets learnt from, and those of them that changed the state.

    Notes
    -----
    A triplet of sparse rows with k_q and k_p non-zeros costs k_q k_p; dense rows cost one pass
    over W and Σ. Memory is the state, 2mn, and a block of rows.

    The paper states Theorem 1 for the printed update, but random sequences with large r violate it;
    it holds for ``update="analysed"``, ``update_on="margin"``, ``prior="zero"`` and a number for r.

    References
    ----------
    .. [Crammer2012] K. Crammer, G. Chechik, "Adaptive Regularization for Weight Matrices",
       ICML 2012.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from similia import DiagonalAROMA
    >>> X, y = load_iris(return_X_y=True)
    >>> learner = DiagonalAROMA(n_triplets=2000, random_state=0).fit(X, y)
    >>> learner.n_seen_, learner.Sigma_.shape
    (2000, (4, 4))
    """

    update: str = parameter(
        default="printed",
        rule=one_of("printed", "analysed"),
        doc="The update above, or the one that the paper's Theorem 1 covers: W = Σ⊙θ with θ += x, "
        "1/Σ += x²/r. See the notes.",
    )

    _state: ClassVar = (*GaussianSimilarity._state, "Sigma_")
    _forms: ClassVar = ("mn", "mn")
    _block = 256

    def _init_state(self, X: Matrix, Z: Matrix) -> tuple[float, float]:
        variances = of_queries, of_items = super()._init_state(X, Z)
        self.W_, self.moment_ = aligned(self.W_), aligned(self.moment_)
        self.Sigma_ = aligned(np.full_like(self.W_, of_queries * of_items))
        return variances

    def _learn_block(self, Q: Matrix, P: Matrix) -> int:
        state = (self.W_, self.Sigma_, self.moment_, self.n_seen_)
        rule = (self._noise(), THRESHOLDS[self.update_on], self.update == "analysed")
        return diagonal_pass(*state, Q, P, *rule)

    def _variances(self, Q: Matrix, Z: Matrix) -> Array:
        return np.asarray((squared(Z) @ (squared(Q) @ self.Sigma_).T).T)

    def _row_variances(self, Q: Matrix, P: Matrix) -> Array:
        return bilinear_forms(self.Sigma_, squared(Q), squared(P))

    def _draw(self, rng: np.random.RandomState) -> Array:
        return np.sqrt(self.Sigma_) * rng.standard_normal(self.W_.shape).astype(self.W_.dtype)

    def _merged_state(self, parts: Sequence[Self]) -> State:
        variances = mean_variances([part.Sigma_ for part in parts])
        return {**super()._merged_state(parts), "Sigma_": variances}

    def _steps_to_merge(self) -> int:
        """Half the number of entries, as each entry learns alone."""
        return self.W_.size // 2
