"""Matrices of trace one, W = exp(G)/tr exp(G), that move by changes of G."""

import numpy as np
from scipy import linalg

from similia.linalg.eigen_update import eigen_workspace, real_components, update_eigenpairs
from similia.linalg.gibbs_line import gibbs_line, rank_one_gibbs_line
from similia.linalg.orthogonality import orthogonality_defect, orthogonalize
from similia.linalg.spectral import gibbs_weights, log_trace_exp

#: rank-one changes between two looks at the orthogonality of the eigenvectors
LOOK = 64
#: departure from orthogonality, for each eigenvector, at which they are put right
WORN = 1e-13
#: share of the largest eigenvalue below which another one does not show in W
NEGLIGIBLE = 1e-18


class GibbsState:
    """W = exp(G)/tr exp(G) for a Hermitian G, kept by the eigenpairs of log W = G - log_trace I.

    Parameters
    ----------
    G : symmetric or Hermitian array of shape (n, n)

    Attributes
    ----------
    values : array of shape (n,)
        Eigenvalues of log W, in any order.
    rows : array of shape (n, n)
        Their eigenvectors, as rows.
    log_trace : float
        log tr exp(G).
    """

    def __init__(self, G):
        self._set(G)
        self._work = None
        self._changes = 0

    def _set(self, G):
        kind = np.complex128 if np.iscomplexobj(G) else np.float64
        values, vectors = linalg.eigh(np.asarray(G, dtype=kind), driver="evd", check_finite=False)
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
        """B with W = Bᵀ conj(B), with a row for each eigenvalue of W that shows in it."""
        w = self.weights()
        shown = np.flatnonzero(w > NEGLIGIBLE * w.max())
        return np.sqrt(w[shown])[:, None] * self.rows[shown]

    def matrix(self):
        """W itself."""
        B = self.factor()
        return B.T @ B.conj()

    def log_matrix(self):
        """Give log W."""
        scaled = self.values[:, None] * self.rows
        return scaled.T @ self.rows.conj()

    def quadratic_form(self, z):
        """zᴴWz, in O(n²)."""
        components = self.rows.conj() @ z
        return float(self.weights() @ np.abs(components) ** 2)

    def workspace(self):
        """Give the memory for rank-one changes, made when first needed."""
        if self._work is None:
            self._work = eigen_workspace(self.rows.view(np.float64))
        return self._work

    # -- changes of G --------------------------------------------------------------------------

    def add_rank_one(self, z, rho):
        """Add ρzzᴴ to G."""
        components, work = real_components(self.rows, z), self.workspace()
        update_eigenpairs(self.values, self.rows.view(np.float64), components, rho, work)
        self.changed(1)
        self._normalize()

    def changed(self, count):
        """Count rank-one changes; now and then, put the eigenvectors right."""
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

    # -- looking before stepping ---------------------------------------------------------------

    def rank_one_line(self, z):
        """Give the function t -> value, slope, curvature of log tr exp(log W + tzzᴴ)."""
        components, work = np.abs(self.rows.conj() @ z), self.workspace()
        return lambda t: rank_one_gibbs_line(self.values, components, float(t), work)

    def matrix_line(self, C):
        """Give the function t -> value, slope, curvature of log tr exp(log W + tC)."""
        L = self.log_matrix()

        def line(t):
            values, vectors = linalg.eigh(L + t * C, driver="evd", check_finite=False)
            return gibbs_line(values, vectors, C)

        return line
