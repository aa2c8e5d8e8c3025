"""Constraints too many to hold, of which a function finds the violated ones."""

from collections.abc import Callable, Hashable
from typing import Any

import numpy as np

from similia.base import Array
from similia.distance.constraints.base import Constraints, RankOne
from similia.distance.constraints.matrices import MatrixConstraints
from similia.distance.constraints.rank_one import RankOneConstraints


class ConstraintOracle(Constraints):
    """Constraints that a function knows; those that it has named so far are kept.

    Parameters
    ----------
    n_features : int
        Rows of W.
    find : function W -> (key, constraint) or None
        Called with W, which it must leave alone. It gives a violated constraint, best the one that
        is violated most, or None where there is none. The key is hashable and stands for the
        constraint: the same key is the same constraint. The constraint is a tuple (z, sense,
        bound), for zᴴWz ≤ or ≥ bound, or a symmetric or Hermitian matrix C, for tr(WC) ≤ 0.
    dtype : dtype
        complex128 where W is to be complex, else float64.

    Attributes
    ----------
    keys : list
        Keys of the constraints named so far, in the order of the dual variables.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import ConstraintOracle, DefiniteBoost
    >>> def find(W):
    ...     worst = int(np.argmax(np.diag(W)[:3]))
    ...     return worst, (np.eye(4)[worst], "<=", 0.1)
    >>> boost = DefiniteBoost(tol=1e-6).fit(ConstraintOracle(4, find))
    >>> np.diag(boost.W_).round(3)
    array([0.1, 0.1, 0.1, 0.7])
    """

    finite = False

    def __init__(
        self,
        n_features: int,
        find: Callable[[Array], tuple[Hashable, Any] | None],
        dtype: Any = np.float64,
    ) -> None:
        owner = "ConstraintOracle"
        if isinstance(n_features, bool) or not isinstance(n_features, int | np.integer):
            raise ValueError(f"{owner}: n_features must be a positive integer, got {n_features!r}.")
        if n_features < 1:
            raise ValueError(f"{owner}: n_features must be a positive integer, got {n_features}.")
        if not callable(find):
            raise ValueError(f"{owner}: find must be a function, got {type(find).__name__}.")
        self.dtype = np.dtype(dtype)
        if self.dtype not in (np.float64, np.complex128):
            raise ValueError(f"{owner}: dtype must be float64 or complex128, got {dtype}.")
        self.n_features = int(n_features)
        self.find = find
        self.keys: list[Hashable] = []
        self._places: dict[Hashable, int] = {}
        self._single: list[Constraints] = []
        self.shifts = self._lowest = self._highest = np.zeros(0)

    def search(self, W: Array) -> int | None:
        """Ask for a violated constraint; give its place among those known, or None."""
        found = self.find(W)
        if found is None:
            return None
        key, constraint = found
        if key not in self._places:
            self._add(key, constraint)
        return self._places[key]

    def _add(self, key: Hashable, constraint: Any) -> None:
        if isinstance(constraint, tuple):
            z, sense, bound = constraint
            single: Constraints = RankOneConstraints(np.asarray(z)[None], bound, sense)
        else:
            single = MatrixConstraints([constraint])
        if single.n_features != self.n_features or not np.can_cast(single.dtype, self.dtype):
            raise ValueError(
                f"ConstraintOracle: find must give constraints on {self.n_features} features of "
                f"dtype {self.dtype}, got {single.n_features} and {single.dtype}."
            )
        self._places[key] = len(self.keys)
        self.keys.append(key)
        self._single.append(single)
        self.shifts = np.append(self.shifts, single.shifts)
        self._lowest = np.append(self._lowest, single._lowest)
        self._highest = np.append(self._highest, single._highest)

    def _values(self, W: Array, which: Any) -> Array:
        every = slice(None)
        return np.array([one._values(W, every)[0] for one in _chosen(self._single, which)])

    def _combination(self, weights: Array) -> Array:
        M = np.zeros((self.n_features, self.n_features), dtype=self.dtype)
        for weight, one in zip(weights, self._single, strict=True):
            if weight != 0.0:
                M += one._combination(np.array([weight]))
        return M

    def rank_one(self, j: int) -> RankOne | None:
        """Give constraint j as z, sign and shift if it is of that form, else None."""
        return self._single[j].rank_one(0)

    def matrix(self, j: int) -> Array:
        """Give C_j, dense."""
        return self._single[j].matrix(0)


def _chosen(items: list[Any], which: Any) -> list[Any]:
    return items[which] if isinstance(which, slice) else [items[j] for j in which]
