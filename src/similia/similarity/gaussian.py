"""Similarities with a Gaussian over W: how sure a score is, and what to ask next."""

import copy
from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.utils import check_random_state

from similia.base import accepts_one_query
from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import triplet_rows
from similia.parameters import parameter
from similia.similarity.base import BilinearSimilarity
from similia.similarity.prior import typical_lengths
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

    @property
    def _noise(self) -> float:
        """The r of the updates: 1 where the covariance starts in the data's own units."""
        return 1.0 if isinstance(self.r, str) else float(self.r)

    def _start_variances(self, X: Matrix, Z: Matrix) -> tuple[float, float]:
        """Initial variances of the queries' and the items' directions."""
        if not isinstance(self.r, str):
            return 1.0, 1.0
        of_queries, of_gaps = typical_lengths(X, Z)
        return of_queries**-2, of_gaps**-2

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
        margins = self._margins(*sides)
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
        margins = self._margins(X, Z, triplets)
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
