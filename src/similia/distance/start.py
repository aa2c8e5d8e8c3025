"""Positive definite matrices that learning starts from."""

from typing import Any

import numpy as np
from scipy import linalg

from similia.contract import Array
from similia.linalg.spectral import hermitian_part, null_threshold
from similia.validation import check_hermitian

#: departure from symmetry that counts as rounding in single precision
SINGLE = 1e-6


def start_eigenpairs(owner: str, start: Any, d: int, field: str) -> tuple[Array, Array]:
    """Give eigenvalues, and eigenvectors as rows, of a positive definite matrix of size d."""
    kinds = "fiuc" if field == "complex" else "fiu"
    M = np.asarray(start)
    check_hermitian(owner, M, d, kinds, SINGLE)
    kind = np.complex128 if field == "complex" else np.float64
    values, vectors = linalg.eigh(hermitian_part(M.astype(kind)))
    if not values[0] > null_threshold(values):
        raise ValueError(
            f"{owner}: start must be positive definite, got eigenvalues from {values[0]:.3g} to "
            f"{values[-1]:.3g}; add a small multiple of the identity."
        )
    return values, np.ascontiguousarray(vectors.T)
