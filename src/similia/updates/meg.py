"""MEG: matrix exponentiated gradient steps on a positive definite matrix [Tsuda2005].

The state is the eigendecomposition of G = log W: `values`, and eigenvectors as `rows` of real
numbers (complex ones as pairs, so of twice the length). W itself is formed only when asked for.
"""

from typing import NamedTuple

import numpy as np
from scipy import linalg, sparse

from similia.linalg.bound_by_numba import add_square
from similia.linalg.compiled import compiled
from similia.linalg.eigen_update import SHARED, eigen_workspace, real_components, update_eigenpairs
from similia.linalg.gibbs import gibbs_line, rank_one_gibbs_line
from similia.linalg.roots import decreasing_root
from similia.linalg.spectral import from_eigenpairs, hermitian_part, null_threshold

NEGLIGIBLE = 1e-18  #: weights below this share of the largest do not reach the last digit of a sum
#: rank of an instance above which a new eigendecomposition is cheaper than rank-one steps
LOW_RANK = 6
#: halvings after which an interval of doubles cannot shrink any more
HALVINGS = 200
#: accuracy of an implicit step, relative to the explicit error
IMPLICIT = 1e-12


class MEGSetting(NamedTuple):
    """Length of steps (see `step_size`), the trace of the matrix, and where the gradient is taken:
    before the step, or after it (`implicit`).
    """

    rate: float
    relative: bool
    trace: float
    normalized: bool
    implicit: bool = False


def meg_pass(values, rows, total, Z, targets, setting):
    """Learn a block of rank-one instances; return the number of updates, the loss, the largest ρ.

    For an instance X = xxᴴ, x a row of Z (dense or CSR), predicted as ŷ = s tr(WX), s the trace:

        G <- G - 2η(ŷ - y) s xxᴴ,    W = exp(G)/tr exp(G) if normalized (3.5), else exp(G) (3.4)

    with ŷ before the step or, `implicit`, after it: the minimum of Δ(W', W) + η(s tr(W'X) - y)²
    itself, (3.2) and (3.3), from a root in one dimension that costs O(d²) for each trial.

    `targets` has two columns, the lowest and the highest value that needs no step; y is the nearer
    one. `total`, unless empty, gathers the sum of the W after each instance, as products of rows.
    A step costs O(d²) and the product that turns the eigenvectors that change.
    """
    block = _block(Z, len(values), rows.shape[1])
    work, memory = eigen_workspace(rows), np.empty((2, len(values)))
    walk = _compiled_walk if len(values) < SHARED else _walk
    return walk(values, rows, total, block, targets, setting, work, memory)


