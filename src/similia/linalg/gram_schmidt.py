"""Gram–Schmidt on vectors known only by their inner products.

Vectors φ_1 … φ_m with the Gram matrix K = FFᵀ, F lower triangular, have the orthonormal basis
Q = F⁻¹(φ_1 … φ_m). Any vector φ has the coordinates F⁻¹k in it, k_i = ⟨φ_i, φ⟩.
"""

from collections.abc import Callable

import numpy as np
from scipy.linalg import solve_triangular

from similia.contract import Array, Indices


def coordinates(F, K):
    """Coordinates, as rows, of vectors with inner products K (vectors × basis)."""
    if not len(F):
        return np.zeros((len(K), 0))
    return solve_triangular(F, K.T, lower=True, check_finite=False).T


def grown_basis(
    F: Array,
    K: Array,
    squares: Array,
    products: Callable[[Indices, Indices], Array],
    tol: float,
    room: float,
) -> tuple[Array, Indices, Array]:
    """The factor F of a basis grown by vectors in turn, the vectors that joined, all coordinates.

    A vector joins if its squared distance to the span exceeds `tol` times its own square, while
    there is room. Its coordinates are zero in the directions that join after it.

    Parameters
    ----------
    F : array of shape (m, m)
        Triangular factor of the basis so far.
    K : array of shape (n, m)
        Inner products of the n vectors with those of the basis.
    squares : array of shape (n,)
        Their inner products with themselves.
    products : function (some, others) -> array of shape (len(some), len(others))
        Inner products among the n vectors, computed only where needed.
    tol, room : float
    """
    C = coordinates(F, K)
    left = squares - (C**2).sum(axis=1)
    candidates = np.flatnonzero(left > tol * squares) if room > 0 else np.arange(0)
    if not len(candidates):
        return F, candidates, C
    rest = products(candidates, candidates) - C[candidates] @ C[candidates].T
    joined: list[int] = []
    columns: list[Array] = []
    for i, candidate in enumerate(candidates):
        if len(joined) < room and rest[i, i] > tol * squares[candidate]:
            column = rest[:, i] / np.sqrt(rest[i, i])
            rest -= np.outer(column, column)
            joined.append(i)
            columns.append(column)
    newcomers = candidates[joined]
    m, g = len(F), len(newcomers)
    grown = np.zeros((m + g, m + g))
    grown[:m, :m] = F
    grown[m:, :m] = C[newcomers]
    grown[m:, m:] = np.tril(np.array(columns).T[joined])
    added = products(np.arange(len(K)), newcomers) - C @ C[newcomers].T
    added = coordinates(grown[m:, m:], added)
    added[np.arange(len(K))[:, None] < newcomers] = 0.0
    return grown, newcomers, np.hstack([C, added])
