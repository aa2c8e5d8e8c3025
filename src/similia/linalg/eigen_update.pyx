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

from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dgemm
from similia.linalg.secular cimport deflated, set_roots, set_vectors, set_weights

SHARED = 256  #: eigenpairs from which on the work is shared out among processors
COMPRESSED = 384  #: eigenpairs from which on the structure of the matrix that turns them pays
FAR = 0.5  #: defect of orthogonality from which Newton's iteration may fail to converge
ROUNDING = 4.0 * np.finfo(np.float64).eps  #: defect, for each of n rows, that no iteration improves
NEWTON = 10  #: Newton's iterations; each squares the defect, so from FAR seven reach rounding

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
