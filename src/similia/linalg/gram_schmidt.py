"""Gram–Schmidt on vectors known only by their inner products.

Vectors φ_1 … φ_m with the Gram matrix K = FFᵀ, F lower triangular, have the orthonormal basis
Q = F⁻¹(φ_1 … φ_m). Any vector φ has the coordinates F⁻¹k in it, k_i = ⟨φ_i, φ⟩.
"""

import numpy as np
from scipy.linalg import solve_triangular

from similia.contract import Array


def coordinates(F, K):
    """Coordinates, as rows, of vectors with inner products K (vectors × basis)."""
    if not len(F):
        return np.zeros((len(K), 0))
    return solve_triangular(F, K.T, lower=True, check_finite=False).T


def grown_basis(F, K, squares, products, tol, room):
    """The factor F of a basis grown by vectors in turn, the vectors that joined, all coordinates.

    Of n vectors, K (n, m) are the inner products with the m of the basis, squares (n,) those with
    themselves, and products(some, others) those among each other, computed only where needed. A
    vector joins if its squared distance to the span exceeds `tol` times its own square, while there
    is room. Its coordinates are zero in the directions that join after it.
    """
    C = coordinates(F, K)
    left = squares - (C**2).sum(axis=1)
    candidates = np.flatnonzero(left > tol * squares) if room > 0 else np.arange(0)
    if not len(candidates):
        return F, candidates, C
    rest = products(candidates, candidates) - C[candidates] @ C[candidates].T
    columns: dict[int, Array] = {}
    for i, candidate in enumerate(candidates):
        if len(columns) < room and rest[i, i] > tol * squares[candidate]:
            columns[i] = rest[:, i] / np.sqrt(rest[i, i])
            rest -= np.outer(columns[i], columns[i])
    joined = list(columns)
    newcomers = candidates[joined]
    m, g = len(F), len(newcomers)
    grown = np.zeros((m + g, m + g))
    grown[:m, :m] = F
    grown[m:, :m] = C[newcomers]
    grown[m:, m:] = np.tril(np.array(list(columns.values())).T[joined])
    added = products(np.arange(len(K)), newcomers) - C @ C[newcomers].T
    added = coordinates(grown[m:, m:], added)
    added[np.arange(len(K))[:, None] < newcomers] = 0.0
    return grown, newcomers, np.hstack([C, added])
