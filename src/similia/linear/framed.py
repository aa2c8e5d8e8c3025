"""Stochastic learners whose steps are scaled by a matrix that stays the same for many of them."""

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from similia.contract import Array
from similia.linalg.blocks import row_blocks, squared
from similia.linalg.memory import aligned_zeros
from similia.linalg.threads import processors, side_by_side
from similia.linear.frames import Frame
from similia.linear.schedules import SCHEDULES, even_ranges, schedule_code, shrinkage, uncoded
from similia.linear.stochastic import StochasticOneVsRest, Task
from similia.losses import LOSSES
from similia.updates.balanced import LARGEST, paired_visits, visits_pass
from similia.updates.slnd import block_pass, theorem_pass
from similia.validation import between, one_of, positive


@dataclass
class Part:
    """Weight vectors `some` that share a frame: their z and its moment, added to w and moment."""

    some: range
    frame: Frame
    w: Array
    moment: Array
    Z: Array
    M: Array
    eta: float
    horizon: float

    def only(self, j: int) -> tuple[Array, Array]:
        """Give z and the moment of the j-th of its weight vectors, as matrices of one row."""
        return self.Z[j : j + 1], self.M[j : j + 1] if self.M.size else self.M


@dataclass
class Run:
    """A task, and the parts in which it is learnt."""

    task: Task
    parts: list[Part]


