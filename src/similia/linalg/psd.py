"""Positive semidefinite matrices."""

import numpy as np
from scipy import linalg


def psd_factor(A):
    """Give L with LᵀL = A for a symmetric positive semidefinite A, largest directions first."""
    values, vectors = linalg.eigh(A)
    return (np.sqrt(np.maximum(values, 0.0)) * vectors).T[::-1]
