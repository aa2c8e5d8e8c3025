"""Passes over labelled rows: on all examples, on balanced ones, or with the step of Theorem 2."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import pairwise
from typing import NamedTuple, TypeAlias

import numpy as np

from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import dense, row_blocks, rows_of, squared
from similia.linalg.memory import aligned_zeros
from similia.linalg.threads import processors, side_by_side
from similia.linear.frames import Frame, Scaling, with_intercept
from similia.linear.labels import Examples
from similia.losses import Loss
from similia.updates import balanced as by_visits
from similia.updates.balanced import CONSTANT, INVERSE, LARGEST, LINEAR, SQRT
from similia.updates.slnd import block_pass, theorem_pass

#: rows held at once
BLOCK = 128


@dataclass(frozen=True)
class Task:
    """Examples, the rows of them to learn from, and the rows held out to judge by."""

    examples: Examples
    rows: Indices
    held_out: Indices
    intercept: bool

    @cached_property
    def weights(self) -> Array:
        """Factors of the steps of the rows; empty if all are 1."""
        weights = self.examples.weights[self.rows]
        return weights if (weights != 1).any() else weights[:0]

    @cached_property
    def codes(self) -> Array:
        """Class of each of the rows, as a number."""
        return self.examples.labels.codes[self.rows]

    @cached_property
    def counts(self) -> Array:
        """Number of rows of each class; empty where rows have several labels."""
        labels = self.examples.labels
        if labels.multilabel:
            return np.zeros(0, dtype=np.intp)
        return np.bincount(self.codes, minlength=len(labels.classes))

    @cached_property
    def _sorted(self) -> tuple[Indices, Array]:
        """Places sorted by class, and where each class ends: its examples are a slice."""
        return np.argsort(self.codes, kind="stable"), np.cumsum(self.counts)

    def sides(self, j: int) -> tuple[Indices, Array, int]:
        """Positive places of weight vector j, and (codes, code): positive is where they agree."""
        labels = self.examples.labels
        if labels.multilabel:
            member = labels.member[self.rows, j].astype(np.int64)
            return np.flatnonzero(member), member, 1
        code, (order, ends) = 1 if labels.n_vectors == 1 else j, self._sorted
        return order[ends[code - 1] if code else 0 : ends[code]], self.codes, code

    @property
    def class_counts(self) -> Array:
        """Positive and negative examples of each weight vector."""
        ours = [len(self.sides(j)[0]) for j in range(self.examples.labels.n_vectors)]
        return np.array([[n, len(self.rows) - n] for n in ours], dtype=np.float64)

    def sampled(self, rows: Indices) -> Matrix:
        """The named rows of X, in memory order, with their intercept."""
        X = self.examples.X
        return with_intercept(rows_of(X, np.sort(rows), X.dtype), self.intercept)

    def scores(self, rows: Indices, w: Array) -> Array:
        """Scores (weight vectors, rows) of the named rows of X."""
        some = rows_of(self.examples.X, rows, w.dtype)
        return np.asarray(with_intercept(some, self.intercept) @ w.T).T

    def accuracy(self, w: Array) -> float:
        """Share of right decisions on the rows held out."""
        right = 0.0
        for block in row_blocks(len(self.held_out), 1024):
            rows = self.held_out[block]
            right += self.examples.labels.accuracy(self.scores(rows, w), rows) * len(rows)
        return right / len(self.held_out)


class Schedule(NamedTuple):
    """How steps shrink: in passes whose end is known, and in an endless stream."""

    ending: int
    endless: int

    def shrinkage(self, t: Array, total: int | None, horizon: float) -> Array:
        """Factors of the step at times t, of `total` if that is known."""
        factors, kind = np.empty(len(t)), self.endless if total is None else self.ending
        by_visits.shrink(factors, kind, t, total or 1, horizon)
        return factors


SCHEDULES = {
    "auto": Schedule(LINEAR, SQRT),
    "constant": Schedule(CONSTANT, CONSTANT),
    "linear": Schedule(LINEAR, SQRT),
    "sqrt": Schedule(SQRT, SQRT),
    "inverse": Schedule(INVERSE, INVERSE),
    "theorem": Schedule(CONSTANT, CONSTANT),
}


@dataclass(frozen=True)
class Descent:
    """How steps are taken: on which loss, how long, from which examples.

    A `bounded` step satisfies η F''(0)|u|² <= 1, so it never overshoots its own example.
    """

    loss: Loss
    schedule: Schedule
    bounded: bool
    balanced: bool
    by_theorem: bool
    epsilon: float

    def lengths(
        self, scaling: Scaling, t: Array, total: int | None, U: Matrix, weights: Array
    ) -> Array:
        """Step size × schedule × weight for each row of U (and each weight vector)."""
        etas = scaling.eta * self.schedule.shrinkage(t, total, scaling.horizon) * weights
        if self.bounded:
            norms2 = np.asarray(squared(U).sum(axis=1)).ravel()
            etas = np.minimum(etas, 1.0 / np.maximum(self.loss.steepest * norms2, 1e-30))
        return etas


class Clock(NamedTuple):
    """When visits begin: for the schedule, of `total` if known, and for the mean of the states."""

    begun: int
    total: int | None
    n_seen: int
    #: time between two visits
    tick: float = 1.0


class Part:
    """Weight vectors `some`, learnt in one frame; Z and M are added to weights and moment."""

    def __init__(self, some: slice, scaling: Scaling, frame: Frame, average: bool) -> None:
        self.some, self.scaling, self.frame = some, scaling, frame
        dtype = scaling.scale.dtype
        self.Z = aligned_zeros((len(frame.start), frame.size), dtype)
        self.M = aligned_zeros(self.Z.shape, dtype) if average else np.zeros((0, 0), dtype)

    def only(self, some: slice) -> tuple[Array, Array]:
        """Z and M of some of its weight vectors."""
        return self.Z[some], self.M[some] if self.M.size else self.M

    def learn(
        self,
        descent: Descent,
        clock: Clock,
        places: Indices,
        t: Array,
        signs: Callable[[slice], Array],
        weights: Array,
        some: slice = slice(None),
    ) -> None:
        """Teach some weight vectors the rows at `places`, t after the clock, block by block."""
        dtype, state = self.Z.dtype, self.only(some)
        for block in row_blocks(len(places), BLOCK):
            U, H = self.frame.block(places[block], some)
            y, now = np.ascontiguousarray(signs(block)), t[block]
            when, factors, etas = clock.begun + now, weights[..., block], np.empty(y.shape, dtype)
            etas[:] = descent.lengths(self.scaling, when, clock.total, U, factors)
            times = (clock.n_seen + now + clock.tick).astype(dtype)
            block_pass(*state, U, H, y, etas, times, descent.loss.code)


#: scalings of the next pass, for ranges of weight vectors; None keeps the present ones
Scalings: TypeAlias = list[tuple[slice, Scaling]] | None


@dataclass
class Passes:
    """Passes of steps z -= η y F'(y h) u along u = scaleᵀx, for weights start + scale·z."""

    task: Task
    descent: Descent
    scalings: Callable[["Passes", np.random.Generator], Scalings]
    n_passes: int
    w: Array
    moment: Array
    #: examples seen before the next pass, and its number
    n_seen: int
    number: int = 0
    parts: list[Part] = field(default_factory=list)

    def make(self, rng: np.random.Generator) -> int:
        """Make the next pass; return the number of steps taken."""
        scalings = self.scalings(self, rng)
        if scalings is not None:
            self.w, self.moment = self.state()
            self.parts = [self._part(*each, shared=len(scalings) == 1) for each in scalings]
        learn = self._learn_balanced if self.descent.balanced else self._learn_all
        learn = self._learn_by_theorem if self.descent.by_theorem else learn
        steps = sum(learn(part, rng) for part in self.parts if part.frame.size)
        self.number += 1
        self.n_seen += len(self.task.rows)
        return steps

    def state(self) -> tuple[Array, Array]:
        """Weights and moment after the last pass, in new arrays."""
        w, moment = self.w.copy(), self.moment.copy()
        for part in self.parts:
            w[part.some] += part.frame.back(part.Z)
            if moment.size:
                moment[part.some] += part.frame.back(part.M)
        return w, moment

    def _part(self, some: slice, scaling: Scaling, shared: bool) -> Part:
        task = self.task
        # A balanced class visits few of the rows: a frame of its own is not worth storing.
        store = shared or not self.descent.balanced
        rows = (task.examples.X, task.rows, self.w[some])
        frame = Frame(*rows, scaling.scale, task.intercept, store)
        return Part(some, scaling, frame, bool(self.moment.size))

    def _clock(self, tick: float = 1.0) -> Clock:
        n = len(self.task.rows)
        return Clock(self.number * n, self.n_passes * n, self.n_seen, tick)

    # -- all examples --------------------------------------------------------------------------

    def _learn_all(self, part: Part, rng: np.random.Generator) -> int:
        order = rng.permutation(len(self.task.rows))
        rows, labels = self.task.rows[order], self.task.examples.labels

        def signs(block: slice) -> Array:
            return labels.signs(rows[block], part.Z.dtype)[part.some]

        weights, t = self.task.examples.weights[rows], np.arange(len(order))
        part.learn(self.descent, self._clock(), order, t, signs, weights)
        return len(part.Z) * len(order)

    # -- balanced examples ---------------------------------------------------------------------

    def _learn_balanced(self, part: Part, rng: np.random.Generator) -> int:
        """Visit each row for its own class and for one other, or class by class if one is large."""
        task, n, counts = self.task, len(self.task.rows), self.task.counts
        if len(part.Z) == 1 or task.examples.labels.multilabel or counts.max() > LARGEST * n:
            learn = partial(self._learn_class, part)
            return each_class(task, True, part.some, rng, learn, part.frame.size)
        visits = by_visits.paired_visits(task.codes, rng.integers(2**63, dtype=np.uint64))
        row, ours, others = visits
        tasks: list[Callable[[], None]] = []
        if part.frame.kept is not None:
            ranges = even_ranges(counts, processors())
            tasks += [partial(self._visit, part, slice(None), visits, some) for some in ranges]
        else:
            for j in range(len(part.Z)):
                t = np.flatnonzero((ours == j) | (others == j))
                tasks.append(partial(self._learn_signed, part, j, row[t], ours[t] == j, t))
        side_by_side(tasks, 2 * n * part.frame.size)
        return 2 * n

    def _learn_class(self, part: Part, j: int, visits: Array) -> None:
        """Teach weight vector j its visits, spread over the time of a pass."""
        places, positive = decoded(visits)
        tick = len(self.task.rows) / max(len(visits), 1)
        j -= part.some.start
        if part.frame.kept is None:
            self._learn_signed(part, j, places, positive, np.arange(len(visits)) * tick, tick)
        else:
            ours = np.where(positive, 0, -1)
            self._visit(part, slice(j, j + 1), (places, ours, ~ours), (0, 1), tick)

    def _learn_signed(
        self, part: Part, j: int, places: Indices, positive: Array, t: Array, tick: float = 1.0
    ) -> None:
        signs = np.where(positive, 1, -1).astype(part.Z.dtype)[None]
        weights = self.task.examples.weights[self.task.rows[places]]
        rows, some = (places, t, lambda block: signs[:, block], weights), slice(j, j + 1)
        part.learn(self.descent, self._clock(tick), *rows, some)

    def _visit(
        self,
        part: Part,
        vectors: slice,
        visits: tuple[Array, Array, Array],
        some: tuple[int, int],
        tick: float = 1.0,
    ) -> None:
        """Make the visits of `some` of the weight vectors to rows that the frame keeps."""
        loss, scaling, clock = self.descent.loss, part.scaling, self._clock(tick)
        norms2 = part.frame.norms2 if self.descent.bounded else np.zeros(0, part.Z.dtype)
        total, kind = float(clock.total or 1), self.descent.schedule.ending
        by_visits.visits_pass(
            *part.only(vectors),
            (part.frame.kept, self.task.weights, norms2),
            visits,
            some,
            (kind, scaling.eta, total, scaling.horizon, loss.steepest),
            (float(clock.begun), float(clock.n_seen), tick),
            loss.code,
        )

    # -- the step of Theorem 2 -----------------------------------------------------------------

    def _learn_by_theorem(self, part: Part, rng: np.random.Generator) -> int:
        descent, loss = self.descent, self.descent.loss

        def learn(j: int, visits: Array) -> None:
            places, positive = decoded(visits)
            j -= part.some.start
            U, H = part.frame.block(places, slice(j, j + 1))
            U, z, h = dense(U), part.Z[j], H[0]
            h += U @ z
            signs = np.where(positive, 1, -1).astype(z.dtype)
            weights = self.task.examples.weights[self.task.rows[places]]
            rows = (U, np.arange(len(places)), h, signs, weights)
            theorem_pass(z, *rows, loss.steepest, descent.epsilon, loss.code)

        cost = part.frame.size * len(self.task.rows)
        return each_class(self.task, descent.balanced, part.some, rng, learn, cost)


