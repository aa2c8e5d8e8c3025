"""MEG: matrix exponentiated gradient steps on a positive definite matrix [Tsuda2005].

The state is the eigendecomposition of G = log W: `values`, and eigenvectors as `rows` of real
numbers (complex ones as pairs, so of twice the length). W itself is formed only when asked for.
"""

from collections import namedtuple

import numpy as np
from scipy import linalg, sparse

from similia.linalg.eigen_update import SHARED, eigen_workspace, real_components, update_eigenpairs
from similia.linalg.gibbs import gibbs_line
from similia.linalg.roots import decreasing_root
from similia.linalg.spectral import from_eigenpairs, hermitian_part, null_threshold

from libc.math cimport exp, fabs, hypot, isfinite, sqrt
from scipy.linalg.cython_blas cimport dsyrk
from similia.linalg.bound cimport mirror
from similia.linalg.eigen_update cimport Work, set_gibbs_line, step_eigenpairs

#: accuracy of an implicit step, relative to the explicit error
IMPLICIT = 1e-12

cdef double NEGLIGIBLE = 1e-18  # weights below this share of the largest do not reach the last digit of a sum
#: rank of an instance above which a new eigendecomposition is cheaper than rank-one steps
LOW_RANK = 6

cdef enum:
    HALVINGS = 200  # after which an interval of doubles cannot shrink any more

#: Length of steps (see `step_size`), the trace of the matrix, and where the gradient is taken:
#: before the step, or after it (`implicit`).
MEGSetting = namedtuple(
    "MEGSetting", "rate relative trace normalized implicit", defaults=[False], module=__name__
)


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
    return _walk(values, rows, total, block, targets, setting, work, memory)


