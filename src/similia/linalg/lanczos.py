"""The eigenvalue below zero that a rank-one subtraction can give to a semidefinite matrix.

For A ⪰ 0 the matrix A - αvvᵀ has at most one negative eigenvalue (interlacing), and its eigenvector
is (A - λI)⁻¹v. So it lies in the Krylov space of A *started at v*, and Lanczos finds it in tens of
products with A. In the basis of that space A is tridiagonal, T, and αvvᵀ is its first entry alone.

If λ is close to zero, as it often is when A has many small eigenvalues, a Krylov space tells it
from its neighbors only with nearly all its dimensions. Small matrices then take another way: a
Cholesky factor of A - λI costs as many operations as d/6 products Aq, and less time, since they run
from the cache.
"""

import numpy as np

from similia.linalg.bound import LOWER, PLAIN, held, routine, symmetric_product
from similia.linalg.compiled import compiled, overwrite

_dpotrf = routine("cython_lapack", "dpotrf", 5)
_dpotrs = routine("cython_lapack", "dpotrs", 8)
_dtrsv = routine("cython_blas", "dtrsv", 8)

#: rows of the Krylov basis that are allocated at first
ROWS = 48
#: most steps of Newton's method for one root; it needs about three
NEWTON = 60
#: side up to which a few factorizations cost less than many products Aq
SMALL = 320
#: products after which a small matrix is factorized; they provide the first guess
PATIENCE = 24
#: most factorizations for one eigenvalue; from a good guess it takes three or four
FACTORIZATIONS = 40
#: squared length at which a growing vector is rescaled; within single precision
HUGE = 1e12


@compiled
def negative_eigenpair(A, R, c, v, alpha, tol):
    """λ < 0 and u with (A + Rᵀdiag(c)R - αvvᵀ)u = λu, |u| = 1; λ = 0 if there is none.

    A + Rᵀdiag(c)R is positive semidefinite; the rows of R are rank-one terms still to be added to
    A. `tol` is the largest residual, relative to the size of the matrix. If A is indefinite by
    rounding, λ is the lowest eigenvalue of a small A; for a large one it is as small as that
    rounding, and u is some finite vector of length one.
    """
    n = len(v)
    basis = np.empty((min(n, ROWS), n), A.dtype)
    diagonal, beside, pivots = np.empty(n), np.empty(n), np.empty(n)
    length = np.sqrt(_dot(v, v))
    overwrite(basis[0], v / A.dtype.type(length))
    drop = alpha * length * length  # what T loses in its first entry
    scale, root, step = drop, 0.0, 0
    while True:
        q = basis[step]
        w = _product(A, R, c, q)
        diagonal[step] = _dot(q, w)
        scale = max(scale, diagonal[step])
        zero = 4.0 * np.finfo(A.dtype).eps * scale  # up to rounding
        root = _lowest_root(diagonal, beside, step + 1, drop, min(root, -zero), zero, pivots)
        # Twice is enough: the basis stays orthogonal to rounding.
        _orthogonalize(basis, step + 1, w)
        _orthogonalize(basis, step + 1, w)
        beside[step] = np.sqrt(_dot(w, w))
        residual = _residual(beside, pivots, step + 1, drop, root < -zero)
        if residual <= tol * scale or step + 1 == n:
            break
        step += 1
        if n <= SMALL and step == PATIENCE:
            guess = min(root, -1e-6 * scale)
            value, u = shifted_eigenpair(
                _upper(A, R, c), basis[0].astype(np.float64), drop, guess, zero, tol * scale
            )
            if value > 0.0:
                value, u = _lowest_eigenpair(_upper(A, R, c), basis[0].astype(np.float64), drop)
                value = value if value < -zero else 0.0
            return value, u.astype(A.dtype)
        if step == len(basis):
            basis = _longer(basis)
        overwrite(basis[step], w / A.dtype.type(beside[step - 1]))
    if root == -zero:
        return 0.0, v
    return root, _eigenvector(basis, beside, pivots, step + 1)


@compiled
def _lowest_root(diagonal, beside, size, drop, start, zero, pivots):
    """The λ < 0 at which T - λI stops being definite when its first entry falls by `drop`.

    Elimination from the last row upwards leaves the pivots p_i(λ) = T_ii - λ - T_{i,i+1}²/p_{i+1};
    all of them are positive, and λ is the root of p_0(λ) = drop. p_0 is concave and falling, so
    Newton's method from the right descends to the root without overshooting. Without a root left
    of `start` the result is `start`, with its pivots.
    """
    root = start
    for _ in range(NEWTON):
        slope = -1.0
        pivots[size - 1] = max(diagonal[size - 1] - root, zero)
        for i in range(size - 2, -1, -1):
            ratio = beside[i] / pivots[i + 1]
            slope = slope * ratio * ratio - 1.0
            pivots[i] = max(diagonal[i] - root - beside[i] * ratio, zero)
        change = (pivots[0] - drop) / slope
        if pivots[0] >= drop or change <= -1e-16 * root:
            break
        root -= change
    return root


@compiled
def _residual(beside, pivots, size, drop, negative):
    """|(A - αvvᵀ)u - λu| for the eigenvector u so far; without one, the part of v outside A."""
    entry, square = 1.0, 1.0
    for i in range(size - 1):
        entry *= beside[i] / pivots[i + 1]
        square += entry * entry
        if negative and square > HUGE:
            entry, square = entry / np.sqrt(square), 1.0
    rest = beside[size - 1] * entry
    return rest / np.sqrt(square) if negative else rest * drop / pivots[0]


