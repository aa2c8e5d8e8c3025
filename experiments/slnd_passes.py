"""Rows in the coordinates of a contender of the paper's scheme, and balanced passes over them.

As w stays in the span of the eigenvectors, SLND is SGD on the rows u = D^{-1/2}P'x, and that is how
it is run here. Seconds are processor time of Hessian, projection and passes.
"""

import time
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from similia.contract import Array
from similia.linear.examples import Examples, TrainingSplit
from similia.linear.frames import SCHEDULES, Descent, Scaling
from similia.linear.hessian import leading_eigenpairs
from similia.linear.passes import Passes
from similia.losses import LOSSES

HESSIAN_ROWS = 5000
DIAGONAL, OWN = "diagonal Hessian", "SLND, own Hessians"


class Side(NamedTuple):
    """Rows of a problem in the coordinates of a contender, to learn from and to judge by."""

    U: Any
    y: Any
    U_test: Any
    y_test: Any
    loss: str
    seconds: float = 0.0
    #: where each class has coordinates of its own: D^{-1/2}P', and all rows in them
    scales: tuple[Array, ...] = ()
    own: tuple[Array, ...] = ()

    def first(self, rank: int | None) -> "Side":
        if rank is None:
            return self
        if self.scales:
            return self._replace(scales=_cut(self.scales, rank), own=_cut(self.own, rank))
        U, U_test = _cut((self.U, self.U_test), rank)
        return self._replace(U=U, U_test=U_test)

    @property
    def directions(self) -> int:
        """How many coordinates there are to choose a rank from."""
        return min((U.shape[1] for U in self.own), default=self.U.shape[1])


def _cut(parts: Iterable[Array], rank: int) -> tuple[Array, ...]:
    return tuple(np.ascontiguousarray(part[:, :rank]) for part in parts)


def in_coordinates(side: Side, contender: str, rank: int | None, seed: int) -> Side:
    """The rows as they are, scaled feature by feature, or along `rank` eigenvectors."""
    if contender == "SGD":
        return side
    begun = time.process_time()
    if contender == OWN:
        scales = tuple(_own_scale(side, c, rank, seed) for c in range(side.y.max() + 1))
        own = tuple(side.U @ scale for scale in scales)
        return side._replace(scales=scales, own=own, seconds=time.process_time() - begun)
    scale = _diagonal_scale(side.U) if contender == DIAGONAL else _scale(side.U, rank, seed)
    U, spent = _along(side.U, scale), time.process_time() - begun
    return side._replace(U=U, U_test=_along(side.U_test, scale), seconds=spent)


def _along(U: Any, scale: Array) -> Any:
    if scale.ndim == 2:
        return U @ scale
    return sparse.csr_array(U.multiply(scale)) if sparse.issparse(U) else U * scale


def _scale(U: Any, rank: int | None, seed: int) -> Array:
    sample = np.sort(np.random.default_rng(seed).permutation(U.shape[0])[:HESSIAN_ROWS])
    pairs = leading_eigenpairs(U[sample], None, rank, seed)
    return pairs.vectors / np.sqrt(pairs.values)


def _own_scale(side: Side, c: int, rank: int | None, seed: int) -> Array:
    """Of the Hessian of class c, half of it the class, half of it all others."""
    ours = side.y == c
    weights = np.where(ours, 0.5 / ours.mean(), 0.5 / (~ours).mean())
    pairs = leading_eigenpairs(side.U, weights, rank, seed)
    return pairs.vectors / np.sqrt(pairs.values)


def _diagonal_scale(U: Any) -> Array:
    squares = np.asarray((U.multiply(U) if sparse.issparse(U) else np.square(U)).mean(axis=0))
    return np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares > 0)


class Point(NamedTuple):
    """What a number of passes has come to."""

    top1: float
    top5: float
    seconds: float


def curve(
    side: Side, schedule: str, eta_scale: float, seed: int, wanted: Sequence[int]
) -> dict[int, Point]:
    """Passes -> accuracy and processor seconds; falling steps end with each of them."""
    found = {}
    for marks in [(n,) for n in wanted] if schedule == "linear" else [wanted]:
        passes = _started(side, schedule, eta_scale, max(marks))
        rng, spent = np.random.default_rng(seed), side.seconds
        for n in range(1, max(marks) + 1):
            begun = time.process_time()
            passes.make(rng)
            spent += time.process_time() - begun
            if n in marks:
                found[n] = Point(*accuracies(side, passes.state()[0]), spent)
    return found


def accuracies(side: Side, w: Array) -> tuple[float, float]:
    """Shares of the rows whose class has the largest score, or one of the five largest."""
    scores = side.U_test @ w.T
    mine = scores[np.arange(len(scores)), side.y_test]
    above = (~(scores <= mine[:, None])).sum(axis=1)  # a score that is no number is above
    first = (scores.argmax(axis=1) == side.y_test) & (above == 0)
    return float(first.mean()), float((above < 5).mean())


def _started(side: Side, schedule: str, eta_scale: float, most: int) -> Passes:
    """Passes before the first; steps are in units of 1/(F''(0) mean |u|²)."""
    examples, n = Examples("experiment", side.U, side.y, intercept=False), len(side.y)
    split = TrainingSplit(examples, np.arange(n), np.arange(0))  # rows are in random order
    loss = LOSSES[side.loss]
    descent = Descent(loss, SCHEDULES[schedule][0], most * n, False, balanced=True, epsilon=None)
    w = np.zeros((examples.n_vectors, side.U.shape[1]), np.float32)
    passes = Passes(split, descent, w, w[:0], 0)
    kept = side.own or (side.U,)
    scales = side.scales or (np.ones(w.shape[1], np.float32),)
    etas = [eta_scale / (loss.steepest * _mean_square(U)) for U in kept]
    horizon = float(kept[0].shape[1])
    passes.rescale(*(Scaling(*each, horizon) for each in zip(scales, etas, strict=True)))
    if not sparse.issparse(side.U):  # nothing to project: the fast loop reads the rows themselves
        for frame, U in zip(passes.frames, kept, strict=True):
            frame.kept = U
    return passes


def _mean_square(U: Any) -> float:
    squares = np.square(U.data) if sparse.issparse(U) else np.vecdot(U, U)
    return float(squares.sum(dtype=np.float64)) / U.shape[0]
