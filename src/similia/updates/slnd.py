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
from similia.linalg.bound_by_numba import gemm
from similia.linalg.compiled import compiled
from similia.linalg.threads import processors, side_by_side
from similia.losses import loss_slope


def block_pass(Z, moment, U, H, signs, etas, times, code):
    """Teach all classes one block of rows, each in order; change Z and `moment`, overwrite H.

    Z (C, k) has a row for each class, U (B, k), dense or CSR, one for each sample. H (C, B) holds
    the scores w₀ᵀx, `signs` the labels, `etas` the steps (0: the class skips the sample), all
    (C, B). `moment`, unless empty, gathers Σ times·ΔZ.

    Scores within the block follow from the Gram matrix UUᵀ, so that Z is read and written once a
    block, by matrix products. Steps and their order are those of the one-at-a-time form.
    """
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


@compiled
def _learn_classes(Z, moment, U, G, H, signs, etas, times, code):
    gemm(False, Z, True, U, 1.0, H)
    _walk(H, G, signs, etas, code)
    gemm(False, H, False, U, 1.0, Z)
    if moment.size:
        for c in range(len(H)):
            for i in range(len(times)):
                H[c, i] *= times[i]
        gemm(False, H, False, U, 1.0, moment)


@compiled
def _walk(H, G, signs, etas, code):
    """Replace scores by the lengths of the steps along each u, in order."""
    for c in range(len(H)):
        h = H[c]
        for i in range(len(h)):
            if etas[c, i] == 0.0:
                h[i] = 0.0
                continue
            y = signs[c, i]
            h[i] = -etas[c, i] * y * loss_slope(code, y * h[i])
            for j in range(i + 1, len(h)):
                h[j] += h[i] * G[i, j]


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


@compiled
def theorem_pass(z, U, visits, h, signs, weights, steepest, epsilon, code):
    """Visit rows of U with the step for which Theorem 2 guarantees a decrease of the risk.

    With p_j = -F'(y_j h_j) over all rows, g = Σ_j p_j y_j u_j and the visited u,

        η = 2(1-ε) e/(F''(0) Π),   e = p y uᵀg,   Π = p² Σ_j (uᵀu_j)²              (23)

    so that z moves by 2(1-ε) (uᵀg)/(F''(0) Σ_j (uᵀu_j)²) u: p and y of the visited example cancel.
    Every step reads all of U, because e is about the risk on all examples, weighted by `weights`.
    `h` holds the scores of all rows and is kept up to date.

    The theorem assumes e > 0 at every visit (14). Where that fails, η would be negative, and the
    visit takes no step. Returns the number of steps taken.
    """
    steps = 0
    products = np.empty(len(U), z.dtype)
    for i in visits:
        u = U[i]
        gain, square = 0.0, 0.0
        for j in range(len(U)):
            product = z.dtype.type(0.0)
            for k in range(len(z)):
                product += u[k] * U[j, k]
            products[j] = product
            y = signs[j]
            gain -= weights[j] * y * loss_slope(code, y * h[j]) * product
            square += weights[j] * product * product
        e = -loss_slope(code, signs[i] * h[i]) * signs[i] * gain
        if not (square > 0.0 and e > 0.0):
            continue
        steps += 1
        step = z.dtype.type(2.0 * (1.0 - epsilon) * gain / (steepest * square))
        for k in range(len(z)):
            z[k] += step * u[k]
        for j in range(len(U)):
            h[j] += step * products[j]
    return steps
