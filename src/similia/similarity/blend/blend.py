"""Blend: a similarity that is a sum of parts, each trusted as far as feedback bears it out."""

import copy
from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import validated
from similia.contract import Array, Indices, Matrix, Side
from similia.feedback.impressions import Impressions
from similia.feedback.sampling import TRIPLET_SAMPLERS, triplets_drawn
from similia.linalg.blocks import row_blocks
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.safety.whole import all_or_nothing, held_signals
from similia.similarity.blend.clicks import ClickModel
from similia.similarity.blend.matrix import MatrixPart
from similia.similarity.blend.memory import SWEEPS, Memory
from similia.similarity.blend.ranking import BlendRanking
from similia.similarity.blend.state import PARTS, POSITION, Feedback
from similia.updates.blend import (
    CLICKED,
    COMPARED,
    JUDGED,
    decided_pairs,
    follow_lists,
    learn_lists,
)
from similia.validation import (
    boolean,
    check_magnitude,
    function,
    non_negative_integer,
    none,
    one_of,
    positive,
    positive_integer,
    repetitions,
)
from similia.views import Views, as_views

#: lists that are learnt at a time
LIST_BLOCK = 128
#: largest entry of a row, in typical lengths; beyond it, rounding would swallow all other rows
LONGEST = 1e7
#: the same of a score, in units of its view
LARGEST_SCORE = 1e6
#: weight of lists of two below which they are ties
TIE = 0.05
#: triplets drawn at a time by `fit`
DRAW = 4096