def _block(Z, n, m):
    """Real rows as (dense, pointers, columns, entries), the first or all others empty."""
    kind = np.complex128 if m > n else np.float64
    if sparse.issparse(Z):
        entries = np.ascontiguousarray(Z.data, kind).view(np.float64).reshape(-1, m // n)
        return np.empty((0, 0)), Z.indptr.astype(np.intp), Z.indices.astype(np.intp), entries
    empty = np.empty(0, np.intp)
    return np.ascontiguousarray(Z, kind).view(np.float64), empty, empty, np.empty((0, m // n))


def _walk(
    double[::1] values,
    double[:, ::1] rows,
    double[:, ::1] total,
    block,
    const double[:, ::1] targets,
    setting,
    work,
    double[:, ::1] memory,
):
    cdef const double[:, ::1] Z = block[0], entries = block[3]
    cdef const Py_ssize_t[::1] ends = block[1], columns = block[2]
    cdef Rule rule = _rule(setting)
    cdef Work space = Work(work)
    cdef Py_ssize_t t, k, updates = 0, held = 0
    cdef bint shared = values.shape[0] >= SHARED, averaged = total.shape[0] > 0
    cdef double rho, lost, square, spread, loss = 0.0, largest = 0.0
    with nogil:
        for t in range(targets.shape[0]):
            if Z.shape[0]:
                square = _set_components(rows, Z[t], memory[0])
            else:
                square = _set_sparse_components(rows, columns, entries, ends[t], ends[t + 1], memory[0])
            lost = 0.0
            spread = rule.trace * square
            rho = _judge(values, memory, spread, targets[t, 0], targets[t, 1], &rule, space, &lost)
            loss, largest = loss + lost, max(largest, spread)
            if rho != 0.0:
                if held and averaged:
                    _add_products(rows, memory[1], held, total, space)
                if shared:
                    with gil:
                        components = np.asarray(memory)[0]
                        update_eigenpairs(np.asarray(values), np.asarray(rows), components, rho, work)
                else:
                    step_eigenpairs(values, rows, memory[0], rho, space)
                held, updates = 0, updates + 1
                _recenter(values, &rule)
            held += 1
        if held and averaged:
            _set_weights(values, &rule, memory[1])
            _add_products(rows, memory[1], held, total, space)
    return updates, loss, largest


_compiled_walk = _walk


cdef struct Rule:
    double rate, trace
    bint relative, normalized, implicit


cdef Rule _rule(setting):
    """The setting for compiled code."""
    cdef Rule rule
    rule.rate, rule.trace, rule.relative = setting.rate, setting.trace, setting.relative
    rule.normalized, rule.implicit = setting.normalized, setting.implicit
    return rule


cdef double _judge(
    const double[::1] values,
    double[:, ::1] memory,
    double spread,
    double low,
    double high,
    Rule* rule,
    Work work,
    double* loss,
) noexcept nogil:
    """Set the loss of an instance of components memory[0], and return ρ of its step.

    memory[1] is set to W's eigenvalues.
    """
    cdef double predicted = 0.0, target, error, eta, factor
    cdef Py_ssize_t i
    _set_weights(values, rule, memory[1])
    for i in range(values.shape[0]):
        predicted += memory[1, i] * memory[0, i] * memory[0, i]
    predicted *= rule.trace
    target = min(max(predicted, low), high)
    error = predicted - target
    loss[0] = error * error
    if error == 0.0 or spread == 0.0 or not isfinite(error):  # an overflow shows in the loss
        return 0.0
    factor = -2.0 * _step_size(rule, spread, predicted, target) * rule.trace
    if rule.implicit:
        error = _implicit_error(values, memory[0], target, error, factor, rule, work)
    return factor * error


cdef double _implicit_error(
    const double[::1] values,
    const double[::1] z,
    double target,
    double error,
    double factor,
    Rule* rule,
    Work work,
) noexcept nogil:
    """Error e = ŷ' - y of the prediction ŷ' after the step with this very e.

    ŷ' falls as e rises, so there is one such e, between 0 and the error before the step.
    """
    cdef double low = min(error, 0.0), high = max(error, 0.0), slope = 0.0, predicted, missing
    cdef double accuracy = 1e-12 * fabs(error)
    _line(values, z, 0.0, rule, work, &slope)
    cdef double e = error / (1.0 - factor * rule.trace * slope)
    for _ in range(HALVINGS):
        if not (low < e and e < high):
            e = 0.5 * (low + high)
        predicted = _line(values, z, factor * e, rule, work, &slope)
        missing = rule.trace * predicted - target - e
        if fabs(missing) <= accuracy:
            break
        if missing > 0.0:
            low = e
        else:
            high = e
        e -= missing / (factor * rule.trace * slope - 1.0)
    return e


cdef double _line(
    const double[::1] values,
    const double[::1] z,
    double rho,
    Rule* rule,
    Work work,
    double* slope,
) noexcept nogil:
    """tr(WX) after ρX is added to G, for X = zzᵀ, and its slope in ρ, which is not negative."""
    cdef double[3] line
    cdef double trace
    set_gibbs_line(values, z, rho, work, line)
    if rule.normalized:
        slope[0] = max(line[2], 0.0)
        return line[1]
    trace = exp(line[0])
    slope[0] = trace * (line[2] + line[1] * line[1])
    return trace * line[1]


def step_size(setting, double spread, double size, double target):
    """η: the rate itself, or relative to the range ρ of an instance's eigenvalues.

    For trace one that is rate/ρ², whatever the labels. Other matrices have no largest prediction,
    and it is rate/(ρ(ŷ + |y|)): with rate 1 and an X that commutes with W no step overshoots y,
    because 2(y - ŷ)/(y + ŷ) is nearer to zero than log(y/ŷ). `size` is ŷ, or s tr(W|X|).
    """
    cdef Rule rule = _rule(setting)
    return _step_size(&rule, spread, size, target)


cdef double _step_size(Rule* rule, double spread, double size, double target) noexcept nogil:
    if not rule.relative:
        return rule.rate
    if rule.normalized:
        return rule.rate / (spread * spread)
    return rule.rate / (spread * (size + fabs(target)))


def matrix_weights(const double[::1] values, setting, double[:, ::1] memory):
    """Set memory[1] to the eigenvalues of W."""
    cdef Rule rule = _rule(setting)
    _set_weights(values, &rule, memory[1])


cdef void _set_weights(const double[::1] values, Rule* rule, double[::1] weights) noexcept nogil:
    cdef Py_ssize_t n = values.shape[0], i
    cdef double top = 0.0, total = 0.0
    if rule.normalized:
        top = values[0]
        for i in range(n):
            top = max(top, values[i])
    for i in range(n):
        weights[i] = exp(values[i] - top)
        total += weights[i]
    if rule.normalized:
        for i in range(n):
            weights[i] /= total


def recenter(double[::1] values, setting):
    """Shift the largest eigenvalue of a normalized W's logarithm to zero, against rounding."""
    cdef Rule rule = _rule(setting)
    _recenter(values, &rule)


cdef void _recenter(double[::1] values, Rule* rule) noexcept nogil:
    cdef Py_ssize_t i
    cdef double top = values[0]
    if rule.normalized:
        for i in range(values.shape[0]):
            top = max(top, values[i])
        for i in range(values.shape[0]):
            values[i] -= top


cdef double _set_components(
    double[:, ::1] rows, const double[::1] x, double[::1] z
) noexcept nogil:
    """Set z to the components of x, turning complex rows so that they are real; return |x|²."""
    cdef Py_ssize_t n = rows.shape[0], m = rows.shape[1], i, j
    cdef double square = 0.0, real, imaginary
    for j in range(m):
        square += x[j] * x[j]
    for i in range(n):
        real = imaginary = 0.0
        for j in range(m):
            real += rows[i, j] * x[j]
        if m > n:
            for j in range(n):
                imaginary += rows[i, 2 * j] * x[2 * j + 1] - rows[i, 2 * j + 1] * x[2 * j]
        z[i] = _turned_real(&rows[i, 0], m, real, imaginary)
    return square


cdef double _set_sparse_components(
    double[:, ::1] rows,
    const Py_ssize_t[::1] columns,
    const double[:, ::1] entries,
    Py_ssize_t start,
    Py_ssize_t stop,
    double[::1] z,
) noexcept nogil:
    """Likewise for a sparse row."""
    cdef Py_ssize_t n = rows.shape[0], m = rows.shape[1], i, j, e
    cdef double square = 0.0, real, imaginary
    for e in range(start, stop):
        for j in range(m // n):
            square += entries[e, j] * entries[e, j]
    for i in range(n):
        real = imaginary = 0.0
        for e in range(start, stop):
            j = columns[e]
            if m == n:
                real += rows[i, j] * entries[e, 0]
            else:
                real += rows[i, 2 * j] * entries[e, 0] + rows[i, 2 * j + 1] * entries[e, 1]
                imaginary += rows[i, 2 * j] * entries[e, 1] - rows[i, 2 * j + 1] * entries[e, 0]
        z[i] = _turned_real(&rows[i, 0], m, real, imaginary)
    return square


cdef double _turned_real(double* row, Py_ssize_t m, double real, double imaginary) noexcept nogil:
    """Turn a complex row so that the component along it becomes real; return that."""
    cdef double size, c, s, x
    cdef Py_ssize_t j
    if imaginary == 0.0:
        return real
    size = hypot(real, imaginary)
    c, s = real / size, imaginary / size
    for j in range(m // 2):
        x = row[2 * j]
        row[2 * j], row[2 * j + 1] = c * x - s * row[2 * j + 1], s * x + c * row[2 * j + 1]
    return size


def add_products(
    const double[:, ::1] rows, double[:, ::1] memory, Py_ssize_t count, double[:, ::1] total, work
):
    """Add `count` times the products of rows, weighted as in W, to `total`."""
    _add_products(rows, memory[1], count, total, Work(work))


cdef void _add_products(
    const double[:, ::1] rows,
    const double[::1] weights,
    Py_ssize_t count,
    double[:, ::1] total,
    Work work,
) noexcept nogil:
    cdef char lower = b"L", plain = b"N"
    cdef int size = <int>rows.shape[1], k = 0
    cdef Py_ssize_t i, j
    cdef double largest = 0.0, root, scale = count, one = 1.0
    cdef double* weighted = &work.after[0]
    for i in range(rows.shape[0]):
        largest = max(largest, weights[i])
    for i in range(rows.shape[0]):
        if weights[i] > NEGLIGIBLE * largest:
            root = sqrt(weights[i])
            for j in range(rows.shape[1]):
                weighted[k * size + j] = root * rows[i, j]
            k += 1
    dsyrk(&lower, &plain, &size, &k, &scale, weighted, &size, &one, &total[0, 0], &size)
    mirror[double](total)


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