class FramedOneVsRest(StochasticOneVsRest):
    """Steps z -= η y F'(y h) u along u = scaleᵀx, with weights start + scale·z.

    A subclass gives the scale, its step size and the time after which steps are to shrink.
    """

    _rules: ClassVar = {
        **StochasticOneVsRest._rules,
        "eta": one_of("auto") | positive,
        "schedule": one_of(*SCHEDULES),
        "epsilon": between(0, 1),
    }

    eta: Any
    schedule: str
    epsilon: float

    @abstractmethod
    def _scales(
        self, task: Task, number: int, rng: np.random.Generator
    ) -> list[tuple[range, Array, float, float]] | None:
        """Give (weight vectors, scale, step, horizon) for a pass; None: those of the last one."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.schedule == "theorem" and self.average:
            raise ValueError(
                f"{self._owner}: average must be False with schedule='theorem', got True."
            )

    def _check_stream(self) -> None:
        if self.schedule == "theorem":
            raise ValueError(
                f"{self._owner}.partial_fit: schedule must be other than 'theorem', which speaks "
                "of the risk on all examples; use fit."
            )

    def _start_passes(self, task: Task, rng: np.random.Generator) -> Run:
        return Run(task, [])

    def _fit_pass(self, run: Run, number: int, rng: np.random.Generator) -> None:
        scales = self._scales(run.task, number, rng)
        if scales is not None:
            self._finish_passes(run)
            run.parts = [self._part(run.task, *scale, shared=len(scales) == 1) for scale in scales]
        order = rng.permutation(len(run.task.rows))
        for part in run.parts:
            if part.frame.size == 0:
                continue
            if self.schedule == "theorem":
                self._theorem_pass(run.task, part, rng)
            elif self.sampling == "balanced":
                self._balanced_pass(run.task, part, number, rng)
            else:
                self._full_pass(run.task, part, number, order)
        self.n_seen_ += len(run.task.rows)

    def _part(
        self, task: Task, some: range, scale: Array, eta: float, horizon: float, shared: bool
    ) -> Part:
        w = self.w_[some.start : some.stop]
        moment = self.moment_[some.start : some.stop] if self.average else self.moment_
        # A frame for one class alone is used for few of the rows: nothing is worth keeping.
        store = shared or self.sampling == "full"
        frame = Frame(task.X, task.rows, w, scale, self.fit_intercept, store)
        Z = aligned_zeros((len(some), frame.size), self.w_.dtype)
        M = aligned_zeros(Z.shape, Z.dtype) if self.average else np.zeros((0, 0), Z.dtype)
        return Part(some, frame, w, moment, Z, M, eta, horizon)

    def _finish_passes(self, run: Run) -> None:
        w, moment = self.w_.copy(), self.moment_.copy()
        for part in run.parts:
            some = slice(part.some.start, part.some.stop)
            w[some] = part.w + part.frame.back(part.Z)
            if self.average:
                moment[some] = part.moment + part.frame.back(part.M)
        self.w_, self.moment_ = w, moment

    def _steps(self, eta: float | Array, shrunk: Array, U: Any, weights: Array) -> Array:
        """Give the steps: scheduled, weighted, and none so long that it overshoots its own example.

        η F''(0)|u|² <= 1 is asked of each example where the step is ours to choose.
        """
        etas = eta * shrunk * weights
        if isinstance(self.eta, str):
            norms2 = np.asarray(squared(U).sum(axis=1)).ravel()
            steepest = LOSSES[self.loss].steepest
            etas = np.minimum(etas, 1.0 / np.maximum(steepest * norms2, 1e-30))
        return etas

    def _full_pass(self, task: Task, part: Part, number: int, order: Array) -> None:
        n, dtype, count = len(order), part.Z.dtype, len(part.some)
        total = self.max_iter * n
        some = slice(part.some.start, part.some.stop)
        for block in row_blocks(n, self._block):
            places = order[block]
            U, H = part.frame.block(places, count)
            t = np.arange(block.start, block.stop) + number * n
            shrunk = shrinkage(self.schedule, t, total, part.horizon)
            rows = task.rows[places]
            etas = self._steps(part.eta, shrunk, U, task.weights[rows])
            etas = np.ascontiguousarray(np.broadcast_to(etas.astype(dtype), (count, len(places))))
            signs = task.labels.signs(rows, dtype)[some]
            times = (self.n_seen_ + 1.0 + np.arange(block.start, block.stop)).astype(dtype)
            block_pass(part.Z, part.M, U, H, np.ascontiguousarray(signs), etas, times, self._code)
            self.n_updates_ += count * len(places)

    @property
    def _code(self) -> int:
        return LOSSES[self.loss].code

    def _balanced_pass(self, task: Task, part: Part, number: int, rng: np.random.Generator) -> None:
        n, counts = len(task.rows), task.groups.counts
        if len(part.some) == 1 or task.labels.multilabel or counts.max() > LARGEST * n:
            self._each_class(
                task, part.some, rng, self._learnt(task, part, number), part.frame.size
            )
            return
        visits = paired_visits(task.groups.codes, rng.integers(2**63, dtype=np.uint64))
        row, ours, others = visits
        tasks: list[partial[None]] = []
        if part.frame.kept is not None:
            state = (part.Z, part.M, self._visited_rows(task, part), visits)
            clock = (float(number * n), float(self.n_seen_), 1.0)
            steps = self._balanced_steps(part, self.max_iter * n)
            for some in even_ranges(counts, processors()):
                tasks.append(partial(visits_pass, *state, some, steps, clock, self._code))
        else:
            for j in range(len(part.some)):
                t = np.flatnonzero((ours == j) | (others == j))
                signs = np.where(ours[t] == j, 1, -1).astype(part.Z.dtype)
                tasks.append(partial(self._learn_blocks, task, part, number, j, row[t], signs, t))
        side_by_side(tasks, 2 * n * part.frame.size)
        self.n_updates_ += 2 * n

    def _learnt(self, task: Task, part: Part, number: int) -> Callable[[int, Array], None]:
        """Give what teaches one class alone; its visits are spread over the time of a pass."""
        n, first = len(task.rows), part.some.start
        rows = self._visited_rows(task, part)
        steps = self._balanced_steps(part, self.max_iter * n)

        def learn(j: int, visits: Array) -> None:
            tick = n / max(len(visits), 1)
            places, signs = uncoded(visits, part.Z.dtype)
            if part.frame.kept is None:
                t = np.arange(len(visits)) * tick
                self._learn_blocks(task, part, number, j - first, places, signs, t, tick)
                return
            one, clock = part.only(j - first), (float(number * n), float(self.n_seen_), tick)
            ours = np.where(signs > 0, 0, -1)
            visits_pass(*one, rows, (places, ours, ~ours), (0, 1), steps, clock, self._code)

        return learn

    def _visited_rows(self, task: Task, part: Part) -> tuple[Array, Array, Array]:
        weights = task.weights[task.rows]
        some = weights if (weights != 1).any() else weights[:0]
        norms2 = part.frame.norms2 if isinstance(self.eta, str) else np.zeros(0, part.Z.dtype)
        kept = part.frame.kept
        return np.zeros((0, 0), part.Z.dtype) if kept is None else kept, some, norms2

    def _balanced_steps(self, part: Part, total: int) -> tuple[int, float, float, float, float]:
        kind = schedule_code(self.schedule, ends=True)
        return kind, part.eta, float(total), part.horizon, LOSSES[self.loss].steepest

    def _learn_blocks(
        self,
        task: Task,
        part: Part,
        number: int,
        j: int,
        places: Array,
        signs: Array,
        t: Array,
        tick: float = 1.0,
    ) -> None:
        """Teach class j rows whose u is not kept, at the times t of a pass."""
        n, dtype = len(task.rows), part.Z.dtype
        Z, M = part.only(j)
        for block in row_blocks(len(places), self._block):
            U, H = part.frame.block(places[block], len(part.some))
            now = number * n + t[block]
            shrunk = shrinkage(self.schedule, now, self.max_iter * n, part.horizon)
            weights = task.weights[task.rows[places[block]]]
            etas = self._steps(part.eta, shrunk, U, weights).astype(dtype)
            times = (self.n_seen_ + t[block] + tick).astype(dtype)
            H = np.ascontiguousarray(H[j : j + 1])
            block_pass(Z, M, U, H, signs[None, block], etas[None], times, self._code)

    def _theorem_pass(self, task: Task, part: Part, rng: np.random.Generator) -> None:
        frame, dtype = part.frame, part.Z.dtype
        steepest, code = LOSSES[self.loss].steepest, self._code

        def learn(j: int, visits: Array) -> None:
            places, signs = uncoded(visits, dtype)
            U, H = frame.block(places, len(part.some))
            U = U.toarray() if hasattr(U, "toarray") else U
            row = j - part.some.start
            z, h = part.Z[row], np.ascontiguousarray(H[row])
            h += U @ z
            weights, order = task.weights[task.rows[places]], np.arange(len(places))
            theorem_pass(z, U, order, h, signs, weights, steepest, self.epsilon, code)

        self._each_class(task, part.some, rng, learn, frame.size * len(task.rows))

    def _stream_steps(
        self, rows: Any, signs: Array, weights: Array, scale: Array, eta: Any, horizon: float
    ) -> None:
        """Learn rows in order, from a start at the present weights; add what is learnt to them."""
        if scale.shape[-1] == 0:
            return
        n, dtype = rows.shape[0], self.w_.dtype
        frame = Frame(rows, np.arange(n), self.w_, scale, intercept=False, store=False)
        U, H = frame.block(frame.rows, len(self.w_))
        t = self.n_seen_ + np.arange(n)
        etas = self._steps(eta, shrinkage(self.schedule, t, None, horizon), U, weights)
        Z = np.zeros((len(self.w_), frame.size), dtype)
        M = np.zeros_like(Z) if self.average else self.moment_
        etas, times = np.ascontiguousarray(etas, dtype=dtype), (t + 1.0).astype(dtype)
        block_pass(Z, M, U, H, signs, etas, times, self._code)
        self.w_ += frame.back(Z)
        if self.average:
            self.moment_ += frame.back(M)
