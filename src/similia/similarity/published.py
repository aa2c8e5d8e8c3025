"""What a blend ranks with: what generalises to other queries, as it stood at the last publication.

A judgement changes its own query at once, by memory and decisions. What it says about all others is
published at numbers of judgements that grow with what is known, so that the searches of other
people do not change with every click. The judgement at which that happens has no part in it: it
shows what those before it have taught, so no single one ever changes a distant query.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.similarity.matrix import MatrixPart, Standing
from similia.similarity.memory import Memory
from similia.similarity.weights import Ranking, Weights

#: judgements until the next publication: as many as there were, but at least and at most so many,
#: or this part of all judgements if that is more
LEAST, MOST, PART = 16, 64, 16

#: a W that starts anew is published at the end of its block: judgements are counted in so many
BLOCK = 128

#: places in `numbers`
STRENGTH, TRUST, NEXT, SINCE, PARTS = range(5)


def next_publication(n: int, since: int = 0) -> int:
    """Number of the judgement at which to publish after the n-th, if W is as old as `since`."""
    known = n - since
    return n + max(min(max(known, LEAST), MOST), known // PART)


def end_of_block(n: int) -> int:
    """Number of the last judgement in the block of the one after n."""
    return n // BLOCK * BLOCK + BLOCK


@dataclass
class Published:
    """Weights, W and shares of memory to rank with."""

    weights: NDArray[np.float64]
    #: strength of the base, trust in the views, the judgement at which is published next, that
    #: from which on W learns, and the parts of W that rank new queries and those it has learnt from
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
            np.array([ranking.strength, ranking.trust, next_publication(0), 0.0, 0.0, 0.0]),
            matrix.W.copy(),
            memory.shares(),
        )

    @property
    def ranking(self) -> Ranking:
        """Weights of the views, and what goes with them."""
        return Ranking(self.weights, float(self.numbers[STRENGTH]), float(self.numbers[TRUST]))

    @property
    def due(self) -> int:
        """Number of the judgement, among those that say something, at which is published next."""
        return int(self.numbers[NEXT])

    @property
    def W_ranks(self) -> bool:
        """Whether W adds anything."""
        return bool(self.numbers[PARTS])

    @property
    def parts_of_W(self) -> NDArray[np.float64]:
        """Parts of W that rank new queries, and those that it has learnt from."""
        return self.numbers[PARTS:]

    def due_after(self, n: int, count: int) -> list[int]:
        """Numbers of the judgements at which is published, of `count` that come after the n-th."""
        found, due = [], self.due
        while due <= n + count:
            found.append(due)
            due = next_publication(due, int(self.numbers[SINCE]))
        return found

    def update(
        self, due: int, ranking: Ranking, W: Standing | None, shares: NDArray[np.float64]
    ) -> None:
        """Publish what was learnt from all judgements before the one that is due.

        There is no W where bases are too wide, and where it is withdrawn at once.
        """
        since, W = int(self.numbers[SINCE]), W or Standing(np.zeros_like(self.W), np.zeros(2))
        self.weights, self.W, self.shares = ranking.weights, W.W, shares
        next_one = next_publication(due, since)
        self.numbers = np.array([ranking.strength, ranking.trust, next_one, since, *W.parts])

    def withdraw_W(self, n: int) -> None:
        """Rank without W after n judgements: it has fallen behind doing without it.

        What it learns from now on is published as early as if it were the first.
        """
        self.W = np.zeros_like(self.W)
        end = end_of_block(n)
        self.numbers[[NEXT, SINCE]] = end + 1, end - BLOCK
        self.numbers[PARTS:] = 0.0
