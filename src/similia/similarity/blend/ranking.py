"""How a blend ranks: scores, doubt, suggestions and explanations."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from similia.base import accepts_one_query
from similia.contract import Array, Indices, Matrix, Side
from similia.feedback.sampling import UniformTriplets
from similia.linalg.blas import products, row_products
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.row_keys import row_keys
from similia.similarity.aroma import expected_regret
from similia.similarity.blend.comparing import scores_of_pairs, side_by_side
from similia.similarity.blend.memory import Keys
from similia.similarity.blend.state import BlendState
from similia.updates.blend import TAU
from similia.validation import check_tuples
from similia.views import Views

#: triplets from which `score` judges labels
SCORED = 10_000
#: keys are odd, so that 0 stands for none
ODD = np.uint64(1)
#: multiplier of the keys of one view after another
MIX = np.uint64(0x9E3779B97F4A7C15)


def telling(margins: Array) -> Array:
    """How much margins of different sizes are likely to tell.

    What has almost the same score people call alike, what is far apart was known before.
    """
    typical = float(np.median(np.abs(margins)))
    if typical == 0:
        return np.ones(len(margins))
    sizes = np.abs(margins) / typical
    found: Array = (sizes + 0.5) * np.exp(-((sizes / 2) ** 2))
    return found


@dataclass(frozen=True)
class Explanation:
    """Why an item scores as it does for a query, in units of the base."""

    #: what each view adds, the base first, then "W", "memory" and "decisions"
    parts: dict[str, float]
    #: the last judgements behind memory and decisions, numbered from 0, and what these add, the
    #: largest first
    judgements: list[tuple[int, float]]

    @property
    def score(self) -> float:
        """Sum of the parts."""
        return sum(self.parts.values())


class BlendRanking(BlendState):
    """The sum of the parts."""

    # -- using ---------------------------------------------------------------------------------

    @property
    def start_weights_(self) -> NDArray[np.float64]:
        """Weight of each view before any feedback, in its unit."""
        check_is_fitted(self)
        return self.clicks_part_.start

    @property
    def weights_(self) -> NDArray[np.float64]:
        """Weight of each view when ranking, in its unit."""
        check_is_fitted(self)
        return self.clicks_part_.weights

    @property
    def trust_(self) -> dict[str, float]:
        """Share with which what lists have taught ranks, and the weight of W."""
        check_is_fitted(self)
        return {"clicks": self.clicks_part_.trust, "W": self._weight_of_W}

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
        for name, vectors in self._query_views(queries, remembered=False).items():
            product = items[name] @ vectors.T
            scores = scores + dense(product).T
        found = np.asarray(scores)
        for row, (places, bonuses) in zip(found, self.boosts_checked(queries, items), strict=True):
            row[places] += bonuses.astype(found.dtype)
        return found

    def boosts(self, Q: Side, Z: Side | None = None) -> list[tuple[Array, Array]]:
        """What is known of single items for each query, to be added to their scores.

        An index of inner products finds candidates by `query_vectors`, which say nearly the same of
        these items, and something of others. Whoever puts candidates in order and knows which item
        is which gets the scores of `pairwise_score` from vectors of `remembered=False` and these.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), or Views
        Z : array or CSR matrix of shape (n_items, n_item_features), or Views, optional

        Returns
        -------
        boosts : list with (items, bonuses) for each query
            Items are rows of Z, or else keys as `item_keys` returns them.
        """
        check_is_fitted(self)
        queries, items = self._checked_sides(Q, Z, finite=True, queries_only=Z is None)
        return self.boosts_checked(queries, None if Z is None else items)

    def item_keys(self, Z: Side) -> NDArray[np.uint64]:
        """A number for each item, the same for items with equal vectors: for `boosts`."""
        check_is_fitted(self)
        return self._item_keys(self._checked_items(Z, finite=True))

    @accepts_one_query
    def query_vectors(self, Q: Side, *, remembered: bool = True) -> Matrix:
        """Vectors to search an inner-product index of `item_vectors` with.

        What is `remembered` of a query's items is said by the least change to its vector that says
        it of these items; without it, `boosts` says it exactly.
        """
        if not self.__sklearn_is_fitted__():
            check_is_fitted(self)
        queries, _ = self._checked_sides(Q, None, finite=True, queries_only=True)
        return self.query_vectors_checked(queries, remembered=remembered)

    def query_vectors_checked(self, Q: Views, *, remembered: bool = True) -> Matrix:
        """The same for queries that a caller has checked."""
        return side_by_side(list(self._query_views(Q, remembered=remembered).values()))

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
        return (margins, self.deviations(queries, Z, rows)) if return_std else margins

    def margins(self, X: Views, Z: Views, triplets: Indices) -> Array:
        """Margins of triplets that a caller has checked: for streams."""
        return self._scored(X, Z, triplets, differences=True)

    def _scored(self, X: Views, Z: Views, triplets: Indices, *, differences: bool) -> Array:
        """Margins of triplets, or scores of their better items."""
        found = np.empty(len(triplets))
        asked, place = np.unique(triplets[:, 0], return_inverse=True)
        views = X[asked]
        vectors = self._query_views(views, remembered=False)
        for block in row_blocks(len(triplets), 1024):
            _, better, worse = triplets[block].T
            total = 0.0
            for name, rows in vectors.items():
                items = rows_of(Z[name], better, Z[name].dtype)
                if differences:
                    items = items - rows_of(Z[name], worse, Z[name].dtype)
                total = total + row_products(dense(rows[place[block]]), items)
            found[block] = total
        known = self._known_bonuses(views)
        if any(len(items) for items, _, _ in known):
            found += self._bonuses_of(known, place, self._item_keys(Z[triplets[:, 1]]))
            if differences:
                found -= self._bonuses_of(known, place, self._item_keys(Z[triplets[:, 2]]))
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

    def _query_views(self, Q: Views, *, remembered: bool) -> dict[str, Matrix]:
        """Vectors of queries for each view of the items, whose inner products add up."""
        own_units = self.clicks_part_.weights
        weights, found, column = own_units / self.units_, {}, 0
        for name, width, n in self.widths_:
            if width:
                found[name] = Q[name] * Q[name].dtype.type(weights[column])
                column += 1
            else:
                own = weights[column : column + n].astype(self._dtype)
                found[name] = np.broadcast_to(own, (Q.shape[0], n))
                column += n
        if not self._is_wide and (remembered or self.matrix_part_.weight):
            base, moved = self.widths_[0][0], self._moved_by_W(self._base_rows(Q))
            if remembered:
                ranks = self.clicks_part_.ranks
                self.memory_part_.recall(moved, self._query_keys(Q), ranks, own_units)
            found[base] = dense(found[base]) + moved / self._scale(1)
        return found

    def _moved_by_W(self, queries: Array) -> Array:
        """What W adds to queries, for differences of items in typical lengths."""
        W, weight = self.matrix_part_.W, self._weight_of_W
        if not weight:
            return np.zeros((len(queries), W.shape[1]), self._dtype)
        found: Array = products((queries / self._scale(0), W))[0] * self._dtype.type(weight)
        return found

    @property
    def _weight_of_W(self) -> float:
        """Weight of W in units of the base."""
        return self.matrix_part_.weight / float(self.clicks_part_.ranks[TAU])

    def _known_bonuses(self, Q: Views) -> list[tuple[Keys, Array, Array]]:
        """Items known for each query, what is remembered of them, and what decisions add."""
        memory, clicks = self.memory_part_, self.clicks_part_
        keys = self._query_keys(Q)
        slots, none = memory.places(keys), np.zeros(0)
        found = [(np.zeros(0, np.uint64), none, none)] * len(keys)
        for t in np.flatnonzero((slots >= 0) | np.isin(keys, memory.decided, kind="sort")):
            moved = np.zeros(self.matrix_part_.W.shape[1])
            if not self._is_wide:
                moved = self._moved_by_W(self._base_rows(Q[t : t + 1]))[0]
            found[t] = memory.bonuses(keys[t], slots[t], clicks.ranks, clicks.weights, moved)
        return found

    def boosts_checked(self, Q: Views, Z: Views | None = None) -> list[tuple[Array, Array]]:
        """Items and bonuses for each query, as `boosts`, of sides that a caller has checked."""
        known = self._known_bonuses(Q)
        every = [(items, memory + decisions) for items, memory, decisions in known]
        if Z is None:
            return every
        none = np.zeros(0, np.intp), np.zeros(0)
        if not any(bonuses.any() for _, bonuses in every):
            return [none] * len(every)
        keys = self._item_keys(Z)
        order = np.argsort(keys, kind="stable")
        ordered, found = keys[order], []
        for items, bonuses in every:
            first, last = (np.searchsorted(ordered, items, side) for side in ("left", "right"))
            counts = last - first  # equal rows are one item
            places = np.repeat(last - np.cumsum(counts), counts) + np.arange(counts.sum())
            found.append((order[places], np.repeat(bonuses, counts)))
        return found

    def _bonuses_of(self, known: list[Any], queries: Indices, items: Keys) -> Array:
        """What is added to the scores of pairs."""
        found = np.zeros(len(items))
        for t, (query, item) in enumerate(zip(queries.tolist(), items, strict=True)):
            keys, memory, decisions = known[query]
            own = np.flatnonzero(keys == item)
            if len(own):
                found[t] = memory[own[0]] + decisions[own[0]]
        return found

    def _item_keys(self, Z: Views) -> Keys:
        """A number for each item, by which it is recognised; never 0."""
        found = np.zeros(Z.shape[0], np.uint64)
        for name, _, _ in self.widths_:
            found = found * MIX + _keys_of(Z[name])
        return found | ODD

    def _query_keys(self, Q: Views) -> Keys:
        """A number for each query, by which it is recognised: of its base view alone."""
        return _keys_of(Q[self.widths_[0][0]]) | ODD

    def _features(self, Q: Views, Z: Views) -> Array:
        """Scores of corresponding rows in all views, in their units."""
        return scores_of_pairs(self.widths_, Q, Z) / self.units_

    @property
    def _is_wide(self) -> bool:
        return self.matrix_part_.W.size == 0

    @property
    def _dtype(self) -> Any:
        return self.matrix_part_.W.dtype

    def _base_rows(self, views: Views) -> Array:
        """The base view, dense, in the precision of W."""
        return np.ascontiguousarray(dense(views[self.widths_[0][0]]), self._dtype)

    def _scale(self, side: int) -> Any:
        """Typical length of queries (0), or of differences between items (1)."""
        return self._dtype.type(self.lengths_[side])

    def deviations(self, X: Views, Z: Views, triplets: Indices) -> Array:
        """Standard deviations of margins that a caller has checked: of weights, pairs, and W."""
        query, better, worse = triplets.T
        asked, sides = X[query], (Z[better], Z[worse])
        gaps = np.subtract(*(self._features(asked, side) for side in sides))
        variances = np.vecdot(gaps @ self.clicks_part_.covariance(), gaps)
        keys = self._query_keys(asked)
        for side in sides:
            variances += self.memory_part_.variances(keys, self._item_keys(side))
        if not self._is_wide:
            P = np.subtract(*map(self._base_rows, sides)) / self._scale(1)
            Q = self._base_rows(asked) / self._scale(0)
            variances += self.matrix_part_.variances(Q, P) / self.clicks_part_.ranks[TAU] ** 2
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
        expected regret, that the present order is wrong, and by much, as far as an answer is likely
        to be neither "both alike" nor known before: by the answers about its query and about its
        items so far, and by its margin against those of the other candidates.

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
        triplets, worth = np.asarray(candidates), expected_regret(margins, std) * telling(margins)
        worth = worth * self._told_apart(*self._checked_sides(X, items), triplets)
        queries, order = triplets[:, 0], np.argsort(-worth, kind="stable")
        _, first = np.unique(queries[order], return_index=True)
        repeated = np.ones(len(order), bool)
        repeated[first] = False
        chosen: Indices = np.concatenate([order[~repeated], order[repeated]])[:n_suggestions]
        return chosen

    def _told_apart(self, X: Views, Z: Views, triplets: Indices) -> Array:
        """How likely people are to tell the two items of questions apart."""
        keys = self._query_keys(X[triplets[:, 0]])
        items = [self._item_keys(Z[triplets[:, side]]) for side in (1, 2)]
        return self.memory_part_.told_apart(keys, np.column_stack(items))

    def explain(self, Q: Side, Z: Side | None = None) -> list[list[Explanation]]:
        """Why each item scores as it does for each query, in units of the base.

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
        one, other = Q[q : q + 1], Z[z : z + 1]
        features = self._features(one, other)[0] * self.weights_
        parts = dict(zip(self.names_, features.tolist(), strict=True))
        parts["W"] = 0.0
        if not self._is_wide:
            moved = self._moved_by_W(self._base_rows(one))[0]
            parts["W"] = float(moved @ self._base_rows(other)[0] / self._scale(1))
        items, memory, decisions = self._known_bonuses(one)[0]
        own = items == self._item_keys(other)[0]
        parts["memory"], parts["decisions"] = float(memory[own].sum()), float(decisions[own].sum())
        behind = self.memory_part_.behind(self._query_keys(one), self._item_keys(other))
        told = {name: number for name, number in behind.items() if parts[name]}
        amounts = dict.fromkeys(told.values(), 0.0)
        for name, number in told.items():
            amounts[number] += parts[name]
        return Explanation(parts, sorted(amounts.items(), key=lambda pair: -abs(pair[1])))


def _keys_of(X: Matrix) -> Keys:
    """Keys of rows; a sparse matrix may store an entry in parts."""
    if isinstance(X, sparse.csr_array | sparse.csr_matrix) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    found: Keys = row_keys(X)
    return found