def each_class(
    task: Task,
    balanced: bool,
    some: slice,
    rng: np.random.Generator,
    learn: Callable[[int, Array], None],
    cost: int,
) -> int:
    """Run learn(j, visits) for the weight vectors j in `some`, in parallel; count the visits.

    A visit i >= 0 is a positive example, at place i of `task.rows`; a negative one is ~i. Visits
    are all rows, or the positive ones and as many negative ones, in random order.
    """
    vectors, order = range(some.start, some.stop), rng.permutation(len(task.rows))
    seeds = rng.integers(2**63, size=len(vectors), dtype=np.uint64)
    counts = []

    def run(j: int, seed: np.uint64) -> None:
        ours, codes, code = task.sides(j)
        if balanced:
            visits = by_visits.balanced_visits(order, codes, code, ours, seed)
        else:
            visits = np.where(codes[order] == code, order, ~order)
        counts.append(len(visits))
        learn(j, visits)

    tasks = [partial(run, j, seed) for j, seed in zip(vectors, seeds, strict=True)]
    side_by_side(tasks, 2 * len(task.rows) * cost)
    return sum(counts)


def decoded(visits: Array) -> tuple[Indices, Array]:
    """Places of coded visits, and whether each is a positive example: see `each_class`."""
    return np.where(visits >= 0, visits, ~visits), visits >= 0


def even_ranges(counts: Array, n: int) -> list[tuple[int, int]]:
    """Cut 0, 1, …, len(counts) into at most n ranges of about equal sums of counts."""
    reached = np.cumsum(counts)
    cuts = np.searchsorted(reached, reached[-1] * np.arange(1, n) / n) + 1
    ends = np.unique(np.minimum([0, *cuts, len(counts)], len(counts)))
    return [(int(a), int(b)) for a, b in pairwise(ends)]
