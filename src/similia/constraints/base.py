"""What every set of constraints tr(W C_j) ≤ 0 answers to."""

import copy
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self

import numpy as np

from similia.contract import Array
from similia.updates.definite_boost import RankOneTerms


class RankOne(NamedTuple):
    """One constraint sign·zᴴWz ≤ shift, that is C = sign·zzᴴ - shift·I."""

    z: Array
    sign: float
    shift: float


class Constraints(ABC):
    """Constraints tr(W C_j) ≤ 0 on Hermitian matrices W of trace one, C_j = A_j - shift_j I.

    Since tr W = 1, the shift is a bound: tr(W A_j) ≤ shift_j. All constraints are screened at once
    by `values`; `rank_one` or `matrix` gives one of them, `combination` a weighted sum.

    Attributes
    ----------
    n_features : int
        Rows of W.
    dtype : dtype
        float64, or complex128 where W is to be complex.
    shifts : array of shape (n_constraints,)
    """

    n_features: int
    dtype: Any = np.dtype(np.float64)
    #: whether all constraints are known
    finite = True
    shifts: Array
    #: least and greatest eigenvalues of the A_j
    _lowest: Array
    _highest: Array

    def __len__(self) -> int:
        return len(self.shifts)

    def values(self, W: Array, which: Any = slice(None)) -> Array:
        """Give tr(W C_j) for all constraints, or for those named by an index array or a slice."""
        return self._values(W, which) - self.shifts[which]

    def state_values(self, state: Any, which: Any = slice(None)) -> Array:
        """As `values`, for a `GibbsState`: a set may use its factor instead of W."""
        return self.values(state.matrix(), which)

    def combination(self, weights: Array) -> Array:
        """Give Σ weights_j C_j, dense."""
        M = self._combination(weights)
        M[np.diag_indices_from(M)] -= weights @ self.shifts
        return M

    def bounds(self) -> tuple[Array, Array]:
        """Give lower and upper bounds of the eigenvalues of each C_j."""
        return self._lowest - self.shifts, self._highest - self.shifts

    def shifted(self, by: float | Array) -> Self:
        """Give the constraints tr(W C_j) ≤ by."""
        other = copy.copy(self)
        other.shifts = self.shifts + by
        return other

    def rank_one(self, j: int) -> RankOne | None:
        """Give constraint j as z, sign and shift if it is of that form, else None."""
        return None

    def terms(self) -> RankOneTerms | None:
        """Give all constraints as arrays for compiled loops, if they are real and rank-one."""
        return None

    def matrix(self, j: int) -> Array:
        """Give C_j, dense."""
        term = self.rank_one(j)
        assert term is not None, "a set without rank-one constraints has matrices"
        C = term.sign * np.outer(term.z, term.z.conj())
        C[np.diag_indices_from(C)] -= term.shift
        return C

    @abstractmethod
    def _values(self, W: Array, which: Any) -> Array:
        """Give tr(W A_j)."""

    @abstractmethod
    def _combination(self, weights: Array) -> Array:
        """Give Σ weights_j A_j as a new array."""


def rank_one_bounds(squares: Array, signs: Array, n_features: int) -> tuple[Array, Array]:
    """Give the least and greatest eigenvalues of sign·zzᴴ from |z|²."""
    values = signs * squares
    if n_features == 1:
        return values, values
    return np.minimum(values, 0.0), np.maximum(values, 0.0)
