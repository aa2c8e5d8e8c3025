"""Short trials on some of the rows: which coordinates of steps decide best on rows held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from similia.contract import Array
from similia.linear.examples import TrainingSplit
from similia.linear.frames import Descent, Scaling
from similia.linear.passes import Passes

#: most rows that a trial learns from, that it is judged by, and most of its passes
LEARNT_ROWS, JUDGED_ROWS, MAX_PASSES = 3000, 2500, 5
#: rows to judge by below which their errors say too little
MIN_JUDGED_ROWS = 20


def trial_split(split: TrainingSplit, rng: np.random.Generator) -> TrainingSplit | None:
    """Some of the rows of a split to learn from and a quarter as many to judge by; None if few."""
    order = rng.permutation(split.rows)
    judged = min(len(order) // 4, JUDGED_ROWS)
    if judged < MIN_JUDGED_ROWS:
        return None
    return replace(
        split, rows=np.sort(order[judged : judged + LEARNT_ROWS]), held_out=np.sort(order[:judged])
    )


@dataclass(frozen=True)
class Trial:
    """Passes over the rows of a trial, the same for every scaling."""

    split: TrainingSplit
    max_iter: int
    descent: Callable[[int], Descent]  # of so many examples
    like: Array  # weights
    seed: int

    def right(self, scaling: Scaling) -> Array:
        """Share of right decisions on each row held out, after passes from zero weights."""
        n, rng = min(self.max_iter, MAX_PASSES), np.random.default_rng(self.seed)
        w = np.zeros_like(self.like)
        passes = Passes(self.split, self.descent(n * len(self.split.rows)), w, w[:0], 0)
        passes.rescale(scaling)
        for _ in range(n):
            passes.make(rng)
        return self.split.right(passes.state()[0])


def clearly_best(rights: Sequence[Array]) -> int:
    """The trial with most right decisions, if its gain exceeds a standard error; else the first.

    `rights` are right decisions on the same rows, so that the error is that of paired differences.
    """
    best = int(np.argmax([right.mean() for right in rights]))
    gains = rights[best] - rights[0]
    return best if gains.mean() > gains.std() / np.sqrt(len(gains)) else 0
