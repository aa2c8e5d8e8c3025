"""What the learners are measured against: the plain transcription, BLAS-2 in place, the limits."""

import numpy as np
from numba import njit
from scipy.linalg import get_blas_funcs
from threadpoolctl import threadpool_limits

from tests.reference.aroma import diagonal_step, factored_step
from tests.reference.oasis import oasis_step


def plain_factored(Q, P, r=1.0):
    m, n = Q.shape[1], P.shape[1]
    state = np.zeros((m, n), Q.dtype), np.eye(m, dtype=Q.dtype), np.eye(n, dtype=Q.dtype)
    for q, p in zip(Q, P, strict=True):
        state = factored_step(*state, q, p, Q.dtype.type(r))


def plain_diagonal(Q, P, r=1.0):
    state = np.zeros((Q.shape[1], P.shape[1]), Q.dtype), np.ones((Q.shape[1], P.shape[1]), Q.dtype)
    for q, p in zip(Q, P, strict=True):
        state = diagonal_step(*state, q, p, Q.dtype.type(r))


def plain_oasis(Q, P, C=0.1):
    W = np.zeros((Q.shape[1], P.shape[1]), Q.dtype)
    for q, p in zip(Q, P, strict=True):
        W = oasis_step(W, q, p, Q.dtype.type(C))


def blas_factored(Q, P, threads, r=1.0):
    """f-AROMA in place by matrix-vector products and rank-one updates, symmetric halves only."""
    m, n = Q.shape[1], P.shape[1]
    W = np.zeros((n, m), Q.dtype, order="F")
    Lambda, Omega = (np.eye(d, dtype=Q.dtype, order="F") for d in (m, n))
    symv, gemv, ger, syr = get_blas_funcs(("symv", "gemv", "ger", "syr"), dtype=Q.dtype)
    with threadpool_limits(threads):
        for q, p in zip(Q, P, strict=True):
            left, right = symv(1.0, Lambda, q), symv(1.0, Omega, p)
            a, b = float(left @ q), float(right @ p)
            s = float(gemv(1.0, W, q) @ p)
            if s < 1.0:
                ger((1.0 - s) / (r + a * b), right, left, a=W, overwrite_x=0, overwrite_a=1)
                syr(-a / (m * r + a * b), right, a=Omega, overwrite_a=1)
                syr(-b / (n * r + a * b), left, a=Lambda, overwrite_a=1)


def gemms(n_triplets, m, dtype, block=128):
    """Matrix products with f-AROMA's flops, 12 m² a triplet: three that read, three that add."""
    A = np.zeros((m, m), dtype, order="F")
    rows = np.ones((m, block), dtype, order="F")
    out = np.zeros((m, block), dtype, order="F")
    gemm = get_blas_funcs("gemm", dtype=np.dtype(dtype))
    for _ in range(n_triplets // block):
        for _ in range(3):
            gemm(1.0, A, rows, c=out, overwrite_c=1)
            gemm(1.0, rows, out, trans_b=1, beta=1.0, c=A, overwrite_c=1)


@njit(cache=True, fastmath=True)
def stream_over(W, Sigma, passes):
    """Read and write W and Σ once a pass: the traffic of d-AROMA, with next to no arithmetic."""
    one = W.dtype.type(1)
    for _ in range(passes):
        for k in range(W.shape[0]):
            for l in range(W.shape[1]):
                W[k, l] += one
                Sigma[k, l] += one
