"""Checks of what constraints are made of."""

from typing import Any

import numpy as np

from similia.contract import Array

SENSES = {"<=": 1.0, ">=": -1.0}


def per_constraint(owner: str, name: str, given: Any, n: int) -> Array:
    """Give finite numbers, one for each constraint, from one or from n of them."""
    numbers = np.asarray(given)
    if numbers.dtype.kind not in "fiu" or numbers.shape not in ((), (n,)):
        raise ValueError(
            f"{owner}: {name} must be a number or an array of shape ({n},), "
            f"got shape {numbers.shape} and dtype {numbers.dtype}."
        )
    if not np.isfinite(numbers).all():
        raise ValueError(f"{owner}: {name} must be finite, but there is NaN or infinity in it.")
    return np.array(np.broadcast_to(numbers, n), dtype=np.float64)


def signs_of(owner: str, sense: Any, n: int) -> Array:
    """Give +1 for "<=" and -1 for ">=", one for each constraint, from one or from n of them."""
    given = np.asarray(sense)
    known = np.isin(given, list(SENSES)) if given.dtype.kind in "UO" else np.zeros(given.shape)
    if given.shape not in ((), (n,)) or not np.all(known):
        raise ValueError(
            f'{owner}: sense must be "<=" or ">=", or an array of these of shape ({n},), '
            f"got {sense!r:.60}."
        )
    return np.array(np.broadcast_to(np.where(given == "<=", 1.0, -1.0), n))
