"""Feedback as a search by other vectors: Rocchio, and the strategies of Qdrant."""

import numpy as np

from experiments.traffic.world import DEPTH, RRF, SHOWN, TIE_BREAK, World, first
from similia.contract import Array, Indices


class Judged:
    """Clicks and passes of each query and item, as lists of items."""

    def __init__(self) -> None:
        self.counts: dict[int, dict[int, list[int]]] = {}

    def add(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        for query, items, clicked in zip(queries.tolist(), shown, clicks, strict=True):
            known = self.counts.setdefault(query, {})
            for item, click in zip(items.tolist(), clicked.tolist(), strict=True):
                known.setdefault(item, [0, 0])[0 if click else 1] += 1

    def of(self, query: int) -> tuple[Array, Array]:
        """Items, and how often each was clicked and passed over, (n, 2)."""
        known = self.counts.get(query, {})
        counts = np.array(list(known.values()), dtype=np.float32).reshape(-1, 2)
        return np.array(list(known), dtype=np.intp), counts


def fused(world: World, queries: Indices, scores: Array) -> Indices:
    """First items by reciprocal ranks of a search of all items and of the search by words."""
    found = TIE_BREAK * scores.astype(float)
    share = 1 / (RRF + np.arange(1.0, DEPTH + 1))
    for lists in (first(scores, DEPTH), world.first_words[queries]):
        rows = np.arange(len(queries))[:, None]
        found[rows, lists] += share[: lists.shape[1]]
    return first(found, SHOWN)


class Rocchio:
    """The query's vector moves towards what was clicked and away from what was passed over."""

    def __init__(self, world: World, clicked: float, passed: float) -> None:
        self.world, self.clicked, self.passed, self.judged = world, clicked, passed, Judged()

    def first(self, queries: Indices) -> Indices:
        Q, Z = self.world.vectors
        moved = Q[queries].copy()
        for vector, query in zip(moved, queries.tolist(), strict=True):
            items, counts = self.judged.of(query)
            if len(items):
                good, bad = (counts / np.maximum(counts.sum(axis=0), 1)).T @ Z[items]
                vector += self.clicked * good - self.passed * bad
        return fused(self.world, queries, moved @ Z.T)

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        self.judged.add(queries, shown, clicks)


class Qdrant:
    """Qdrant's recommendations: positives are the query and what was clicked at least once.

    average_vector searches with avg(positives) + avg(positives) - avg(negatives); best_score takes
    the best score of a positive example, or minus the square of that of the best negative one if it
    is higher (qdrant.tech/documentation/concepts/explore). Queries without clicks are searched as
    ever, and the search by words is fused with either.
    """

    def __init__(self, world: World, strategy: str, negatives: bool) -> None:
        self.world, self.judged = world, Judged()
        self.strategy, self.negatives = strategy, negatives

    def first(self, queries: Indices) -> Indices:
        Q, Z = self.world.vectors
        scores = Q[queries] @ Z.T
        for row, query in zip(scores, queries.tolist(), strict=True):
            items, counts = self.judged.of(query)
            good = items[counts[:, 0] > 0]
            bad = items[counts[:, 0] == 0] if self.negatives else items[:0]
            if len(good):
                row[:] = self._scores(row, good, bad)
        return fused(self.world, queries, scores)

    def _scores(self, own: Array, good: Indices, bad: Indices) -> Array:
        alike = self.world.alike
        if self.strategy == "average_vector":
            mean = (own + alike[good].sum(axis=0)) / (len(good) + 1)
            return 2 * mean - alike[bad].mean(axis=0) if len(bad) else mean
        best = np.maximum(own, alike[good].max(axis=0))
        if not len(bad):
            return best
        worst = alike[bad].max(axis=0)
        return np.where(best > worst, best, -(worst**2))

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        self.judged.add(queries, shown, clicks)
