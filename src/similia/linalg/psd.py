"""Positive semidefinite matrices."""

import numpy as np
from scipy import linalg


def psd_factor(A, rank=None):
    """Give L with LᵀL = A for a symmetric positive semidefinite A, largest directions first.

    With a rank L has so many rows (at most those of A), and LᵀL is the nearest to A of that rank.
    """
    n = len(A)
    kept = None if rank is None or rank >= n else [n - rank, n - 1]
    values, vectors = linalg.eigh(A, subset_by_index=kept)
    return (np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1]
