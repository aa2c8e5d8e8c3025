"""Matrices of trace one, W = exp(G)/tr exp(G), that move by changes of G.

For choosing a step before taking it, log tr exp has value, slope and curvature along a line G + tC.
With eigenvalues g and w of G and W, and C in the eigenvectors of G,

    d/dt log tr exp(G + tC) = tr(WC) = Σ w_a C_aa
    d²/dt² log tr exp(G + tC) = Σ_ab Φ_ab |C_ab|² - tr(WC)²,    Φ_ab = (w_a - w_b)/(g_a - g_b),

Φ_aa = w_a: the divided differences of the exponential function, all positive.
"""

import numpy as np
from scipy import linalg

from similia.linalg.compiled import compiled
from similia.linalg.eigen_update import (
    eigen_workspace,
    orthogonality_defect,
    orthogonalize,
    real_components,
    update_eigenpairs,
)
from similia.linalg.secular import deflate, secular_roots
from similia.linalg.spectral import gibbs_weights, log_trace_exp

LOOK = 64  #: rank-one changes between two checks of the orthogonality of the eigenvectors
#: defect of orthogonality, for each eigenvector, from which they are made orthogonal again
WORN = 1e-13
NEGLIGIBLE = 1e-18  #: share of the largest eigenvalue of W below which another is not visible in it
APART = 0.5  #: gap of logarithms above which the difference of their exponentials is accurate


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

    def quadratic_form(self, z):
        """zᴴWz, in O(n²)."""
        return float(self.weights() @ np.abs(self.rows.conj() @ z) ** 2)

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


@compiled
def divided_difference(g, w, h, v):
    """(w - v)/(g - h) for w = exp(g), v = exp(h), also where they agree."""
    gap = abs(g - h)
    if gap > APART:
        return (w - v) / (g - h)
    larger = max(w, v)
    return larger if gap == 0.0 else larger * (-np.expm1(-gap) / gap)


def gibbs_line(values, vectors, C):
    """Value, slope and curvature at t = 0 of log tr exp(G + tC), from the eigenpairs of G."""
    M = vectors.conj().T @ C @ vectors
    w = gibbs_weights(values)
    squares = np.ascontiguousarray(M.real**2 + M.imag**2 if np.iscomplexobj(M) else M**2)
    slope = float(w @ M.diagonal().real)
    return log_trace_exp(values), slope, _weighted_sum(values, w, squares) - slope * slope


@compiled
def _weighted_sum(values, w, squares):
    total = 0.0
    for a in range(len(values)):
        total += w[a] * squares[a, a]
        for b in range(a):
            phi = divided_difference(values[a], w[a], values[b], w[b])
            total += 2.0 * phi * squares[a, b]
    return total


@compiled
def rank_one_gibbs_line(values, z, rho, work):
    """Value, slope and curvature of log tr exp(diag(values) + tzzᵀ) at t = ρ, in O(n²).

    Components of z that are tiny beside ρ count as zero: ρ must change the values visibly, or be 0.
    """
    n = len(values)
    g, length2 = values.copy(), 0.0
    for i in range(n):
        length2 += z[i] * z[i]
    # In the eigenvectors after the change, zzᵀ has entries whose squares are parts_a parts_b.
    parts = np.zeros(n)
    places, poles, weights = work.places, work.poles, work.weights
    k, scale, strength = deflate(g, np.empty((0, 0)), z, rho, places, poles, weights)
    if k == 0:
        for i in range(n):
            parts[i] = z[i] * z[i]
    turn = work.turn[: k * k].reshape((k, k))
    first = np.intp(0)  # a literal 0 would be a type of its own, and compile all twice
    secular_roots(first, k, poles[:k], weights[:k], strength, work.roots, turn)
    for j in range(k):
        total = 0.0
        for i in range(k):
            # With at most two poles `turn` holds eigenvectors, else differences of pole and root.
            total += weights[i] * turn[j, i] if k <= 2 else (weights[i] / turn[j, i]) ** 2
        part = total * total if k <= 2 else 1.0 / (strength * strength * total)
        g[places[j]] = scale * work.roots[j]
        parts[places[j]] = length2 * part
    top = np.max(g)
    w = np.exp(g - top)
    total = np.sum(w)
    w /= total
    slope, curvature = 0.0, 0.0
    for a in range(n):
        if parts[a] == 0.0:
            continue
        slope += w[a] * parts[a]
        curvature += w[a] * parts[a] * parts[a]
        for b in range(a):
            if parts[b] > 0.0:
                phi = divided_difference(g[a], w[a], g[b], w[b])
                curvature += 2.0 * phi * parts[a] * parts[b]
    return top + np.log(total), slope, curvature - slope * slope
