"""SLND: stochastic steps against a fixed low-rank Hessian [BelHajAli2013].

With H* = P D⁻¹Pᵀ, P of shape (d, k), the printed step w -= η y F'(y wᵀx) H*x never leaves the span
of P. So for u = D^{-½}Pᵀx and w = w₀ + P D^{-½}z it is exactly

    z -= η y F'(y h) u,    h = w₀ᵀx + zᵀu,

k numbers a sample and not d. The passes below know u and h only; with u = x they are plain SGD.
"""

from functools import partial

import numpy as np
from scipy import sparse

from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.compiled import compiled
from similia.linalg.prefetch import prefetch_row
from similia.linalg.threads import processors, side_by_side
from similia.losses import loss_slope

CONSTANT, LINEAR, SQRT, INVERSE = range(4)

#: visits before its own at which a row is asked for
AHEAD = 2


def block_pass(Z, moment, U, H, signs, etas, times, code):
    """Teach all classes one block of rows, each in order; change Z and `moment`, spoil H.

    Z (C, k) has one row a class, U (B, k) one a sample, dense or CSR. H (C, B) holds the scores
    w₀ᵀx, `signs` the labels, `etas` the steps (0: the class skips the sample), all (C, B). `moment`
    gathers Σ times·ΔZ if it has a size.

    Scores within the block follow from the Gram matrix UUᵀ, so that Z is read and written once a
    block, by matrix products; the steps and their order are those of the one-at-a-time form.
    """
    if sparse.issparse(U):
        return _sparse_block_pass(Z, moment, U, H, signs, etas, times, code)
    G = np.empty((len(U), len(U)), Z.dtype)
    gemm(False, U, True, U, 0.0, G)
    work = Z.size * len(U)
    tasks = []
    for start, stop in panels(len(Z), min(processors(), len(Z))):
        some = slice(start, stop)
        part = moment[some] if moment.size else moment
        tasks.append(
            partial(
                _learn_classes, Z[some], part, U, G, H[some], signs[some], etas[some], times, code
            )
        )
    side_by_side(tasks, work)
    return None


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
    # Only columns that the block has are touched: d may be large.
    columns, places = np.unique(U.indices, return_inverse=True)
    rows = sparse.csr_array((U.data, places, U.indptr), shape=(U.shape[0], len(columns)))
    Z[:, columns] += (rows.T @ H.T).T
    if moment.size:
        moment[:, columns] += (rows.T @ (H * times).T).T


@compiled
def shrunk(kind, t, total, horizon):
    """Give the factor of the step at time t: see `linear.schedules`."""
    if kind == LINEAR:
        return max(1.0 - t / total, 0.0)
    if kind == SQRT:
        return 1.0 / np.sqrt(1.0 + t / horizon)
    if kind == INVERSE:
        return 1.0 / (1.0 + t / horizon)
    return 1.0


@compiled
def class_pass(z, moment, U, visits, weights, norms2, steps, clock, code):
    """Teach one class rows of U, in order: 4k operations a visit, each row read once from memory.

    A visit i >= 0 is a positive example, row i; otherwise a negative one, row ~i. Steps are
    η·shrunk·weight, at most 1/(F''(0)|u|²), with steps = (kind, η, total, horizon, F''(0)); no
    weights or no `norms2` stand for ones and for no bound. clock = (t, seen, tick): the schedule's
    time and the moment's, and what a visit adds to them.
    """
    kind, eta, total, horizon, steepest = steps
    t, seen, tick = clock
    real = z.dtype.type
    for i in range(len(visits)):
        if i + AHEAD < len(visits):
            later = visits[i + AHEAD]
            prefetch_row(U, later if later >= 0 else ~later)
        y = real(1.0) if visits[i] >= 0 else real(-1.0)
        row = visits[i] if visits[i] >= 0 else ~visits[i]
        u = U[row]
        score = real(0.0)
        for k in range(len(z)):
            score += z[k] * u[k]
        length = eta * shrunk(kind, t + i * tick, total, horizon)
        if weights.size:
            length *= weights[row]
        if norms2.size:
            length = min(length, 1.0 / max(steepest * norms2[row], 1e-30))
        step = real(-length * y * loss_slope(code, y * score))
        for k in range(len(z)):
            z[k] += step * u[k]
        if moment.size:
            time = real(seen + (i + 1) * tick)
            for k in range(len(z)):
                moment[k] += time * (step * u[k])


@compiled
def balanced_visits(order, codes, j, ours, seed):
    """Give all examples `ours` of class j and as many others, in random order, coded for a pass.

    Others are the next ones of another class in `order`, a random order of all, from a random place
    on: a uniform choice without repetition, at the cost of what is chosen. `seed` is mixed for
    every number (SplitMix64).
    """
    n = len(order)
    count = min(len(ours), n - len(ours))
    visits = np.empty(len(ours) + count, np.int64)
    visits[: len(ours)] = ours
    state = np.uint64(seed)
    state, number = _random(state)
    start, passed = np.int64(number % np.uint64(max(n, 1))), 0
    for i in range(len(ours), len(visits)):
        while codes[order[(start + passed) % n]] == j:
            passed += 1
        visits[i] = ~order[(start + passed) % n]
        passed += 1
    for i in range(len(visits) - 1, 0, -1):
        state, number = _random(state)
        other = np.int64(number % np.uint64(i + 1))
        visits[i], visits[other] = visits[other], visits[i]
    return visits


@compiled
def _random(state):
    state = state + np.uint64(0x9E3779B97F4A7C15)
    x = state
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state, x ^ (x >> np.uint64(31))


@compiled
def theorem_pass(z, U, visits, h, signs, weights, steepest, epsilon, code):
    """Visit rows of U with the step under which Theorem 2 promises a decrease of the risk.

    With p_j = -F'(y_j h_j) over all rows, g = Σ_j p_j y_j u_j and the visited u,

        η = 2(1-ε) e/(F''(0) Π),   e = p y uᵀg,   Π = p² Σ_j (uᵀu_j)²              (23)

    so that z moves by 2(1-ε) (uᵀg)/(F''(0) Σ_j (uᵀu_j)²) u: p and y of the visited example cancel.
    Every step reads all of U, as e speaks of the risk on all examples; `weights` weigh them.
    `h` holds the scores of all rows; it is kept up to date. Returns nothing.
    """
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
        if not square > 0.0:
            continue
        step = z.dtype.type(2.0 * (1.0 - epsilon) * gain / (steepest * square))
        for k in range(len(z)):
            z[k] += step * u[k]
        for j in range(len(U)):
            h[j] += step * products[j]
