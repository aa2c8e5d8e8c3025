"""Similarities with a Gaussian over W: how sure a score is, and what to ask next."""

import copy
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.utils import check_random_state

from similia.contract import Array
from similia.linalg.blocks import triplet_rows
from similia.similarity.base import BilinearSimilarity
from similia.similarity.prior import typical_lengths
from similia.validation import one_of, positive

# An update needs score < threshold. A score of 0 is a mistake too: from a zero W all scores are 0.
THRESHOLDS = {"margin": 1.0, "mistake": float(np.nextafter(0.0, 1.0))}
#: candidates that a batch of suggestions is chosen from, for each suggestion
SHORTLIST = 50


def expected_regret(score: Array, std: Array) -> Array:
    """Give E[|f| where f has not the sign of `score`] for f ~ N(score, std²).

    It is std·(φ(z) - z Φ(-z)), z = |score|/std: the expected cost of trusting the present order.
    """
    z = np.abs(score) / np.maximum(std, np.finfo(std.dtype).tiny)
    return std * (norm.pdf(z) - z * norm.sf(z))


class GaussianSimilarity(BilinearSimilarity):
    """A distribution over W: the mean scores, the covariance says how far to trust the score."""

    _rules: ClassVar = {
        **BilinearSimilarity._rules,
        "r": one_of("auto") | positive,
        "update_on": one_of(*THRESHOLDS),
    }

    r: Any
    update_on: str

    def _noise(self) -> float:
        """Give the r of the updates: one where the covariance starts in the data's own units."""
        return 1.0 if isinstance(self.r, str) else float(self.r)

    def _start_variances(self, X: Any, Z: Any) -> tuple[float, float]:
        """Give the variances that queries' and items' directions start with."""
        if not isinstance(self.r, str):
            return 1.0, 1.0
        of_queries, of_gaps = typical_lengths(X, Z)
        return of_queries**-2, of_gaps**-2

    @abstractmethod
    def _variances(self, Q: Any, Z: Any) -> Array:
        """Give the posterior variance of qᵀWz for all pairs of rows."""

    @abstractmethod
    def _row_variances(self, Q: Any, P: Any) -> Array:
        """Give the posterior variance of qᵀWp for corresponding rows."""

    @abstractmethod
    def _draw(self, rng: np.random.RandomState) -> Array:
        """Give one W from the posterior."""

    def pairwise_score(self, Q: Any, Z: Any = None, *, return_std: bool = False) -> Any:
        """Give qᵀWz for all pairs of rows; larger is closer.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features)
        Z : array or CSR matrix of shape (n_items, n_item_features), optional
            The items; the queries themselves if not given.
        return_std : bool
            Also give the posterior standard deviation of each score, in units of the margin.

        Returns
        -------
        scores : array of shape (n_queries, n_items)
        std : array of shape (n_queries, n_items), with ``return_std=True`` only
        """
        Q, Z = self._checked_sides(Q, Z, finite=True)
        scores = self._scores(Q, Z)
        if not return_std:
            return scores
        return scores, np.sqrt(np.maximum(self._variances(Q, Z), 0.0))

    def triplet_scores(
        self, X: Any, triplets: Any, *, items: Any = None, return_std: bool = False
    ) -> Any:
        """Give qᵀW(better - worse) for each triplet, and with `return_std` how sure that is."""
        scores = super().triplet_scores(X, triplets, items=items)
        if not return_std:
            return scores
        X, Z = self._checked_sides(X, items)
        variances = np.empty_like(scores)
        for block, Q, P in triplet_rows(X, Z, np.asarray(triplets), self.W_.dtype, 1024):
            variances[block] = self._row_variances(Q, P)
        return scores, np.sqrt(np.maximum(variances, 0.0))

    def sample_posterior(self, n_draws: int = 1, *, random_state: Any = None) -> Array:
        """Give matrices drawn from the posterior, of shape (n_draws, n_features, n_item_features).

        Scoring with a draw instead of the mean is Thompson sampling.
        """
        W = self._scoring_state()
        rng = check_random_state(random_state)
        draws = np.empty((n_draws, *W.shape), dtype=W.dtype)
        for draw in draws:
            draw[:] = W + self._draw(rng)
        return draws

    def suggest(
        self, X: Any, candidates: Any, n_suggestions: int = 1, *, items: Any = None
    ) -> NDArray[np.intp]:
        """Choose the comparisons whose answers would teach most.

        A candidate is a question (query, one item, another item), in either order. The best one has
        the largest expected regret: the present order is likely to be wrong, and by much. Further
        ones are chosen as if the earlier had been asked already: what an answer does to the
        covariance does not depend on the answer.

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
        scores, std = self.triplet_scores(X, candidates, items=items, return_std=True)
        if not 1 <= n_suggestions <= len(scores):
            raise ValueError(
                f"{self._owner}.suggest: n_suggestions must be between 1 and the number of "
                f"candidates, {len(scores)}, got {n_suggestions}."
            )
        if n_suggestions == 1:
            return np.array([np.argmax(expected_regret(scores, std))])
        order = np.argsort(-expected_regret(scores, std), kind="stable")
        short = order[: n_suggestions * SHORTLIST]
        X, Z = self._checked_sides(X, items)
        triplets = np.asarray(candidates)[short]
        return short[self._greedy(X, Z, triplets, scores[short], n_suggestions)]

    def _greedy(self, X: Any, Z: Any, triplets: Array, scores: Array, n: int) -> NDArray[np.intp]:
        imagined = copy.deepcopy(self)
        imagined.set_params(update_on="margin", average=False)
        open_ = np.ones(len(triplets), dtype=bool)
        chosen = []
        for _ in range(n):
            std = np.concatenate(
                [
                    np.sqrt(np.maximum(imagined._row_variances(Q, P), 0.0))
                    for _, Q, P in triplet_rows(X, Z, triplets, self.W_.dtype, 1024)
                ]
            )
            best = int(np.argmax(np.where(open_, expected_regret(scores, std), -np.inf)))
            open_[best] = False
            chosen.append(best)
            # Without a mean every question is open, so the covariance learns from this one.
            imagined.W_.fill(0.0)
            for _, Q, P in triplet_rows(X, Z, triplets[[best]], self.W_.dtype, 1):
                imagined._learn_block(Q, P)
        return np.array(chosen)
