"""What a blend ranks with: what generalises to other queries, as it stood at the last publication.

A judgement changes its own query at once, by memory and decisions. What it says about all others is
published at numbers of judgements that grow with what is known, so that the searches of other
people do not change with every click.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.similarity.matrix import MatrixPart
from similia.similarity.memory import Memory
from similia.similarity.weights import Ranking, Weights
from similia.updates.blend_memory import DECIDED, NEIGHBORS, OWN

#: judgements until the next publication: as many as there were, but at least and at most so many,
#: or this part of all judgements if that is more
LEAST, MOST, PART = 16, 64, 16

#: kinds of memory
KINDS = OWN, NEIGHBORS, DECIDED

#: places in `numbers`
STRENGTH, TRUST, NEXT, RANKS = range(4)


def next_publication(n: int) -> int:
    """Number of judgements that said something at which to publish after `n`."""
    return n + max(min(max(n, LEAST), MOST), n // PART)


@dataclass
class Published:
    """Weights, W and shares of memory to rank with."""

    weights: NDArray[np.float64]
    #: strength of the base, trust in the views, next publication, and the part of W that ranks
    numbers: NDArray[np.float64]
    W: Array
    #: shares of the scales for each kind of memory
    shares: NDArray[np.float64]

    @classmethod
    def start(cls, weights: Weights, matrix: MatrixPart, memory: Memory) -> Self:
        """What ranks before any feedback."""
        ranking = weights.ranking()
        return cls(
            ranking.weights,
            np.array([ranking.strength, ranking.trust, next_publication(0), 0.0]),
            matrix.mean(),
            np.array([memory.shares(kind) for kind in KINDS]),
        )

    @property
    def ranking(self) -> Ranking:
        """Weights of the views, and what goes with them."""
        return Ranking(self.weights, float(self.numbers[STRENGTH]), float(self.numbers[TRUST]))

    def last_due(self, n: int) -> int | None:
        """Number of judgements, at most n, at which to publish last, if it is at all."""
        due, found = int(self.numbers[NEXT]), None
        while due <= n:
            found, due = due, next_publication(due)
        return found

    @property
    def W_ranks(self) -> bool:
        """Whether W adds anything."""
        return bool(self.numbers[RANKS])

    def update(self, n: int, weights: Weights, matrix: MatrixPart, memory: Memory) -> None:
        """Publish what the parts have learnt."""
        ranking = weights.ranking()
        self.weights = ranking.weights
        self.W = matrix.mean()
        self.shares = np.array([memory.shares(kind) for kind in KINDS])
        next_one, ranks = next_publication(n), matrix.share if self.W.any() else 0.0
        self.numbers = np.array([ranking.strength, ranking.trust, next_one, ranks])

    def withdraw_W(self) -> None:
        """Rank without W from now on: it has fallen behind doing without it."""
        self.W = np.zeros_like(self.W)
        self.numbers[RANKS] = 0.0
