"""Blend with its defaults, as a service uses it: it searches all items and learns each block."""

import numpy as np

from experiments.traffic.world import SHOWN, World, first
from similia import Blend, Impressions
from similia.contract import Array, Indices


class Ours:
    def __init__(self, world: World) -> None:
        self.world, self.blend = world, Blend()
        self.blend.begin(world.queries, world.items)

    def first(self, queries: Indices) -> Indices:
        scores = self.blend.pairwise_score(self.world.queries[queries], self.world.items)
        return first(scores, SHOWN)

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        self.blend.learn(self.world.queries, lists(queries, shown, clicks), items=self.world.items)


def lists(queries: Indices, shown: Indices, clicks: Array) -> Impressions:
    """Searches with their places."""
    n, k = shown.shape
    return Impressions.from_rows(
        np.repeat(queries, k),
        shown.ravel(),
        clicks.ravel().astype(float),
        impression=np.repeat(np.arange(n), k),
        position=np.tile(np.arange(1, k + 1), n),
    )
