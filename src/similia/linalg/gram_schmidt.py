"""Gram–Schmidt on vectors of which only inner products are known.

Vectors φ_1 … φ_m with the Gram matrix K = FFᵀ, F lower triangular, have the orthonormal basis
Q = F⁻¹(φ_1 … φ_m); any other vector φ has in it the coordinates F⁻¹k, k_i = ⟨φ_i, φ⟩.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular


def coordinates(F, K):
    """Give the coordinates, as rows, of vectors with inner products K (vectors × basis)."""
    if not len(F):
        return np.zeros((len(K), 0))
    return solve_triangular(F, K.T, lower=True, check_finite=False).T


def grown_basis(
    F: Any,
    K: Any,
    squares: Any,
    products: Callable[[Any, Any], Any],
    tol: float,
    room: float,
) -> tuple[Any, Any, Any]:
    """Grow a basis by vectors that come one after the other; give F, the newcomers, coordinates.

    A vector joins if the square of what the basis leaves of it exceeds `tol` times its own square,
    while there is room. Coordinates are those at the time of coming: a vector knows nothing of the
    directions that joined after it.

    Parameters
    ----------
    F : array of shape (m, m)
        The triangular factor so far.
    K : array of shape (n, m)
        Inner products of the n vectors with those of the basis.
    squares : array of shape (n,)
        Their inner products with themselves.
    products : function (some, others) -> array of shape (len(some), len(others))
        Gives further inner products among the n vectors, which are asked for where needed.
    tol, room : float
    """
    C = coordinates(F, K)
    left = squares - (C**2).sum(axis=1)
    candidates = np.flatnonzero(left > tol * squares) if room > 0 else np.arange(0)
    if not len(candidates):
        return F, candidates, C
    rest = products(candidates, candidates) - C[candidates] @ C[candidates].T
    joined: list[int] = []
    columns: list[Any] = []
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
