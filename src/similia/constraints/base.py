"""Interface of a set of linear constraints, and checks of its numbers."""

import copy
from abc import ABC, abstractmethod
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.updates.definite_boost import RankOneTerms

#: constraints of a set, by number
Selection: TypeAlias = slice | Array | list[int]
ALL = slice(None)


class RankOne(NamedTuple):
    """The constraint sign·zᴴWz ≤ shift, that is C = sign·zzᴴ - shift·I."""

    z: Array
    sign: float
    shift: float


class Constraints(ABC):
    """Constraints tr(W C_j) ≤ 0 on Hermitian W of trace one, with C_j = A_j - shift_j I.

    Since tr W = 1, the shift is a bound: tr(W A_j) ≤ shift_j. A subclass sets `n_features` (the
    rows of W), `dtype` (complex128 if W is to be complex), `shifts`, `_lowest` and `_highest`,
    computes tr(W A_j) and Σ weights_j A_j, and overrides `rank_one` or `matrix` and whatever else
    it can do faster.
    """

    n_features: int
    dtype: np.dtype[Any] = np.dtype(np.float64)
    finite = True  # all constraints are known
    shifts: Array
    signs: Array  # of rank-one constraints
    _lowest: Array  # extreme eigenvalues of the A_j
    _highest: Array

    @abstractmethod
    def _values(self, W: Array, which: Selection) -> Array:
        """tr(W A_j)."""

    @abstractmethod
    def _combination(self, weights: Array) -> Array:
        """Σ weights_j A_j, as a new array."""

    def _set_rank_one(self, owner: str, squares: Array, bounds: Array, sense: ArrayLike) -> None:
        """Set signs, shifts and eigenvalues, from |z|² and from the bounds of zᴴWz."""
        given, n = np.asarray(sense), len(bounds)
        known = np.isin(given, ["<=", ">="]) if given.dtype.kind in "UO" else np.zeros(given.shape)
        if given.shape not in ((), (n,)) or not np.all(known):
            words = f'"<=" or ">=", or an array of these of shape ({n},)'
            raise ValueError(f"{owner}: sense must be {words}, got {sense!r:.60}.")
        self.signs = np.array(np.broadcast_to(np.where(given == "<=", 1.0, -1.0), n))
        self.shifts = self.signs * bounds
        values = self.signs * squares
        least = 0.0 if self.n_features > 1 else np.inf  # with one feature there is no other one
        self._lowest, self._highest = np.minimum(values, least), np.maximum(values, -least)

    def __len__(self) -> int:
        return len(self.shifts)

    def values(self, W: Array, which: Selection = ALL) -> Array:
        """tr(W C_j) of all constraints, or of some."""
        return self._values(W, which) - self.shifts[which]

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state; a subclass may use its factor alone."""
        return self.values(state.matrix(), which)

    def combination(self, weights: Array) -> Array:
        """Σ weights_j C_j, dense."""
        M = self._combination(weights)
        M[np.diag_indices_from(M)] -= weights @ self.shifts
        return M

    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds of the eigenvalues of each C_j."""
        return self._lowest - self.shifts, self._highest - self.shifts

    def shifted(self, by: float | Array) -> Self:
        """The constraints tr(W C_j) ≤ by."""
        other = copy.copy(self)
        other.shifts = self.shifts + by
        return other

    def rank_one(self, j: int) -> RankOne | None:
        """Constraint j as a rank-one term, or None if it is not of that form."""
        return None

    def terms(self) -> RankOneTerms | None:
        """All constraints as arrays for compiled loops; None unless real and rank-one."""
        return None

    def matrix(self, j: int) -> Array:
        """C_j, dense."""
        term = self.rank_one(j)
        assert term is not None, "a set without rank-one constraints overrides `matrix`"
        C = term.sign * np.outer(term.z, term.z.conj())
        C[np.diag_indices_from(C)] -= term.shift
        return C


def check_numbers(what: str, given: Array, words: str, fits: bool, kinds: str = "fiu") -> None:
    """Refuse an array of the wrong shape or kind, or with NaN or infinity."""
    if given.dtype.kind not in kinds or not fits:
        got = f"got shape {given.shape} and dtype {given.dtype}"
        raise ValueError(f"{what} must be {words}, {got}.")
    if not np.isfinite(given).all():
        raise ValueError(f"{what} must be finite, but it contains NaN or infinity.")


def bounds_of(what: str, given: ArrayLike, n: int) -> Array:
    """Finite real numbers, one per constraint, from a single number or n of them."""
    numbers, words = np.asarray(given), f"a number or an array of shape ({n},)"
    check_numbers(what, numbers, words, numbers.shape in ((), (n,)))
    return np.array(np.broadcast_to(numbers, n), dtype=np.float64)