@compiled
def _eigenvector(basis, beside, pivots, size):
    entry, square = 1.0, 1.0
    u = basis[0].copy()
    for i in range(1, size):
        entry *= -beside[i - 1] / pivots[i]
        square += entry * entry
        factor = basis.dtype.type(entry)
        for k in range(len(u)):
            u[k] += factor * basis[i, k]
        if square > HUGE:
            u /= basis.dtype.type(np.sqrt(square))
            entry, square = entry / np.sqrt(square), 1.0
    u /= np.sqrt(_dot(u, u))
    return u


@compiled
def _lowest_eigenpair(upper, v, drop):
    """Lowest eigenvalue of A - drop·vvᵀ and its eigenvector, from A's upper half."""
    n = len(v)
    M = np.empty((n, n))
    for j in range(n):
        for k in range(j, n):
            M[j, k] = M[k, j] = upper[j, k] - drop * v[j] * v[k]
    values, vectors = np.linalg.eigh(M)
    return values[0], np.ascontiguousarray(vectors[:, 0])


@compiled
def _upper(A, R, c):
    """Upper half of A + Rᵀdiag(c)R, in double precision."""
    whole = A.astype(np.float64)
    for j in range(len(A)):
        for i in range(len(c)):
            factor = c[i] * R[i, j]
            for k in range(j, len(A)):
                whole[j, k] += factor * R[i, k]
    return whole


@compiled
def _product(A, R, c, q):
    """(A + Rᵀdiag(c)R)q."""
    w = np.empty_like(q)
    symmetric_product(A, q, w)
    for i in range(len(c)):
        factor = c[i] * _dot(R[i], q)
        for k in range(len(q)):
            w[k] += factor * R[i, k]
    return w


@compiled
def _orthogonalize(basis, size, w):
    """Subtract from w its components along the first rows of the basis."""
    for i in range(size):
        factor = _dot(basis[i], w)
        for k in range(len(w)):
            w[k] -= factor * basis[i, k]


@compiled
def _longer(basis):
    rows, n = basis.shape
    longer = np.empty((min(2 * rows, n), n), basis.dtype)
    for i in range(rows):
        overwrite(longer[i], basis[i])
    return longer


@compiled
def _dot(x, y):
    total = x.dtype.type(0.0)
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@compiled
def shifted_eigenpair(A, v, drop, start, zero, accuracy):
    """λ < 0 and u with (A - drop·vvᵀ)u = λu for |v| = 1; λ = 0 if there is none below -zero.

    A is symmetric, and only its upper half is read. λ is where s(λ) = vᵀ(A - λI)⁻¹v reaches 1/drop,
    and u is along x = (A - λI)⁻¹v. A factor yields s, s' = |x|² and s" at a guess, first `start`;
    the next guess is the root of the function a + b/(c - λ) that agrees with all three, else
    Newton's, else a point in the bracket. It ends when the residual of u, |1 - drop·s|/|x|, is at
    most `accuracy` or stops falling. λ = 1 means that A - λI could not be factorized: A is then not
    semidefinite to rounding.
    """
    low, high, root, best = -np.inf, -zero, start, np.inf
    u = v
    for _ in range(FACTORIZATIONS):
        x, bend = np.empty(len(v)), v.copy()
        if not _solve_shifted(A, root, x, bend):
            return 1.0, v
        form, slope, curve = 0.0, 0.0, 0.0
        for k in range(len(v)):
            form += v[k] * x[k]
            slope += x[k] * x[k]
            curve += bend[k] * bend[k]
        miss = 1.0 - drop * form
        residual = abs(miss) / np.sqrt(slope)
        if residual < best:
            best, found, u = residual, root, x / np.sqrt(slope)
        elif best < 1e3 * accuracy:
            break  # rounding
        if best <= accuracy:
            break
        if miss < 0.0:
            high = root
        else:
            low = root
        if low > -16.0 * zero:
            return 0.0, v
        pole = slope / curve
        offset = form - slope * pole
        root = _next_root(root, low, high, pole, offset, slope, form, miss, drop)
    return found, u


@compiled
def _next_root(root, low, high, pole, offset, slope, form, miss, drop):
    """First of three guesses that lies between low and high."""
    guess = root + pole - slope * pole * pole / (1.0 / drop - offset)
    if low < guess < high:
        return guess
    guess = root + miss * form / slope
    if low < guess < high:
        return guess
    return 100.0 * high if low == -np.inf else -np.sqrt(low * high)


@compiled
def _solve_shifted(A, shift, x, half):
    """With A - shift·I = LLᵀ set x = (LLᵀ)⁻¹half, then half = L⁻¹x; False if there is no such L."""
    factor = A.copy()
    for i in range(len(x)):
        factor[i, i] -= shift
    lower, plain = held(LOWER), held(PLAIN)
    size, one, info = held(np.int32(len(x))), held(np.int32(1)), np.zeros(1, np.int32)
    a, b, failed = factor.ctypes.data, x.ctypes.data, info.ctypes.data
    _dpotrf(lower, size, a, size, failed)
    if info[0] != 0:
        return False
    overwrite(x, half)
    _dpotrs(lower, size, one, a, size, b, size, failed)
    overwrite(half, x)
    _dtrsv(lower, plain, plain, size, a, size, half.ctypes.data, one)
    return factor[0, 0] > 0.0 and info[0] == 0  # used, so that they outlive the calls