def _block(Z, n, m):
    """Real rows as (dense, pointers, columns, entries), the first or all others empty."""
    kind = np.complex128 if m > n else np.float64
    if sparse.issparse(Z):
        entries = np.ascontiguousarray(Z.data, kind).view(np.float64).reshape(-1, m // n)
        return np.empty((0, 0)), Z.indptr.astype(np.intp), Z.indices.astype(np.intp), entries
    empty = np.empty(0, np.intp)
    return np.ascontiguousarray(Z, kind).view(np.float64), empty, empty, np.empty((0, m // n))


def _walk(values, rows, total, block, targets, setting, work, memory):
    updates, loss, largest, held = 0, 0.0, 0.0, 0
    for t in range(len(targets)):
        rho, lost, spread = _judged(values, rows, block, t, targets, setting, work, memory)
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


_compiled_walk = compiled(_walk)


@compiled
def _judged(values, rows, block, t, targets, setting, work, memory):
    """Step, loss and ρ of instance t; memory is set to its components and W's eigenvalues."""
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
    factor, loss = -2.0 * eta * setting.trace, error * error
    if setting.implicit:
        error = _implicit_error(values, z, target, error, factor, setting, work)
    return factor * error, loss, spread


@compiled
def _implicit_error(values, z, target, error, factor, setting, work):
    """Error e = ŷ' - y of the prediction ŷ' after the step with this very e.

    ŷ' falls as e rises, so there is one such e, between 0 and the error before the step.
    """
    low, high = min(error, 0.0), max(error, 0.0)
    e = error / (1.0 - factor * setting.trace * _line(values, z, 0.0, setting, work)[1])
    for _ in range(HALVINGS):
        if not low < e < high:
            e = 0.5 * (low + high)
        predicted, slope = _line(values, z, factor * e, setting, work)
        missing = setting.trace * predicted - target - e
        if abs(missing) <= IMPLICIT * abs(error):
            break
        if missing > 0.0:
            low = e
        else:
            high = e
        e -= missing / (factor * setting.trace * slope - 1.0)
    return e


@compiled
def _line(values, z, rho, setting, work):
    """tr(WX) after ρX is added to G, for X = zzᵀ, and its slope in ρ, which is not negative."""
    log_trace, value, slope = rank_one_gibbs_line(values, z, rho, work)
    if setting.normalized:
        return value, max(slope, 0.0)
    trace = np.exp(log_trace)
    return trace * value, trace * (slope + value * value)


@compiled
def step_size(setting, spread, size, target):
    """η: the rate itself, or relative to the range ρ of an instance's eigenvalues.

    For trace one that is rate/ρ², whatever the labels. Other matrices have no largest prediction,
    and it is rate/(ρ(ŷ + |y|)): with rate 1 and an X that commutes with W no step overshoots y,
    because 2(y - ŷ)/(y + ŷ) is nearer to zero than log(y/ŷ). `size` is ŷ, or s tr(W|X|).
    """
    if not setting.relative:
        return setting.rate
    if setting.normalized:
        return setting.rate / (spread * spread)
    return setting.rate / (spread * (size + abs(target)))


@compiled
def matrix_weights(values, setting, memory):
    """Set memory[1] to the eigenvalues of W."""
    weights, total = memory[1], 0.0
    top = np.max(values) if setting.normalized else 0.0
    for i in range(len(values)):
        weights[i] = np.exp(values[i] - top)
        total += weights[i]
    if setting.normalized:
        for i in range(len(values)):
            weights[i] /= total


@compiled
def recenter(values, setting):
    """Shift the largest eigenvalue of a normalized W's logarithm to zero, against rounding."""
    if setting.normalized:
        top = np.max(values)
        for i in range(len(values)):
            values[i] -= top


@compiled
def _dense_components(rows, x, z):
    """Set z to the components of x, turning complex rows so that they are real; return |x|²."""
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
    """Turn a complex row so that the component along it becomes real; return that."""
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
    weights, weighted, k = memory[1], work.after.reshape(rows.shape), 0
    least = NEGLIGIBLE * np.max(weights)
    for i in range(len(rows)):
        if weights[i] > least:
            root = np.sqrt(weights[i])
            for j in range(rows.shape[1]):
                weighted[k, j] = root * rows[i, j]
            k += 1
    add_square(total, float(count), weighted[:k])


def gathered(total, n):
    """Σ_i w_i q_i q_iᴴ from the products of real rows that `meg_pass` gathers."""
    if len(total) == n:
        return total
    q = total.reshape(n, 2, n, 2)
    return (q[:, 0, :, 0] + q[:, 1, :, 1]) + 1j * (q[:, 1, :, 0] - q[:, 0, :, 1])


def meg_matrix_pass(values, rows, total, instances, targets, setting):
    """Learn square matrices X, dense or sparse, each with ŷ = s tr(WX); else as `meg_pass`.

        G <- G - 2η(ŷ - y) s sym(X)                                        [Tsuda2005, Algorithm 1]

    Instances of low rank become rank-one steps, others a new eigendecomposition.
    """
    updates, loss, largest = 0, 0.0, 0.0
    work, memory = eigen_workspace(rows), np.empty((2, len(values)))
    vectors = rows.view(np.complex128) if rows.shape[1] > len(rows) else rows
    for X, (low, high) in zip(instances, targets, strict=True):
        support, x, U = _eigenpairs(X)
        # Eigenvectors of G in those of X: tr(WX) is a sum over both.
        overlap = np.abs(vectors[:, support].conj() @ U) ** 2
        matrix_weights(values, setting, memory)
        parts = memory[1] @ overlap
        predicted = setting.trace * float(parts @ x)
        error = predicted - min(max(predicted, low), high)
        spread = setting.trace * float(max(x.max(initial=0.0), 0.0) - min(x.min(initial=0.0), 0.0))
        loss, largest = loss + error**2, max(largest, spread)
        if error != 0.0 and spread > 0.0:
            size = setting.trace * float(parts @ np.abs(x))
            target = predicted - error
            factor = -2.0 * step_size(setting, spread, size, target) * setting.trace
            if setting.implicit:
                pairs = (values, vectors)
                error = _implicit_matrix_error(*pairs, X, target, error, factor, setting)
            _move(values, vectors, factor * error * x, support, U, work)
            recenter(values, setting)
            updates += 1
        if total.size:
            matrix_weights(values, setting, memory)
            add_products(rows, memory, 1, total, work)
    return updates, loss, largest


def _implicit_matrix_error(values, vectors, X, target, error, factor, setting):
    """`_implicit_error` for any X, with an eigendecomposition for each trial."""
    G, X = from_eigenpairs(values, vectors.T), hermitian_part(X)
    X = X.toarray() if sparse.issparse(X) else X

    def missing(e):
        moved, columns = linalg.eigh(G + factor * e * X)
        log_trace, value, slope = gibbs_line(moved, columns, X)
        if not setting.normalized:
            trace = np.exp(log_trace)
            value, slope = trace * value, trace * (slope + value * value)
        return setting.trace * value - target - e, factor * setting.trace * slope - 1.0

    low, high = min(error, 0.0), max(error, 0.0)
    return decreasing_root(missing, low, high, 0.5 * error, IMPLICIT * abs(error))


def _eigenpairs(X):
    """Places where sym(X) has entries, and there its eigenpairs with nonzero eigenvalues."""
    X = hermitian_part(X)
    if sparse.issparse(X):
        support = np.unique(sparse.coo_array(X).coords[0])
        X = X.tocsr()[support][:, support].toarray()
    else:
        support = np.flatnonzero(X.any(axis=1))
        X = X[np.ix_(support, support)]
    if len(support) == 0:
        return support, np.empty(0), X
    x, U = linalg.eigh(X)
    kept = np.abs(x) > null_threshold(x)
    return support, x[kept], U[:, kept]


def _move(values, vectors, x, support, U, work):
    """Add Σ_k x_k u_k u_kᴴ to the matrix with these eigenpairs, in place."""
    if len(x) > LOW_RANK:
        G = from_eigenpairs(values, vectors.T)
        G[np.ix_(support, support)] += (U * x) @ U.conj().T
        values[:], columns = linalg.eigh(G)
        vectors[:] = columns.T
        return
    for rho, u in zip(x, U.T, strict=True):
        whole = np.zeros(len(values), vectors.dtype)
        whole[support] = u
        z = real_components(vectors, whole)
        update_eigenpairs(values, vectors.view(np.float64), z, rho, work)
