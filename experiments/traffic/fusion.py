"""Rankings that learn nothing: one search, or both put together."""

from typing import Protocol

import numpy as np

from experiments.traffic.world import DEPTH, RRF, TIE_BREAK, World
from similia.contract import Array, Indices


class Contender(Protocol):
    """Shows items and learns from what was clicked; it never measures itself."""

    def first(self, queries: Indices) -> Indices:
        """Items to show for each query, (n_queries, SHOWN)."""
        ...

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        """Learn from searches, in order."""
        ...


class Fixed:
    """Ranks the candidates by scores that never change, (n_queries, 2 DEPTH)."""

    def __init__(self, world: World, scores: Array) -> None:
        self.world, self.scores = world, scores

    def first(self, queries: Indices) -> Indices:
        return self.world.best(queries, self.scores[queries])

    def learn(self, queries: Indices, shown: Indices, clicks: Array) -> None:
        pass


def base(world: World) -> Fixed:
    """Cosine of the vectors, what there was before."""
    return Fixed(world, world.cosine)


def reciprocal_ranks(world: World) -> Array:
    """Sum of 1/(60 + rank) over the two lists with an item (RRF); the base decides ties."""
    both = (ranks(world, scores) for scores in (world.cosine, world.words))
    found = sum(np.where(rank <= DEPTH, 1 / (RRF + rank), 0.0) for rank in both)
    return found + TIE_BREAK * world.cosine


def distribution_based(world: World) -> Array:
    """Sum over the two lists of scores that go from 0 to 1 within 3 deviations of a list (DBSF)."""
    found = np.zeros(world.cosine.shape)
    for scores in (world.cosine, world.words):
        listed = world.inside & (ranks(world, scores) <= DEPTH)
        found += np.where(listed, (standard(scores, listed) + 3) / 6, 0.0)
    return found


def min_max_sum(world: World) -> Array:
    """Sum of both scores, each from 0 to 1 over the candidates."""
    return min_max(world, world.cosine) + min_max(world, world.words)


def weighted(world: World, words: float, length: float) -> Array:
    """Weighted sum in deviations over the candidates; cosine has the weight 1."""
    fields = length * world.length[world.candidates]
    cosine, bm25 = (standard(scores, world.inside) for scores in (world.cosine, world.words))
    return cosine + words * bm25 + fields


def ranks(world: World, scores: Array) -> Array:
    """Rank of each candidate, from 1."""
    order = np.argsort(np.where(world.inside, -scores, np.inf), axis=1, kind="stable")
    found = np.empty(scores.shape, dtype=np.float32)
    places = np.arange(1, scores.shape[1] + 1, dtype=np.float32)
    np.put_along_axis(found, order, places[None], axis=1)
    return found


def min_max(world: World, scores: Array) -> Array:
    low = np.where(world.inside, scores, np.inf).min(axis=1, keepdims=True)
    high = np.where(world.inside, scores, -np.inf).max(axis=1, keepdims=True)
    return (scores - low) / np.maximum(high - low, 1e-9)


def standard(scores: Array, inside: Array) -> Array:
    """Scores with mean 0 and deviation 1 over those inside, query by query."""
    n = np.maximum(inside.sum(axis=1, keepdims=True), 1)
    centered = scores - (scores * inside).sum(axis=1, keepdims=True) / n
    variance = (centered**2 * inside).sum(axis=1, keepdims=True) / n
    return centered / np.sqrt(np.maximum(variance, 1e-12))
