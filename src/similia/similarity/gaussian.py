"""Similarities with a Gaussian over W: how sure a score is, and what to ask next."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm
from sklearn.utils import check_random_state

from similia.base import Array
from similia.linalg.bilinear import bilinear_forms
from similia.linalg.blocks import triplet_rows
from similia.similarity.base import BilinearSimilarity
from similia.validation import check_tuples


class GaussianSimilarity(BilinearSimilarity):
    """A distribution over W: the mean scores, the covariance says how far to trust the score."""

    def _variances(self, Q: Any, Z: Any) -> Array:
        """Give the posterior variance of qᵀWz for all pairs of rows."""
        raise NotImplementedError

    def _row_variances(self, Q: Any, P: Any) -> Array:
        """Give the posterior variance of qᵀWp for corresponding rows."""
        raise NotImplementedError

    def _draw(self, rng: np.random.RandomState) -> Array:
        """Give one W from the posterior."""
        raise NotImplementedError

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
