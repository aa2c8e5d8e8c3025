"""Blend: a similarity that is a sum of parts, each trusted as far as feedback bears it out."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from similia.base import Learner, accepts_one_query, all_or_nothing, validated, writable
from similia.contract import Array, Geometry, Indices, Matrix, Side, State
from similia.impressions import Impressions
from similia.interrupts import held_signals
from similia.linalg.blas import products, row_products
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.threads import single_blas_thread
from similia.parameters import parameter
from similia.progress import Advance, progress
from similia.sampling import TRIPLET_SAMPLERS, UniformTriplets
from similia.similarity.aroma import expected_regret
from similia.similarity.base import triplets_drawn
from similia.similarity.comparing import (
    check_widths,
    compared_widths,
    keys_of,
    measured,
    names_of,
    scores_of_pairs,
    side_by_side,
)
from similia.similarity.matrix import MatrixPart
from similia.similarity.memory import Memory
from similia.similarity.weights import Ranking, Weights
from similia.updates.blend import pairs_of_lists
from similia.validation import (
    boolean,
    check_magnitude,
    check_sparse,
    check_tuples,
    function,
    non_negative_integer,
    none,
    one_of,
    positive,
    positive_integer,
)
from similia.views import Views, as_views

#: judgements: triplets, or lists that were shown
Feedback: TypeAlias = ArrayLike | Impressions

#: lists learnt at a time
BLOCK = 128
#: triplets drawn at a time by `fit`
DRAW = 4096
#: triplets from which `score` judges labels
SCORED = 10_000
#: features of the base above which W and memory are left out: they would need this many squared
WIDEST = 4096


@dataclass(frozen=True)
class Explanation:
    """Why an item scores as it does for a query, in typical gaps of the base."""

    #: what each view adds, the base first, then "W", "memory" and "decisions"
    parts: dict[str, float]
    #: judgements behind the memory, numbered from 0, and what they add, the largest first
    judgements: list[tuple[int, float]]

    @property
    def score(self) -> float:
        """Sum of the parts."""
        return sum(self.parts.values())


class Blend(Learner):
    """A sum of parts: weights of views, a matrix W, and a memory of what was said about a query.

        s(q, p) = s₀(q, p) + Σ_v δ_v s_v(q, p) + qᵀWp + m(q)ᵀp

    s₀ is the base, the similarity that users have today. All parts are Gaussian and learn from the
    same feedback: lists that people chose from, or triplets, which are lists of two. Each part is
    scored on what it has not learnt yet, and ranks as far as it has proved better than doing
    without it. Until then the base ranks. There is nothing to set.

    The weights δ learn from tens of judgements and W from thousands; both change every query. The
    memory changes only the queries that were judged, and their neighbours. Only queries are
    transformed: an index of the items stays as it is.

    Attributes
    ----------
    names_ : list of str
        The views, the base first; a field with several columns has a name for each.
    weights_ : array of shape (n_views,)
        Weight of each view when ranking, in units of their typical gaps; that of the base is 1.
    trust_ : dict
        Probability that "views", "W" and "memory" rank better than doing without them.
    n_seen_, n_updates_ : int
        Lists (or triplets) learnt from, and those of them that said something.

    Notes
    -----
    Queries are recognised by the numbers of their base view, in single precision.

    W and memory need a base of at most 4,096 features; for a wider one there are only the weights.

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
        doc="Lists after which what the weights and the memory have learnt counts half. By default "
        "nothing fades; W starts anew by itself once it does worse than nothing.",
    )
    sampler: str | Callable[..., ArrayLike] = parameter(
        default="uniform",
        rule=one_of(*TRIPLET_SAMPLERS) | function,
        doc="How `fit` and `partial_fit` draw triplets from labels; a function is called as "
        "sampler(y, n, rng, score).",
    )
    n_triplets: int = parameter(
        default=50_000, rule=positive_integer, doc="Triplets drawn by each call of those."
    )

    #: posterior means rank, so there are no states to average
    average: ClassVar[bool] = False  # type: ignore[misc]
    merges = False
    learns_from = "triplets"
    learns_lists = True
    geometry: ClassVar[Geometry] = "inner_product"
    _averaged: ClassVar = "gaps_"
    _state: ClassVar = (
        *Learner._state,
        *("n_item_features_", "names_", "widths_", "gaps_", "lengths_", "middle_", "mean_"),
        *("nuisances_", "weights_part_", "matrix_part_", "memory_part_"),
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
        check_magnitude(f"{self._owner}.partial_fit", "X", X)
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
        feedback : integer array of triplets, of shape (n_triplets, 3), or Impressions
            Triplets are rows (query, better, worse): the first indexes `X`, the others the items.
        items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional

        Returns
        -------
        The learner itself. On an error nothing has changed.
        """
        where = f"{self._owner}.learn"
        with all_or_nothing(self):
            queries, Z = self.begin(X, items)
            lists = self._checked_feedback(where, feedback, queries, Z)
            dtype = self.matrix_part_.W.dtype
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

    def _init_state(self, X: Views, Z: Views) -> None:
        """Measure what is typical, and start every part."""
        self.widths_ = compared_widths(self._owner, X, Z)
        self.names_ = names_of(self.widths_)
        self.nuisances_: list[str] = []
        self.n_features_in_, self.n_item_features_ = X.shape[1], Z.shape[1]
        self.n_seen_ = self.n_updates_ = 0
        self.gaps_, self.lengths_, self.middle_, self.mean_, agreement = measured(
            self.widths_, X, Z
        )
        self.weights_part_ = Weights.start(agreement, 0)
        base = self.widths_[0][0]
        m, n, dtype = X[base].shape[1], Z[base].shape[1], Z[base].dtype
        wide = max(m, n) > WIDEST
        self.matrix_part_ = MatrixPart.start(0 if wide else m, 0 if wide else n, dtype)
        chosen = np.random.default_rng(0).permutation(X.shape[0])[:500]
        queries = dense(rows_of(X[base], chosen, dtype)) if not wide else np.zeros((0, m), dtype)
        self.memory_part_ = Memory.start(queries, n, len(self.names_))
        self._init_moment()

    def learn_checked(
        self, X: Views, Z: Views, feedback: Indices | Impressions, advance: Advance | None = None
    ) -> None:
        """Learn judgements that a caller has checked, into a state that exists: for streams."""
        if isinstance(feedback, Impressions):
            lists = feedback
        else:
            lists = Impressions.from_triplets(feedback, trusted=self.obey)
        if lists.nuisance and not self.nuisances_:
            self.nuisances_ = list(lists.nuisance)
            self.weights_part_.widen(len(self.nuisances_))
        size = min(BLOCK, self.memory) or BLOCK
        with held_signals() as let_signals_in, single_blas_thread():
            for block in row_blocks(len(lists), size):
                part = lists.part(block)
                self.n_updates_ += self._learn_block(X, Z, part)
                self.n_seen_ += len(part)
                if advance is not None:
                    advance(len(part))
                let_signals_in()

    def _learn_block(self, X: Views, Z: Views, part: Impressions) -> int:
        says = part.say_something()
        part, times = part.part(says), self.n_seen_ + np.flatnonzero(says)
        if not len(part):
            return 0
        sizes = np.diff(part.starts)
        asked = np.repeat(part.queries, sizes)
        features = self._features(X, Z, asked, part.items)
        nuisance = np.zeros((len(asked), len(self.nuisances_)))
        for column, name in enumerate(self.nuisances_):
            nuisance[:, column] = part.nuisance.get(name, 0.0)
        queries = self._base_rows(X, part.queries)
        keys = keys_of(queries)
        common = part.starts, part.gains, part.weights
        fading = 0.5 ** (1 / self.half_life) if self.half_life else 1.0
        offsets, others = self.weights_part_.learn(
            part.starts, features, nuisance, part.gains, part.weights, keys, fading
        )
        if not self._is_wide:
            rows = self._base_rows(Z, part.items) / self._scale(1)
            if self.memory:
                self.memory_part_.learn(
                    *common, keys, queries, rows, offsets, others, self.memory, times, fading
                )
                self._decide(part, keys, features, rows)
            lists, pairs, margins, variances = pairs_of_lists(
                part.starts, part.gains, offsets, others
            )
            # What people did with a long list says little about items that were not in it.
            kept = (sizes[lists] == 2) | part.trusted[lists]
            lists, pairs, margins, variances = (
                array[kept] for array in (lists, pairs, margins, variances)
            )
            if len(lists):
                self.matrix_part_.learn(
                    (queries / self._scale(0))[lists],
                    rows[pairs[:, 0]] - rows[pairs[:, 1]],
                    margins,
                    variances,
                    part.weights[lists],
                    keys[lists],
                )
        return len(part)

    def _decide(self, part: Impressions, keys: Array, features: Array, rows: Array) -> None:
        """Take down the decisions of trusted people: each chosen item above each lower one.

        If nothing was chosen, "none of these", the average item is above all.
        """
        gained, moved, owners = [], [], []
        for t in np.flatnonzero(part.trusted):
            shown = slice(part.starts[t], part.starts[t + 1])
            gains, f, x = part.gains[shown], features[shown], rows[shown]
            above, below = np.nonzero(gains[:, None] > gains)
            if gains.any():
                gained.append(f[above] - f[below])
                moved.append(x[above] - x[below])
            else:
                gained.append(self.middle_ - f)
                moved.append(self.mean_ - x)
            owners.append(np.full(len(gained[-1]), keys[t]))
        if owners:
            given = np.concatenate(owners), np.concatenate(gained), np.concatenate(moved)
            self.memory_part_.decide(*given, self.memory)

    # -- using ---------------------------------------------------------------------------------

    @property
    def weights_(self) -> NDArray[np.float64]:
        """Weight of each view when ranking, in units of their typical gaps."""
        return self._ranking().weights

    @property
    def trust_(self) -> dict[str, float]:
        """Probability that each part ranks better than doing without it."""
        check_is_fitted(self)
        views, W, memory = self.weights_part_, self.matrix_part_, self.memory_part_
        return {"views": views.trust, "W": W.trust, "memory": memory.trust}

    @accepts_one_query
    def pairwise_score(self, Q: Side, Z: Side | None = None) -> Array:
        """Scores of all pairs of rows; larger is closer.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or Views, or one vector
        Z : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
            The items; the queries themselves if not given.

        Returns
        -------
        scores : array of shape (n_queries, n_items), or (n_items,) for one vector
        """
        check_is_fitted(self)
        queries, items = self._checked_sides(Q, Z, finite=True)
        scores: Any = 0.0
        for name, vectors in self._query_views(queries).items():
            product = items[name] @ vectors.T
            scores = scores + dense(product).T
        return np.asarray(scores)

    @accepts_one_query
    def query_vectors(self, Q: Side) -> Matrix:
        """Vectors to search an inner-product index of `item_vectors` with."""
        check_is_fitted(self)
        queries, _ = self._checked_sides(Q, None, finite=True, queries_only=True)
        return side_by_side(list(self._query_views(queries).values()))

    def query_matrix(self) -> Array | None:
        """None: what is remembered of single queries is in no matrix."""
        return None

    def item_vectors(self, Z: Side) -> Matrix:
        """All views of the items side by side: learning never touches them."""
        check_is_fitted(self)
        items = self._checked_items(Z, finite=True)
        return side_by_side([items[name] for name, _, _ in self.widths_])

    def triplet_scores(
        self,
        X: Side,
        triplets: ArrayLike,
        *,
        items: Side | None = None,
        return_std: bool = False,
    ) -> Any:
        """Margins of better over worse; with `return_std` also their standard deviations."""
        check_is_fitted(self)
        queries, Z = self._checked_sides(X, items)
        sizes = (queries.shape[0], Z.shape[0], Z.shape[0])
        rows = check_tuples(f"{self._owner}.triplet_scores", "triplets", triplets, sizes)
        margins = self.margins(queries, Z, rows)
        return (margins, self._std(queries, Z, rows)) if return_std else margins

    def margins(self, X: Views, Z: Views, triplets: Indices) -> Array:
        """Margins of triplets that a caller has checked: for streams."""
        return self._scored(X, Z, triplets, differences=True)

    def _scored(self, X: Views, Z: Views, triplets: Indices, *, differences: bool) -> Array:
        """Margins of triplets, or scores of their better items."""
        found = np.empty(len(triplets))
        asked, place = np.unique(triplets[:, 0], return_inverse=True)
        vectors = self._query_views(X[asked])
        for block in row_blocks(len(triplets), 1024):
            _, better, worse = triplets[block].T
            total = 0.0
            for name, rows in vectors.items():
                items = rows_of(Z[name], better, Z[name].dtype)
                if differences:
                    items = items - rows_of(Z[name], worse, Z[name].dtype)
                total = total + row_products(dense(rows[place[block]]), items)
            found[block] = total
        return found

    def score(self, X: Side, y: ArrayLike, *, items: Side | None = None) -> float:
        """Share of triplets in the right order; a tie counts half.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), or Views
        y : integer array of triplets, of shape (n_triplets, 3), or labels of shape (n_queries,)
            Class labels stand for triplets drawn from them with a fixed seed.
        items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
        """
        if np.ndim(y) == 1 and items is None:
            y = UniformTriplets(np.asarray(y)).draw(SCORED, np.random.default_rng(0))
        margins = self.triplet_scores(X, y, items=items)
        if len(margins) == 0:
            raise ValueError(f"{self._owner}.score: y must be at least one triplet, got none.")
        return float(np.mean((margins > 0) + 0.5 * (margins == 0)))

    # -- parts ---------------------------------------------------------------------------------

    def _ranking(self) -> Ranking:
        check_is_fitted(self)
        return self.weights_part_.ranking()

    def _query_views(self, Q: Views) -> dict[str, Matrix]:
        """Vectors of queries for each view of the items, whose inner products add up."""
        ranking = self._ranking()
        weights, found, column = ranking.weights / self.gaps_, {}, 0
        for name, width, n in self.widths_:
            if width:
                found[name] = Q[name] * Q[name].dtype.type(weights[column])
                column += 1
            else:
                own = weights[column : column + n]
                dtype = self.matrix_part_.W.dtype
                found[name] = np.broadcast_to(own.astype(dtype), (Q.shape[0], n))
                column += n
        if not self._is_wide:
            base = self.widths_[0][0]
            found[base] = dense(found[base]) + self._learnt_vectors(Q, ranking)
        return found

    def _learnt_vectors(self, Q: Views, ranking: Ranking) -> Array:
        """What W, memory and decisions add to the queries' vectors for the base view."""
        queries = self._base_rows(Q, np.arange(Q.shape[0]))
        memory = self.memory_part_
        keys = keys_of(queries)
        W = self.matrix_part_.mean()
        added = products((queries / self._scale(0), W))[0] / ranking.strength
        # Among the few items of a list the base explains less than among all: its weight for what
        # is remembered is at least 1.
        added += memory.recalled(keys, queries) / max(1.0, ranking.strength)
        for row in np.flatnonzero(np.isin(keys, memory.decided)):
            added[row] = memory.obey(int(keys[row]), ranking.weights, added[row])
        return added / self._scale(1)

    def _features(self, X: Views, Z: Views, queries: Indices, items: Indices) -> Array:
        """Scores of all views for these pairs of rows, in typical gaps."""
        return scores_of_pairs(self.widths_, X, Z, queries, items) / self.gaps_

    @property
    def _is_wide(self) -> bool:
        return self.matrix_part_.W.size == 0

    def _base_rows(self, views: Views, rows: Indices) -> Array:
        base = views[self.widths_[0][0]]
        return dense(rows_of(base, rows, self.matrix_part_.W.dtype))

    def _scale(self, side: int) -> Any:
        """Typical length of queries (0), or of differences between items (1)."""
        return self.matrix_part_.W.dtype.type(self.lengths_[side])

    def _std(self, X: Views, Z: Views, triplets: Indices) -> Array:
        """Standard deviations of margins: of the weights, of W, and of what is remembered."""
        ranking = self._ranking()
        query, better, worse = triplets.T
        gaps = self._features(X, Z, query, better) - self._features(X, Z, query, worse)
        covariance = self.weights_part_.covariance()
        variances = np.vecdot(gaps[:, 1:] @ covariance, gaps[:, 1:])
        if not self._is_wide:
            Q = self._base_rows(X, query)
            P = (self._base_rows(Z, better) - self._base_rows(Z, worse)) / self._scale(1)
            learnt = self.matrix_part_.variances(Q / self._scale(0), P)
            variances += learnt / ranking.strength**2
            remembered = self.memory_part_.variances_of(keys_of(Q)) * np.vecdot(P, P)
            variances += remembered / max(1.0, ranking.strength) ** 2
        return np.sqrt(np.maximum(variances, 0.0))

    def suggest(
        self,
        X: Side,
        candidates: ArrayLike,
        n_suggestions: int = 1,
        *,
        items: Side | None = None,
    ) -> Indices:
        """Choose the comparisons whose answers would teach most, each about another query.

        A candidate is a question (query, one item, another item), in either order. Its worth is the
        expected regret: the present order is likely to be wrong, and by much.

        Parameters
        ----------
        X : array or CSR matrix of shape (n_queries, n_features), or Views
        candidates : integer array of shape (n_candidates, 3)
        n_suggestions : int
            How many to choose, at most as many as there are candidates.
        items : array or CSR matrix of shape (n_items, n_item_features), or Views, optional

        Returns
        -------
        chosen : array of shape (n_suggestions,)
            Rows of `candidates`, best first.
        """
        margins, std = self.triplet_scores(X, candidates, items=items, return_std=True)
        if not 1 <= n_suggestions <= len(margins):
            raise ValueError(
                f"{self._owner}.suggest: n_suggestions must be between 1 and the number of "
                f"candidates, {len(margins)}, got {n_suggestions}."
            )
        order = np.argsort(-expected_regret(margins, std), kind="stable")
        _, first = np.unique(np.asarray(candidates)[order, 0], return_index=True)
        repeated = np.ones(len(order), bool)
        repeated[first] = False
        chosen: Indices = np.concatenate([order[~repeated], order[repeated]])[:n_suggestions]
        return chosen

    def explain(self, Q: Side, Z: Side | None = None) -> list[list[Explanation]]:
        """Why each item scores as it does for each query, in typical gaps of the base.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or Views
        Z : array or CSR matrix of shape (n_items, n_item_features), or Views, optional
            A few items; the queries themselves if not given.

        Returns
        -------
        explanations : list of a list for each query, with an `Explanation` for each item
        """
        check_is_fitted(self)
        queries, items = self._checked_sides(Q, Z, finite=True)
        return [
            [self._explained(queries, items, q, z) for z in range(items.shape[0])]
            for q in range(queries.shape[0])
        ]

    def _explained(self, Q: Views, Z: Views, q: int, z: int) -> Explanation:
        ranking = self._ranking()
        one, other = np.array([q]), np.array([z])
        features = self._features(Q, Z, one, other)[0] * ranking.weights
        parts = dict(zip(self.names_, features.tolist(), strict=True))
        if self._is_wide:
            return Explanation(parts, [])
        query, strength = self._base_rows(Q, one), max(1.0, ranking.strength)
        item, keys = self._base_rows(Z, other)[0] / self._scale(1), keys_of(query)
        W = (query / self._scale(0) @ self.matrix_part_.mean())[0] / ranking.strength
        memory = self.memory_part_.recalled(keys, query)[0] / strength
        whole = self._learnt_vectors(Q[one], ranking)
        parts["W"], parts["memory"] = float(W @ item), float(memory @ item)
        parts["decisions"] = float((whole[0] * self._scale(1) - W - memory) @ item)
        return Explanation(parts, self.memory_part_.behind(keys[0], query[0], item / strength))

    # -- state ---------------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return the learnt attributes by name; arrays are not copied."""
        state = super().get_state()
        for name in PARTS:
            part = state.pop(f"{name}_part_")
            state |= {f"{name}_{field}_": value for field, value in vars(part).items()}
        return state

    def set_state(self, state: State) -> Self:
        """Replace the learnt attributes by those of a learner with the same parameters."""
        plain = dict(state)
        for name, kind in PARTS.items():
            names = [field.name for field in fields(kind)]
            found = {field: plain.pop(f"{name}_{field}_", None) for field in names}
            missing = [field for field, value in found.items() if value is None]
            if missing:
                raise ValueError(
                    f"{self._owner}.set_state: state must have the names of this learner, but "
                    f"'{name}_{missing[0]}_' is missing."
                )
            plain[f"{name}_part_"] = kind(**{f: writable(value) for f, value in found.items()})
        self._check_names(plain)
        return super().set_state(plain)

    def _check_names(self, state: State) -> None:
        """Refuse a state whose views, widths and nuisances contradict each other."""
        wanted = "names_", "widths_", "nuisances_", "n_features_in_", "n_item_features_"
        if not set(wanted) <= set(state):
            return  # missing names are told apart later
        names, widths, nuisances, *counts = (state[name] for name in wanted)
        try:
            sides = [sum(view[side] for view in widths) for side in (1, 2)]
            right = (
                names == names_of(widths)
                and sides == counts
                and all(m in (0, n) and n > 0 for _, m, n in widths)
                and widths[0][1] > 0
                and all(isinstance(name, str) for name in nuisances)
            )
        except (TypeError, ValueError, LookupError):
            right = False
        if not right:
            raise ValueError(
                f"{self._owner}.set_state: widths_ must be [name, query features, item features] "
                f"of each view, and names_ and the numbers of features what follows from them, "
                f"got {widths!s:.60}."
            )

    def merge(self, parts: Any) -> Self:
        """Refuse: what each part of a stream proved cannot be added up afterwards."""
        raise ValueError(
            f"{self._owner}.merge: a blend cannot be merged, as each judgement counts as evidence "
            "before it is learnt; learn from one stream of all judgements instead."
        )

    def __setstate__(self, state: State) -> None:
        super().__setstate__(state)
        if self.__sklearn_is_fitted__():
            for name in PARTS:
                part = vars(getattr(self, f"{name}_part_"))
                part |= {field: writable(value) for field, value in part.items()}

    def _init_moment(self) -> None:
        self.moment_ = np.zeros((0, 0), self.matrix_part_.W.dtype)

    def _example(self, m: int, n: int, dtype: DTypeLike) -> tuple[Views, Views]:
        sides: list[dict[str, Matrix]] = [{}, {}]
        for name, *widths in self.widths_:
            for side, width in zip(sides, widths, strict=True):
                if width:
                    side[name] = sparse.csr_array((1, width), dtype=dtype)
        return Views(**sides[0]), Views(**sides[1])

    def _shapes(self) -> dict[str, tuple[int, ...]]:
        twin = type(self)(**self.get_params(deep=False))
        twin.begin(*self._example(0, 0, self.matrix_part_.W.dtype))
        twin.weights_part_.widen(len(self.nuisances_))
        twin.memory_part_.reserve(len(self.memory_part_.keys), len(self.memory_part_.decided))
        state = twin.get_state().items()
        return {name: value.shape for name, value in state if isinstance(value, np.ndarray)}

    # -- checks --------------------------------------------------------------------------------

    def _checked_feedback(self, where: str, feedback: Feedback, X: Views, Z: Views) -> Impressions:
        if not isinstance(feedback, Impressions):
            sizes = (X.shape[0], Z.shape[0], Z.shape[0])
            triplets = check_tuples(where, "feedback", feedback, sizes)
            return Impressions.from_triplets(triplets, trusted=self.obey)
        for name, rows, side in (("queries", feedback.queries, X), ("items", feedback.items, Z)):
            if len(rows) and not 0 <= rows.min() <= rows.max() < side.shape[0]:
                raise ValueError(
                    f"{where}: {name} of the feedback must be row indices between 0 and "
                    f"{side.shape[0] - 1}, got {rows.max() if rows.min() >= 0 else rows.min()}."
                )
        return feedback

    def _check_nuisances(self, where: str, lists: Impressions) -> None:
        unknown = [name for name in lists.nuisance if name not in self.nuisances_]
        if self.nuisances_ and unknown:
            raise ValueError(
                f"{where}: nuisances must be among {', '.join(self.nuisances_)}, as in the first "
                f"feedback, got {unknown[0]}."
            )

    def _checked_sides(
        self,
        X: Side,
        items: Side | None,
        *,
        finite: bool = False,
        queries_only: bool = False,
    ) -> tuple[Views, Views]:
        fitted = self.__sklearn_is_fitted__()
        if not isinstance(X, Views) and fitted:
            X = validated(self, X, reset=False, ensure_all_finite=finite)
        queries = self._checked_views("X", X)
        if fitted:
            check_widths(self._owner, "queries", queries, self.widths_, 1)
        if finite:
            check_magnitude(self._owner, "X", queries)
        if queries_only or items is None:
            if not queries_only and fitted:
                check_widths(self._owner, "items", queries, self.widths_, 2)
            return queries, queries
        return queries, self._checked_items(items, finite=finite)

    def _checked_views(self, name: str, X: Side) -> Views:
        """Views whose sparse matrices name no places outside of themselves."""
        for view in X if isinstance(X, Views) else ():
            check_sparse(self._owner, view, X[view])
        if not isinstance(X, Views):
            check_sparse(self._owner, name, X)
        return as_views(X)

    def _checked_items(self, Z: Side, *, finite: bool) -> Views:
        items = self._checked_views("items", Z)
        if self.__sklearn_is_fitted__():
            check_widths(self._owner, "items", items, self.widths_, 2)
        if finite:
            check_magnitude(self._owner, "items", items)
        return items

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.required = True
        return tags


PARTS: dict[str, Any] = {"weights": Weights, "matrix": MatrixPart, "memory": Memory}
