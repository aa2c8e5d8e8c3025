"""The descent of two maps by neighborhood gerrymandering: batches of queries against items."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from similia.contract import Array
from similia.linalg.blocks import rows_of
from similia.linalg.threads import single_blas_thread
from similia.neighbors.maps import Map
from similia.neighbors.neighbor_search import ExactSearch, vote_shares
from similia.neighbors.regularizers import REGULARIZERS
from similia.neighbors.sides import Sides
from similia.updates.gerrymandering import adam_step, infer, pulls


def largest_entry(dtype: Any) -> float:
    """Give the size at which entries of a map count as diverged: fourth powers still have room."""
    return float(np.finfo(dtype).max) ** 0.2


@dataclass(frozen=True)
class Objective:
    """What is minimized, and how: the parameters of the estimator, checked."""

    cost: Array
    k: int
    ties: bool
    regularizer: str
    asymmetric: bool
    optimizer: str
    batch_size: int
    n_database: int | None
    penalty: float  # weight of the regularizer against the mean of the losses


class Descent:
    """Maps U and V that go down the gradient of penalty Ω(U, V) + mean of the losses.

    `moments` are Adam's, first and second of U, then of V. A symmetric descent has V = U, whose
    gradient is the sum of both. The arrays are changed in place.
    """

    def __init__(
        self, U: Array, V: Array, moments: tuple[Array, ...], n_steps: int, objective: Objective
    ) -> None:
        self.U, self.V = U, V
        self.moments, self.n_steps, self.objective = moments, n_steps, objective
        self.total = 0.0
        self.unsolvable = 0

    def epoch(
        self,
        sides: Sides,
        centers: tuple[Array, Array],
        rates: Callable[[int], float],
        rng: np.random.Generator,
        advance: Callable[[int], None],
    ) -> float:
        """Take each query once, in a random order; `sides` are by class. Give the mean loss."""
        n = sides.X.shape[0]
        order = rng.permutation(n)
        self.total, self.unsolvable = 0.0, 0
        with single_blas_thread():
            for start in range(0, n, self.objective.batch_size):
                rows = order[start : start + self.objective.batch_size]
                items = self._items(sides.labels, rng)
                self._step(sides, rows, items, centers, rates(self.n_steps))
                advance(len(rows))
        return self.total / max(1, n - self.unsolvable)

    def _items(self, labels: Array, rng: np.random.Generator) -> Array | None:
        """Draw the items of a batch, of each class its share and enough to win; None for all."""
        wanted, n = self.objective.n_database, len(labels)
        if wanted is None or wanted >= n:
            return None
        sizes = np.bincount(labels, minlength=len(self.objective.cost))
        shares = np.minimum(sizes, np.maximum(self.objective.k + 1, np.round(sizes * (wanted / n))))
        keys = rng.random(n)
        rank = np.empty(n, np.int64)
        rank[np.lexsort((keys, labels))] = np.arange(n)
        before = np.concatenate([[0], np.cumsum(sizes)])[labels]
        return np.flatnonzero(rank - before < shares[labels])

    def _step(
        self,
        sides: Sides,
        rows: Array,
        items: Array | None,
        centers: tuple[Array, Array],
        rate: float,
    ) -> None:
        rules = self.objective
        query_map, item_map = Map(self.U, centers[0]), Map(self.V, centers[1])
        X, Z, labels = rows_of(sides.X, rows, self.U.dtype), sides.Z, sides.labels
        own = sides.own[rows]
        if items is not None:
            Z, labels = rows_of(Z, items, self.V.dtype), labels[items]
            place = np.full(len(sides.labels), -1, np.int64)
            place[items] = np.arange(len(items))
            own = np.where(own >= 0, place[own], -1)
        A, B = query_map(X), item_map(Z)
        starts = np.searchsorted(labels, np.arange(len(rules.cost) + 1))
        pull = infer(A, B, starts, own, sides.y[rows], rules.cost, rules.k, rules.ties)
        self.total += float(pull.losses.sum())
        self.unsolvable += int((~pull.solvable).sum())
        by_query, by_item, touched = pulls(A, B, pull)
        G_U = query_map.gradient(by_query, X)
        G_V = item_map.gradient(by_item, rows_of(Z, touched, self.V.dtype))
        _, R_U, R_V = REGULARIZERS[rules.regularizer](self.U, self.V)
        G_U = (2.0 / len(rows)) * G_U + rules.penalty * R_U
        G_V = (2.0 / len(rows)) * G_V + rules.penalty * R_V
        self._move(G_U, G_V, rate)

    def _move(self, G_U: Array, G_V: Array, rate: float) -> None:
        self.n_steps += 1
        steps = (
            [(self.U, G_U), (self.V, G_V)] if self.objective.asymmetric else [(self.U, G_U + G_V)]
        )
        for number, (M, G) in enumerate(steps):
            if self.objective.optimizer == "adam":
                first, second = self.moments[2 * number : 2 * number + 2]
                adam_step(M, G.astype(M.dtype, copy=False), first, second, self.n_steps, rate)
            else:
                M -= M.dtype.type(rate) * G
            if not np.abs(M).max() < largest_entry(M.dtype):
                raise FloatingPointError("the maps have diverged")


def held_out_error(
    U: Array,
    V: Array,
    centers: tuple[Array, Array],
    held: tuple[Any, Array],
    sides: Sides,
    k: int,
) -> float:
    """Give the share of held-out queries whose k nearest items vote for another class."""
    X, y = held
    search = ExactSearch(Map(V, centers[1])(sides.Z))
    k = min(k, len(sides.labels))
    _, rows = search.nearest(Map(U, centers[0])(X), k)
    shares = vote_shares(sides.labels[rows], int(sides.labels.max()) + 1)
    return float((shares.argmax(axis=1) != y).mean())
