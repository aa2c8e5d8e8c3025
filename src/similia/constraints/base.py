"""What every set of linear constraints answers, and checks of the numbers it is made of."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array
from similia.linalg.gibbs import GibbsState
from similia.updates.definite_boost import RankOneTerms
from similia.validation import positive_integer

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

    Since tr W = 1, the shift is a bound: tr(W A_j) ≤ shift_j. A subclass sets the attributes below
    and computes tr(W A_j) and Σ weights_j A_j; it overrides `rank_one` or `matrix`, and whatever
    else it can do faster.

    Attributes
    ----------
    n_features : int
        Rows of W.
    dtype : dtype
        float64, or complex128 if W is to be complex.
    shifts : array of shape (n_constraints,)
    """

    n_features: int
    dtype: np.dtype[Any] = np.dtype(np.float64)
    #: whether all constraints are known
    finite = True
    shifts: Array
    #: extreme eigenvalues of the A_j
    _lowest: Array
    _highest: Array

    @abstractmethod
    def _values(self, W: Array, which: Selection) -> Array:
        """tr(W A_j)."""

    @abstractmethod
    def _combination(self, weights: Array) -> Array:
        """Σ weights_j A_j, as a new array."""

    def __len__(self) -> int:
        return len(self.shifts)

    def values(self, W: Array, which: Selection = ALL) -> Array:
        """tr(W C_j) of all constraints, or of some."""
        return self._values(W, which) - self.shifts[which]

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state, of which a factor may be enough."""
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

    def _concatenate(self, sets: Sequence["Constraints"]) -> None:
        """Take shifts, bounds and dtype from several sets."""
        self.dtype = np.result_type(*(one.dtype for one in sets))
        self.shifts = np.concatenate([one.shifts for one in sets])
        self._lowest = np.concatenate([one._lowest for one in sets])
        self._highest = np.concatenate([one._highest for one in sets])


def rank_one_bounds(squares: Array, signs: Array, n_features: int) -> tuple[Array, Array]:
    """Extreme eigenvalues of sign·zzᴴ, from |z|²."""
    values = signs * squares
    if n_features == 1:
        return values, values
    return np.minimum(values, 0.0), np.maximum(values, 0.0)


def checked_count(owner: str, name: str, value: int) -> int:
    """A positive integer, or the house error."""
    if not positive_integer.holds(value):
        raise ValueError(f"{owner}: {name} must be {positive_integer.words}, got {value!r}.")
    return int(value)


def per_constraint(owner: str, name: str, given: ArrayLike, n: int) -> Array:
    """Finite numbers, one per constraint, from a single number or n of them."""
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "fiu" or numbers.shape not in ((), (n,)):
        raise ValueError(
            f"{owner}: {name} must be a number or an array of shape ({n},), "
            f"got shape {numbers.shape} and dtype {numbers.dtype}."
        )
    if not np.isfinite(numbers).all():
        raise ValueError(f"{owner}: {name} must be finite, but it contains NaN or infinity.")
    return np.array(np.broadcast_to(numbers, n), dtype=np.float64)


def signs_of(owner: str, sense: ArrayLike, n: int) -> Array:
    """+1 for "<=" and -1 for ">=", one per constraint, from a single sense or n of them."""
    given = np.asarray(sense)
    known = np.isin(given, ["<=", ">="]) if given.dtype.kind in "UO" else np.zeros(given.shape)
    if given.shape not in ((), (n,)) or not np.all(known):
        raise ValueError(
            f'{owner}: sense must be "<=" or ">=", or an array of these of shape ({n},), '
            f"got {sense!r:.60}."
        )
    return np.array(np.broadcast_to(np.where(given == "<=", 1.0, -1.0), n))
