"""Matrices of low rank as BᵀKC, with few rows B and C and a small core K."""

import numpy as np


def compressed(B, C, cores, keep):
    """Give fewer rows B′, C′ and cores K′ with B′ᵀK′C′ ≈ BᵀKC for each K of `cores`.

    The rows of B′ and C′ are orthonormal and span the directions that carry most of all the
    matrices together. If those need no more than len(B) - 1 directions on either side, nothing is
    lost but rounding; else the `keep` strongest ones remain, the best choice for one matrix alone
    (Eckart and Young).
    """
    left, R = np.linalg.qr(B.T.astype(np.float64))
    right, S = np.linalg.qr(C.T.astype(np.float64))
    middles = [R @ K @ S.T for K in cores]
    U, u_values, _ = np.linalg.svd(np.hstack(middles), full_matrices=False)
    _, v_values, Vt = np.linalg.svd(np.vstack(middles), full_matrices=False)
    resolution = np.finfo(B.dtype).eps * len(B)
    needed = max(int(np.count_nonzero(s > resolution * s[0])) for s in (u_values, v_values))
    size = max(1, needed if needed < len(B) else keep)
    U, V = U[:, :size], Vt[:size].T
    kept = [(U.T @ M @ V).astype(B.dtype) for M in middles]
    return (left @ U).T.astype(B.dtype), (right @ V).T.astype(B.dtype), kept
