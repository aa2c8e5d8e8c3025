"""People who click, of known kinds, and how what they find relevant changes."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.traffic.world import SHOWN, first
from similia.contract import Array

#: looked at: the share of all places, and how steeply it falls with the place
LOOKS = {"position": (1.0, 0.6), "own": (1.0, 0.6), "steep": (1.0, 1.5), "thin": (0.2, 0.6)}
KINDS = (*LOOKS, "cascade")


class Dice(NamedTuple):
    """Random numbers of the searches, the same for every contender."""

    #: (n_searches, SHOWN), whether a place is looked at, and whether relevance is flipped
    look: Array
    flip: Array
    #: (n_searches,) which kind of person searches, if they are mixed
    kind: Array

    def part(self, rows: slice) -> "Dice":
        return Dice(*(given[rows] for given in self))


@dataclass(frozen=True)
class People:
    """One kind of people, or all kinds mixed.

    position: the place at k is looked at with probability k^-0.6, what is looked at is clicked if
    relevant. steep: k^-1.5. thin: a fifth of position. cascade: from the top, up to the first
    click. With `noise`, so much of the relevance is flipped at each sight. own: as position, but
    each query and item have a click rate of their own, Beta(2, 1) if relevant and Beta(1, 5) if
    not, so that some irrelevant items are clicked again and again; `noise` does not apply.
    """

    kind: str = "position"
    noise: float = 0.15

    def clicks(self, relevant: NDArray[np.bool_], tastes: Array, dice: Dice) -> NDArray[np.bool_]:
        """Clicks on lists of items that are `relevant` or not, all (n_searches, SHOWN)."""
        if self.kind != "mixture":
            return self._of_kind(self.kind, relevant, tastes, dice)
        found = np.stack([self._of_kind(kind, relevant, tastes, dice) for kind in KINDS])
        drawn = (dice.kind * len(KINDS)).astype(np.intp)
        return found[drawn, np.arange(len(relevant))]

    def _of_kind(
        self, kind: str, relevant: NDArray[np.bool_], tastes: Array, dice: Dice
    ) -> NDArray[np.bool_]:
        attractive = relevant ^ (dice.flip < self.noise)
        if kind == "cascade":
            return attractive & (np.cumsum(attractive, axis=1) == 1)
        if kind == "own":
            attractive = dice.flip < np.where(relevant, tastes**0.5, 1 - tastes**0.2)
        return attractive & (dice.look < looked_at(kind))


def looked_at(kind: str) -> Array:
    """Probability that each place is looked at."""
    share, fall = LOOKS[kind]
    return share * np.arange(1.0, SHOWN + 1) ** -fall


def drifted(
    relevant: NDArray[np.bool_], alike: Array, share: float, rng: np.random.Generator
) -> NDArray[np.bool_]:
    """Relevance after a change: a share of the queries wants the nearest other items instead.

    Each relevant item gives way to the item most alike that was not relevant before.
    """
    found = relevant.copy()
    nearest = first(alike, 2 * SHOWN)[:, 1:]  # the nearest of all is the item itself
    for query in np.flatnonzero(rng.random(len(relevant)) < share):
        found[query] = False
        for item in np.flatnonzero(relevant[query]):
            others = nearest[item][~(relevant[query] | found[query])[nearest[item]]]
            found[query, others[0] if len(others) else item] = True
    return found


def tastes_of(shape: tuple[int, int], seed: int) -> NDArray[np.float32]:
    """A uniform number of each query and item, from which its own click rate is made."""
    return np.random.default_rng([seed, 1]).random(shape, dtype=np.float32)
