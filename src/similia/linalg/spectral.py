"""Exponentials and logarithms of symmetric and Hermitian matrices, by their eigenvalues."""

import numpy as np
from scipy import linalg


def hermitian_part(X):
    """The Hermitian matrix nearest to X: (X + Xᴴ)/2, symmetric for real X."""
    return 0.5 * (X + X.conj().T)


def from_eigenpairs(values, vectors):
    """Q diag(values) Qᴴ, exactly Hermitian."""
    return hermitian_part((vectors * values) @ vectors.conj().T)


def hermitian_exp(G):
    """exp(G) for Hermitian G; overflows only where the result does."""
    values, vectors = linalg.eigh(G)
    return from_eigenpairs(np.exp(values), vectors)


def log_trace_exp(values):
    """Log tr exp(G) from the eigenvalues of G, without overflow."""
    largest = np.max(values)
    return float(largest + np.log(np.sum(np.exp(values - largest))))


def gibbs_weights(values):
    """Eigenvalues of exp(G)/tr exp(G) from those of G; shifted by the largest, none overflows."""
    weights = np.exp(values - np.max(values))
    return weights / weights.sum()


def gibbs_state(G):
    """exp(G)/tr exp(G), the matrix of trace one with logarithm G up to a multiple of I.

    It is argmax of tr(WG) - tr(W log W) over W ⪰ 0 with tr W = 1, and unchanged by G + cI.
    """
    values, vectors = linalg.eigh(G)
    return from_eigenpairs(gibbs_weights(values), vectors)


def hermitian_log(W, floor=None):
    """log(W) for Hermitian positive definite W.

    Without `floor`, eigenvalues that are zero up to rounding are refused. With it, those below
    `floor` times the largest are raised to that. A small floor changes W little but its logarithm,
    and all that is learnt from there, a lot.
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
