"""Checks of where DefiniteBoost starts: a matrix, and dual variables."""

from typing import Any

import numpy as np

from similia.constraints.base import Constraints
from similia.contract import Array
from similia.linalg.spectral import hermitian_log
from similia.validation import check_hermitian

#: departure from symmetry and from trace one that counts as rounding
ROUNDING = 1e-8


def log_of_start(owner: str, start: Any, constraints: Constraints) -> Array:
    """Give log W₀ for a W₀ that is positive definite and of trace one; log(I/d) for None."""
    d = constraints.n_features
    if start is None:
        return np.asarray(-np.log(d) * np.eye(d, dtype=constraints.dtype))
    W = np.asarray(start)
    check_hermitian(owner, W, d, "fiuc", ROUNDING)
    if abs(np.trace(W) - 1.0) > ROUNDING:
        raise ValueError(
            f"{owner}: start must have trace one, got {np.trace(W).real:.6g}; divide by its trace."
        )
    try:
        L = hermitian_log(W)
    except ValueError:
        raise ValueError(f"{owner}: start must be positive definite.") from None
    return np.asarray(L, dtype=np.result_type(constraints.dtype, L.dtype))


def checked_alpha(owner: str, alpha: Any, n: int, cap: float) -> Array:
    """Give n dual variables between 0 and the cap, those that are not given zero."""
    first = np.zeros(n)
    if alpha is None:
        return first
    given = np.asarray(alpha)
    if given.ndim != 1 or len(given) > n or given.dtype.kind not in "fiu":
        raise ValueError(
            f"{owner}: alpha must be an array of at most {n} numbers, one for each constraint, "
            f"got shape {given.shape} and dtype {given.dtype}."
        )
    if not (np.isfinite(given) & (given >= 0.0)).all():
        raise ValueError(f"{owner}: alpha must be finite numbers of at least 0.")
    if (given > cap).any():
        raise ValueError(
            f"{owner}: alpha must be at most C = {cap:.6g}, got {given.max():.6g}; "
            "give np.minimum(alpha, C)."
        )
    first[: len(given)] = given
    return first
