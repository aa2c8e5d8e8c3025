"""Matrices of trace one, W = exp(G)/tr exp(G), that move by changes of G.

For choosing a step before taking it, log tr exp has value, slope and curvature along a line G + tC.
With eigenvalues g and w of G and W, and C in the eigenvectors of G,

    d/dt log tr exp(G + tC) = tr(WC) = Σ w_a C_aa
    d²/dt² log tr exp(G + tC) = Σ_ab Φ_ab |C_ab|² - tr(WC)²,    Φ_ab = (w_a - w_b)/(g_a - g_b),

Φ_aa = w_a: the divided differences of the exponential function, all positive.
"""

import numpy as np
from scipy import linalg

from similia.linalg.eigen_update import (
    divided_difference,
    eigen_workspace,
    orthogonality_defect,
    orthogonalize,
    rank_one_gibbs_line,
    real_components,
    update_eigenpairs,
    weighted_sum,
)
from similia.linalg.spectral import gibbs_weights, log_trace_exp

__all__ = ["LOOK", "GibbsState", "divided_difference", "gibbs_line", "rank_one_gibbs_line"]

LOOK = 64  #: rank-one changes between two checks of the orthogonality of the eigenvectors
#: defect of orthogonality, for each eigenvector, from which they are made orthogonal again
WORN = 1e-13
NEGLIGIBLE = 1e-18  #: share of the largest eigenvalue of W below which another is not visible in it


def _eigenpairs(A):
    """Eigenvalues and eigenvectors; LAPACK's fastest way, which SciPy 1.13 refuses for one row."""
    return linalg.eigh(A, driver="evd" if len(A) > 1 else "ev", check_finite=False)


class GibbsState:
    """W = exp(G)/tr exp(G) for a symmetric or Hermitian G, by its logarithm's eigenpairs.

    `values` and `rows` are those of log W, in any order, and `log_trace` is log tr exp(G).
    """

    def __init__(self, G):
        self._set(G)
        self._work = None
        self._changes = 0

    def _set(self, G):
        kind = np.complex128 if np.iscomplexobj(G) else np.float64
        values, vectors = _eigenpairs(np.asarray(G, dtype=kind))
        self.values, self.rows = values, np.ascontiguousarray(vectors.T)
        self.log_trace = 0.0
        self._normalize()

    def _normalize(self):
        change = log_trace_exp(self.values)
        self.values -= change
        self.log_trace += change

    @property
    def largest(self):
        """Largest eigenvalue of G."""
        return float(self.values.max() + self.log_trace)

    def weights(self):
        """Eigenvalues of W."""
        return gibbs_weights(self.values)

    def factor(self):
        """B with W = Bᵀ conj(B): a row for each visible eigenvalue."""
        w = self.weights()
        shown = np.flatnonzero(w > NEGLIGIBLE * w.max())
        return np.sqrt(w[shown])[:, None] * self.rows[shown]

    def matrix(self):
        """W itself."""
        B = self.factor()
        return B.T @ B.conj()

    def log_matrix(self):
        """Logarithm of W."""
        return (self.values[:, None] * self.rows).T @ self.rows.conj()

    def workspace(self):
        """Memory for rank-one changes, allocated when first needed."""
        if self._work is None:
            self._work = eigen_workspace(self.rows.view(np.float64))
        return self._work

    def add_rank_one(self, z, rho):
        """Add ρzzᴴ to G."""
        components, work = real_components(self.rows, z), self.workspace()
        update_eigenpairs(self.values, self.rows.view(np.float64), components, rho, work)
        self.changed(1)
        self._normalize()

    def changed(self, count):
        """Count rank-one changes; every `LOOK`, make worn eigenvectors orthogonal again."""
        before = self._changes // LOOK
        self._changes += count
        due = self._changes // LOOK > before
        if due and orthogonality_defect(self.rows) > WORN * len(self.rows):
            orthogonalize(self.rows)

    def add_matrix(self, C, rho):
        """Add ρC to G, for a Hermitian C, by a new eigendecomposition."""
        before = self.log_trace
        self._set(self.log_matrix() + rho * C)
        self.log_trace += before

    def add_identity(self, shift):
        """Add a multiple of I to G, which leaves W as it is."""
        self.log_trace += shift

    def rank_one_line(self, z):
        """Function from t to value, slope and curvature of log tr exp(log W + tzzᴴ)."""
        components, work = np.abs(self.rows.conj() @ z), self.workspace()
        return lambda t: rank_one_gibbs_line(self.values, components, float(t), work)

    def matrix_line(self, C):
        """Function from t to value, slope and curvature of log tr exp(log W + tC)."""
        L = self.log_matrix()

        def line(t):
            values, vectors = _eigenpairs(L + t * C)
            return gibbs_line(values, vectors, C)

        return line


def gibbs_line(values, vectors, C):
    """Value, slope and curvature at t = 0 of log tr exp(G + tC), from the eigenpairs of G."""
    M = vectors.conj().T @ C @ vectors
    w = gibbs_weights(values)
    squares = np.ascontiguousarray(M.real**2 + M.imag**2 if np.iscomplexobj(M) else M**2)
    slope = float(w @ M.diagonal().real)
    return log_trace_exp(values), slope, weighted_sum(values, w, squares) - slope * slope
