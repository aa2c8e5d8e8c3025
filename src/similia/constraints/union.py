"""Several sets of constraints as one."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import numpy as np

from similia.constraints.base import ALL, Constraints, RankOne, Selection
from similia.contract import Array, Indices
from similia.linalg.gibbs import GibbsState
from similia.updates.definite_boost import RankOneTerms


class UnionConstraints(Constraints):
    """The constraints of several sets, in their order.

    Parameters
    ----------
    parts : sequence of constraint sets
        On matrices W of one size.
    """

    def __init__(self, parts: Sequence[Constraints]) -> None:
        owner = "UnionConstraints"
        finite = [isinstance(part, Constraints) and part.finite for part in parts]
        if not parts or not all(finite):
            raise ValueError(
                f"{owner}: parts must be one or more finite sets of constraints, "
                f"got {[type(part).__name__ for part in parts]!r:.80}."
            )
        sizes = {part.n_features for part in parts}
        if len(sizes) > 1:
            raise ValueError(f"{owner}: parts must have one n_features, got {sorted(sizes)}.")
        self.n_features = parts[0].n_features
        self._concatenate(parts)
        ends = np.cumsum([0, *(len(part) for part in parts)])
        self._arrange(parts, [np.arange(a, b) for a, b in pairwise(ends)])

    @classmethod
    def of_singles(
        cls, singles: Sequence[Constraints], n_features: int, dtype: np.dtype[Any]
    ) -> Self:
        """Sets of one constraint each, in their order; each class of them is screened at once."""
        whole = cls.__new__(cls)
        whole.n_features = n_features
        whole.shifts = whole._lowest = whole._highest = np.zeros(0)
        if singles:
            whole._concatenate(singles)
        whole.dtype = dtype
        kinds = dict.fromkeys(type(one) for one in singles)
        places = [np.flatnonzero([type(one) is kind for one in singles]) for kind in kinds]
        each = zip(kinds, places, strict=True)
        parts = [kind.joined([singles[j] for j in mine.tolist()]) for kind, mine in each]
        whole._arrange(parts, places)
        return whole

    def _arrange(self, parts: Sequence[Constraints], places: Sequence[Indices]) -> None:
        """Note each part, where its constraints stand, and for each constraint its part and row."""
        self._parts = list(zip(parts, places, strict=True))
        self._where = np.zeros((len(self), 2), dtype=np.intp)
        for number, (_, mine) in enumerate(self._parts):
            self._where[mine, 0] = number
            self._where[mine, 1] = np.arange(len(mine))

    def _values(self, W: Array, which: Selection) -> Array:
        numbers, rows = self._where[which].T
        out = np.empty(len(rows))
        for number, (part, _) in enumerate(self._parts):
            mine = numbers == number
            out[mine] = part._values(W, rows[mine])
        return out

    def state_values(self, state: GibbsState, which: Selection = ALL) -> Array:
        """As `values`, at the W of a state; a single part may do with a factor."""
        if len(self._parts) != 1:
            return super().state_values(state, which)
        only = self._parts[0][0]
        return only.state_values(state, which) + only.shifts[which] - self.shifts[which]

    def _combination(self, weights: Array) -> Array:
        M = np.zeros((self.n_features, self.n_features), dtype=self.dtype)
        for part, places in self._parts:
            M += part._combination(weights[places])
        return M

    def _place(self, j: int) -> tuple[Constraints, int]:
        number, row = self._where[j].tolist()
        return self._parts[number][0], row

    def terms(self) -> RankOneTerms | None:
        """All constraints as arrays for compiled loops, if all parts are of one such kind."""
        known = [terms for part, _ in self._parts if (terms := part.terms()) is not None]
        if len(known) < len(self._parts) or len({len(terms.Z) > 0 for terms in known}) > 1:
            return None
        joined = RankOneTerms(*(np.concatenate(arrays) for arrays in zip(*known, strict=True)))
        return joined._replace(shifts=self.shifts)

    def rank_one(self, j: int) -> RankOne | None:
        """Constraint j as a rank-one term, or None if it is not of that form."""
        part, i = self._place(j)
        term = part.rank_one(i)
        return None if term is None else term._replace(shift=float(self.shifts[j]))

    def matrix(self, j: int) -> Array:
        """C_j, dense."""
        part, i = self._place(j)
        C = part.matrix(i)
        C[np.diag_indices_from(C)] += part.shifts[i] - self.shifts[j]
        return C


def as_constraints(owner: str, given: Constraints | Sequence[Constraints]) -> Constraints:
    """One set of constraints, from one or several."""
    if isinstance(given, Constraints):
        return given
    if isinstance(given, list | tuple) and all(isinstance(part, Constraints) for part in given):
        return UnionConstraints(given)
    raise ValueError(
        f"{owner}: constraints must be DistanceConstraints, RankOneConstraints, MatrixConstraints, "
        f"a list of such sets, or a ConstraintOracle, got {type(given).__name__}."
    )
