"""Constraints too many to hold, of which a function finds the violated ones."""

from collections.abc import Callable, Hashable
from typing import Any, Self

import numpy as np

from similia.constraints.base import Constraints, RankOne
from similia.constraints.matrices import MatrixConstraints
from similia.constraints.mixed import MixedConstraints
from similia.constraints.rank_one import RankOneConstraints
from similia.contract import Array


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
        `minimize_max_constraint` needs the one with the largest tr(WC), violated or not.
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
        self._together: MixedConstraints | None = None
        self._allowed = 0.0
        self.shifts = self._lowest = self._highest = np.zeros(0)

    def search(self, W: Array) -> int | None:
        """Ask for a violated constraint; give its place among those known, or None."""
        found = self.find(W)
        if found is None:
            return None
        key, constraint = _key_and_constraint(found)
        if key not in self._places:
            self._add(key, constraint)
        return self._places[key]

    def named(self) -> MixedConstraints:
        """Give those named so far as a finite set, which does not grow."""
        if self._together is None:
            self._together = MixedConstraints(self._single, self.n_features, self.dtype)
        return self._together

    def shifted(self, by: float | Array) -> Self:
        """Give the constraints tr(W C_j) ≤ by, for a number of at least 0, with none named yet.

        Those are violated only where the given ones are, so that the same function finds them.
        """
        if np.ndim(by) != 0 or not 0.0 <= float(by) < np.inf:
            raise ValueError(
                f"ConstraintOracle.shifted: by must be a number of at least 0, got {by!r:.60}."
            )
        other = type(self)(self.n_features, self.find, self.dtype)
        other._allowed = self._allowed + float(by)
        return other

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
        single = single.shifted(self._allowed)
        self._places[key] = len(self.keys)
        self.keys.append(key)
        self._single.append(single)
        self._together = None
        self.shifts = np.append(self.shifts, single.shifts)
        self._lowest = np.append(self._lowest, single._lowest)
        self._highest = np.append(self._highest, single._highest)

    def _values(self, W: Array, which: Any) -> Array:
        return self.named()._values(W, which)

    def state_values(self, state: Any, which: Any = slice(None)) -> Array:
        """As `values`, for a `GibbsState`."""
        return self.named().state_values(state, which)

    def _combination(self, weights: Array) -> Array:
        return self.named()._combination(weights)

    def rank_one(self, j: int) -> RankOne | None:
        """Give constraint j as z, sign and shift if it is of that form, else None."""
        return self._single[j].rank_one(0)

    def matrix(self, j: int) -> Array:
        """Give C_j, dense."""
        return self._single[j].matrix(0)


def _key_and_constraint(found: Any) -> tuple[Hashable, Any]:
    """Give what a function has found, or raise the house error."""
    wanted = "ConstraintOracle: find must give None or (key, constraint)"
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(f"{wanted}, got {found!r:.60}.")
    key, constraint = found
    if not isinstance(key, Hashable):
        raise ValueError(f"{wanted} with a key that is hashable, got {type(key).__name__}.")
    if isinstance(constraint, tuple) and len(constraint) != 3:
        raise ValueError(
            f"{wanted} with a constraint (z, sense, bound) or a matrix, "
            f"got a tuple of {len(constraint)}."
        )
    return key, constraint
