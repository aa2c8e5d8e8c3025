"""Symmetric and Hermitian matrices by their eigenvalues: logarithms, factors, Gibbs states."""

import numpy as np
from scipy import linalg
from scipy.special import kl_div


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


def von_neumann_divergence(B, A):
    """tr(B log B - B log A - B + A), from F(W) = tr(W log W - W), ∇F(W) = log W.

    The Bregman divergence D(B, A) = F(B) - F(A) - tr((B - A) ∇F(A)): never negative, and zero only
    for B = A. A, B ⪰ 0; infinite where B has a component in the null space of A. For trace one it
    is the quantum relative entropy, for diagonal matrices that of Kullback and Leibler
    [Tsuda2005, 2.4].
    """
    (b, Q), (a, R) = linalg.eigh(B), linalg.eigh(A)
    for name, values in (("B", b), ("A", a)):
        if values[0] < -null_threshold(values):
            rule = f"{name} must be positive semidefinite, got an eigenvalue of {values[0]:.3g}"
            raise ValueError(f"von_neumann_divergence: {rule}.")
    b, a = (np.where(v > null_threshold(v), v, 0.0) for v in (b, a))
    overlap = np.abs(Q.conj().T @ R) ** 2
    outside = a == 0.0
    if (b @ overlap[:, outside]).sum() > null_threshold(b):
        return np.inf
    # Rows and columns of the overlap have sum one, so this is a mean of scalar divergences.
    return float(np.sum(overlap[:, ~outside] * kl_div(b[:, None], a[~outside])))
