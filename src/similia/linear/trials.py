"""Short trials on some of the rows: which coordinates of steps decide best on rows held out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from similia.contract import Array
from similia.linear.examples import Task
from similia.linear.frames import Descent, Scaling
from similia.linear.passes import Passes

#: most rows that a trial learns from, that it is judged by, and most of its passes
LEARNT, JUDGED, PASSES = 3000, 2500, 5
#: rows to judge by below which their errors say too little
FEWEST = 20


def trial_task(task: Task, rng: np.random.Generator) -> Task | None:
    """Some of the rows of a task to learn from and a quarter as many to judge by; None if few."""
    order = rng.permutation(task.rows)
    judged = min(len(order) // 4, JUDGED)
    if judged < FEWEST:
        return None
    return replace(
        task, rows=np.sort(order[judged : judged + LEARNT]), held_out=np.sort(order[:judged])
    )


@dataclass(frozen=True)
class Trial:
    """Passes over the rows of a trial, the same for every scaling."""

    task: Task
    max_iter: int
    descent: Callable[[int], Descent]  # of so many examples
    like: Array  # weights
    seed: int

    def right(self, scaling: Scaling) -> Array:
        """Share of right decisions on each row held out, after passes from zero weights."""
        n, rng = min(self.max_iter, PASSES), np.random.default_rng(self.seed)
        w = np.zeros_like(self.like)
        passes = Passes(self.task, self.descent(n * len(self.task.rows)), w, w[:0], 0)
        passes.rescale(scaling)
        for _ in range(n):
            passes.make(rng)
        return self.task.right(passes.state()[0])


def clearly_best(rights: Sequence[Array]) -> int:
    """The trial with most right decisions, if its gain exceeds a standard error; else the first.

    `rights` are right decisions on the same rows, so that the error is that of paired differences.
    """
    best = int(np.argmax([right.mean() for right in rights]))
    gains = rights[best] - rights[0]
    return best if gains.mean() > gains.std() / np.sqrt(len(gains)) else 0
