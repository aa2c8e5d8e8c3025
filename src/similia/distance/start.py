"""Where learners of positive definite matrices begin: checks of that, and of dual variables."""

from typing import Any

import numpy as np
from scipy import linalg

from similia.base import Array
from similia.distance.constraints import Constraints
from similia.linalg.spectral import hermitian_log, hermitian_part, null_threshold

#: departure from symmetry and from trace one that counts as rounding
ROUNDING = 1e-8
#: departure from symmetry that does where precision may have been single
SINGLE = 1e-6


def start_eigenpairs(owner: str, start: Any, d: int, field: str) -> tuple[Array, Array]:
    """Give eigenvalues, and eigenvectors as rows, of a positive definite matrix of size d."""
    kinds = "fiuc" if field == "complex" else "fiu"
    M = np.asarray(start)
    _check_hermitian(owner, M, d, kinds, SINGLE)
    kind = np.complex128 if field == "complex" else np.float64
    values, vectors = linalg.eigh(hermitian_part(M.astype(kind)))
    if not values[0] > null_threshold(values):
        raise ValueError(
            f"{owner}: start must be positive definite, got eigenvalues from {values[0]:.3g} to "
            f"{values[-1]:.3g}; add a small multiple of the identity."
        )
    return values, np.ascontiguousarray(vectors.T)


def _check_hermitian(owner: str, M: Array, d: int, kinds: str, rounding: float) -> None:
    if M.shape != (d, d) or M.dtype.kind not in kinds:
        numbers = "numbers" if "c" in kinds else "real numbers"
        raise ValueError(
            f"{owner}: start must be an array of {numbers} of shape ({d}, {d}), "
            f"got shape {M.shape} and dtype {M.dtype}."
        )
    if not np.isfinite(M).all():
        raise ValueError(f"{owner}: start must be finite, but it contains NaN or infinity.")
    if np.abs(M - M.conj().T).max() > rounding * np.abs(M).max():
        raise ValueError(f"{owner}: start must be symmetric or Hermitian.")


def log_of_start(owner: str, start: Any, constraints: Constraints) -> Array:
    """Give log W₀ for a W₀ that is positive definite and of trace one; log(I/d) for None."""
    d = constraints.n_features
    if start is None:
        return np.asarray(-np.log(d) * np.eye(d, dtype=constraints.dtype))
    W = np.asarray(start)
    _check_hermitian(owner, W, d, "fiuc", ROUNDING)
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
