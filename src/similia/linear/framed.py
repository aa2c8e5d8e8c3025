"""Stochastic learners whose steps are scaled by a matrix that stays the same for many of them."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from similia.base import Array
from similia.linalg.blocks import row_blocks, squared
from similia.linear.frames import Frame
from similia.linear.schedules import SCHEDULES, schedule_code, shrinkage, uncoded
from similia.linear.stochastic import StochasticOneVsRest, Task
from similia.losses import LOSSES
from similia.updates.slnd import block_pass, class_pass, theorem_pass
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
        Z = np.zeros((len(some), frame.size), self.w_.dtype)
        M = np.zeros_like(Z) if self.average else np.zeros((0, 0), Z.dtype)
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
        n, dtype = len(task.rows), part.Z.dtype
        frame, first = part.frame, part.some.start
        stored = frame.stored if frame.start is None else None
        weights = task.weights[task.rows]
        some_weights = weights if (weights != 1).any() else weights[:0]
        norms2 = frame.norms2 if isinstance(self.eta, str) else np.zeros(0, dtype)
        total = self.max_iter * n
        kind = schedule_code(self.schedule, ends=True)
        steps = (kind, part.eta, float(total), part.horizon, LOSSES[self.loss].steepest)

        def learn(j: int, visits: Array) -> None:
            # The class's visits are spread over the time of a whole pass.
            tick = n / max(len(visits), 1)
            one = slice(j - first, j - first + 1)
            if stored is not None:
                moment = part.M[j - first] if part.M.size else np.zeros(0, dtype)
                clock = (float(number * n), float(self.n_seen_), tick)
                z = part.Z[j - first]
                state = (z, moment, stored, visits, some_weights, norms2)
                class_pass(*state, steps, clock, self._code)
                return
            M = part.M[one] if part.M.size else part.M
            for block in row_blocks(len(visits), self._block):
                places, signs = uncoded(visits[block], dtype)
                U, H = frame.block(places, len(part.some))
                i = np.arange(block.start, block.stop)
                shrunk = shrinkage(self.schedule, number * n + i * tick, total, part.horizon)
                etas = self._steps(part.eta, shrunk, U, weights[places]).astype(dtype)
                times = (self.n_seen_ + (i + 1) * tick).astype(dtype)
                H = np.ascontiguousarray(H[one])
                block_pass(part.Z[one], M, U, H, signs[None], etas[None], times, self._code)

        self._each_class(task, part.some, rng, learn, frame.size)

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
