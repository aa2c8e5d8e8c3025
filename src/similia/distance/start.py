"""Matrices that learning starts from."""

import numpy as np
from scipy import linalg

from similia.contract import Array
from similia.linalg.spectral import hermitian_part, null_threshold
from similia.validation import check_hermitian

#: departure from symmetry that counts as rounding in single precision
SINGLE = 1e-6


def semidefinite_start(owner: str, start: Array, d: int) -> Array:
    """The exactly symmetric part of a positive semidefinite matrix of size d."""
    check_hermitian(owner, start, d, "fiu", SINGLE)
    M = hermitian_part(start)
    if np.linalg.eigvalsh(M)[0] < -SINGLE * np.abs(M).max():
        raise ValueError(f"{owner}: start must be positive semidefinite.")
    return M


def start_eigenpairs(owner: str, start: Array, d: int, field: str) -> tuple[Array, Array]:
    """Eigenvalues, and eigenvectors as rows, of a positive definite matrix of size d."""
    kinds, kind = ("fiuc", np.complex128) if field == "complex" else ("fiu", np.float64)
    check_hermitian(owner, start, d, kinds, SINGLE)
    values, vectors = linalg.eigh(hermitian_part(start.astype(kind)))
    if not values[0] > null_threshold(values):
        raise ValueError(
            f"{owner}: start must be positive definite, got eigenvalues from {values[0]:.3g} to "
            f"{values[-1]:.3g}; add a small multiple of the identity."
        )
    return values, np.ascontiguousarray(vectors.T)
