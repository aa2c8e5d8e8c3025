"""Passes over labelled rows: on all examples, on balanced ones, or with the step of Theorem 2.

Short passes over some of the rows are trials: they say which coordinates of steps decide best.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import numpy as np

from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import dense, row_blocks
from similia.linalg.threads import processors, side_by_side
from similia.linear.examples import TrainingSplit
from similia.linear.frames import Descent, Scaling, StepFrame
from similia.updates import balanced as by_visits
from similia.updates.slnd import theorem_pass

#: rows held at once
PASS_BLOCK_ROWS = 128
#: most rows that a trial learns from, and that it is judged by
TRIAL_ROWS = 3000
TRIAL_JUDGED_ROWS = 2500
#: most passes of a trial
TRIAL_PASSES = 5
#: rows to judge by below which their errors say too little
MIN_JUDGED_ROWS = 20


@dataclass
class Passes:
    """Passes of steps z -= η y F'(y h) u along u = scaleᵀx, for weights start + scale·z."""

    split: TrainingSplit
    descent: Descent
    w: Array
    moment: Array
    #: examples seen before the next pass, and its number
    n_seen: int
    number: int = 0
    frames: list[StepFrame] = field(default_factory=list)

    def rescale(self, *scalings: Scaling) -> None:
        """Continue in new coordinates: one scaling for all weight vectors, or one for each."""
        self.w, self.moment = self.state()
        ranges = row_blocks(len(self.w), len(self.w) // len(scalings))
        self.frames = [
            StepFrame(some, scaling, self.descent, self.w[some], self.moment.size > 0)
            for some, scaling in zip(ranges, scalings, strict=True)
        ]
        # A balanced class visits few of the rows: a frame of its own is not worth storing.
        if len(scalings) == 1 or not self.descent.balanced:
            for frame in self.frames:
                frame.keep(self.split)

    def make(self, rng: np.random.Generator) -> int:
        """Make the next pass; return the number of steps taken."""
        learn = self._learn_balanced if self.descent.balanced else self._learn_all
        learn = learn if self.descent.epsilon is None else self._learn_by_theorem
        steps = sum(learn(frame, rng) for frame in self.frames if frame.size)
        self.number += 1
        self.n_seen += len(self.split.rows)
        return steps

    def state(self) -> tuple[Array, Array]:
        """Weights and moment after the last pass, in new arrays."""
        w, moment = self.w.copy(), self.moment.copy()
        for frame in self.frames:
            frame.add_to(w, moment)
        return w, moment

    def _coordinates(self, frame: StepFrame, places: Indices, some: slice) -> tuple[Matrix, Array]:
        """Rows u of the places, and the scores of the weight vectors `some` at z = 0."""
        if frame.kept is None:
            rows = self.split.examples.at(self.split.rows[places], frame.dtype)
            return frame.coordinates(rows, some)
        H = np.zeros((len(frame.Z[some]), len(places)), frame.dtype)
        return frame.kept.take(places, axis=0), H

    def _learn_rows(
        self, frame: StepFrame, places: Indices, signs: Array, t: Array, tick: float, some: slice
    ) -> None:
        """Teach some weight vectors a block of rows, t after the pass began, a tick apart."""
        weights = self.split.weights[places] if self.split.weights.size else np.ones(1)
        begun, times = self.number * len(self.split.rows), self.n_seen + t + tick
        U, H = self._coordinates(frame, places, some)
        frame.learn(U, H, signs, weights, begun + t, times, some)

    def _learn_all(self, frame: StepFrame, rng: np.random.Generator) -> int:
        split, n = self.split, len(self.split.rows)
        order = rng.permutation(n)
        for block in row_blocks(n, PASS_BLOCK_ROWS):
            places, t = order[block], np.arange(block.start, block.stop)
            signs = split.examples.signs(split.rows[places], frame.dtype)[frame.some]
            self._learn_rows(frame, places, signs, t, 1.0, slice(None))
        return len(frame.Z) * n

    # -- balanced examples ---------------------------------------------------------------------

    def _learn_balanced(self, frame: StepFrame, rng: np.random.Generator) -> int:
        """Visit each row for its own class and for one other, or class by class if one is large."""
        split, n, counts = self.split, len(self.split.rows), self.split.counts
        large = counts.max() > by_visits.LARGEST * n
        if len(frame.Z) == 1 or split.examples.multilabel or large:
            learn = partial(self._learn_class, frame)
            return each_class(split, True, frame.some, rng, learn, frame.size)
        visits = by_visits.paired_visits(split.codes, rng.integers(2**63, dtype=np.uint64))
        ranges = even_ranges(counts, processors())
        tasks = [partial(self._visit, frame, visits, some, 1.0) for some in ranges]
        side_by_side(tasks, 2 * n * frame.size)
        return 2 * n

    def _learn_class(self, frame: StepFrame, j: int, places: Indices, positive: Array) -> None:
        """Teach weight vector j its examples, spread over the time of a pass."""
        tick = len(self.split.rows) / max(len(places), 1)
        j -= frame.some.start
        visits = (places, np.where(positive, j, -1), np.where(positive, -1, j))
        self._visit(frame, visits, (j, j + 1), tick)

    def _visit(
        self, frame: StepFrame, visits: tuple[Array, ...], some: tuple[int, int], tick: float
    ) -> None:
        """Make the visits of some[0] <= j < some[1]; rows, ours, others as in `visits_pass`."""
        descent, (_, eta, horizon), (places, ours, others) = self.descent, frame.scaling, visits
        if frame.kept is not None:
            norms2 = frame.norms2 if descent.bounded else np.zeros(0, frame.dtype)
            rows = (frame.kept, self.split.weights, norms2)
            total, steepest = float(descent.total), descent.loss.steepest
            steps = (descent.shrinking, eta, total, horizon, steepest)
            clock = (float(self.number * len(self.split.rows)), float(self.n_seen), tick)
            by_visits.visits_pass(
                frame.Z, frame.M, rows, visits, some, steps, clock, descent.loss.code
            )
            return
        for j in range(*some):
            t = np.flatnonzero((ours == j) | (others == j))
            signs = np.where(ours[t] == j, 1, -1).astype(frame.dtype)[None]
            for block in row_blocks(len(t), PASS_BLOCK_ROWS):
                now, y = t[block], signs[:, block]
                self._learn_rows(frame, places[now], y, now * tick, tick, slice(j, j + 1))

    # -- the step of Theorem 2 -----------------------------------------------------------------

    def _learn_by_theorem(self, frame: StepFrame, rng: np.random.Generator) -> int:
        descent, loss = self.descent, self.descent.loss

        taken = []

        def learn(j: int, places: Indices, positive: Array) -> None:
            j -= frame.some.start
            U, H = self._coordinates(frame, places, slice(j, j + 1))
            U, z, h = dense(U), frame.Z[j], H[0]
            h += U @ z
            signs = np.where(positive, 1, -1).astype(z.dtype)
            weights = self.split.examples.weights[self.split.rows[places]]
            rows = (U, np.arange(len(places)), h, signs, weights)
            taken.append(theorem_pass(z, *rows, loss.steepest, descent.epsilon, loss.code))

        cost = frame.size * len(self.split.rows)
        each_class(self.split, descent.balanced, frame.some, rng, learn, cost)
        return sum(taken)


def each_class(
    split: TrainingSplit,
    balanced: bool,
    some: slice,
    rng: np.random.Generator,
    learn: Callable[[int, Indices, Array], None],
    cost: int,
) -> int:
    """Run learn(j, places, positive) for the weight vectors j in `some`, in parallel.

    `places` are all of them, or the positive ones and as many negative ones, in random order.
    Returns the number of visits.
    """
    vectors, order = range(some.start, some.stop), rng.permutation(len(split.rows))
    seeds = rng.integers(2**63, size=len(vectors), dtype=np.uint64)
    counts = []

    def run(j: int, seed: np.uint64) -> None:
        (ours, codes, code), places = split.sides(j), order
        if balanced:
            visits = by_visits.balanced_visits(order, codes, code, ours, seed)
            places = np.maximum(visits, ~visits)
        counts.append(len(places))
        learn(j, places, codes[places] == code)

    tasks = [partial(run, j, seed) for j, seed in zip(vectors, seeds, strict=True)]
    side_by_side(tasks, 2 * len(split.rows) * cost)
    return sum(counts)


def even_ranges(counts: Array, n: int) -> list[tuple[int, int]]:
    """Cut 0, 1, …, len(counts) into at most n ranges of about equal sums of counts."""
    reached = np.cumsum(counts)
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, n) / n) + 1
    ends = np.unique(np.minimum([0, *cuts, len(counts)], len(counts)))
    return [(int(a), int(b)) for a, b in pairwise(ends)]


