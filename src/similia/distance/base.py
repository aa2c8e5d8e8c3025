"""Mahalanobis distances (x-z)ᵀA(x-z), learnt from pairs."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from functools import partial
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from similia.base import Learner, accepts_one_query, validated
from similia.contract import Array, Geometry, Indices, Matrix
from similia.distance.feedback import checked_feedback, concordance
from similia.feedback.sampling import PAIR_SAMPLERS, BalancedPairs
from similia.linalg.blas import row_products
from similia.linalg.blocks import difference_of_rows, row_blocks, rows_of
from similia.linalg.spectral import psd_factor, quick_factor
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.safety.bounds import check_room
from similia.safety.whole import all_or_nothing, held_signals
from similia.validation import (
    check_magnitude,
    check_tuples,
    function,
    none,
    one_of,
    positive_integer,
    repetitions,
    tuple_array,
)

#: pairs whose rows are held at once
PAIR_BLOCK = 128
#: pairs drawn or measured at a time
DRAWN_PAIRS = 4096
#: pairs from which `score` judges labels
SCORED_PAIRS = 10_000
#: random pairs from which scales are estimated
SCALE_PAIRS = 1000
#: departure from symmetry that counts as rounding in single precision
SINGLE_ROUNDING = 1e-6


class MahalanobisDistance(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """Base class of learners of (x-z)ᵀA(x-z), A ⪰ 0: sampling, distances, a factor of A.

    Each judgement moves A to a matrix that agrees with it better and is near A under a Bregman
    `divergence`: Frobenius for POLA, LogDet for LEGO, von Neumann for MEG.
    """

    sampler: str | Callable[..., tuple[ArrayLike, ArrayLike]] = parameter(
        default="balanced",
        rule=one_of(*PAIR_SAMPLERS) | function,
        doc="How `fit` and `partial_fit` draw pairs from class labels; a function is called as "
        "sampler(y, n, rng) and returns pairs and their signs.",
    )
    n_pairs: int = parameter(
        default=50_000, rule=repetitions, doc="Pairs drawn by each call of those."
    )
    n_components: int | None = parameter(
        default=None,
        rule=none | positive_integer,
        doc="Directions that distances and `transform` keep, largest eigenvalues first.",
    )

    learns_from: ClassVar[Literal["pairs"]] = "pairs"
    geometry: ClassVar[Geometry] = "l2"
    #: the Bregman divergence that measures how far a step goes
    divergence: ClassVar[str]
    #: what `learn` takes for a pair: "labels" (±1) or "distances"
    feedback = "labels"
    _state: ClassVar = (*Learner._state, "A_")
    _averaged: ClassVar = "A_"
    #: arrays that a pass changes on copies, because it may fail half-way
    _fragile: ClassVar[tuple[str, ...]] = ()

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Forget, then learn from `n_pairs` pairs that `sampler` draws from class labels."""
        return self._fit(X, y, reset=True)

    def partial_fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Continue learning from labels without forgetting; the first call equals `fit`."""
        return self._fit(X, y, reset=not self.__sklearn_is_fitted__())

    def _fit(self, X: Matrix, y: ArrayLike, *, reset: bool) -> Self:
        self._check_parameters()
        with all_or_nothing(self) if reset else nullcontext():
            X, labels = validated(self, X, y, reset=reset)
            kind = None if reset else self._precision()
            check_magnitude(f"{self._owner}.fit", "X", X, dtype=kind)
            if reset:
                with single_blas_thread():
                    self._init_state(X)
            self._learn_from_labels(X, labels)
        return self

    def learn(self, X: Matrix, pairs: ArrayLike, y: ArrayLike) -> Self:
        """Learn from ready-made feedback, in order; pieces equal the whole.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        pairs : integer array of shape (n_pairs, 2)
            Rows of `X` that are compared.
        y : array of shape (n_pairs,)
            +1 (similar) or -1 (dissimilar) for each pair, or its distance if `feedback` says so.

        Returns
        -------
        The learner itself. On an error nothing has changed. An interruption (Ctrl-C) takes effect
        between two pairs; `n_seen_` then counts those that were learnt.
        """
        with all_or_nothing(self) if not self.__sklearn_is_fitted__() else nullcontext():
            X = self.begin(X)
            pairs, y = self._checked_pairs("learn", X, pairs, y)
            with progress(self._owner, len(pairs), enabled=self.verbose) as advance:
                self.learn_checked(X, pairs, y, advance)
        return self

    def begin(self, X: Matrix) -> Matrix:
        """Check everything but judgements, and start if nothing was learnt yet: for streams.

        Returns the points as `learn_checked` takes them.
        """
        self._check_parameters()
        reset = not self.__sklearn_is_fitted__()
        with all_or_nothing(self):
            X = self._checked_points(X, reset=reset)
            if reset:
                with single_blas_thread():
                    self._init_state(X)
            return X

    def learn_checked(
        self, X: Matrix, pairs: Indices, y: ArrayLike, advance: Advance = lambda n: None
    ) -> None:
        """Learn feedback on pairs that a caller has checked, into a state that exists."""
        feedback = checked_feedback(f"{self._owner}.learn", self.feedback, y)
        self._learn(X, pairs, self._targets(feedback), advance)

    def _learn(self, X: Matrix, pairs: Indices, targets: Array, advance: Advance) -> None:
        self._walk(lambda block: self._differences(X, pairs[block]), targets, advance)

    def _walk(self, rows: Callable[[slice], Any], targets: Array, advance: Advance) -> None:
        """Learn judgements block by block; `rows` holds what those of a block compare."""
        whole = all_or_nothing(self) if self._fragile else nullcontext()
        with held_signals() as let_signals_in, whole, single_blas_thread():
            for name in self._fragile:
                setattr(self, name, vars(self)[name].copy())
            for block in self._blocks(len(targets)):
                self.n_updates_ += int(self._learn_block(rows(block), targets[block]))
                self.n_seen_ += block.stop - block.start
                advance(block.stop - block.start)
                let_signals_in()

    def _blocks(self, n: int) -> Iterator[slice]:
        return row_blocks(n, PAIR_BLOCK)

    def _targets(self, y: Array) -> Array:
        """Checked feedback as `_learn_block` takes it."""
        return y

    def _targets_of_signs(self, signs: Array) -> Array:
        """The same for signs drawn from labels."""
        return signs

    def _differences(self, X: Matrix, pairs: Indices) -> Matrix:
        """Differences x - z of the pairs, in the coordinates of A."""
        return difference_of_rows(X, pairs[:, 0], pairs[:, 1], self.A_.dtype)

    @abstractmethod
    def _learn_block(self, Z: Matrix, targets: Array) -> int:
        """Learn the pairs with these differences; return the update count."""

    def _init_state(self, X: Matrix) -> None:
        d = X.shape[1]
        check_room(self._owner, d, X.dtype, *self._start_shapes(d))
        self.n_seen_ = self.n_updates_ = 0
        self._init_metric(X)
        self._init_moment()

    def _start_shapes(self, d: int) -> list[tuple[int, ...]]:
        """Shapes of the arrays of a state, for d features."""
        return [(d, d)] * (1 + bool(self.average))

    def _init_metric(self, X: Matrix) -> None:
        self.A_ = np.eye(X.shape[1], dtype=X.dtype)

    def _learn_from_labels(self, X: Matrix, labels: Array) -> None:
        with progress(self._owner, self.n_pairs, enabled=self.verbose) as advance:
            for pairs, signs in self._drawn(labels):
                self._learn(X, pairs, self._targets_of_signs(signs), advance)

    def _drawn(self, labels: Array) -> Iterator[tuple[Indices, Array]]:
        """Yield `n_pairs` pairs and their signs, in blocks."""
        rng, where, by = self._rng(), f"{self._owner}.sampler", self.sampler
        draw = PAIR_SAMPLERS[by](labels).draw if isinstance(by, str) else partial(by, labels)
        for block in row_blocks(self.n_pairs, DRAWN_PAIRS):
            drawn, signs = draw(block.stop - block.start, rng)
            pairs = check_tuples(where, "pairs", drawn, (len(labels),) * 2)
            check_consistent_length(pairs, signs)
            yield pairs, checked_feedback(where, "labels", signs)

    def _random_squares(self, X: Matrix) -> Array:
        """Positive squared distances of random pairs of rows, from which scales are estimated.

        They depend on X and a fixed seed alone, so that pieces start where the whole does.
        """
        pairs = np.random.default_rng(0).integers(X.shape[0], size=(SCALE_PAIRS, 2))
        with np.errstate(invalid="ignore", over="ignore"):  # rows that no pair names may be bad
            squares = self._start_squares(X, pairs)
        return squares[np.isfinite(squares) & (squares > 0)]

    def _start_squares(self, X: Matrix, pairs: Indices) -> Array:
        """Squared distance of each pair before learning."""
        Z = difference_of_rows(X, pairs[:, 0], pairs[:, 1], np.float64)
        return row_products(Z, Z)

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

    @property
    def _n_features_out(self) -> int:
        return min(self.n_components or self.n_features_in_, self.n_features_in_)

    def transform(self, X: Matrix) -> Array:
        """Map x to Lx, so that Euclidean distances become the learnt ones."""
        return self._moved(X, self.components_)

    @accepts_one_query
    def query_vectors(self, Q: Matrix) -> Array:
        """Vectors Lq, to search an l2 index of `item_vectors` with; a table after `set_output`."""
        return self.transform(Q)

    def query_matrix(self) -> Array | None:
        """Lᵀ, by which `query_vectors` multiplies, or None if it does more: to cache."""
        return self.components_.T

    def item_vectors(self, Z: Matrix) -> Array:
        """Vectors Lz of the items."""
        return self._moved(Z, self.components_)

    @accepts_one_query
    def pairwise_distance(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Distances √((q-z)ᵀA(q-z)) of all pairs of rows; arguments as in `pairwise_score`."""
        return np.sqrt(-self.pairwise_score(Q, Z))

    @accepts_one_query
    def pairwise_score(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Scores -(q-z)ᵀA(q-z) of all pairs of rows; larger is closer.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or one vector
        Z : array or CSR matrix of shape (n_items, n_features), optional
            The items; the queries themselves if not given.

        Returns
        -------
        scores : array of shape (n_queries, n_items), or (n_items,) for one vector
        """
        L = self._factor()
        left = self._moved(Q, L)
        right = left if Z is None else self._moved(Z, L)
        squares = (left**2).sum(1)[:, None] + (right**2).sum(1) - 2.0 * (left @ right.T)
        if Z is None:
            np.fill_diagonal(squares, 0.0)
        return -np.maximum(squares, 0.0)

    def pair_scores(self, X: Matrix, pairs: ArrayLike) -> Array:
        """Scores -(x-z)ᵀA(x-z) of given pairs of rows; larger is closer."""
        return -self._pair_squares("pair_scores", self._checked(X), pairs)

    def score(self, X: Matrix, y: ArrayLike, feedback: ArrayLike | None = None) -> float:
        """Share of judgements in the right order; a tie counts half.

        Two judgements are in order if the pair that feedback calls closer is the closer one; with
        signs, their share is the area under the ROC curve.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
        y : integer array of shape (n_pairs, 2), or class labels of shape (n_samples,)
            Pairs of rows; labels stand for pairs drawn from them with a fixed seed.
        feedback : array of shape (n_pairs,), optional
            What `learn` takes for these pairs, of at least two different values.
        """
        X, where, pairs = self._checked(X), f"{self._owner}.score", np.asarray(y)
        if feedback is None:
            if pairs.shape != (X.shape[0],):
                raise ValueError(
                    f"{where}: y must be {X.shape[0]} class labels where feedback is not given, "
                    f"got shape {pairs.shape}."
                )
            pairs, closeness = BalancedPairs(pairs).draw(SCORED_PAIRS, np.random.default_rng(0))
        else:
            pairs = tuple_array(where, "pairs", y)
            closeness = checked_feedback(where, self.feedback, feedback)
            closeness = -closeness if self.feedback == "distances" else closeness
        squares = self._pair_squares("score", X, pairs)
        check_consistent_length(squares, closeness)
        if len(np.unique(closeness)) < 2:
            raise ValueError(f"{where}: feedback must have at least two different values.")
        return concordance(closeness, -squares)

    def _pair_squares(self, method: str, X: Matrix, pairs: ArrayLike) -> Array:
        """Squared distances of pairs of checked rows."""
        pairs = check_tuples(f"{self._owner}.{method}", "pairs", pairs, (X.shape[0],) * 2)
        L = self._factor()
        squares = np.empty(len(pairs), L.dtype)
        for block in row_blocks(len(pairs), DRAWN_PAIRS):
            rows, places = np.unique(pairs[block], return_inverse=True)
            mapped = self._mapped(rows_of(X, rows, X.dtype))
            some, others = places.reshape(-1, 2).T
            Z = difference_of_rows(mapped, some, others, mapped.dtype)
            squares[block] = (np.asarray(Z @ L.T) ** 2).sum(axis=1)
        return squares

    def _moved(self, X: Matrix, L: Array) -> Array:
        """Vectors Lx, in the precision of X."""
        X = self._checked(X)
        return np.asarray(self._mapped(X) @ L.T.astype(X.dtype, copy=False))

    def _mapped(self, X: Matrix) -> Matrix:
        """Checked rows in the coordinates of A."""
        return X

    def _factor(self) -> Array:
        """Some L with A = LᵀL: that of `components_` only where it must be."""
        if self.n_components is None:
            return quick_factor(self._scoring_state())
        return self.components_

    # -- checks --------------------------------------------------------------------------------

    def _checked(self, X: Matrix) -> Matrix:
        check_is_fitted(self)
        return validated(self, X, reset=False)

    def _checked_points(self, X: Matrix, *, reset: bool) -> Matrix:
        return validated(self, X, reset=reset, ensure_all_finite=False)

    def _checked_pairs(
        self, method: str, X: Matrix, pairs: ArrayLike, y: ArrayLike
    ) -> tuple[Indices, Array]:
        where = f"{self._owner}.{method}"
        pairs = check_tuples(where, "pairs", pairs, (X.shape[0],) * 2)
        y = checked_feedback(where, self.feedback, y)
        check_consistent_length(pairs, y)
        kind = None if method == "fit_pairs" else self._precision()
        check_magnitude(where, "X", X, pairs.ravel(), kind)
        return pairs, y

    def _steps_to_merge(self) -> int:
        """Half the number of free entries of a symmetric matrix."""
        n = len(self._last_state)
        return n * (n + 1) // 4

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
