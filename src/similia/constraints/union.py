"""Several sets of constraints as one."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.constraints.base import Constraints, RankOne
from similia.contract import Array
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
        self.parts = list(parts)
        finite = [isinstance(part, Constraints) and part.finite for part in self.parts]
        if not self.parts or not all(finite):
            raise ValueError(
                f"{owner}: parts must be one or more finite sets of constraints, "
                f"got {[type(part).__name__ for part in self.parts]!r:.80}."
            )
        sizes = {part.n_features for part in self.parts}
        if len(sizes) > 1:
            raise ValueError(f"{owner}: parts must have one n_features, got {sorted(sizes)}.")
        self.n_features = self.parts[0].n_features
        self.dtype = np.result_type(*(part.dtype for part in self.parts))
        self.shifts = np.concatenate([part.shifts for part in self.parts])
        self._lowest = np.concatenate([part._lowest for part in self.parts])
        self._highest = np.concatenate([part._highest for part in self.parts])
        self._starts = np.cumsum([0, *(len(part) for part in self.parts)])

    def _values(self, W: Array, which: Any) -> Array:
        places = np.arange(len(self))[which]
        out = np.empty(len(places))
        for start, part in zip(self._starts, self.parts, strict=False):
            mine = (places >= start) & (places < start + len(part))
            out[mine] = part._values(W, places[mine] - start)
        return out

    def _combination(self, weights: Array) -> Array:
        M = np.zeros((self.n_features, self.n_features), dtype=self.dtype)
        for start, part in zip(self._starts, self.parts, strict=False):
            M += part._combination(weights[start : start + len(part)])
        return M

    def _place(self, j: int) -> tuple[Constraints, int]:
        number = int(np.searchsorted(self._starts, j, side="right")) - 1
        return self.parts[number], j - int(self._starts[number])

    def terms(self) -> RankOneTerms | None:
        """Give all constraints as arrays for compiled loops, if all parts are of one such kind."""
        each = [part.terms() for part in self.parts]
        known = [terms for terms in each if terms is not None]
        if len(known) < len(each) or len({len(terms.Z) > 0 for terms in known}) > 1:
            return None
        joined = RankOneTerms(*(np.concatenate(arrays) for arrays in zip(*known, strict=True)))
        return joined._replace(shifts=self.shifts)

    def rank_one(self, j: int) -> RankOne | None:
        """Give constraint j as z, sign and shift if it is of that form, else None."""
        part, i = self._place(j)
        term = part.rank_one(i)
        return None if term is None else term._replace(shift=float(self.shifts[j]))

    def matrix(self, j: int) -> Array:
        """Give C_j, dense."""
        part, i = self._place(j)
        C = part.matrix(i)
        C[np.diag_indices_from(C)] += part.shifts[i] - self.shifts[j]
        return C


def as_constraints(owner: str, given: Any) -> Constraints:
    """Give one set of constraints from one, or from several."""
    if isinstance(given, Constraints):
        return given
    if isinstance(given, list | tuple) and all(isinstance(part, Constraints) for part in given):
        return UnionConstraints(given)
    raise ValueError(
        f"{owner}: constraints must be DistanceConstraints, RankOneConstraints, MatrixConstraints, "
        f"a list of such sets, or a ConstraintOracle, got {type(given).__name__}."
    )
