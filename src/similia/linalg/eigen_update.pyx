"""Eigendecompositions that follow a rank-one change of their matrix.

From G = Q diag(values) Qᴴ that of G + ρxxᴴ takes O(n²), except for one matrix product that turns
the eigenvectors, and only those that change at all (`linalg.secular`).

Eigenvectors are *rows* of real numbers, in any order, changed in place: rows that stay need not
move, and a complex row is a real one of twice the length, because the matrix that turns it is real.
"""

from collections import namedtuple
from functools import partial

import numpy as np
from scipy import linalg

from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.cauchy import turn_rows
from similia.linalg.secular import deflate, exact_weights, secular_roots, secular_vectors
from similia.linalg.threads import processors, side_by_side

from libc.math cimport exp, expm1, fabs, log
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dgemm
from similia.linalg.secular cimport deflated, set_roots, set_vectors, set_weights

SHARED = 256  #: eigenpairs from which on the work is shared out among processors
COMPRESSED = 384  #: eigenpairs from which on the structure of the matrix that turns them pays
FAR = 0.5  #: defect of orthogonality from which Newton's iteration may fail to converge
ROUNDING = 4.0 * np.finfo(np.float64).eps  #: defect, for each of n rows, that no iteration improves
NEWTON = 10  #: Newton's iterations; each squares the defect, so from FAR seven reach rounding

cdef double APART = 0.5  # gap of logarithms above which the difference of exponentials is accurate

EigenWorkspace = namedtuple("EigenWorkspace", "places poles weights exact roots turn before after")


def eigen_workspace(rows):
    """Reusable memory for `eigen_step` on such rows: about three times theirs."""
    n, m = rows.shape
    poles, weights, exact, roots = np.empty((4, n))
    # Flat, so that the leading part of any size is contiguous.
    turn, before, after = np.empty(n * n), np.empty(n * m), np.empty(n * m)
    return EigenWorkspace(np.empty(n, np.intp), poles, weights, exact, roots, turn, before, after)


def real_components(rows, x):
    """Components of x in the rows, which are turned in place, if complex, to make them real."""
    if rows.dtype.kind != "c":
        return rows @ x
    components = rows.conj() @ x
    z = np.abs(components)
    np.divide(components, z, out=components, where=z > 0.0)
    rows *= np.where(z > 0.0, components, 1.0)[:, None]
    return z


def update_eigenpairs(values, rows, z, rho, work):
    """Change eigenpairs to those of the matrix with ρxxᴴ added; return how many changed.

    `values` (n), `rows` (n × n, or n × 2n for complex ones: ``rows.view(float)``) and real `z`, the
    components of x in the rows, are float64 and C-ordered. Large problems use all processors.
    """
    if len(values) < SHARED:
        return eigen_step(values, rows, z, rho, work)
    n, m = rows.shape
    parts = work.places, work.poles, work.weights
    k, scale, strength = deflate(values, rows, z, rho, *parts)
    poles, weights, exact = work.poles[:k], work.weights[:k], work.exact[:k]
    turn, before = work.turn[: k * k].reshape(k, k), work.before[: k * m].reshape(k, m)
    after = rows if k == n else work.after[: k * m].reshape(k, m)
    np.take(rows, work.places[:k], axis=0, out=before)
    parts = list(panels(k, processors() if k >= SHARED else 1))

    def shared(stage, *arguments):
        side_by_side([partial(stage, *part, *arguments) for part in parts])

    shared(secular_roots, poles, weights, strength, work.roots, turn)
    if k > 2:
        shared(exact_weights, poles, weights, turn, exact)
        shared(secular_vectors, exact, turn)
    if k >= COMPRESSED:
        turn_rows(turn, before, after)
    else:
        shared(_multiply, turn, before, after)
    if k == n:  # rows are in place, and order is free
        values[:] = scale * work.roots[:k]
    else:
        values[work.places[:k]], rows[work.places[:k]] = scale * work.roots[:k], after
    return k


