"""Bilinear similarities qᵀWp, learnt from triplets (query, better, worse)."""

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Self
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import Learner, accepts_one_query, validated
from similia.contract import Array, Geometry, Indices, Matrix, Revision
from similia.feedback.sampling import TRIPLET_SAMPLERS, UniformTriplets, triplets_drawn
from similia.linalg.blas import bilinear_forms, products
from similia.linalg.blocks import dense, row_blocks, rows_of, triplet_rows
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.safety.bounds import check_room
from similia.safety.whole import all_or_nothing, held_signals
from similia.validation import (
    array,
    check_magnitude,
    check_tuples,
    checked_matrix,
    function,
    one_of,
    positive,
    repetitions,
)

#: triplets drawn at a time by `fit`: bounds memory, and how stale the model of hard negatives is
DRAWN_TRIPLETS = 4096
#: triplets from which `score` judges labels
SCORED_TRIPLETS = 10_000
#: random triplets from which the scale of a start is measured
SCALE_TRIPLETS = 1000
#: average of each learner that was asked for it, with the state that it is of
_AVERAGES: WeakKeyDictionary[Any, tuple[Revision, Array, Array]] = WeakKeyDictionary()


class BilinearSimilarity(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Learner):
    """Base class of learners of qᵀWp: sampling, streaming, priors, scores and vectors.

    Because qᵀWp = ⟨Wᵀq, p⟩, only queries are transformed: an index of the items stays as it is.
    """

    prior: str | Array = parameter(
        default="identity",
        rule=one_of("zero", "identity") | array,
        doc="Where W starts: the similarity that the user already has, zero, or an array of shape "
        "(n_features, n_item_features).",
    )
    prior_scale: str | float = parameter(
        default="auto",
        rule=one_of("auto") | positive,
        doc='Factor of the prior against the margin 1. "auto" makes the typical gap between two '
        "items (root mean square) equal the margin, and is reported as `prior_scale_`. A smaller "
        "one learns faster and forgets the prior sooner: right where the prior is poor.",
    )
    sampler: str | Callable[..., ArrayLike] = parameter(
        default="uniform",
        rule=one_of(*TRIPLET_SAMPLERS) | function,
        doc="How `fit` and `partial_fit` draw triplets from labels; a function is called as "
        "sampler(y, n, rng, score).",
    )
    n_triplets: int = parameter(
        default=50_000, rule=repetitions, doc="Triplets drawn by each call of those."
    )

    learns_from = "triplets"
    geometry: ClassVar[Geometry] = "inner_product"
    _state: ClassVar = (*Learner._state, "n_item_features_", "prior_scale_", "W_")
    _averaged: ClassVar = "W_"
    #: shapes of the learnt arrays, for m query and n item features
    _forms: ClassVar[tuple[str, ...]] = ("mn",)
    #: triplets whose rows are held at once
    _block = 128

    # -- learning ------------------------------------------------------------------------------

    def fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Forget, then learn from `n_triplets` triplets that `sampler` draws from labels.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_samples, n_features)
            Queries and items alike.
        y : array of shape (n_samples,)
            Class labels: points of a class are closer to each other than to the others.
        """
        self._check_parameters()
        with all_or_nothing(self):
            X, labels = self._checked_labelled(X, y, reset=True)
            self._init_state(X, X)
            return self._learn_from_labels(X, labels)

    def partial_fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Continue learning from labels without forgetting; the first call equals `fit`."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        self._check_parameters()
        return self._learn_from_labels(*self._checked_labelled(X, y, reset=False))

    def learn(self, X: Matrix, triplets: ArrayLike, *, items: Matrix | None = None) -> Self:
        """Learn from ready-made feedback, in order; pieces equal the whole.

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
        The learner itself. On an error nothing has changed. An interruption (Ctrl-C) takes effect
        between two triplets; `n_seen_` then counts those that were learnt.
        """
        where = f"{self._owner}.learn"
        with all_or_nothing(self):
            X, Z = self.begin(X, items)
            sizes = (X.shape[0], Z.shape[0], Z.shape[0])
            triplets = check_tuples(where, "triplets", triplets, sizes)
            kind = self._precision()
            check_magnitude(where, "X", X, triplets if Z is X else triplets[:, 0], kind)
            if Z is not X:
                check_magnitude(where, "items", Z, triplets[:, 1:], kind)
        with progress(self._owner, len(triplets), enabled=self.verbose) as advance:
            self.learn_checked(X, Z, triplets, advance)
        return self

    def begin(self, X: Matrix, items: Matrix | None = None) -> tuple[Matrix, Matrix]:
        """Check everything but judgements, and start if nothing was learnt yet: for streams.

        Returns queries and items as `learn_checked` and `margins` take them.
        """
        self._check_parameters()
        if self.__sklearn_is_fitted__():
            return self._checked_sides(X, items)
        given, X = X, checked_matrix(self._owner, "X", X, ensure_all_finite=False)
        Z = X
        if items is not None:
            Z = checked_matrix(self._owner, "items", items, ensure_all_finite=False)
        with all_or_nothing(self):
            validate_data(self, given, reset=True, skip_check_array=True)
            self._init_state(X, Z)
        return X, Z

    def learn_checked(
        self, X: Matrix, Z: Matrix, triplets: Indices, advance: Advance | None = None
    ) -> None:
        """Learn triplets that a caller has checked, into a state that exists: for streams."""
        with held_signals() as let_signals_in, single_blas_thread():
            for block, Q, P in triplet_rows(X, Z, triplets, self.W_.dtype, self._block):
                self.n_updates_ += int(self._learn_block(Q, P))
                self.n_seen_ += block.stop - block.start
                if advance is not None:
                    advance(block.stop - block.start)
                let_signals_in()

    @abstractmethod
    def _learn_block(self, Q: Matrix, P: Matrix) -> int:
        """Learn the triplets with these query and difference rows; return the update count."""

    def _init_state(self, X: Matrix, Z: Matrix) -> tuple[float, float]:
        """Set W₀ = scale × (zero, identity or a given matrix); return the typical lengths."""
        m, n = X.shape[1], Z.shape[1]
        sides = {"m": m, "n": n}
        forms = (*self._forms, "mn") if self.average else self._forms
        shapes = [tuple(sides[side] for side in form) for form in forms]
        check_room(self._owner, max(m, n), X.dtype, *shapes)
        check_prior(self._owner, self.prior, m, n)
        automatic, lengths = measured_start(self.prior, X, Z)
        scale = automatic if isinstance(self.prior_scale, str) else float(self.prior_scale)
        prior = (
            np.eye(m, n) * (self.prior == "identity") if isinstance(self.prior, str) else self.prior
        )
        largest, limit = (
            scale * float(np.abs(prior).max(initial=0)),
            float(np.finfo(X.dtype).max) ** 0.5,
        )
        if largest > limit:
            raise ValueError(
                f"{self._owner}: prior_scale times the prior must be at most {limit:.1e} for "
                f"{X.dtype}, got {largest:.1e}."
            )
        self.n_item_features_ = n
        self.n_seen_ = 0
        self.n_updates_ = 0
        self.prior_scale_ = scale
        self.W_ = np.array(scale * prior, dtype=X.dtype, order="C")
        self._init_moment()
        return lengths

    def _learn_from_labels(self, X: Matrix, y: Array) -> Self:
        draw = triplets_drawn(self._owner, self.sampler, y)
        rng = self._rng()

        def score(queries: Indices, items: Indices) -> Array:
            W = self._scoring_state()
            return bilinear_forms(W, rows_of(X, queries, W.dtype), rows_of(X, items, W.dtype))

        bar = progress(self._owner, self.n_triplets, enabled=self.verbose)
        with single_blas_thread(), bar as advance:
            for block in row_blocks(self.n_triplets, DRAWN_TRIPLETS):
                self.learn_checked(X, X, draw(block.stop - block.start, rng, score), advance)
        return self

    # -- using ---------------------------------------------------------------------------------

    @property
    def W_average_(self) -> Array:
        """Mean of the states W_0 … W_T; kept only with ``average=True``."""
        return self._average_state()

    @accepts_one_query
    def pairwise_score(self, Q: Matrix, Z: Matrix | None = None) -> Array:
        """Scores qᵀWz of all pairs of rows; larger is closer.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or one vector
        Z : array or CSR matrix of shape (n_items, n_item_features), optional
            The items; the queries themselves if not given.

        Returns
        -------
        scores : array of shape (n_queries, n_items), or (n_items,) for one vector
        """
        return self._scores(*self._checked_sides(Q, Z, finite=True))

    def _scores(self, Q: Matrix, Z: Matrix) -> Array:
        scores = Z @ (Q @ self._scoring_state()).T
        return np.asarray(scores).T

    @property
    def _n_features_out(self) -> int:
        return self.n_item_features_

    def transform(self, X: Matrix) -> Array:
        """Map queries x to Wᵀx, whose inner products with items are the scores."""
        W = self.query_matrix()
        return np.asarray(validated(self, X, reset=False) @ W)

    @accepts_one_query
    def query_vectors(self, Q: Matrix) -> Array:
        """Vectors Wᵀq, to search an inner-product index of the items with.

        A table after `set_output`.
        """
        return self.transform(Q)

    def query_matrix(self) -> Array:
        """W, by which `query_vectors` multiplies; an average is computed once per state."""
        if not self.average:
            return self._scoring_state()
        revision, kept = self.revision(), _AVERAGES.get(self)
        if kept is None or kept[0] != revision or kept[1] is not self.W_:
            W = self._scoring_state()
            W.flags.writeable = False
            _AVERAGES[self] = kept = revision, self.W_, W
        return kept[2]

    def item_vectors(self, Z: Matrix) -> Matrix:
        """Items as they are: learning never touches them."""
        check_is_fitted(self)
        return self._checked_items(Z, finite=True)

    def triplet_scores(
        self, X: Matrix, triplets: ArrayLike, *, items: Matrix | None = None
    ) -> Array:
        """Margins qᵀW(better - worse), positive where the order is right."""
        return self.margins(*self._checked_triplets(X, triplets, items))

    def margins(self, X: Matrix, Z: Matrix, triplets: Indices) -> Array:
        """Margins of triplets that a caller has checked: for streams."""
        W = self._scoring_state()
        margins = np.empty(len(triplets), dtype=W.dtype)
        for block, Q, P in triplet_rows(X, Z, triplets, W.dtype, 1024):
            margins[block] = bilinear_forms(W, Q, P)
        return margins

    def score(self, X: Matrix, y: ArrayLike, *, items: Matrix | None = None) -> float:
        """Share of triplets in the right order; a tie counts half.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features)
        y : integer array of triplets, of shape (n_triplets, 3), or labels of shape (n_queries,)
            Class labels stand for triplets drawn from them with a fixed seed.
        items : array or CSR matrix of shape (n_items, n_item_features), optional
        """
        if np.ndim(y) == 1 and items is None:
            y = UniformTriplets(np.asarray(y)).draw(SCORED_TRIPLETS, np.random.default_rng(0))
        margins = self.triplet_scores(X, y, items=items)
        if len(margins) == 0:
            raise ValueError(f"{self._owner}.score: y must not be empty.")
        return float(np.mean((margins > 0) + 0.5 * (margins == 0)))

    # -- checks --------------------------------------------------------------------------------

    def _checked_labelled(self, X: Matrix, y: ArrayLike, *, reset: bool) -> tuple[Matrix, Array]:
        X, labels = validated(self, X, y, reset=reset)
        check_magnitude(f"{self._owner}.fit", "X", X, dtype=None if reset else self._precision())
        if not reset and self.n_item_features_ != X.shape[1]:
            raise ValueError(
                f"{self._owner}.partial_fit: X must have {self.n_item_features_} features, as the "
                f"items had, got {X.shape[1]}; use learn(..., items=...) for two kinds of vectors."
            )
        return X, labels

    def _checked_triplets(
        self, X: Matrix, triplets: ArrayLike, items: Matrix | None
    ) -> tuple[Matrix, Matrix, Indices]:
        X, Z = self._checked_sides(X, items)
        sizes = (X.shape[0], Z.shape[0], Z.shape[0])
        return X, Z, check_tuples(f"{self._owner}.triplet_scores", "triplets", triplets, sizes)

    def _checked_sides(
        self, X: Matrix, items: Matrix | None, *, finite: bool = False
    ) -> tuple[Matrix, Matrix]:
        """Queries and items with as many features as were learnt from."""
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        X = validated(self, X, reset=False, ensure_all_finite=finite)
        if items is not None:
            return X, self._checked_items(items, finite=finite)
        if self.n_item_features_ != X.shape[1]:
            raise ValueError(
                f"{self._owner}: items must be given, as they have {self.n_item_features_} "
                f"features and queries {X.shape[1]}."
            )
        return X, X

    def _checked_items(self, items: Matrix, *, finite: bool) -> Matrix:
        Z = checked_matrix(self._owner, "items", items, ensure_all_finite=finite)
        if Z.shape[1] != self.n_item_features_:
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


# -- the start -----------------------------------------------------------------------------------


def check_prior(owner: str, prior: str | Array, m: int, n: int) -> None:
    """Refuse a prior that does not fit m query and n item features."""
    if isinstance(prior, str):
        if prior == "identity" and m != n:
            raise ValueError(
                f"{owner}: prior must be 'zero' or an array of shape {(m, n)} where queries have "
                f"{m} features and items {n}, got 'identity'."
            )
    elif prior.shape != (m, n) or prior.dtype.kind not in "fiu" or not np.isfinite(prior).all():
        raise ValueError(
            f"{owner}: prior must be a finite array of shape {(m, n)}, "
            f"got one of shape {prior.shape} and dtype {prior.dtype}."
        )


def measured_start(prior: str | Array, X: Matrix, Z: Matrix) -> tuple[float, tuple[float, float]]:
    """Scale of the prior that makes the typical gap one margin, and the typical |q| and |p - p′|.

    Typical is the root mean square over random queries and pairs of items, or 1 where that is zero
    or infinite: in sparse vectors most gaps qᵀW(p - p′) are tiny, so the median would say little
    about those that decide a ranking. The triplets depend on a fixed seed alone, so learning in
    pieces starts where learning at once does. A scale that would overflow in X's dtype is 1: such a
    gap is tiny and counts as zero.
    """
    sizes = (X.shape[0], Z.shape[0], Z.shape[0])
    triplets = np.random.default_rng(0).integers(sizes, size=(SCALE_TRIPLETS, 3))
    found = []
    with single_blas_thread(), np.errstate(over="ignore", invalid="ignore"):
        for _, Q, P in triplet_rows(X, Z, triplets, np.float64, 100):
            rows, gaps = dense(Q), dense(P)
            if isinstance(prior, str):
                scores = np.vecdot(rows, gaps) if prior == "identity" else np.zeros(len(rows))
            else:
                scores = np.vecdot(products((Q, prior.astype(np.float64)))[0], gaps)
            lengths = (np.linalg.norm(side, axis=1) for side in (rows, gaps))
            found.append((scores, *lengths))
        typical = np.sqrt(np.mean(np.hstack(found) ** 2, axis=1))
    gap, of_queries, of_gaps = (float(size) if 0 < size < np.inf else 1.0 for size in typical)
    scale = 1 / gap if gap * float(np.finfo(X.dtype).max) ** 0.5 > 1 else 1.0
    return scale, (of_queries, of_gaps)
