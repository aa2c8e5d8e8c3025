"""Mahalanobis distances (x-z)ᵀA(x-z), learnt from pairs."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import Array, OnlineLearner
from similia.linalg.blocks import difference_of_rows, row_blocks
from similia.linalg.psd import psd_factor
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.sampling import PAIR_SAMPLERS
from similia.validation import (
    check_magnitude,
    check_tuples,
    function,
    one_of,
    positive_integer,
)

FLOATS = [np.float64, np.float32]
#: pairs drawn at a time by `fit`
DRAW = 4096


class MahalanobisDistance(TransformerMixin, OnlineLearner):
    """What every learner of (x-z)ᵀA(x-z), A ⪰ 0, shares: sampling, distances, a factor of A."""

    learns_from = "pairs"
    geometry = "l2"

    _rules: ClassVar = {
        **OnlineLearner._rules,
        "sampler": one_of(*PAIR_SAMPLERS) | function,
        "n_pairs": positive_integer,
    }
    _state: ClassVar = (*OnlineLearner._state, "A_")
    _averaged: ClassVar = "A_"
    #: pairs whose rows are held at once
    _block = 128

    sampler: str | Callable[..., Any]
    n_pairs: int
    verbose: bool

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Forget, then learn from `n_pairs` pairs that `sampler` draws from class labels."""
        self._check_parameters()
        with self._all_or_nothing():
            X, y = validate_data(self, X, y, reset=True, accept_sparse="csr", dtype=FLOATS)
            check_magnitude(f"{self._owner}.fit", "X", X)
            self._init_state(X)
            return self._learn_from_labels(X, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning from labels, without forgetting; as `fit` when nothing was learnt yet."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        self._check_parameters()
        X, y = validate_data(self, X, y, reset=False, accept_sparse="csr", dtype=FLOATS)
        check_magnitude(f"{self._owner}.partial_fit", "X", X)
        return self._learn_from_labels(X, y)

    def learn(self, X: Any, pairs: Any, y: Any) -> Self:
        """Learn from ready-made feedback, in order; pieces give the same as the whole.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of `X` that are compared.
        y : array of shape (n_pairs,)
            What is known of each pair; see the class.

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        where, given = f"{self._owner}.learn", X
        fitted = self.__sklearn_is_fitted__()
        X = check_array(X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False)
        pairs = check_tuples(where, "pairs", pairs, (X.shape[0], X.shape[0]))
        y = self._checked_feedback(where, np.asarray(y))
        check_consistent_length(pairs, y)
        check_magnitude(where, "X", X, pairs.ravel())
        validate_data(self, given, reset=not fitted, skip_check_array=True)
        if not fitted:
            self._init_state(X)
        with progress(self._owner, len(pairs), enabled=self.verbose) as advance:
            self._learn(X, pairs, y, advance)
        return self

    def _checked_feedback(self, where: str, y: Array) -> Array:
        """Give y as the learner understands it, or raise the house error."""
        if y.ndim != 1 or not np.isin(y, (-1, 1)).all():
            raise ValueError(f"{where}: y must be an array of +1 (similar) and -1 (dissimilar).")
        return y.astype(np.int8)

    def _learn_from_labels(self, X: Any, y: Array) -> Self:
        draw = PAIR_SAMPLERS[self.sampler](y).draw if isinstance(self.sampler, str) else None
        rng = self._rng()
        with progress(self._owner, self.n_pairs, enabled=self.verbose) as advance:
            for block in row_blocks(self.n_pairs, DRAW):
                size = block.stop - block.start
                pairs, signs = draw(size, rng) if draw else self.sampler(y, size, rng)  # type: ignore[operator]
                where = f"{self._owner}.sampler"
                pairs = check_tuples(where, "pairs", pairs, (len(y), len(y)))
                self._learn(X, pairs, self._feedback_of_signs(np.asarray(signs)), advance)
        return self

    def _feedback_of_signs(self, signs: Array) -> Array:
        return signs

    def _learn(self, X: Any, pairs: NDArray[np.intp], y: Array, advance: Any) -> None:
        with single_blas_thread():
            for block in row_blocks(len(pairs), self._block):
                Z = difference_of_rows(X, pairs[block, 0], pairs[block, 1], self.A_.dtype)
                self.n_updates_ += int(self._learn_block(Z, y[block]))
                self.n_seen_ += block.stop - block.start
                advance(block.stop - block.start)

    @abstractmethod
    def _learn_block(self, Z: Any, y: Array) -> int:
        """Learn the pairs whose differences are given; count the updates."""

    def _init_state(self, X: Any) -> None:
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.A_ = np.eye(X.shape[1], dtype=X.dtype)
        self._init_moment()

    # -- using ---------------------------------------------------------------------------------

    @property
    def A_average_(self) -> Array:
        """Mean of the states A_0 … A_T; kept only with ``average=True``."""
        return self._average_state()

    @property
    def components_(self) -> Array:
        """L with A = LᵀL: distances under A are Euclidean distances between the vectors Lx."""
        return psd_factor(self._scoring_state())

    def transform(self, X: Any) -> Array:
        """Map x to Lx, so that Euclidean distances become the learnt ones."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)
        return np.asarray(X @ self.components_.T)

    def query_vectors(self, Q: Any) -> Array:
        """Give Lq for each query: to search an l2 index of `item_vectors` with."""
        return self.transform(Q)

    def item_vectors(self, Z: Any) -> Array:
        """Give Lz for each item."""
        return self.transform(Z)

    def pairwise_distance(self, Q: Any, Z: Any = None) -> Array:
        """Give √((q-z)ᵀA(q-z)) for all pairs of rows; of the queries among themselves without Z."""
        return np.sqrt(-self.pairwise_score(Q, Z))

    def pairwise_score(self, Q: Any, Z: Any = None) -> Array:
        """Give -(q-z)ᵀA(q-z) for all pairs of rows: larger is closer."""
        left = self.transform(Q)
        right = left if Z is None else self.transform(Z)
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * (left @ right.T)
        if Z is None:
            np.fill_diagonal(squares, 0.0)
        return -np.maximum(squares, 0.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
