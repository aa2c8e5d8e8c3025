"""Symmetric and Hermitian matrices by their eigenvalues: logarithms, factors, Gibbs states."""

import numpy as np
from scipy import linalg


def hermitian_part(X):
    """The Hermitian matrix nearest to X: (X + Xᴴ)/2, symmetric for real X."""
    return 0.5 * (X + X.conj().T)


def from_eigenpairs(values, vectors):
    """Q diag(values) Qᴴ, exactly Hermitian."""
    return hermitian_part((vectors * values) @ vectors.conj().T)


def log_trace_exp(values):
    """Log tr exp(G) from the eigenvalues of G, without overflow."""
    largest = np.max(values)
    return float(largest + np.log(np.sum(np.exp(values - largest))))


def gibbs_weights(values):
    """Eigenvalues of exp(G)/tr exp(G) from those of G; shifted by the largest, none overflows."""
    weights = np.exp(values - np.max(values))
    return weights / weights.sum()


def hermitian_log(W, floor=None):
    """log(W) for Hermitian positive definite W.

    Without `floor`, eigenvalues that are zero up to rounding are refused. With it, those below
    `floor` times the largest are raised to that, which changes W little, its logarithm a lot.
    """
    values, vectors = linalg.eigh(W)
    smallest = null_threshold(values) if floor is None else floor * values[-1]
    if not (values[-1] > 0.0 and (floor is not None or values[0] > smallest)):
        raise ValueError(
            "hermitian_log: W must be positive definite, got eigenvalues from "
            f"{values[0]:.3g} to {values[-1]:.3g}; `floor` raises those that are too small."
        )
    return from_eigenpairs(np.log(np.maximum(values, smallest)), vectors)


def null_threshold(values):
    """Size up to which eigenvalues of a semidefinite matrix are zero up to rounding."""
    return 8.0 * len(values) * np.finfo(np.float64).eps * np.max(np.abs(values))


def psd_factor(A, rank=None):
    """L with LᵀL = A for a symmetric positive semidefinite A, largest directions first.

    With a rank, L has that many rows (at most those of A), and LᵀL is nearest to A of that rank.
    """
    n = len(A)
    kept = None if rank is None or rank >= n else [n - rank, n - 1]
    values, vectors = linalg.eigh(A, subset_by_index=kept)
    return (np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1]


def quick_factor(A):
    """L with LᵀL = A and as many rows as its rank, by pivoting: a tenth of the time."""
    factor, pivots, rank, _ = linalg.get_lapack_funcs("pstrf", (A,))(A)
    L = np.empty((rank, len(A)), A.dtype)
    L[:, pivots - 1] = np.triu(factor[:rank])
    return L
