"""Mahalanobis distances (x-z)ᵀA(x-z), learnt from pairs."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import TransformerMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import OnlineLearner
from similia.contract import FLOATS, Array
from similia.linalg.blocks import difference_of_rows, row_blocks, squared
from similia.linalg.psd import psd_factor, quick_factor
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.sampling import PAIR_SAMPLERS
from similia.validation import (
    check_magnitude,
    check_tuples,
    function,
    none,
    one_of,
    positive_integer,
)

#: pairs drawn at a time by `fit`
DRAW = 4096
#: random pairs from which scales are estimated
SAMPLE = 1000


class MahalanobisDistance(TransformerMixin, OnlineLearner):
    """What every learner of (x-z)ᵀA(x-z), A ⪰ 0, shares: sampling, distances, a factor of A.

    The learners are of one family: each judgement moves A to a matrix that agrees with it better
    and is near A under a Bregman `divergence`: Frobenius for POLA, LogDet for LEGO, von Neumann for
    MEG.
    """

    learns_from = "pairs"
    geometry = "l2"
    #: the function of `linalg.bregman` that says how far a step goes
    divergence: ClassVar[str]

    _rules: ClassVar = {
        **OnlineLearner._rules,
        "sampler": one_of(*PAIR_SAMPLERS) | function,
        "n_pairs": positive_integer,
        "n_components": none | positive_integer,
    }
    _state: ClassVar = (*OnlineLearner._state, "A_")
    _averaged: ClassVar = "A_"
    #: pairs whose rows are held at once
    _block = 128

    sampler: str | Callable[..., Any]
    n_pairs: int
    n_components: int | None
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
        given = X
        X, pairs, y = self._checked_judgements(f"{self._owner}.learn", X, pairs, y)
        with self._all_or_nothing():
            first = not self.__sklearn_is_fitted__()
            validate_data(self, given, reset=first, skip_check_array=True)
            if first:
                self._init_state(X)
        with progress(self._owner, len(pairs), enabled=self.verbose) as advance:
            self._learn(X, pairs, y, advance)
        return self

    def _checked_judgements(self, where: str, X: Any, pairs: Any, y: Any) -> tuple[Any, Any, Array]:
        """Give points, pairs and feedback in the learner's form, or raise the house error."""
        X = check_array(X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=False)
        pairs = check_tuples(where, "pairs", pairs, (X.shape[0], X.shape[0]))
        y = self._checked_feedback(where, np.asarray(y))
        check_consistent_length(pairs, y)
        check_magnitude(where, "X", X, pairs.ravel())
        return X, pairs, y

    def _checked_feedback(self, where: str, y: Array) -> Array:
        """Give y as the learner understands it, or raise the house error."""
        if y.ndim != 1 or not np.isin(y, (-1, 1)).all():
            raise ValueError(f"{where}: y must be an array of +1 (similar) and -1 (dissimilar).")
        return y.astype(np.int8)

    def _learn_from_labels(self, X: Any, y: Array) -> Self:
        with progress(self._owner, self.n_pairs, enabled=self.verbose) as advance:
            for pairs, feedback in self._drawn(y):
                self._learn(X, pairs, feedback, advance)
        return self

    def _drawn(self, y: Array) -> Iterator[tuple[NDArray[np.intp], Array]]:
        """Yield `n_pairs` pairs and their feedback, in blocks, drawn from class labels."""
        draw = PAIR_SAMPLERS[self.sampler](y).draw if isinstance(self.sampler, str) else None
        rng = self._rng()
        for block in row_blocks(self.n_pairs, DRAW):
            size = block.stop - block.start
            pairs, signs = draw(size, rng) if draw else self.sampler(y, size, rng)  # type: ignore[operator]
            pairs = check_tuples(f"{self._owner}.sampler", "pairs", pairs, (len(y), len(y)))
            yield pairs, self._feedback_of_signs(np.asarray(signs))

    def _feedback_of_signs(self, signs: Array) -> Array:
        return signs

    def _learn(self, X: Any, pairs: NDArray[np.intp], y: Array, advance: Any) -> None:
        with single_blas_thread():
            for block in row_blocks(len(pairs), self._block):
                Z = self._differences(X, pairs[block])
                self.n_updates_ += int(self._learn_block(Z, y[block]))
                self.n_seen_ += block.stop - block.start
                advance(block.stop - block.start)

    def _differences(self, X: Any, pairs: NDArray[np.intp]) -> Any:
        """Give x - z for each pair, in the coordinates of A."""
        return difference_of_rows(X, pairs[:, 0], pairs[:, 1], self.A_.dtype)

    @abstractmethod
    def _learn_block(self, Z: Any, y: Array) -> int:
        """Learn the pairs whose differences are given; count the updates."""

    def _init_state(self, X: Any) -> None:
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.A_ = np.eye(X.shape[1], dtype=X.dtype)
        self._init_moment()

    def _random_squares(self, X: Any) -> Array:
        """Give the squared distances, not zero, of random pairs of rows: what scales come from.

        They depend on X and a fixed seed alone, so that learning in pieces starts where learning at
        once does.
        """
        pairs = np.random.default_rng(0).integers(X.shape[0], size=(SAMPLE, 2))
        with np.errstate(invalid="ignore", over="ignore"):  # rows that no pair names may be bad
            squares = self._plain_squares(X, pairs)
        return squares[np.isfinite(squares) & (squares > 0)]

    def _typical_bounds(self, X: Any) -> Array:
        """Give the 5th and the 95th percentile of those distances: near and far, as ITML has it."""
        squares = self._random_squares(X)
        return np.percentile(np.sqrt(squares), [5, 95]) if len(squares) else np.ones(2)

    def _plain_squares(self, X: Any, pairs: NDArray[np.intp]) -> Array:
        """Give |x - z|² for each pair, before anything is learnt."""
        Z = difference_of_rows(X, pairs[:, 0], pairs[:, 1], np.float64)
        return np.asarray(squared(Z).sum(axis=1)).ravel()

    # -- using ---------------------------------------------------------------------------------

    @property
    def A_average_(self) -> Array:
        """Mean of the states A_0 … A_T; kept only with ``average=True``."""
        return self._average_state()

    def metric_matrix(self) -> Array | None:
        """A of the squared distances (x-z)ᵀA(x-z) in use; None if they are not of that form."""
        return self._scoring_state() if self.n_components is None else None

    @property
    def components_(self) -> Array:
        """L with A = LᵀL: distances under A are Euclidean distances between the vectors Lx.

        Its rows are eigenvectors of A, scaled, the largest first; `n_components` of them if given.
        """
        return psd_factor(self._scoring_state(), self.n_components)

    def transform(self, X: Any) -> Array:
        """Map x to Lx, so that Euclidean distances become the learnt ones."""
        return self._moved(X, self.components_)

    def _moved(self, X: Any, L: Array) -> Array:
        """Give Lx for each row, in the precision of X."""
        X = self._checked(X)
        return np.asarray(self._mapped(X) @ L.T.astype(X.dtype, copy=False))

    def _checked(self, X: Any) -> Any:
        check_is_fitted(self)
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)

    def _mapped(self, X: Any) -> Any:
        """Give rows that were checked in the coordinates of A."""
        return X

    def _factor(self) -> Array:
        """Give some L with A = LᵀL: the one of `components_` only where it must be."""
        if self.n_components is None:
            return quick_factor(self._scoring_state())
        return self.components_

    def query_vectors(self, Q: Any) -> Array:
        """Give Lq for each query: to search an l2 index of `item_vectors` with."""
        return self.transform(Q)

    def query_matrix(self) -> Array | None:
        """Give Lᵀ, with which `query_vectors` multiplies; None if they are more than a product."""
        return self.components_.T

    def item_vectors(self, Z: Any) -> Array:
        """Give Lz for each item."""
        return self.transform(Z)

    def pairwise_distance(self, Q: Any, Z: Any = None) -> Array:
        """Give √((q-z)ᵀA(q-z)) for all pairs of rows; of the queries among themselves without Z."""
        return np.sqrt(-self.pairwise_score(Q, Z))

    def pairwise_score(self, Q: Any, Z: Any = None) -> Array:
        """Give -(q-z)ᵀA(q-z) for all pairs of rows: larger is closer."""
        L = self._factor()
        left = self._moved(Q, L)
        right = left if Z is None else self._moved(Z, L)
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * (left @ right.T)
        if Z is None:
            np.fill_diagonal(squares, 0.0)
        return -np.maximum(squares, 0.0)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
