"""Rank-one and general constraints in any order, each kind screened at once."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from similia.constraints.base import Constraints, RankOne
from similia.constraints.matrices import MatrixConstraints
from similia.constraints.rank_one import RankOneConstraints
from similia.contract import Array


class _Kind(NamedTuple):
    """Constraints of one kind, and the place of each in the whole."""

    constraints: Constraints
    places: Array


class MixedConstraints(Constraints):
    """Single constraints of one size, each of either kind, kept together by kind.

    Parameters
    ----------
    singles : sequence of RankOneConstraints and MatrixConstraints, of one constraint each
    n_features : int
        Rows of W, where there is none.
    dtype : dtype
        float64, or complex128 if any of them is.
    """

    def __init__(self, singles: Sequence[Constraints], n_features: int, dtype: Any) -> None:
        self.n_features, self.dtype = n_features, np.dtype(dtype)
        self.shifts, self._lowest, self._highest = (
            np.concatenate([np.zeros(0), *(getattr(one, name) for one in singles)])
            for name in ("shifts", "_lowest", "_highest")
        )
        self._kinds: list[_Kind] = []
        self._within = np.zeros((len(singles), 2), dtype=np.intp)
        kinds: tuple[Any, ...] = (RankOneConstraints, MatrixConstraints)
        for kind in kinds:
            places = np.array([j for j, one in enumerate(singles) if isinstance(one, kind)], int)
            if len(places):
                self._within[places, 0] = len(self._kinds)
                self._within[places, 1] = np.arange(len(places))
                self._kinds.append(_Kind(kind.joined([singles[j] for j in places]), places))

    def _values(self, W: Array, which: Any) -> Array:
        numbers, places = self._within[which].T
        out = np.empty(len(places))
        for number, (constraints, _) in enumerate(self._kinds):
            mine = numbers == number
            out[mine] = constraints._values(W, places[mine])
        return out

    def state_values(self, state: Any, which: Any = slice(None)) -> Array:
        """As `values`, for a `GibbsState`; its factor is enough where all are of one kind."""
        if len(self._kinds) != 1:
            return super().state_values(state, which)
        only = self._kinds[0].constraints
        return only.state_values(state, which) + only.shifts[which] - self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        M = np.zeros((self.n_features, self.n_features), dtype=self.dtype)
        for constraints, places in self._kinds:
            M += constraints._combination(weights[places])
        return M

    def rank_one(self, j: int) -> RankOne | None:
        """Give constraint j as z, sign and shift if it is of that form, else None."""
        number, i = self._within[j]
        term = self._kinds[number].constraints.rank_one(int(i))
        return None if term is None else term._replace(shift=float(self.shifts[j]))

    def matrix(self, j: int) -> Array:
        """Give C_j, dense."""
        number, i = self._within[j]
        part = self._kinds[number].constraints
        C = part.matrix(int(i))
        C[np.diag_indices_from(C)] += part.shifts[i] - self.shifts[j]
        return C