def _multiply(start, stop, turn, before, after):
    """Set rows start … stop-1 of `after` to those of turn @ before."""
    gemm(False, turn[start:stop], False, before, 0.0, after[start:stop])


def eigen_step(values, rows, z, double rho, work):
    """`update_eigenpairs` on one processor."""
    return _eigen_step(values, rows, z, rho, Work(work))


def _eigen_step(
    double[::1] values, double[:, ::1] rows, const double[::1] z, double rho, Work work
):
    cdef Py_ssize_t k
    with nogil:
        k = step_eigenpairs(values, rows, z, rho, work)
    return k


cdef class Work:
    """An `EigenWorkspace` for compiled code."""

    def __cinit__(self, arrays):
        self.places, self.poles, self.weights, self.exact = arrays[:4]
        self.roots, self.turn, self.before, self.after = arrays[4:]


cdef Py_ssize_t step_eigenpairs(
    double[::1] values, double[:, ::1] rows, const double[::1] z, double rho, Work work
) noexcept nogil:
    cdef Py_ssize_t n = rows.shape[0], m = rows.shape[1], i, j, k
    cdef double scale = 1.0, strength = 0.0
    cdef double* turn
    cdef double* after
    if n == 0:
        return 0
    k = deflated(
        &values[0], n, &rows[0, 0], m, &z[0], rho, work.places, work.poles, work.weights, &scale,
        &strength,
    )
    if k == 0:
        return 0
    turn, after = &work.turn[0], &rows[0, 0] if k == n else &work.after[0]
    for j in range(k):
        memcpy(&work.before[j * m], &rows[work.places[j], 0], m * sizeof(double))
    set_roots(0, k, k, &work.poles[0], &work.weights[0], strength, &work.roots[0], turn)
    if k > 2:
        set_weights(0, k, k, &work.poles[0], &work.weights[0], turn, &work.exact[0])
        set_vectors(0, k, k, &work.exact[0], turn)
    _multiply_rows(k, m, turn, &work.before[0], after)
    for j in range(k):
        if k == n:  # rows are in place, and order is free
            values[j] = scale * work.roots[j]
        else:
            i = work.places[j]
            values[i] = scale * work.roots[j]
            memcpy(&rows[i, 0], &after[j * m], m * sizeof(double))
    return k


cdef void _multiply_rows(
    Py_ssize_t k, Py_ssize_t m, double* turn, double* before, double* after
) noexcept nogil:
    """Set `after` (k, m) to turn @ before."""
    cdef char plain = b"N"
    cdef int inner = <int>k, columns = <int>m
    cdef double one = 1.0, zero = 0.0
    dgemm(
        &plain, &plain, &columns, &inner, &inner, &one, before, &columns, turn, &inner, &zero,
        after, &columns,
    )


