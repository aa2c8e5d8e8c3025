"""One contender in a closed loop: it shows, people click, it learns."""

import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.traffic.fusion import Contender, weighted
from experiments.traffic.people import People, drifted, tastes_of
from experiments.traffic.searches import Law, Traffic, draw_traffic
from experiments.traffic.world import World
from similia.contract import Array, Indices

#: share of the queries that want something else from the middle of a run on, where there is drift
DRIFTING = 0.5
#: seen before in these words, in other words only, or never
SEEN, NEAR, NEW = range(3)
#: weights of the words and of the length among which the best fixed blend is found in hindsight
HINDSIGHT = [(w, c) for w in (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 4.0) for c in (-0.15, 0, 0.15)]


@dataclass(frozen=True)
class Cell:
    """Conditions of a run, apart from the collection, the seed and the contender."""

    law: Law = field(default_factory=Law)
    people: People = field(default_factory=People)
    drift: bool = False
    paraphrases: int = 0


class Run(NamedTuple):
    """nDCG@10 of each search and of the held queries; `start` is the contender unlearnt."""

    #: (n_searches,) what was shown, and what would have been without learning
    shown: Array
    start: Array
    #: (n_searches,) SEEN, NEAR or NEW, and the band of popularity
    status: Indices
    band: Indices
    #: (n_searches,) what the best fixed blend in hindsight would have shown, by length of the run
    hindsight: dict[int, float]
    #: held queries after so many searches, 0 before any
    held: dict[int, float]
    #: of showing and learning
    seconds: float


def run(world: World, contender: Contender, cell: Cell, seed: int, steps: tuple[int, ...]) -> Run:
    """Let a contender serve all searches; held queries are ranked at the steps."""
    law, traffic = cell.law, cached_traffic(world, cell.law, seed)
    relevant = relevance(world, cell.drift, seed)
    tastes = cached_tastes(world, seed) if cell.people.kind in ("own", "mixture") else None
    shown, start = np.empty(law.searches), np.empty(law.searches)
    status = np.empty(law.searches, dtype=np.intp)
    every, place = np.unique(traffic.asked, return_inverse=True)
    unlearnt = contender.first(every)[place]
    held = {0: world.ndcg(traffic.held, contender.first(traffic.held)).mean()}
    seconds, known = 0.0, np.zeros(len(world.topics), dtype=bool)
    for begin in range(0, law.searches, law.block):
        part = slice(begin, begin + law.block)
        queries, truth = traffic.asked[part], relevant[begin >= law.searches / 2]
        begun = time.perf_counter()
        found = contender.first(queries)
        seconds += time.perf_counter() - begun
        shown[part] = world.ndcg(queries, found, truth)
        start[part] = world.ndcg(queries, unlearnt[part], truth)
        status[part] = _status(world, queries, known)
        pair = world.topics[queries][:, None], found
        taste = np.zeros(found.shape) if tastes is None else tastes[pair]
        clicks = cell.people.clicks(truth[pair], taste, traffic.dice.part(part))
        begun = time.perf_counter()
        contender.learn(queries, found, clicks)
        seconds += time.perf_counter() - begun
        known[queries] = True
        if (end := begin + len(queries)) in steps:
            held[end] = world.ndcg(traffic.held, contender.first(traffic.held)).mean()
    best = hindsight(world, cell, seed)
    within = {step: float(best[:, :step].mean(axis=1).max()) for step in held if step}
    return Run(shown, start, status, traffic.band, within, held, seconds)


def _status(world: World, queries: Indices, known: NDArray[np.bool_]) -> Indices:
    """Whether queries were learnt from: in these words, in others, or not at all."""
    n = len(world.relevant)
    near = known.reshape(-1, n).any(axis=0)[world.topics[queries]]
    return np.where(known[queries], SEEN, np.where(near, NEAR, NEW))


def hindsight(world: World, cell: Cell, seed: int) -> Array:
    """nDCG@10 of each search under each fixed blend, (n_blends, n_searches)."""
    asked, half = cached_traffic(world, cell.law, seed).asked, cell.law.searches // 2
    before, after = relevance(world, cell.drift, seed)
    parts = ((asked[:half], before), (asked[half:], after))
    return np.array(
        [
            np.concatenate([world.ndcg(rows, shown[rows], truth) for rows, truth in parts])
            for shown in shown_by_blends(world)
        ]
    )


@lru_cache(maxsize=2)
def shown_by_blends(world: World) -> list[Indices]:
    """What each fixed blend shows for every query."""
    every = np.arange(len(world.topics))
    return [world.best(every, weighted(world, *setting)) for setting in HINDSIGHT]


@lru_cache(maxsize=4)
def cached_traffic(world: World, law: Law, seed: int) -> Traffic:
    return draw_traffic(world, law, seed)


@lru_cache(maxsize=2)
def cached_tastes(world: World, seed: int) -> Array:
    return tastes_of(world.relevant.shape, seed)


@lru_cache(maxsize=2)
def relevance(world: World, drift: bool, seed: int) -> tuple[Array, Array]:
    """What is relevant in the first and in the second half of a run."""
    if not drift:
        return world.relevant, world.relevant
    rng = np.random.default_rng([seed, 2])
    return world.relevant, drifted(world.relevant, world.alike, DRIFTING, rng)
