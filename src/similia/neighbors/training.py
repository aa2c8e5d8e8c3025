"""Training of two maps: penalties, descent by mini-batches of queries, and early stopping."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from similia.contract import Array, Indices
from similia.linalg.blas import products
from similia.linalg.blocks import rows_of
from similia.linalg.threads import single_blas_thread
from similia.neighbors.maps import Maps, largest_entry
from similia.neighbors.search import ExactSearch, share_of_errors
from similia.neighbors.sides import LabelledSides
from similia.progress import Advance
from similia.updates.gerrymandering import adam_step, infer, pulls

LearningRates: TypeAlias = Callable[[int], float]  # length of each step, by its number
Penalty: TypeAlias = tuple[float, Array, Array]  # value, and gradients by U and by V


def joint(U: Array, V: Array) -> Penalty:
    """‖W‖²_F = ‖UᵀU‖² + 2‖UᵀV‖² + ‖VᵀV‖², with W the 2d × 2d matrix of the distance in (x, z)."""
    # The notes' (11) and (12) are neither the gradients of ‖W‖ nor of its square.
    P, Q = products((U, U.T), (V, V.T))
    P += Q
    G_U, G_V = products((4 * P, U), (4 * P, V))
    return float(np.vdot(P, P)), G_U, G_V


def separate(U: Array, V: Array) -> Penalty:
    """‖UᵀU‖²_F + ‖VᵀV‖²_F: each map by itself."""
    P, Q = products((U, U.T), (V, V.T))
    G_U, G_V = products((4 * P, U), (4 * Q, V))
    return float(np.vdot(P, P) + np.vdot(Q, Q)), G_U, G_V


def frobenius(U: Array, V: Array) -> Penalty:
    """‖U‖²_F + ‖V‖²_F."""
    return float(np.vdot(U, U) + np.vdot(V, V)), 2 * U, 2 * V


REGULARIZERS = {"joint": joint, "separate": separate, "frobenius": frobenius}


@dataclass(frozen=True)
class Objective:
    """What is minimized: costs of verdicts by k voters, and the penalty on the maps."""

    cost: Array
    k: int
    ties: bool
    regularizer: str
    penalty: float  # weight of the regularizer against the mean loss


@dataclass(frozen=True)
class Schedule:
    """How it is minimized: the steps, and when they end."""

    optimizer: str = "sgd"
    rate: float = 0.01
    falling: bool = False
    batch_size: int | None = None
    n_database: int | None = None
    n_epochs: int = 1
    patience: int = 1  # epochs without a smaller held-out error

    def batch(self, n: int) -> int:
        """Queries per step: by default 20 steps an epoch, of 16 to 256 queries."""
        return self.batch_size or min(256, max(16, n // 20))

    def rates(self, n: int, first: int) -> LearningRates:
        """Length of each step from step `first` on; a falling one is half a cosine wave."""
        if not self.falling:
            return lambda step: self.rate
        n_steps = self.n_epochs * -(-n // self.batch(n))
        turn = np.pi / n_steps
        return lambda step: self.rate * 0.5 * (1.0 + float(np.cos(turn * (step - first))))


@dataclass
class MapDescent:
    """Descent of two maps, in place, on penalty Ω(U, V) + mean loss; tied ones move together."""

    maps: Maps
    moments: tuple[Array, ...]  # Adam's first and second of U, then of V
    n_steps: int
    objective: Objective
    schedule: Schedule
    total: float = 0.0  # of the losses in this epoch
    unsolvable: int = 0  # queries of this epoch whose class cannot win

    def epoch(
        self, sides: LabelledSides, rates: LearningRates, rng: np.random.Generator, advance: Advance
    ) -> float:
        """Take each query once, in random order; return the mean loss. `sides` are by class."""
        n = len(sides.y)
        order, size = rng.permutation(n), self.schedule.batch(n)
        self.total, self.unsolvable = 0.0, 0
        with single_blas_thread():
            for start in range(0, n, size):
                rows = order[start : start + size]
                batch = sides.with_queries(rows)
                items = self._items(sides.labels, rng)
                self._step(batch if items is None else batch.with_items(items), rates(self.n_steps))
                advance(len(rows))
        return self.total / max(1, n - self.unsolvable)

    def _items(self, labels: Indices, rng: np.random.Generator) -> Indices | None:
        """Items drawn for a batch, each class by its share but enough to win; None for all."""
        wanted, n = self.schedule.n_database, len(labels)
        if wanted is None or wanted >= n:
            return None
        sizes = np.bincount(labels, minlength=len(self.objective.cost))
        shares = np.minimum(sizes, np.maximum(self.objective.k + 1, np.round(sizes * (wanted / n))))
        keys = rng.random(n)
        rank = np.empty(n, np.int64)
        rank[np.lexsort((keys, labels))] = np.arange(n)
        before = np.concatenate([[0], np.cumsum(sizes)])[labels]
        return np.flatnonzero(rank - before < shares[labels])

    def _step(self, batch: LabelledSides, rate: float) -> None:
        rules, (query_map, item_map) = self.objective, self.maps
        A, B = query_map(batch.X), item_map(batch.Z)
        starts = np.searchsorted(batch.labels, np.arange(len(rules.cost) + 1))
        pull = infer(A, B, starts, batch.own, batch.y, rules.cost, rules.k, rules.ties)
        self.total += float(pull.losses.sum())
        self.unsolvable += int((~pull.solvable).sum())
        by_query, by_item, touched = pulls(A, B, pull)
        G_U = query_map.gradient(by_query, batch.X)
        G_V = item_map.gradient(by_item, rows_of(batch.Z, touched, B.dtype))
        _, R_U, R_V = REGULARIZERS[rules.regularizer](query_map.M, item_map.M)
        G_U = (2.0 / len(batch.y)) * G_U + rules.penalty * R_U
        G_V = (2.0 / len(batch.y)) * G_V + rules.penalty * R_V
        self._move(G_U, G_V, rate)

    def _move(self, G_U: Array, G_V: Array, rate: float) -> None:
        self.n_steps += 1
        U, V = self.maps.query.M, self.maps.item.M
        steps = [(U, G_U + G_V)] if self.maps.tied else [(U, G_U), (V, G_V)]
        for number, (M, G) in enumerate(steps):
            if self.schedule.optimizer == "adam":
                first, second = self.moments[2 * number : 2 * number + 2]
                adam_step(M, G.astype(M.dtype, copy=False), first, second, self.n_steps, rate)
            else:
                M -= M.dtype.type(rate) * G
            if not np.abs(M).max() < largest_entry(M.dtype):
                raise FloatingPointError("the maps have diverged")


def train(
    descent: MapDescent,
    sides: LabelledSides,
    held: LabelledSides | None,
    rng: np.random.Generator,
    advance: Advance,
) -> tuple[Maps, int, Array, Array]:
    """Run epochs; return the maps, the epochs that they took, mean losses and held-out errors.

    With held-out queries, the maps with the least error are kept, the start included; `patience`
    epochs without a smaller one end the training, as does a first epoch that no query could win.
    """
    schedule, k = descent.schedule, descent.objective.k
    rates = schedule.rates(len(sides.y), descent.n_steps)
    maps, best = descent.maps, schedule.n_epochs
    losses: list[float] = []
    errors: list[float] = []
    for epoch in range(schedule.n_epochs + 1):
        if epoch:
            losses.append(descent.epoch(sides, rates, rng, advance))
            if epoch == 1 and descent.unsolvable == len(sides.y):
                break
        if held is not None:
            nearest = ExactSearch(descent.maps.item(sides.Z)).nearest
            _, rows = nearest(descent.maps.query(held.X), min(k, len(sides.labels)))
            errors.append(share_of_errors(sides.labels[rows], held.y))
            if errors[-1] <= min(errors):
                maps, best = descent.maps.scaled(), epoch
            if epoch - int(np.argmin(errors)) >= schedule.patience:
                break
    return maps, best, np.array(losses), np.array(errors)


def simplest(trials: Sequence[Array], n: float) -> tuple[int, bool]:
    """The first of some trials that none beats by a standard error; whether to stop early.

    A trial has the held-out error of n points after each epoch. Trials are compared by their means
    over the second half, which are steadier than the least ones. Stopping early is worth its points
    where the error ends a standard error above its least one.
    """
    levels = [float(errors[len(errors) // 2 :].mean()) for errors in trials]
    spreads = [float(np.sqrt(level * (1.0 - level) / n)) for level in levels]
    chosen = 0
    for i in range(1, len(trials)):
        if levels[i] < levels[chosen] - spreads[chosen]:
            chosen = i
    errors = trials[chosen]
    return chosen, bool(errors[-1] > errors.min() + spreads[chosen])
