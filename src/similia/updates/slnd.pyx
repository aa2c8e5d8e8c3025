"""SLND: stochastic steps against a fixed low-rank Hessian [BelHajAli2013].

With H* = P D⁻¹Pᵀ, P of shape (d, k), the printed step w -= η y F'(y wᵀx) H*x never leaves the span
of P. So with u = D^{-½}Pᵀx and w = w₀ + P D^{-½}z it is exactly

    z -= η y F'(y h) u,    h = w₀ᵀx + zᵀu,

in k numbers instead of d. The passes below know only u and h; with u = x they are plain SGD.
"""

from functools import partial

import numpy as np
from scipy import sparse

from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.threads import processors, side_by_side

from cython cimport floating
from similia.linalg.bound cimport multiply
from similia.linalg.clones cimport void_clones
from similia.loss_functions cimport loss_slope


def block_pass(Z, moment, U, H, signs, etas, times, code):
    """Teach all classes one block of rows, each in order; change Z and `moment`, overwrite H.

    Z (C, k) has a row for each class, U (B, k), dense or CSR, one for each sample. H (C, B) holds
    the scores w₀ᵀx, `signs` the labels, `etas` the steps (0: the class skips the sample), all
    (C, B). `moment`, unless empty, gathers Σ times·ΔZ.

    Scores within the block follow from the Gram matrix UUᵀ, so that Z is read and written once a
    block, by matrix products. Steps and their order are those of the one-at-a-time form.
    """
    signs, etas = np.asarray(signs, np.float64), np.asarray(etas, np.float64)
    times = np.asarray(times, np.float64)
    if sparse.issparse(U):
        _sparse_block_pass(Z, moment, U, H, signs, etas, times, code)
        return
    G = np.empty((len(U), len(U)), Z.dtype)
    gemm(False, U, True, U, 0.0, G)
    tasks = []
    for some in (slice(*ends) for ends in panels(len(Z), min(processors(), len(Z)))):
        given = (signs[some], etas[some], times, code)
        tasks.append(partial(_learn_classes, Z[some], moment[some], U, G, H[some], *given))
    side_by_side(tasks, Z.size * len(U))


def _learn_classes(
    floating[:, ::1] Z,
    floating[:, ::1] moment,
    const floating[:, ::1] U,
    const floating[:, ::1] G,
    floating[:, ::1] H,
    const double[:, :] signs,
    const double[:, :] etas,
    const double[:] times,
    int code,
):
    cdef Py_ssize_t c, i
    with nogil:
        multiply[floating](False, Z, True, U, 1.0, H)
        _walk_classes[floating](H, G, signs, etas, code)
        multiply[floating](False, H, False, U, 1.0, Z)
        if moment.shape[0] * moment.shape[1]:
            for c in range(H.shape[0]):
                for i in range(H.shape[1]):
                    H[c, i] *= <floating>times[i]
            multiply[floating](False, H, False, U, 1.0, moment)


def _walk(
    floating[:, ::1] H,
    const floating[:, ::1] G,
    const double[:, :] signs,
    const double[:, :] etas,
    int code,
):
    """Replace scores by the lengths of the steps along each u, in order."""
    with nogil:
        _walk_classes[floating](H, G, signs, etas, code)


cdef void_clones _walk_classes(
    floating[:, ::1] H,
    const floating[:, ::1] G,
    const double[:, :] signs,
    const double[:, :] etas,
    int code,
) noexcept nogil:
    cdef Py_ssize_t c, i, j
    cdef double y
    cdef floating step
    for c in range(H.shape[0]):
        for i in range(H.shape[1]):
            if etas[c, i] == 0.0:
                H[c, i] = 0
                continue
            y = signs[c, i]
            step = <floating>(-etas[c, i] * y * loss_slope(code, y * H[c, i]))
            H[c, i] = step
            for j in range(i + 1, H.shape[1]):
                H[c, j] += step * G[i, j]


def _sparse_block_pass(Z, moment, U, H, signs, etas, times, code):
    H += (U @ Z.T).T
    G = np.ascontiguousarray((U @ U.T).toarray())
    _walk(H, G, signs, etas, code)
    # Only columns that occur in the block are touched: d may be large.
    columns, places = np.unique(U.indices, return_inverse=True)
    rows = sparse.csr_array((U.data, places, U.indptr), shape=(U.shape[0], len(columns)))
    Z[:, columns] += (rows.T @ H.T).T
    if moment.size:
        moment[:, columns] += (rows.T @ (H * times).T).T


def theorem_pass(
    floating[::1] z,
    const floating[:, ::1] U,
    const Py_ssize_t[:] visits,
    floating[::1] h,
    signs,
    weights,
    double steepest,
    double epsilon,
    int code,
):
    """Visit rows of U with the step for which Theorem 2 guarantees a decrease of the risk.

    With p_j = -F'(y_j h_j) over all rows, g = Σ_j p_j y_j u_j and the visited u,

        η = 2(1-ε) e/(F''(0) Π),   e = p y uᵀg,   Π = p² Σ_j (uᵀu_j)²              (23)

    so that z moves by 2(1-ε) (uᵀg)/(F''(0) Σ_j (uᵀu_j)²) u: p and y of the visited example cancel.
    Every step reads all of U, because e is about the risk on all examples, weighted by `weights`.
    `h` holds the scores of all rows and is kept up to date.

    The theorem assumes e > 0 at every visit (14). Where that fails, η would be negative, and the
    visit takes no step. Returns the number of steps taken.
    """
    cdef const double[::1] y = np.ascontiguousarray(signs, np.float64)
    cdef const double[::1] weight = np.ascontiguousarray(weights, np.float64)
    cdef floating[::1] products = np.empty(U.shape[0], np.asarray(z).dtype)
    cdef Py_ssize_t t, i, j, k, steps = 0
    cdef double gain, square, e
    cdef floating step
    with nogil:
        for t in range(visits.shape[0]):
            i = visits[t]
            _multiply_row[floating](products, U, i)
            gain = square = 0.0
            for j in range(U.shape[0]):
                gain -= weight[j] * y[j] * loss_slope(code, y[j] * h[j]) * products[j]
                square += weight[j] * products[j] * products[j]
            e = -loss_slope(code, y[i] * h[i]) * y[i] * gain
            if not (square > 0.0 and e > 0.0):
                continue
            steps += 1
            step = <floating>(2.0 * (1.0 - epsilon) * gain / (steepest * square))
            for k in range(z.shape[0]):
                z[k] += step * U[i, k]
            for j in range(U.shape[0]):
                h[j] += step * products[j]
    return steps


cdef void_clones _multiply_row(
    floating[::1] products, const floating[:, ::1] U, Py_ssize_t i
) noexcept nogil:
    """Set the products of row i with all rows."""
    cdef Py_ssize_t j, k
    cdef floating product
    for j in range(U.shape[0]):
        product = 0
        for k in range(U.shape[1]):
            product += U[i, k] * U[j, k]
        products[j] = product
