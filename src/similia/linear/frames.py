"""Rows of X as the passes of SLND see them: u = scaleᵀx, and the scores from which they start."""

from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse

from similia.contract import Array
from similia.linalg.blas import products
from similia.linalg.blocks import rows_of
from similia.linear.hessian import augmented, projected

#: bytes of projected rows that are kept; beyond, they are made anew for each block
STORED = 2**31


class Frame:
    """Weights start + scale·z, learnt as z from u = scaleᵀx.

    Parameters
    ----------
    X : array or CSR matrix
    rows : array
        The rows of X that are learnt from; below, they are named by their places in it.
    start : array of shape (n_weight_vectors, d) or None
        Weights for z = 0; None for zero.
    scale : array of shape (d, k), or (d,) for a diagonal one
    intercept : bool
        Rows have a last entry 1, which is the last of d.
    store : bool
        Keep u of all rows, if they fit into `STORED` bytes.
    """

    def __init__(
        self,
        X: Any,
        rows: Array,
        start: Array | None,
        scale: Array,
        intercept: bool,
        store: bool = True,
    ) -> None:
        self.X, self.rows, self.intercept = X, rows, intercept
        self.scale = scale
        self.start = start if start is not None and start.any() else None
        self.stored: Array | None = None
        if store and scale.ndim == 2 and len(rows) * scale.shape[1] * scale.itemsize <= STORED:
            self.stored = projected(X, rows, scale, intercept)

    def block(self, places: Array, count: int) -> tuple[Any, Array]:
        """Give u of each place, and the scores (count, places) that `start` gives it."""
        if self.kept is not None:
            U = self.kept.take(places, axis=0)
            return U, np.zeros((count, len(places)), U.dtype)
        rows = augmented(rows_of(self.X, self.rows[places], self.scale.dtype), self.intercept)
        return self._scaled(rows), self._started(rows, count)

    def _scaled(self, rows: Any) -> Any:
        if self.scale.ndim == 2:
            return products((rows, self.scale))[0]
        if sparse.issparse(rows):
            return sparse.csr_array(rows @ sparse.diags_array(self.scale))
        return rows * self.scale

    def _started(self, rows: Any, count: int) -> Array:
        if self.start is None:
            return np.zeros((count, rows.shape[0]), self.scale.dtype)
        return np.ascontiguousarray(products((rows, self.start.T))[0].T)

    @property
    def kept(self) -> Array | None:
        """Give u of all rows, if they are kept and weights start from zero."""
        return self.stored if self.start is None else None

    @cached_property
    def norms2(self) -> Array:
        """Squared lengths of all u, if they are kept."""
        return np.zeros(0) if self.stored is None else np.vecdot(self.stored, self.stored)

    @property
    def size(self) -> int:
        """Length of z."""
        return int(self.scale.shape[-1])

    def back(self, Z: Array) -> Array:
        """Give what z adds to the weights; exact for moments too, as the map is linear."""
        return Z * self.scale if self.scale.ndim == 1 else products((Z, self.scale.T))[0]
