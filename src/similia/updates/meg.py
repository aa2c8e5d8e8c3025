"""MEG: matrix exponentiated gradient steps on a positive definite matrix [Tsuda2005].

The state is the eigendecomposition of G = log W: `values`, and eigenvectors as `rows` of real
numbers (complex ones as pairs, so of twice the length). W itself is formed only when asked for.
"""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from similia.linalg.bound import gemm
from similia.linalg.compiled import compiled
from similia.linalg.eigen_update import SHARED, eigen_step, eigen_workspace, update_eigenpairs

#: weights below this part of the largest do not reach the last digit of a sum
NEGLIGIBLE = 1e-18


class MEGSetting(NamedTuple):
    """How long steps are, and what the trace of the matrix is; see `step_size`."""

    rate: float
    relative: bool
    trace: float
    normalized: bool


def meg_pass(values, rows, total, Z, targets, setting):
    """Learn a block of rank-one instances; give the number of updates, the loss, the largest ρ.

    For an instance X = xxᴴ, x a row of Z (dense or CSR), predicted as ŷ = s tr(WX), s the trace:

        G <- G - 2η(ŷ - y) s xxᴴ,    W = exp(G)/tr exp(G) if normalised (3.5), else exp(G) (3.4)

    `targets` has two columns, the lowest and the highest value that needs no step; y is the nearer
    one. `total` gathers the sum of the W after each instance, as products of rows; nothing if
    it is empty. Cost of a step: O(d²) and the product that turns those eigenvectors that change.
    """
    block = _block(Z, len(values), rows.shape[1])
    work, memory = eigen_workspace(rows), np.empty((2, len(values)))
    if len(values) < SHARED:
        return _walk(values, rows, total, block, targets, setting, work, memory)
    updates, loss, largest, held = 0, 0.0, 0.0, 0
    for t in range(len(targets)):
        rho, lost, spread = _judged(values, rows, block, t, targets, setting, memory)
        loss, largest = loss + lost, max(largest, spread)
        if rho != 0.0:
            if held and total.size:
                add_products(rows, memory, held, total, work)
            update_eigenpairs(values, rows, memory[0], rho, work)
            held, updates = 0, updates + 1
            recenter(values, setting)
        held += 1
    if held and total.size:
        matrix_weights(values, setting, memory)
        add_products(rows, memory, held, total, work)
    return updates, loss, largest


