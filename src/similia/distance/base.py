"""Mahalanobis distances (x-z)ᵀA(x-z), learnt from pairs."""

from abc import abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_array, check_consistent_length
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import Learner, accepts_one_query, all_or_nothing
from similia.contract import FLOATS, Array, Geometry, Indices, Matrix
from similia.distance.feedback import checked_feedback, concordance
from similia.linalg.blocks import difference_of_rows, row_blocks, rows_of, squared
from similia.linalg.spectral import psd_factor, quick_factor
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.sampling import PAIR_SAMPLERS, BalancedPairs
from similia.validation import (
    check_magnitude,
    check_tuples,
    function,
    none,
    one_of,
    positive_integer,
)

#: pairs whose rows are held at once
BLOCK = 128
#: pairs drawn or measured at a time
DRAW = 4096
#: pairs from which `score` judges labels
SCORED = 10_000
#: random pairs from which scales are estimated
SAMPLE = 1000


class MahalanobisDistance(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """What every learner of (x-z)ᵀA(x-z), A ⪰ 0, shares: sampling, distances, a factor of A.

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
        default=50_000, rule=positive_integer, doc="Pairs drawn by each call of those."
    )
    n_components: int | None = parameter(
        default=None,
        rule=none | positive_integer,
        doc="Directions that distances and `transform` keep, largest eigenvalues first; None keeps "
        "all.",
    )

    learns_from: ClassVar[Literal["pairs"]] = "pairs"
    geometry: ClassVar[Geometry] = "l2"
    #: the function of `linalg.bregman` that measures how far a step goes
    divergence: ClassVar[str]
    _state: ClassVar = (*Learner._state, "A_")
    _averaged: ClassVar = "A_"
    #: arrays that a pass changes on copies, because it may fail half-way
    _fragile: ClassVar[tuple[str, ...]] = ()

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Forget, then learn from `n_pairs` pairs that `sampler` draws from class labels."""
        self._check_parameters()
        with all_or_nothing(self):
            X, labels = self._checked_labelled(X, y, reset=True)
            self._init_state(X)
            return self._learn_from_labels(X, labels)

    def partial_fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Continue learning from labels without forgetting; the first call equals `fit`."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        self._check_parameters()
        return self._learn_from_labels(*self._checked_labelled(X, y, reset=False))

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
        The learner itself. On an error nothing has changed.
        """
        self._check_parameters()
        started = self.__sklearn_is_fitted__()
        given, (X, pairs, y) = X, self._checked_judgements("learn", X, pairs, y, reset=not started)
        with nullcontext() if started else all_or_nothing(self):
            if not started:
                validate_data(self, given, reset=True, skip_check_array=True)
                self._init_state(X)
            with progress(self._owner, len(pairs), enabled=self.verbose) as advance:
                self.learn_checked(X, pairs, y, advance)
        return self

    def learn_checked(
        self, X: Matrix, pairs: Indices, y: Array, advance: Advance = lambda n: None
    ) -> None:
        """Learn pairs that a caller has checked, into a state that exists: for streams."""
        self._learn(X, pairs, self._targets(y), advance)

    def _learn(self, X: Matrix, pairs: Indices, targets: Array, advance: Advance) -> None:
        def learn(block: slice) -> int:
            return self._learn_block(self._differences(X, pairs[block]), targets[block])

        self._walk(learn, len(pairs), advance)

    def _walk(self, learn: Callable[[slice], int], n: int, advance: Advance) -> None:
        """Learn n judgements, block by block."""
        with self._on_copies(), single_blas_thread():
            for block in self._blocks(n):
                self.n_updates_ += int(learn(block))
                self.n_seen_ += block.stop - block.start
                advance(block.stop - block.start)

    @contextmanager
    def _on_copies(self) -> Iterator[None]:
        if not self._fragile:
            yield
            return
        with all_or_nothing(self):
            for name in self._fragile:
                setattr(self, name, vars(self)[name].copy())
            yield

    def _blocks(self, n: int) -> Iterator[slice]:
        return row_blocks(n, BLOCK)

    @property
    def _kind(self) -> str:
        """What feedback consists of: "labels" (±1) or "distances"."""
        return "labels"

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
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.A_ = np.eye(X.shape[1], dtype=X.dtype)
        self._init_moment()

    def _learn_from_labels(self, X: Matrix, labels: Array) -> Self:
        with progress(self._owner, self.n_pairs, enabled=self.verbose) as advance:
            for pairs, signs in self._drawn(labels):
                self._learn(X, pairs, self._targets_of_signs(signs), advance)
        return self

    def _drawn(self, labels: Array) -> Iterator[tuple[Indices, Array]]:
        """Yield `n_pairs` pairs and their signs, in blocks."""
        rng, where = self._rng(), f"{self._owner}.sampler"
        named = PAIR_SAMPLERS[self.sampler](labels) if isinstance(self.sampler, str) else None
        for block in row_blocks(self.n_pairs, DRAW):
            size = block.stop - block.start
            if named:
                yield named.draw(size, rng)
            elif callable(self.sampler):
                pairs, signs = self.sampler(labels, size, rng)
                pairs = check_tuples(where, "pairs", pairs, (len(labels),) * 2)
                signs = checked_feedback(where, "labels", signs)
                check_consistent_length(pairs, signs)
                yield pairs, signs

    def _random_squares(self, X: Matrix) -> Array:
        """Positive squared distances of random pairs of rows, from which scales are estimated.

        They depend on X and a fixed seed alone, so that pieces start where the whole does.
        """
        pairs = np.random.default_rng(0).integers(X.shape[0], size=(SAMPLE, 2))
        with np.errstate(invalid="ignore", over="ignore"):  # rows that no pair names may be bad
            squares = self._start_squares(X, pairs)
        return squares[np.isfinite(squares) & (squares > 0)]

    def _start_squares(self, X: Matrix, pairs: Indices) -> Array:
        """Squared distance of each pair before learning."""
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

    @property
    def _n_features_out(self) -> int:
        return min(self.n_components or self.n_features_in_, self.n_features_in_)

    def transform(self, X: Matrix) -> Array:
        """Map x to Lx, so that Euclidean distances become the learnt ones."""
        return self._moved(X, self.components_)

    @accepts_one_query
    def query_vectors(self, Q: Matrix) -> Array:
        """Vectors Lq, to search an l2 index of `item_vectors` with."""
        return self._moved(Q, self.components_)

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
            pairs, closeness = BalancedPairs(pairs).draw(SCORED, np.random.default_rng(0))
        else:
            closeness = checked_feedback(where, self._kind, feedback)
            closeness = -closeness if self._kind == "distances" else closeness
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
        for block in row_blocks(len(pairs), DRAW):
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
        return validate_data(self, X, reset=False, accept_sparse="csr", dtype=FLOATS)

    def _checked_labelled(self, X: Matrix, y: ArrayLike, *, reset: bool) -> tuple[Matrix, Array]:
        X, labels = validate_data(self, X, y, reset=reset, accept_sparse="csr", dtype=FLOATS)
        check_magnitude(f"{self._owner}.fit", "X", X)
        return X, labels

    def _checked_judgements(
        self, method: str, X: Matrix, pairs: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[Matrix, Indices, Array]:
        where = f"{self._owner}.{method}"
        options = {"accept_sparse": "csr", "dtype": FLOATS, "ensure_all_finite": False}
        X = check_array(X, **options) if reset else validate_data(self, X, reset=False, **options)
        pairs = check_tuples(where, "pairs", pairs, (X.shape[0],) * 2)
        y = checked_feedback(where, self._kind, y)
        check_consistent_length(pairs, y)
        check_magnitude(where, "X", X, pairs.ravel())
        return X, pairs, y

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags
