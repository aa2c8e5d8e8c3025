"""Bilinear similarities qᵀWp, learnt from triplets (query, better, worse)."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import OnlineLearner
from similia.contract import FLOATS, Array
from similia.linalg.bilinear import bilinear_forms
from similia.linalg.blocks import row_blocks, rows_of, triplet_rows
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.sampling import TRIPLET_SAMPLERS
from similia.similarity.prior import automatic_scale, check_prior, prior_matrix
from similia.validation import (
    array,
    check_magnitude,
    check_tuples,
    function,
    one_of,
    positive,
    positive_integer,
)

#: triplets drawn at a time by `fit`: bounds memory, and how stale the model of hard negatives is
DRAW = 4096


class BilinearSimilarity(OnlineLearner):
    """What every learner of qᵀWp shares: sampling, streaming, priors, scores and vectors.

    Because qᵀWp = ⟨Wᵀq, p⟩, only queries are transformed: an index of the items stays as it is.
    """

    learns_from = "triplets"
    geometry = "inner_product"

    _rules: ClassVar = {
        **OnlineLearner._rules,
        "prior": one_of("zero", "identity") | array,
        "prior_scale": one_of("auto") | positive,
        "sampler": one_of(*TRIPLET_SAMPLERS) | function,
        "n_triplets": positive_integer,
    }
    _state: ClassVar = (*OnlineLearner._state, "n_item_features_", "prior_scale_", "W_")
    _averaged: ClassVar = "W_"
    #: triplets whose rows are held at once
    _block = 128

    prior: str | Array
    prior_scale: Any
    sampler: str | Callable[..., Any]
    n_triplets: int
    verbose: bool

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Forget, then learn from `n_triplets` triplets that `sampler` draws from labels.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Queries and items alike.
        y : array of shape (n_samples,)
            Class labels: points of a class are closer to each other than to the others.
        """
        self._check_parameters()
        with self._all_or_nothing():
            X, y = self._checked_labelled(X, y, reset=True)
            check_prior(self._owner, self.prior, X.shape[1], X.shape[1])
            self._init_state(X, X)
            return self._learn_from_labels(X, y)

    def partial_fit(self, X: Any, y: Any) -> Self:
        """Go on learning from labels, without forgetting; as `fit` when nothing was learnt yet."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        self._check_parameters()
        X, y = self._checked_labelled(X, y, reset=False)
        return self._learn_from_labels(X, y)

    def learn(self, X: Any, triplets: Any, *, items: Any = None) -> Self:
        """Learn from ready-made feedback, in order; pieces give the same as the whole.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features)
            Query vectors; also the items, unless `items` is given.
        triplets : integer array of shape (n_triplets, 3)
            Rows (query, better, worse): the first indexes `X`, the others index the items.
        items : array or CSR matrix of shape (n_items, n_item_features), optional
            Item vectors, where queries and items are different things; W may be rectangular.

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        where, given = f"{self._owner}.learn", X
        X, Z = self._checked_sides(X, items)
        triplets = check_tuples(where, "triplets", triplets, (X.shape[0], Z.shape[0], Z.shape[0]))
        check_magnitude(where, "X", X, triplets[:, 0] if Z is not X else triplets.ravel())
        if Z is not X:
            check_magnitude(where, "items", Z, triplets[:, 1:].ravel())
        if not self.__sklearn_is_fitted__():
            check_prior(self._owner, self.prior, X.shape[1], Z.shape[1])
            with self._all_or_nothing():
                validate_data(self, given, reset=True, skip_check_array=True)
                self._init_state(X, Z)
        with progress(self._owner, len(triplets), enabled=self.verbose) as advance:
            self._learn(X, Z, triplets, advance)
        return self

    def _checked_labelled(self, X: Any, y: Any, *, reset: bool) -> tuple[Any, Array]:
        X, y = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS)
        check_magnitude(f"{self._owner}.fit", "X", X)
        if not reset and self.n_item_features_ != X.shape[1]:
            raise ValueError(
                f"{self._owner}.partial_fit: X must have {self.n_item_features_} features, as the "
                f"items had, got {X.shape[1]}; use learn(..., items=...) for two kinds of vectors."
            )
        return X, y

    def _learn_from_labels(self, X: Any, y: Array) -> Self:
        draw = self._sampler_of(y)
        rng = self._rng()

        def score(queries: Array, items: Array) -> Array:
            return self._row_scores(X, queries, items)

        with progress(self._owner, self.n_triplets, enabled=self.verbose) as advance:
            for block in row_blocks(self.n_triplets, DRAW):
                triplets = draw(block.stop - block.start, rng, score)
                self._learn(X, X, triplets, advance)
        return self

    def _sampler_of(self, y: Array) -> Callable[..., NDArray[np.intp]]:
        if isinstance(self.sampler, str):
            return TRIPLET_SAMPLERS[self.sampler](y).draw
        custom = self.sampler

        def draw(n: int, rng: np.random.Generator, score: Any) -> NDArray[np.intp]:
            triplets = custom(y, n, rng, score)
            return check_tuples(f"{self._owner}.sampler", "triplets", triplets, (len(y),) * 3)

        return draw

    def _learn(self, X: Any, Z: Any, triplets: NDArray[np.intp], advance: Any) -> None:
        with single_blas_thread():
            for block, Q, P in triplet_rows(X, Z, triplets, self.W_.dtype, self._block):
                self.n_updates_ += int(self._learn_block(Q, P))
                self.n_seen_ += block.stop - block.start
                advance(block.stop - block.start)

    @abstractmethod
    def _learn_block(self, Q: Any, P: Any) -> int:
        """Learn the triplets whose query and difference rows are given; count the updates."""

    def _init_state(self, X: Any, Z: Any) -> None:
        m, n = X.shape[1], Z.shape[1]
        self.n_item_features_ = n
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.prior_scale_ = self._scale_of_prior(X, Z)
        self.W_ = prior_matrix(self._owner, self.prior, self.prior_scale_, m, n, X.dtype)
        self._init_moment()

    def _scale_of_prior(self, X: Any, Z: Any) -> float:
        if self.prior_scale != "auto":
            return float(self.prior_scale)
        if isinstance(self.prior, str) and self.prior == "zero":
            return 1.0
        return automatic_scale(self.prior, X, Z)

    # -- using ---------------------------------------------------------------------------------

    @property
    def W_average_(self) -> Array:
        """Mean of the states W_0 … W_T; kept only with ``average=True``."""
        return self._average_state()

    def pairwise_score(self, Q: Any, Z: Any = None) -> Array:
        """Give qᵀWz for all pairs of rows; larger is closer.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features)
        Z : array or CSR matrix of shape (n_items, n_item_features), optional
            The items; the queries themselves if not given.

        Returns
        -------
        scores : array of shape (n_queries, n_items)
        """
        Q, Z = self._checked_sides(Q, Z, finite=True)
        return self._scores(Q, Z)

    def _scores(self, Q: Any, Z: Any) -> Array:
        scores = Z @ (Q @ self._scoring_state()).T
        return np.asarray(scores).T

    def query_vectors(self, Q: Any) -> Array:
        """Give Wᵀq for each query: to search an inner-product index of the items with."""
        check_is_fitted(self)
        Q = validate_data(self, Q, reset=False, accept_sparse="csr", dtype=FLOATS)
        return np.asarray(Q @ self._scoring_state())

    def query_matrix(self) -> Array:
        """Give W, with which `query_vectors` multiplies: for callers that keep it by `revision`."""
        return self._scoring_state()

    def item_vectors(self, Z: Any) -> Any:
        """Give the items as they are: learning never touches them."""
        check_is_fitted(self)
        return self._checked_items(Z, finite=True)

    def triplet_scores(self, X: Any, triplets: Any, *, items: Any = None) -> Array:
        """Give qᵀW(better - worse) for each triplet: positive where the order is right."""
        X, Z = self._checked_sides(X, items)
        sizes = (X.shape[0], Z.shape[0], Z.shape[0])
        where = f"{self._owner}.triplet_scores"
        triplets = check_tuples(where, "triplets", triplets, sizes)
        W = self._scoring_state()
        scores = np.empty(len(triplets), dtype=W.dtype)
        for block, Q, P in triplet_rows(X, Z, triplets, W.dtype, 1024):
            scores[block] = bilinear_forms(W, Q, P)
        return scores

    def _row_scores(self, X: Any, queries: Array, items: Array) -> Array:
        W = self._scoring_state()
        return bilinear_forms(W, rows_of(X, queries, W.dtype), rows_of(X, items, W.dtype))

    # -- checks --------------------------------------------------------------------------------

    def _checked_sides(self, X: Any, items: Any, *, finite: bool = False) -> tuple[Any, Any]:
        fitted = self.__sklearn_is_fitted__()
        if finite:
            check_is_fitted(self)
        if fitted:
            X = validate_data(
                self, X, reset=False, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=finite
            )
        else:
            X = check_array(X, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=finite)
        if items is None:
            if fitted and self.n_item_features_ != X.shape[1]:
                raise ValueError(
                    f"{self._owner}: items must be given, as they have {self.n_item_features_} "
                    f"features and queries {X.shape[1]}."
                )
            return X, X
        return X, self._checked_items(items, finite=finite)

    def _checked_items(self, items: Any, *, finite: bool) -> Any:
        Z = check_array(items, accept_sparse="csr", dtype=FLOATS, ensure_all_finite=finite)
        if self.__sklearn_is_fitted__() and Z.shape[1] != self.n_item_features_:
            raise ValueError(
                f"{self._owner}: items must have {self.n_item_features_} features, "
                f"got {Z.shape[1]}."
            )
        return Z

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
