"""Rows as the passes see them: u = scaleᵀx, and the scores of the weights they start from."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import products
from similia.linalg.blocks import row_blocks, rows_of
from similia.linalg.memory import aligned_empty

#: bytes of projected rows kept in memory; beyond, each block is projected when it is needed
STORED = 2**31


class Scaling(NamedTuple):
    """The coordinates of the steps, and their length.

    `scale` is (d, k), or (d,) for a diagonal one; `eta` the step size at the start, a number or
    one per row; `horizon` the number of examples after which endless schedules begin to shrink.
    """

    scale: Array
    eta: float | Array
    horizon: float


class Frame:
    """Weights start + scale·z, learnt as z from u = scaleᵀx.

    `rows` are the rows of X to learn from, named below by their places in this array. With an
    intercept, d counts a last entry 1 that X does not have. `store` keeps u of all rows, if they
    fit into `STORED` bytes.
    """

    def __init__(
        self, X: Matrix, rows: Indices, start: Array, scale: Array, intercept: bool, store: bool
    ) -> None:
        self.X, self.rows, self.intercept, self.scale = X, rows, intercept, scale
        self.start = start
        self.started = bool(start.any())
        self.stored: Array | None = None
        if store and scale.ndim == 2 and len(rows) * scale.shape[1] * scale.itemsize <= STORED:
            self.stored = projected(X, rows, scale, intercept)

    def block(self, places: Indices, some: slice) -> tuple[Matrix, Array]:
        """Rows u of the places, and the scores of the weight vectors `some` at z = 0."""
        start = self.start[some]
        if self.kept is not None:
            U = self.kept.take(places, axis=0)
            return U, np.zeros((len(start), len(places)), U.dtype)
        rows = with_intercept(rows_of(self.X, self.rows[places], self.scale.dtype), self.intercept)
        if not self.started:
            return self._scaled(rows), np.zeros((len(start), len(places)), self.scale.dtype)
        return self._scaled(rows), np.ascontiguousarray(products((rows, start.T))[0].T)

    def _scaled(self, rows: Matrix) -> Matrix:
        if self.scale.ndim == 2:
            return products((rows, self.scale))[0]
        if sparse.issparse(rows):
            return sparse.csr_array(rows @ sparse.diags_array(self.scale))
        return rows * self.scale

    @property
    def kept(self) -> Array | None:
        """Rows u, if stored and the weights start from zero."""
        return None if self.started else self.stored

    @cached_property
    def norms2(self) -> Array:
        """Squared lengths of all u, if stored."""
        return np.zeros(0) if self.stored is None else np.vecdot(self.stored, self.stored)

    @property
    def size(self) -> int:
        """Length of z."""
        return int(self.scale.shape[-1])

    def back(self, Z: Array) -> Array:
        """Change of the weights by z; exact for moments too, because the map is linear."""
        return Z * self.scale if self.scale.ndim == 1 else products((Z, self.scale.T))[0]


def with_intercept(X: Matrix, intercept: bool = True) -> Matrix:
    """Rows with a last entry 1 if there is an intercept; dense rows C-ordered."""
    if not intercept:
        return X
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
    return np.ascontiguousarray(np.hstack([X, ones]))


def projected(X: Matrix, indices: Indices, basis: Array, intercept: bool) -> Array:
    """Rows u = basisᵀx, computed in blocks that read X in memory order."""
    U = aligned_empty((len(indices), basis.shape[1]), basis.dtype)
    linear = np.ascontiguousarray(basis[:-1] if intercept else basis)
    places = np.argsort(indices, kind="stable")
    for block in row_blocks(len(indices), 1024):
        some = places[block]
        (scores,) = products((rows_of(X, indices[some], basis.dtype), linear))
        U[some] = scores + basis[-1] if intercept else scores
    return U
