"""Matrix products of C-ordered arrays in place, all by one BLAS.

numpy and scipy each bring a BLAS with a thread pool of its own, and a loop that alternates between
them lets the idle pool spin against the busy one. Everything here goes through scipy's, which also
accumulates in place. BLAS counts in columns, so every C-ordered array is handed over transposed.
"""

import numpy as np
from scipy import sparse
from scipy.linalg import get_blas_funcs


def product(A, B):
    """Give A B; A may be sparse, B is dense."""
    if sparse.issparse(A):
        return A @ B
    return get_blas_funcs("gemm", dtype=B.dtype)(1.0, B.T, A.T).T


def cross_product(A, B):
    """Give A Bᵀ; B may be sparse, A is dense."""
    if sparse.issparse(B):
        return np.ascontiguousarray((B @ A.T).T)
    return get_blas_funcs("gemm", dtype=A.dtype)(1.0, B.T, A.T, trans_a=True).T


def add_cross_product(C, A, B, weights=None):
    """Add Aᵀ diag(weights) B to C."""
    if weights is not None:
        A = A * weights[:, None].astype(A.dtype, copy=False)
    gemm = get_blas_funcs("gemm", dtype=C.dtype)
    gemm(1.0, B.T, A.T, trans_b=True, beta=1.0, c=C.T, overwrite_c=True)


def solve_unit_lower(L, B):
    """Replace B by L⁻¹B for a lower triangular L with ones on the diagonal."""
    trsm = get_blas_funcs("trsm", dtype=B.dtype)
    trsm(1.0, L.T, B.T, side=1, diag=1, overwrite_b=True)


def row_products(A, B):
    """Give the inner products of corresponding rows; B may be sparse."""
    if sparse.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel().astype(A.dtype, copy=False)
    return np.einsum("ij,ij->i", A, B)
