"""Clicks of pairs and of items beside those to be expected: what a shop keeps of its clicks."""

import numpy as np

from experiments.traffic.fusion import min_max, min_max_sum, reciprocal_ranks
from experiments.traffic.world import SHOWN, World
from similia.contract import Array, Indices


class Counts:
    """Clicks, and how many were to be expected from the places alone."""

    def __init__(self, world: World) -> None:
        self.world = world
        #: clicks and expected clicks of pairs, at the slots of the candidates, and of items
        self.pairs = np.zeros((2, *world.candidates.shape), dtype=np.float32)
        self.items = np.zeros((2, world.relevant.shape[1]), dtype=np.float32)
        #: searches and clicks at each place; one search with a click everywhere to begin with
        self.searches, self.by_place = 1.0, np.full(SHOWN, 2.0)

    def add(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        self.searches += len(queries)
        self.by_place += clicks.sum(axis=0)
        chance = np.broadcast_to(np.minimum(self.by_place / self.searches, 1.0), shown.shape)
        slots = self.world.slots(queries, shown)
        for row, given in enumerate((clicks, chance)):
            np.add.at(self.pairs[row], (queries[:, None], slots), given)
            np.add.at(self.items[row], shown, given)


def log_rate(counts: Array, prior: float) -> Array:
    """Logarithm of clicks over expected clicks, from counts (2, …)."""
    return np.log((counts[0] + prior) / (counts[1] + prior))


class ClickTable:
    """A fusion of both searches, and what was clicked for the query beyond its places."""

    def __init__(self, world: World, fusion: str, boost: float, prior: float) -> None:
        self.world, self.boost, self.prior, self.counts = world, boost, prior, Counts(world)
        fused = {"rrf": reciprocal_ranks, "sum": min_max_sum}[fusion](world)
        self.fused = min_max(world, fused)

    def first(self, queries: Indices) -> Indices:
        rates = log_rate(self.counts.pairs[:, queries], self.prior)
        return self.world.best(queries, self.fused[queries] + self.boost * rates)

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        self.counts.add(queries, shown, clicks)
