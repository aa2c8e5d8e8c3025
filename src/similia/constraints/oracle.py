"""Constraints too many to list, of which a function finds the violated ones."""

from collections.abc import Callable, Hashable
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from similia.constraints.sets import MatrixConstraints, RankOneConstraints, Single, UnionConstraints
from similia.contract import Array
from similia.validation import check_parameters, function, non_negative, positive_integer

#: (z, sense, bound) or a matrix
FoundConstraint: TypeAlias = tuple[ArrayLike, str, float] | ArrayLike
NamedConstraint: TypeAlias = tuple[Hashable, FoundConstraint]
FindViolated: TypeAlias = Callable[[Array], NamedConstraint | list[NamedConstraint] | None]


class ConstraintOracle(UnionConstraints):
    """Constraints that a function knows; those named so far are kept.

    Parameters
    ----------
    n_features : int
        Rows of W.
    find : function W -> (key, constraint), list of such, or None
        Called with W, which it must not change. It returns a violated constraint, ideally the most
        violated one, or None if there is none. The key is hashable and identifies the constraint.
        The constraint is a tuple (z, sense, bound), for zᴴWz ≤ or ≥ bound, or a symmetric or
        Hermitian matrix C, for tr(WC) ≤ 0. `minimize_max_constraint` needs the one with the
        largest tr(WC), violated or not. A list may name further ones, which saves questions; its
        first is the one that counts.
    dtype : float64, or complex128 if W is to be complex

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

    def __init__(self, n_features: int, find: FindViolated, dtype: DTypeLike = np.float64) -> None:
        owner = "ConstraintOracle"
        rules = {"n_features": positive_integer, "find": function}
        check_parameters(owner, rules, {"n_features": n_features, "find": find})
        self.n_features, self.find, self.dtype = int(n_features), find, np.dtype(dtype)
        if self.dtype not in (np.float64, np.complex128):
            raise ValueError(f"{owner}: dtype must be float64 or complex128, got {dtype}.")
        self._allowed = 0.0
        self._places: dict[Hashable, int] = {}
        self._hold_none()

    @property
    def keys(self) -> list[Hashable]:
        """Keys of the constraints named so far, in the order of the dual variables."""
        return list(self._places)

    def search(self, W: Array) -> int | None:
        """Ask for a violated constraint; return its number among those named, or None."""
        found = self.find(W)
        if found is None:
            return None
        named = [_key_and_constraint(one) for one in _listed(found)]
        new = {key: self._checked(C) for key, C in named if key not in self._places}
        for key, constraint in new.items():
            self._append(constraint)
            self._places[key] = len(self._places)
        return self._places[named[0][0]]

    def named(self) -> UnionConstraints:
        """The constraints named so far, as a finite set that does not grow."""
        named = UnionConstraints.__new__(UnionConstraints)
        named.n_features, named.dtype = self.n_features, self.dtype
        for name in ("shifts", "_lowest", "_highest", "_parts", "_where"):
            setattr(named, name, vars(self)[name])  # replaced, never changed, by the next one
        return named

    def shifted(self, by: float | Array) -> Self:
        """The constraints tr(W C_j) ≤ by, for by ≥ 0; none are named yet.

        They are violated only where the original ones are, so the same function finds them.
        """
        check_parameters("ConstraintOracle.shifted", {"by": non_negative}, {"by": by})
        other = type(self)(self.n_features, self.find, self.dtype)
        other._allowed = self._allowed + float(by)
        return other

    def _checked(self, constraint: Any) -> Single:
        if isinstance(constraint, tuple):
            z, sense, bound = constraint
            single: Single = RankOneConstraints(np.asarray(z)[None], bound, sense)
        else:
            single = MatrixConstraints([constraint])
        if single.n_features != self.n_features or not np.can_cast(single.dtype, self.dtype):
            raise ValueError(
                f"ConstraintOracle: find must return constraints on {self.n_features} features of "
                f"dtype {self.dtype}, got {single.n_features} and {single.dtype}."
            )
        return single.shifted(self._allowed)


def _listed(found: Any) -> list[Any]:
    """The constraints of an answer as a list; the first one counts."""
    if isinstance(found, list) and not found:
        raise ValueError(
            "ConstraintOracle: find must return None where no constraint is violated, got []."
        )
    return found if isinstance(found, list) else [found]


def _key_and_constraint(found: Any) -> tuple[Hashable, Any]:
    """The answer of a function; ValueError otherwise."""
    wanted = "ConstraintOracle: find must return None, (key, constraint) or a list of such"
    if not isinstance(found, tuple) or len(found) != 2:
        raise ValueError(f"{wanted}, got {found!r:.60}.")
    key, constraint = found
    if not isinstance(key, Hashable):
        raise ValueError(f"{wanted} with a hashable key, got {type(key).__name__}.")
    if isinstance(constraint, tuple) and len(constraint) != 3:
        got = f"got a tuple of {len(constraint)}"
        raise ValueError(f"{wanted} with a constraint (z, sense, bound) or a matrix, {got}.")
    return key, constraint
