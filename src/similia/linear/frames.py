"""Weights in the coordinates of their steps: w = start + scale·z, learnt as z from u = scaleᵀx."""

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import products
from similia.linalg.blocks import aligned_zeros, row_blocks, squared
from similia.linear.examples import Examples, TrainingSplit
from similia.losses import Loss
from similia.updates.balanced import CONSTANT, INVERSE, LINEAR, SQRT, shrink
from similia.updates.slnd import block_pass

#: bytes of projected rows kept in memory; beyond, each block is projected when it is needed
MAX_STORED_BYTES = 2**31

#: how steps shrink in passes whose end is known, and in an endless stream
SCHEDULES = {
    "auto": (LINEAR, SQRT),
    "constant": (CONSTANT, CONSTANT),
    "linear": (LINEAR, SQRT),
    "sqrt": (SQRT, SQRT),
    "inverse": (INVERSE, INVERSE),
    "theorem": (CONSTANT, CONSTANT),
}


class Scaling(NamedTuple):
    """The coordinates of the steps, and their length.

    `scale` is (d, k), or (d,) for a diagonal one; `eta` the step size at the start, a number or
    one per row; `horizon` the number of examples after which endless schedules begin to shrink.
    """

    scale: Array
    eta: float | Array
    horizon: float


@dataclass(frozen=True)
class Descent:
    """How steps are taken: on which loss, how long, from which examples.

    `shrinking` is a schedule of `similia.updates.balanced`, over `total` examples where it needs
    their number. A `bounded` step satisfies η F''(0)|u|² <= 1, so it never overshoots its own
    example. With `epsilon`, steps have the length of Theorem 2 instead.
    """

    loss: Loss
    shrinking: int
    total: int
    bounded: bool
    balanced: bool
    epsilon: float | None

    def lengths(self, scaling: Scaling, t: Array, U: Matrix, weights: Array) -> Array:
        """Step size × schedule × weight for each row of U (and each weight vector)."""
        factors = np.empty(len(t))
        shrink(factors, self.shrinking, t, self.total, scaling.horizon)
        etas = scaling.eta * factors * weights
        if self.bounded:
            norms2 = np.asarray(squared(U).sum(axis=1)).ravel()
            etas = np.minimum(etas, 1.0 / np.maximum(self.loss.steepest * norms2, 1e-30))
        return etas


class StepFrame:
    """The weight vectors `some`, and what they learn: z and its moment M, in one scaling."""

    def __init__(
        self, some: slice, scaling: Scaling, descent: Descent, start: Array, average: bool
    ) -> None:
        self.some, self.scaling, self.descent, self.start = some, scaling, descent, start
        self.started = bool(start.any())
        self.dtype, self.size = scaling.scale.dtype, scaling.scale.shape[-1]
        self.Z = aligned_zeros((len(start), self.size), self.dtype)
        self.M = aligned_zeros(self.Z.shape if average else (0, 0), self.dtype)
        #: u of all rows of a split, if stored
        self.kept: Array | None = None

    def keep(self, split: TrainingSplit) -> None:
        """Store u of all rows, if they fit into `MAX_STORED_BYTES` and weights start from zero."""
        scale, n = self.scaling.scale, len(split.rows)
        if (
            scale.ndim == 2
            and not self.started
            and n * self.size * scale.itemsize <= MAX_STORED_BYTES
        ):
            self.kept = projected(split.examples, split.rows, scale)

    @cached_property
    def norms2(self) -> Array:
        """Squared lengths of the u stored."""
        return np.zeros(0) if self.kept is None else np.vecdot(self.kept, self.kept)

    def coordinates(self, rows: Matrix, some: slice) -> tuple[Matrix, Array]:
        """Rows u, and the scores of the weight vectors `some` at z = 0."""
        start, scale = self.start[some], self.scaling.scale
        H = np.zeros((len(start), rows.shape[0]), self.dtype)
        if self.started:
            H += products((rows, start.T))[0].T
        if scale.ndim == 2:
            return products((rows, scale))[0], H
        if sparse.issparse(rows):
            return sparse.csr_array(rows @ sparse.diags_array(scale)), H
        return rows * scale, H

    def learn(
        self, U: Matrix, H: Array, signs: Array, weights: Array, t: Array, times: Array, some: slice
    ) -> None:
        """Teach a block of rows: at t for the schedule, at `times` for the mean of the states."""
        etas = np.empty(signs.shape, self.dtype)
        etas[:] = self.descent.lengths(self.scaling, t, U, weights)
        rows = (U, H, np.ascontiguousarray(signs), etas, times.astype(self.dtype))
        block_pass(self.Z[some], self.M[some], *rows, self.descent.loss.code)

    def add_to(self, w: Array, moment: Array) -> None:
        """Add what was learnt to the weights, and to the moment if there is one."""
        scale = self.scaling.scale
        for whole, change in ((w, self.Z), (moment, self.M)):
            if whole.size:
                full = scale.ndim == 2
                whole[self.some] += products((change, scale.T))[0] if full else change * scale


def projected(examples: Examples, rows: Indices, basis: Array) -> Array:
    """Rows u = basisᵀx, computed in blocks that read X in memory order."""
    U = aligned_zeros((len(rows), basis.shape[1]), basis.dtype)
    places = np.argsort(rows, kind="stable")
    for block in row_blocks(len(rows), 1024):
        some = places[block]
        U[some] = products((examples.at(rows[some], basis.dtype), basis))[0]
    return U
