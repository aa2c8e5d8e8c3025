"""Constraints sign·zᴴWz ≤ shift."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from similia.constraints.base import (
    ALL,
    Constraints,
    RankOne,
    Selection,
    per_constraint,
    rank_one_bounds,
    signs_of,
)
from similia.contract import Array
from similia.linalg.blas import products
from similia.linalg.blocks import row_blocks
from similia.linalg.gibbs import GibbsState
from similia.updates.definite_boost import RankOneTerms

#: rows of Z multiplied at a time, which bounds the memory of a screening
BLOCK = 4096


class RankOneConstraints(Constraints):
    """Constraints zᴴWz ≤ shift, or ≥, for vectors z: C_j = ±(zzᴴ - shift I).

    Parameters
    ----------
    Z : real or complex array of shape (n_constraints, n_features)
        One vector per constraint.
    shifts : number or array of shape (n_constraints,)
        The bounds.
    sense : {"<=", ">="} or array of these of shape (n_constraints,)
        Whether zᴴWz is to be at most or at least its bound.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import RankOneConstraints
    >>> constraints = RankOneConstraints(np.eye(3), [0.1, 0.5, 0.2], ["<=", ">=", "<="])
    >>> constraints.values(np.eye(3) / 3).round(2)
    array([0.23, 0.17, 0.13])
    """

    def __init__(self, Z: ArrayLike, shifts: ArrayLike, sense: ArrayLike = "<=") -> None:
        owner = "RankOneConstraints"
        given = np.asarray(Z)
        if given.ndim != 2 or given.dtype.kind not in "fiuc" or given.shape[1] < 1:
            raise ValueError(
                f"{owner}: Z must be an array of numbers of shape (n_constraints, n_features), "
                f"got shape {given.shape} and dtype {given.dtype}."
            )
        if not np.isfinite(given).all():
            raise ValueError(f"{owner}: Z must be finite, but it contains NaN or infinity.")
        self.dtype = np.dtype(np.complex128 if given.dtype.kind == "c" else np.float64)
        self.Z = np.ascontiguousarray(given, dtype=self.dtype)
        self.n_features = self.Z.shape[1]
        self.signs = signs_of(owner, sense, len(self.Z))
        self.shifts = self.signs * per_constraint(owner, "shifts", shifts, len(self.Z))
        squares = np.vecdot(self.Z, self.Z).real
        self._lowest, self._highest = rank_one_bounds(squares, self.signs, self.n_features)

    def _concatenate(self, sets: Sequence[Any]) -> None:
        super()._concatenate(sets)
        self.Z = np.concatenate([one.Z for one in sets])
        self.signs = np.concatenate([one.signs for one in sets])

    def _values(self, W: Array, which: Selection) -> Array:
        Z = self.Z[which]
        out = np.empty(len(Z))
        for block in row_blocks(len(Z), BLOCK):
            # zᴴWz = (Wᵀz̄)·z, row by row; the transpose of a Hermitian W is its conjugate.
            left = _product(Z[block].conj(), W)
            out[block] = np.vecdot(left.conj(), Z[block]).real
        return self.signs[which] * out

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state: zᴴWz = |conj(B) z|² if W = Bᵀ conj(B)."""
        Z, B = self.Z[which], state.factor()
        out = np.empty(len(Z))
        for block in row_blocks(len(Z), BLOCK):
            parts = _product(Z[block], B.conj().T)
            out[block] = np.vecdot(parts, parts).real
        return self.signs[which] * out - self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        used = np.flatnonzero(weights)
        Z, signed = self.Z[used], (weights * self.signs)[used]
        if (signed > 0).all() or (signed < 0).all():
            # A factor times itself: half the work, and exactly symmetric.
            half = np.sqrt(np.abs(signed))[:, None] * Z
            M = half.T @ half.conj()
            return M if len(signed) == 0 or signed[0] > 0 else -M
        M = (signed[:, None] * Z).T @ Z.conj()
        return 0.5 * (M + M.conj().T)

    def terms(self) -> RankOneTerms | None:
        """All constraints as arrays for compiled loops, if they are real."""
        if self.dtype.kind == "c":
            return None
        none = np.zeros(0, np.uint32)
        return RankOneTerms(self.Z, none, none, self.signs, self.shifts)

    def rank_one(self, j: int) -> RankOne:
        """Constraint j."""
        return RankOne(self.Z[j], float(self.signs[j]), float(self.shifts[j]))


def _product(A: Array, B: Array) -> Array:
    """A B; on all processors if real."""
    if np.iscomplexobj(A) or np.iscomplexobj(B):
        return A @ B
    (out,) = products((A, B))
    return out
