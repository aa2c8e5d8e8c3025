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
from similia.linalg.blas import products, row_product, row_products
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.row_keys import row_keys
from similia.similarity.aroma import expected_regret
from similia.similarity.blend_state import BlendState
from similia.similarity.comparing import scores_of_pairs, side_by_side
from similia.similarity.matrix import held_out
from similia.similarity.ties import item_marks
from similia.similarity.weights import Ranking
from similia.validation import check_tuples
from similia.views import Views

#: triplets from which `score` judges labels
SCORED = 10_000


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
    """Why an item scores as it does for a query, in typical gaps of the base."""

    #: what each view adds, the base first, then "W", "memory" and "decisions"
    parts: dict[str, float]
    #: judgements behind the memory, numbered from 0, and what they add, the largest first
    judgements: list[tuple[int, float]]

    @property
    def score(self) -> float:
        """Sum of the parts."""
        return sum(self.parts.values())


class BlendRanking(BlendState):
    """The sum of the parts, as far as each is trusted."""

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
        if not self.__sklearn_is_fitted__():
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
        if not self.__sklearn_is_fitted__():  # which is faster than `check_is_fitted`
            check_is_fitted(self)
        return self.published_part_.ranking

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
            found[base] = dense(found[base]) + self._learnt_vectors(self._queries(Q), ranking)
        return found

    def _learnt_vectors(self, queries: Array, ranking: Ranking) -> Array:
        """What W, memory and decisions add to the queries' vectors for the base view."""
        keys, shares = row_keys(queries), self.published_part_.shares
        found = self._moved_by_W(keys, queries)
        self.memory_part_.recall(found, keys, queries, shares, ranking)
        found /= self._scale(1)
        return found

    def _moved_by_W(self, keys: NDArray[np.uint64], queries: Array) -> Array:
        """What W adds, by the part of it that suits queries it has learnt from, or others."""
        published = self.published_part_
        W = published.W
        if not published.W_ranks:
            return np.zeros((len(queries), W.shape[1]), queries.dtype)
        learnt = self.memory_part_.remembers(keys) & ~held_out(keys)
        parts = published.parts_of_W[learnt.astype(np.intp)].astype(queries.dtype)
        scaled = queries / self._scale(0) * parts[:, None]
        found: Array = products((scaled, W))[0] if len(scaled) != 1 else row_product(scaled[0], W)
        return found.reshape(len(scaled), W.shape[1])

    def _features(self, X: Views, Z: Views, queries: Indices, items: Indices) -> Array:
        """Scores of all views for these pairs of rows, in typical gaps."""
        return scores_of_pairs(self.widths_, X, Z, queries, items) / self.gaps_

    @property
    def _is_wide(self) -> bool:
        return self.matrix_part_.W.size == 0

    def _base_rows(self, views: Views, rows: Indices) -> Array:
        base = views[self.widths_[0][0]]
        return dense(rows_of(base, rows, self.matrix_part_.W.dtype))

    def _queries(self, Q: Views) -> Array:
        """A dense copy of the base view, in the precision of W."""
        base, dtype = Q[self.widths_[0][0]], self.matrix_part_.W.dtype
        if sparse.issparse(base):
            return self._base_rows(Q, np.arange(Q.shape[0]))
        return np.array(base, dtype, order="C")

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
            learnt += self.memory_part_.variances_of(row_keys(Q)) * np.vecdot(
                P, self.memory_part_.spread(P)
            )
            variances += learnt / ranking.strength**2
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
        if not self._is_wide:
            worth = worth * self._told_apart(*self._checked_sides(X, items), triplets)
        queries, order = triplets[:, 0], np.argsort(-worth, kind="stable")
        _, first = np.unique(queries[order], return_index=True)
        repeated = np.ones(len(order), bool)
        repeated[first] = False
        chosen: Indices = np.concatenate([order[~repeated], order[repeated]])[:n_suggestions]
        return chosen

    def _told_apart(self, X: Views, Z: Views, triplets: Indices) -> Array:
        """How likely people are to tell the two items of questions apart."""
        asked, query = np.unique(triplets[:, 0], return_inverse=True)
        shown, item = np.unique(triplets[:, 1:], return_inverse=True)
        keys = row_keys(self._base_rows(X, asked))
        marks = item_marks(self._base_rows(Z, shown) / self._scale(1))
        return self.memory_part_.told_apart(keys[query], marks[item.reshape(-1, 2)])

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
        query, shares = self._base_rows(Q, one), self.published_part_.shares
        item, keys = self._base_rows(Z, other)[0] / self._scale(1), row_keys(query)
        remembered, memory = self.memory_part_, np.zeros((1, len(item)), item.dtype)
        remembered.recall(memory, keys, query, shares, ranking, sweeps=0)
        W = self._moved_by_W(keys, query)[0] / ranking.strength
        whole = self._learnt_vectors(query, ranking)[0] * self._scale(1)
        parts["W"], parts["memory"] = float(W @ item), float(memory[0] @ item)
        parts["decisions"] = float((whole - W - memory[0]) @ item)
        behind = remembered.behind(keys[0], query[0], item / ranking.strength, shares)
        return Explanation(parts, behind)