def _block(Z, n, m):
    """Give real rows: (dense, pointers, columns, entries), the first or all others empty."""
    kind = np.complex128 if m > n else np.float64
    if sparse.issparse(Z):
        entries = np.ascontiguousarray(Z.data, kind).view(np.float64).reshape(-1, m // n)
        return np.empty((0, 0)), Z.indptr.astype(np.intp), Z.indices.astype(np.intp), entries
    empty = np.empty(0, np.intp)
    return np.ascontiguousarray(Z, kind).view(np.float64), empty, empty, np.empty((0, m // n))


@compiled
def _walk(values, rows, total, block, targets, setting, work, memory):
    updates, loss, largest, held = 0, 0.0, 0.0, 0
    for t in range(len(targets)):
        rho, lost, spread = _judged(values, rows, block, t, targets, setting, memory)
        loss, largest = loss + lost, max(largest, spread)
        if rho != 0.0:
            if held and total.size:
                add_products(rows, memory, held, total, work)
            eigen_step(values, rows, memory[0], rho, work)
            held, updates = 0, updates + 1
            recenter(values, setting)
        held += 1
    if held and total.size:
        matrix_weights(values, setting, memory)
        add_products(rows, memory, held, total, work)
    return updates, loss, largest


@compiled
def _judged(values, rows, block, t, targets, setting, memory):
    """Predict instance t; give the weight of its term in the step, the loss and ρ.

    The components of the instance are left in memory[0], the eigenvalues of W in memory[1].
    """
    z, weights = memory[0], memory[1]
    if block[0].size:
        square = _dense_components(rows, block[0][t], z)
    else:
        part = slice(block[1][t], block[1][t + 1])
        square = _sparse_components(rows, block[2][part], block[3][part], z)
    matrix_weights(values, setting, memory)
    predicted = 0.0
    for i in range(len(values)):
        predicted += weights[i] * z[i] * z[i]
    predicted *= setting.trace
    target = min(max(predicted, targets[t, 0]), targets[t, 1])
    error = predicted - target
    spread = setting.trace * square
    if error == 0.0 or square == 0.0 or not np.isfinite(error):  # an overflow shows in the loss
        return 0.0, error * error, spread
    eta = step_size(setting, spread, predicted, target)
    return -2.0 * eta * error * setting.trace, error * error, spread


@compiled
def step_size(setting, spread, size, target):
    """Give η: the rate itself, or one that suits an instance with a range ρ of eigenvalues.

    That is rate/ρ² for matrices of trace one, whatever the labels. Others have no largest
    prediction, and there it is rate/(ρ(ŷ + |y|)): with rate 1 and an X that commutes with W a step
    does not go beyond y, because 2(y - ŷ)/(y + ŷ) is nearer to zero than log(y/ŷ). `size` is ŷ, or
    s tr(W|X|) where X is not semidefinite.
    """
    if not setting.relative:
        return setting.rate
    if setting.normalized:
        return setting.rate / (spread * spread)
    return setting.rate / (spread * (size + abs(target)))


@compiled
def matrix_weights(values, setting, memory):
    """Put the eigenvalues of W into memory[1]."""
    weights, total = memory[1], 0.0
    top = _largest(values) if setting.normalized else 0.0
    for i in range(len(values)):
        weights[i] = np.exp(values[i] - top)
        total += weights[i]
    if setting.normalized:
        for i in range(len(values)):
            weights[i] /= total


@compiled
def recenter(values, setting):
    """Shift the eigenvalues so that the largest is zero; W does not change where it is normalised.

    So they stay as small as they can be, and rounding with them.
    """
    if setting.normalized:
        top = _largest(values)
        for i in range(len(values)):
            values[i] -= top


@compiled
def _largest(values):
    largest = values[0]
    for i in range(1, len(values)):
        largest = max(largest, values[i])
    return largest


@compiled
def _dense_components(rows, x, z):
    """Put the components of x into z, real ones; give |x|². Complex rows are turned for that."""
    n, m = rows.shape
    square = 0.0
    for j in range(m):
        square += x[j] * x[j]
    for i in range(n):
        row = rows[i]
        real = 0.0
        for j in range(m):
            real += row[j] * x[j]
        imaginary = 0.0
        if m > n:
            for j in range(n):
                imaginary += row[2 * j] * x[2 * j + 1] - row[2 * j + 1] * x[2 * j]
        z[i] = _turned_real(row, real, imaginary)
    return square


@compiled
def _sparse_components(rows, columns, entries, z):
    n, m = rows.shape
    square = 0.0
    for e in range(len(columns)):
        for part in range(m // n):
            square += entries[e, part] * entries[e, part]
    for i in range(n):
        row = rows[i]
        real = imaginary = 0.0
        for e in range(len(columns)):
            j = columns[e]
            if m == n:
                real += row[j] * entries[e, 0]
            else:
                real += row[2 * j] * entries[e, 0] + row[2 * j + 1] * entries[e, 1]
                imaginary += row[2 * j] * entries[e, 1] - row[2 * j + 1] * entries[e, 0]
        z[i] = _turned_real(row, real, imaginary)
    return square


@compiled
def _turned_real(row, real, imaginary):
    """Turn a complex row so that a component in it becomes real, and give that."""
    if imaginary == 0.0:
        return real
    size = np.hypot(real, imaginary)
    c, s = real / size, imaginary / size
    for j in range(0, len(row), 2):
        row[j], row[j + 1] = c * row[j] - s * row[j + 1], s * row[j] + c * row[j + 1]
    return size


@compiled
def add_products(rows, memory, count, total, work):
    """Add `count` times the products of rows, weighted as in W, to `total`."""
    weights, m, k = memory[1], rows.shape[1], 0
    least = NEGLIGIBLE * _largest(weights)
    plain = work.before.reshape(rows.shape)
    weighted = work.after.reshape(rows.shape)
    for i in range(len(rows)):
        if weights[i] > least:
            for j in range(m):
                plain[k, j] = rows[i, j]
                weighted[k, j] = count * weights[i] * rows[i, j]
            k += 1
    gemm(True, plain[:k], False, weighted[:k], 1.0, total)


def gathered(total, n):
    """Give Σ_i w_i q_i q_iᴴ from the products of real rows that `meg_pass` gathers."""
    if len(total) == n:
        return total
    q = total.reshape(n, 2, n, 2)
    return (q[:, 0, :, 0] + q[:, 1, :, 1]) + 1j * (q[:, 1, :, 0] - q[:, 0, :, 1])