def orthogonality_defect(rows):
    """Estimate of |RRᴴ - I|_F for a square R, by two products with a vector of signs.

    Its square has the right expectation over random signs; a fixed choice makes it repeatable.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=len(rows))
    return float(np.linalg.norm(rows @ (rows.conj().T @ signs) - signs))


def orthogonalize(rows):
    """Replace R by the orthonormal rows nearest to it; return the estimated defect before.

    Newton-Schulz, R <- R + (I - RRᴴ)R/2, converges to the polar factor, argmin |R - U|_F over
    unitary U, from an R close to it. Rows far off are first replaced by those of a QR
    factorization: orthonormal, in the same order and directions.
    """
    first = orthogonality_defect(rows)
    if not first < FAR:
        Q, R = linalg.qr(rows.T)
        signs = np.diagonal(R) / np.maximum(np.abs(np.diagonal(R)), np.finfo(np.float64).tiny)
        rows[:] = (Q * np.where(np.abs(signs) > 0.0, signs, 1.0)).T
    for _ in range(NEWTON):
        if orthogonality_defect(rows) <= ROUNDING * len(rows):
            break
        error = -(rows @ rows.conj().T)
        error[np.diag_indices_from(error)] += 1.0
        rows += 0.5 * (error @ rows)
    return first


# -- sums over pairs of eigenvalues; see `linalg.gibbs` ----------------------------------------------


def divided_difference(double g, double w, double h, double v):
    """(w - v)/(g - h) for w = exp(g), v = exp(h), also where they agree."""
    return _divided(g, w, h, v)


cdef inline double _divided(double g, double w, double h, double v) noexcept nogil:
    cdef double gap = fabs(g - h), larger
    if gap > APART:
        return (w - v) / (g - h)
    larger = max(w, v)
    return larger if gap == 0.0 else larger * (-expm1(-gap) / gap)


def weighted_sum(const double[::1] values, const double[::1] w, const double[:, ::1] squares):
    """Σ_ab Φ_ab squares_ab."""
    cdef Py_ssize_t a, b
    cdef double total = 0.0
    with nogil:
        for a in range(values.shape[0]):
            total += w[a] * squares[a, a]
            for b in range(a):
                total += 2.0 * _divided(values[a], w[a], values[b], w[b]) * squares[a, b]
    return total


def rank_one_gibbs_line(const double[::1] values, const double[::1] z, double rho, work):
    """Value, slope and curvature of log tr exp(diag(values) + tzzᵀ) at t = ρ, in O(n²).

    Components of z that are tiny beside ρ count as zero: ρ must change the values visibly, or be 0.
    """
    cdef double[3] line
    cdef Work memory = Work(work)
    with nogil:
        set_gibbs_line(values, z, rho, memory, line)
    return line[0], line[1], line[2]


cdef void set_gibbs_line(
    const double[::1] values, const double[::1] z, double rho, Work work, double* line
) noexcept nogil:
    """Set `line` to value, slope and curvature."""
    cdef Py_ssize_t n = values.shape[0], i, j, k, a, b
    cdef double length2 = 0.0, scale = 1.0, strength = 0.0, total, top, slope, curvature, phi
    cdef double* g = <double*>malloc(3 * n * sizeof(double))
    # In the eigenvectors after the change, zzᵀ has entries whose squares are parts_a parts_b.
    cdef double* parts = g + n
    cdef double* w = g + 2 * n
    cdef double* turn = &work.turn[0]
    for i in range(n):
        g[i], parts[i] = values[i], 0.0
        length2 += z[i] * z[i]
    k = deflated(
        g, n, NULL, 0, &z[0], rho, work.places, work.poles, work.weights, &scale, &strength
    )
    if k == 0:
        for i in range(n):
            parts[i] = z[i] * z[i]
    else:
        set_roots(0, k, k, &work.poles[0], &work.weights[0], strength, &work.roots[0], turn)
    for j in range(k):
        total = 0.0
        for i in range(k):
            # With at most two poles `turn` holds eigenvectors, else differences of pole and root.
            if k <= 2:
                total += work.weights[i] * turn[j * k + i]
            else:
                total += (work.weights[i] / turn[j * k + i]) * (work.weights[i] / turn[j * k + i])
        g[work.places[j]] = scale * work.roots[j]
        parts[work.places[j]] = length2 * (
            total * total if k <= 2 else 1.0 / (strength * strength * total)
        )
    top = g[0]
    for i in range(n):
        top = max(top, g[i])
    total = 0.0
    for i in range(n):
        w[i] = exp(g[i] - top)
        total += w[i]
    slope = curvature = 0.0
    for a in range(n):
        w[a] /= total
        if parts[a] == 0.0:
            continue
        slope += w[a] * parts[a]
        curvature += w[a] * parts[a] * parts[a]
        for b in range(a):
            if parts[b] > 0.0:
                phi = _divided(g[a], w[a], g[b], w[b])
                curvature += 2.0 * phi * parts[a] * parts[b]
    line[0], line[1], line[2] = top + log(total), slope, curvature - slope * slope
    free(g)