# -- trials ---------------------------------------------------------------------------------------


def trial_split(split: TrainingSplit, rng: np.random.Generator) -> TrainingSplit | None:
    """Some of the rows of a split to learn from and a quarter as many to judge by; None if few."""
    order = rng.permutation(split.rows)
    judged = min(len(order) // 4, TRIAL_JUDGED_ROWS)
    if judged < MIN_JUDGED_ROWS:
        return None
    return replace(
        split, rows=np.sort(order[judged : judged + TRIAL_ROWS]), held_out=np.sort(order[:judged])
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
        """Share of correct decisions on each held-out row, after passes from zero weights."""
        n, rng = min(self.max_iter, TRIAL_PASSES), np.random.default_rng(self.seed)
        w = np.zeros_like(self.like)
        passes = Passes(self.split, self.descent(n * len(self.split.rows)), w, w[:0], 0)
        passes.rescale(scaling)
        for _ in range(n):
            passes.make(rng)
        return self.split.right(passes.state()[0])


def clearly_best(rights: Sequence[Array]) -> int:
    """The trial with most correct decisions, if its gain exceeds a standard error; else the first.

    `rights` are from the same rows, so the error is that of paired differences.
    """
    best = int(np.argmax([right.mean() for right in rights]))
    gains = rights[best] - rights[0]
    return best if gains.mean() > gains.std() / np.sqrt(len(gains)) else 0