class Blend(BlendRanking):
    """A sum of views, of what is remembered of pairs, and of W, learnt from what people do.

        s(q, p) = Σ_v β_v s_v(q, p) + m(q, p) + w qᵀWp

    The first view is the base, the similarity that users have today. Lists that were shown teach
    one model of clicks: how relevant the views say an item is, how probably people look at its
    place, how often they click what is relevant and what is not. What is clicked rises for its
    query and what is passed over sinks, as Bayes' rule says. Until lists are predicted better than
    by the order of the start, the start ranks. There is nothing to set.

    Comparisons and judgements are learnt by the same relevance; many comparisons teach W, which
    changes every query. Only queries are transformed: an index of the items stays as it is.

    Attributes
    ----------
    names_ : list of str
        The views, the base first; a field with several columns has a name for each.
    start_weights_, weights_ : arrays of shape (n_views,)
        Weight of each view before any feedback, and when ranking now, in its unit: its deviation
        among the items that searches find.
    trust_ : dict
        Share with which "clicks", what was learnt of lists, rank; and the weight of "W".
    n_seen_, n_updates_ : int
        Lists (or triplets) learnt from, and those of them that count.

    Notes
    -----
    Queries are recognised by the numbers of their base view, items by those of all views, in single
    precision. W needs a base of at most 4,096 features.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import Blend, Views
    >>> rng = np.random.default_rng(0)
    >>> items = Views(vectors=rng.normal(size=(50, 8)), price=rng.uniform(size=50))
    >>> queries = Views(vectors=rng.normal(size=(20, 8)))
    >>> blend = Blend().learn(queries, [[0, 3, 4], [1, 7, 2]], items=items)
    >>> blend.names_, bool(blend.triplet_scores(queries, [[1, 7, 2]], items=items)[0] > 0)
    (['vectors', 'price'], True)
    """

    obey: bool = parameter(
        default=True,
        rule=boolean,
        doc="Obey a triplet at once on its own query, as a decision. Lists carry their own mark.",
    )
    memory: int = parameter(
        default=10_000,
        rule=non_negative_integer,
        doc="Most queries, and decisions, to remember; the ones judged longest ago are forgotten.",
    )
    half_life: float | None = parameter(
        default=None,
        rule=positive | none,
        doc="Lists after which what was learnt of clicks and pairs counts half. By default the "
        "last 16 observations of a pair count, and W starts anew once it does worse than "
        "nothing.",
    )
    page: int | None = parameter(
        default=None,
        rule=positive_integer | none,
        doc="Items on a page of results, if lists go over several: on each, people begin to look "
        "at the first anew.",
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
        with all_or_nothing(self):
            self._check_parameters()
            X, labels = validated(self, X, y, reset=True)
            check_magnitude(f"{self._owner}.fit", "X", X)
            self._init_state(as_views(X), as_views(X))
            return self._learn_from_labels(X, labels)

    def partial_fit(self, X: Matrix, y: ArrayLike) -> Self:
        """Continue learning from labels without forgetting; the first call equals `fit`."""
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y)
        self._check_parameters()
        X, labels = validated(self, X, y, reset=False)
        check_magnitude(f"{self._owner}.partial_fit", "X", X, dtype=self._dtype)
        return self._learn_from_labels(X, labels)

    def _learn_from_labels(self, X: Matrix, y: Array) -> Self:
        rng, views = self._rng(), as_views(X)
        draw = triplets_drawn(self._owner, self.sampler, y)

        def score(queries: Indices, items: Indices) -> Array:
            triplets = np.column_stack([queries, items, items])
            return self._scored(views, views, triplets, differences=False)

        bar = progress(self._owner, self.n_triplets, enabled=self.verbose)
        with single_blas_thread(), bar as advance:
            for block in row_blocks(self.n_triplets, DRAW):
                triplets = draw(block.stop - block.start, rng, score)
                # Labels are no decisions about single queries.
                lists = Impressions.from_triplets(triplets, trusted=False)
                self.learn_checked(views, views, lists, advance)
        return self

    def learn(self, X: Side, feedback: Feedback, *, items: Side | None = None) -> Self:
        """Learn from judgements, in order; pieces equal the whole.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), or Views
            Queries; also the items, unless `items` is given.
        feedback : integer array of triplets, of shape (n_triplets, 3), Impressions, or a table
            Triplets are rows (query, better, worse): the first indexes `X`, the others the items.
            A table (pandas, polars, Arrow) has columns of these names, or is a log of lists with
            query, item, click and what else `Impressions.from_table` knows.
        items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        where = f"{self._owner}.learn"
        with all_or_nothing(self):
            queries, Z = self.begin(X, items)
            lists = self._checked_feedback(where, feedback, queries, Z)
            dtype = self._dtype
            check_magnitude(where, "X", queries, lists.queries, dtype)
            check_magnitude(where, "items", Z, lists.items, dtype)
            self._check_nuisances(where, lists)
        with progress(self._owner, len(lists), enabled=self.verbose) as advance:
            self.learn_checked(queries, Z, lists, advance)
        return self

    def begin(self, X: Side, items: Side | None = None) -> tuple[Views, Views]:
        """Check everything but judgements, and start if nothing was learnt yet: for streams."""
        with all_or_nothing(self):
            self._check_parameters()
            new = not self.__sklearn_is_fitted__()
            queries, Z = self._checked_sides(X, items)
            if new:
                if not isinstance(X, Views):
                    validate_data(self, X, reset=True, skip_check_array=True)
                self._init_state(queries, Z)
            return queries, Z

    def start(self) -> Self:
        """Return the blend before any feedback, so that start and learnt can be measured apart."""
        check_is_fitted(self)
        kept = set(self._state) - {f"{name}_part_" for name in PARTS} | {"feature_names_in_"}
        found = clone(self)
        for name in kept & vars(self).keys():
            setattr(found, name, copy.copy(vars(self)[name]))
        clicks, matrix, memory = self.clicks_part_, self.matrix_part_, self.memory_part_
        found.clicks_part_ = ClickModel.begin(clicks.start)
        m, n = matrix.W.shape
        found.matrix_part_ = MatrixPart.start(m, n, matrix.W.dtype)
        n, stretch, common = memory.vectors.shape[1], memory.stretch, memory.common
        found.memory_part_ = Memory.start(n, stretch, common, len(self.names_))
        found.nuisances_, found.n_seen_, found.n_updates_ = [], 0, 0
        found._init_moment()
        return found

    def learn_checked(
        self,
        X: Views,
        Z: Views,
        feedback: Indices | Impressions,
        advance: Advance | None = None,
        *,
        every: int | None = None,
    ) -> None:
        """Learn judgements that a caller has checked, into a state that exists: for streams.

        `every` so many lists a block ends, so that they are learnt as if by a call of their own.
        """
        if isinstance(feedback, Impressions):
            lists = feedback
        else:
            lists = Impressions.from_triplets(feedback, trusted=self.obey)
        if lists.nuisance and not self.nuisances_:
            self.nuisances_ = list(lists.nuisance)
            self.clicks_part_.widen(self._n_nuisances)
        with held_signals() as let_signals_in, single_blas_thread():
            begin, counts = 0, lists.weights > 0
            while begin < len(lists):
                left = (
                    LIST_BLOCK - self.n_seen_ % LIST_BLOCK
                    if every is None
                    else every - begin % every
                )
                end = min(begin + left, len(lists), begin + LIST_BLOCK)
                part, times = lists.part(slice(begin, end)), np.flatnonzero(counts[begin:end])
                if len(times):
                    part = part if len(times) == len(part) else part.part(times)
                    self._learn_block(X, Z, part, self.n_seen_ + times)
                self.n_updates_ += len(times)
                self.n_seen_ += end - begin
                if advance is not None:
                    advance(end - begin)
                begin = end
                let_signals_in()

    def _learn_block(self, X: Views, Z: Views, part: Impressions, times: Indices) -> None:
        """Learn lists: the click model and pairs, then vectors, decisions and W."""
        clicks, memory = self.clicks_part_, self.memory_part_
        kinds = kinds_of(part)
        shown, items, gains = in_order(part, kinds)
        asked, seen = X[part.queries], Z[items]
        counts = np.diff(part.starts)
        features = self._features(asked[np.repeat(np.arange(len(part)), counts)], seen)
        scores = _bounded(features, LARGEST_SCORE)
        keys, item_keys = self._query_keys(asked), self._item_keys(seen)
        slots, fresh, ages = memory.take(keys, self.memory, times)
        fading = 0.5 ** (1 / self.half_life) if self.half_life else 1.0
        left, wanted, margins = fading**ages, np.zeros(len(items)), np.zeros(len(part))
        places = {name: values[shown] for name, values in part.nuisance.items()}
        orders = places.pop(POSITION, np.zeros(len(items)))
        x = np.zeros((len(items), 1 + len(self.names_) + self._n_nuisances))
        x[:, 0], x[:, 1 : 1 + len(self.names_)] = 1.0, scores
        known = [name for name in self.nuisances_ if name != POSITION]
        for column, name in enumerate(known, 1 + len(self.names_)):
            x[:, column] = places.get(name, 0.0)
        prior, alone_prior = clicks.priors()
        learn_lists(
            *(part.starts, kinds, part.weights, slots, fresh, left, item_keys, gains),
            *(self._on_page(orders), orders, x, clicks.start, fading, self.n_updates_),
            *(prior, clicks.theta, clicks.precision),
            *(alone_prior, clicks.alone, clicks.alone_precision, clicks.evidence, clicks.ranks),
            *(memory.items, memory.pairs, memory.told, wanted, margins),
        )
        compared = kinds == COMPARED
        ties = np.flatnonzero(compared & (part.weights <= TIE))
        for side in (0, 1):
            memory.tie(slots[ties], item_keys[part.starts[ties] + side])
        rows = self._base_rows(seen) if not self._is_wide else np.zeros((len(items), 0))
        rows = _bounded(rows / self._scale(1))
        if not self._is_wide:
            apart = rows - self.mean_
            follow_lists(
                *(part.starts, slots, fresh, left, wanted, apart, memory.spread(apart)),
                *(memory.vectors, SWEEPS),
            )
            lists = np.flatnonzero(compared)
            if len(lists):
                first = part.starts[lists]
                own = _bounded(self._base_rows(asked[lists]) / self._scale(0))
                gaps = rows[first] - rows[first + 1]
                self.matrix_part_.learn(own, gaps, margins[lists], part.weights[lists])
        if self.memory and part.trusted.any():
            self._decide(part, gains, keys, item_keys, times, scores, rows)

    def _on_page(self, places: Array) -> Array:
        """Logarithms of places, counted from the first of each page."""
        if self.page is None:
            return places
        found: Array = np.log((np.rint(np.exp(places)) - 1) % self.page + 1)
        return found

    def _decide(
        self,
        part: Impressions,
        gains: Array,
        keys: Array,
        items: Array,
        times: Indices,
        scores: Array,
        rows: Array,
    ) -> None:
        """Take down the decisions of trusted people: each chosen item above each lower one.

        If nothing was chosen, "none of these", the average item is above all.
        """
        most = int((np.diff(part.starts)[part.trusted] ** 2).sum())
        found = np.empty((3, most), np.intp)
        total = decided_pairs(part.starts, gains, part.trusted, found)
        if not total:
            return
        lists, above, below = found[:, :total]
        none, better, vectors = above < 0, scores[above], rows[above]
        pairs = np.column_stack([items[above], items[below]])
        better[none], pairs[none, 0] = self.middle_, 0
        if rows.shape[1]:
            vectors[none] = self.mean_
        decisions = keys[lists], times[lists], pairs, better - scores[below], vectors - rows[below]
        self.memory_part_.decide(*decisions, self.memory)


def kinds_of(lists: Impressions) -> Indices:
    """How each list is learnt.

    Two items without places, one of them better, are a comparison; other lists of trusted people
    are judgements of each item, and everything else is clicks.
    """
    first = lists.starts[:-1]
    placed = (
        np.maximum.reduceat(np.abs(lists.nuisance[POSITION]), first) > 0
        if (POSITION in lists.nuisance)
        else np.zeros(len(lists), bool)
    )
    differ = lists.gains[first] != lists.gains[lists.starts[1:] - 1]
    compared = (np.diff(lists.starts) == 2) & ~placed & differ
    return np.where(compared, COMPARED, np.where(lists.trusted, JUDGED, CLICKED))


def in_order(lists: Impressions, kinds: Indices) -> tuple[Indices, Indices, Array]:
    """What was shown with the better item of comparisons first: places, items, and gains to 1."""
    order, first = np.arange(len(lists.items)), lists.starts[:-1][kinds == COMPARED]
    turned = first[lists.gains[first] < lists.gains[first + 1]]
    order[turned], order[turned + 1] = turned + 1, turned
    best = np.maximum.reduceat(lists.gains, lists.starts[:-1])
    gains = lists.gains / np.repeat(np.maximum(best, 1.0), np.diff(lists.starts))
    return order, lists.items[order], gains[order]


def _bounded(values: Array, limit: float = LONGEST) -> Array:
    """Values with what is beyond the limit cut off; the values themselves if nothing is."""
    if np.vdot(values, values) <= limit**2:  # a bound for all; the rest may be right too
        return values
    return np.clip(values, -limit, limit)
