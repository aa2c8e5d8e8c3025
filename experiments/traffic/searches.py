"""Which queries are searched for, and when."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.traffic.people import Dice
from experiments.traffic.world import SHOWN, World
from similia.contract import Indices

BANDS = ("head", "torso", "tail")


@dataclass(frozen=True)
class Law:
    """Zipf's law of queries; a share of them is asked only from a random moment on."""

    searches: int = 1000
    zipf: float = 0.9
    #: share of the queries that exist only from some moment of the run on
    late: float = 0.5
    #: share of the queries that are never searched for
    held: float = 0.25
    #: share of the searches that ask in other words, where the world has paraphrases
    paraphrased: float = 0.0
    #: searches between two lessons
    block: int = 20


class Traffic(NamedTuple):
    """Searches of a run, the same for every contender."""

    #: (n_searches,) rows of queries
    asked: Indices
    #: topics that may be asked, by falling popularity, and those that never are
    pool: Indices
    held: Indices
    #: (n_searches,) place in `BANDS` of each search: a third of all demand each
    band: Indices
    dice: Dice


def draw_traffic(world: World, law: Law, seed: int) -> Traffic:
    """Searches by a law; each moment's demand is divided among the queries that exist by then."""
    rng = np.random.default_rng(seed)
    judged = np.flatnonzero(world.relevant.any(axis=1))
    held, pool = np.split(rng.permutation(judged), [round(len(judged) * law.held)])
    demand = np.arange(1.0, len(pool) + 1) ** -law.zipf
    since = np.where(rng.random(len(pool)) < law.late, rng.random(len(pool)), 0) * law.searches
    since[rng.integers(len(pool))] = 0  # somebody asks something from the first moment on
    drawn = np.array(
        [_drawn(demand, since <= t, u) for t, u in enumerate(rng.random(law.searches))]
    )
    shape = (law.searches, SHOWN)
    dice = Dice(rng.random(shape), rng.random(shape), rng.random(law.searches))
    asked = pool[drawn]
    copies = len(world.topics) // len(world.relevant) - 1
    if copies:
        other = rng.integers(1, copies + 1, size=law.searches)
        asked = asked + np.where(rng.random(law.searches) < law.paraphrased, other, 0) * len(
            world.relevant
        )
    share = (np.cumsum(demand) - demand) / demand.sum()
    band = np.minimum((share * len(BANDS)).astype(np.intp), len(BANDS) - 1)
    return Traffic(asked, pool, held, band[drawn], dice)


def _drawn(demand: NDArray[np.float64], exists: NDArray[np.bool_], u: float) -> int:
    reach = np.cumsum(demand * exists)
    return int(np.searchsorted(reach, u * reach[-1], side="right"))
