"""The eigenvalue below zero that a rank-one subtraction can give to a semidefinite matrix.

For A ⪰ 0 the matrix A - αvvᵀ has at most one negative eigenvalue (interlacing), and its eigenvector
is (A - λI)⁻¹v. So it lies in the Krylov space of A *started at v*, and Lanczos finds it in tens of
products with A. In the basis of that space A is tridiagonal, T, and αvvᵀ is its first entry alone.

A λ close to zero, among many small eigenvalues of A, takes nearly all dimensions of the space to
find. Small matrices then take another way: a Cholesky factor of A - λI costs as many operations as
d/6 products Aq, and less time, since they run from the cache.
"""

import numpy as np

from similia.linalg.bound_by_numba import LOWER, PLAIN, held, routine, symmetric_product
from similia.linalg.compiled import compiled, overwrite

_dpotrf = routine("cython_lapack", "dpotrf", 5)
_dpotrs = routine("cython_lapack", "dpotrs", 8)
_dtrsv = routine("cython_blas", "dtrsv", 8)

ROWS = 48  #: rows of the Krylov basis that are allocated at first
NEWTON = 60  #: most steps of Newton's method for one root; it needs about three
SMALL = 320  #: side up to which a few factorizations cost less than many products Aq
PATIENCE = 24  #: products after which a small matrix is factorized; they provide the first guess
#: most factorizations for one eigenvalue; from a good guess it takes three or four
FACTORIZATIONS = 40
KEPT = 0.7  #: share of a vector that remains where one subtraction of components is exact enough
HUGE = 1e12  #: squared length at which a growing vector is rescaled; within single precision


@compiled
def negative_eigenpair(A, R, c, v, alpha, tol):
    """λ < 0 and u with (A + Rᵀdiag(c)R - αvvᵀ)u = λu, |u| = 1; λ = 0 if there is none.

    A + Rᵀdiag(c)R is positive semidefinite; the rows of R are rank-one terms still to be added to
    A. `tol` is the largest residual, relative to the size of the matrix. If A is indefinite by
    rounding, λ is the lowest eigenvalue of a small A, or as small as that rounding for a large one.
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
        beside[step] = _orthogonalize(basis, step, w, diagonal[step], beside)
        residual = _residual(beside, pivots, step + 1, drop, root < -zero)
        if residual <= tol * scale or step + 1 == n:
            break
        step += 1
        if n <= SMALL and step == PATIENCE:
            guess = min(root, -1e-6 * scale)
            upper, unit = _upper(A, R, c), basis[0].astype(np.float64)
            value, u = shifted_eigenpair(upper, unit, drop, guess, zero, tol * scale)
            if value > 0.0:
                value, u = _lowest_eigenpair(upper, unit, drop)
                value = value if value < -zero else 0.0
            return value, u.astype(A.dtype)
        if step == len(basis):
            longer = np.empty((min(2 * step, n), n), A.dtype)
            for i in range(step):
                overwrite(longer[i], basis[i])
            basis = longer
        overwrite(basis[step], w / A.dtype.type(beside[step - 1]))
    if root == -zero:
        return 0.0, v
    return root, _eigenvector(basis, beside, pivots, step + 1)


@compiled
def _lowest_root(diagonal, beside, size, drop, start, zero, pivots):
    """The λ < 0 at which T - λI stops being definite when its first entry falls by `drop`.

    Elimination from the last row upwards leaves the pivots p_i(λ) = T_ii - λ - T_{i,i+1}²/p_{i+1},
    all positive, and λ is the root of p_0(λ) = drop. p_0 is concave and falling, so Newton's method
    from the right never overshoots. Without a root left of `start` the result is `start`.
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
def _orthogonalize(basis, step, w, along, beside):
    """Subtract from w its components along rows 0 … step of the basis; return what is left of |w|.

    The last two are known; rounding makes the others. Where subtracting these shortens w, it is
    repeated: twice is enough to leave the basis orthogonal to rounding.
    """
    _subtract(w, w.dtype.type(along), basis[step])
    if step:
        _subtract(w, w.dtype.type(beside[step - 1]), basis[step - 1])
    before = np.sqrt(_dot(w, w))
    for _ in range(2):
        for i in range(step + 1):
            _subtract(w, _dot(basis[i], w), basis[i])
        after = np.sqrt(_dot(w, w))
        if after >= KEPT * before:
            break
        before = after
    return after


@compiled
def _subtract(w, factor, row):
    for k in range(len(w)):
        w[k] -= factor * row[k]


@compiled
def _dot(x, y):
    total = x.dtype.type(0.0)
    for k in range(len(x)):
        total += x[k] * y[k]
    return total


@compiled
def shifted_eigenpair(A, v, drop, start, zero, accuracy):
    """λ < 0 and u with (A - drop·vvᵀ)u = λu for |v| = 1; λ = 0 if there is none below -zero.

    Only the upper half of A is read. λ is where s(λ) = vᵀ(A - λI)⁻¹v reaches 1/drop, and u is along
    x = (A - λI)⁻¹v. A factor yields s, s' = |x|² and s" at a guess, first `start`; the next guess
    is the root of the a + b/(c - λ) that agrees with all three, else Newton's, else a point in the
    bracket. It ends when the residual of u, |1 - drop·s|/|x|, is at most `accuracy` or stops
    falling. λ = 1 means that A - λI has no factor: A is then not semidefinite to rounding.
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
        newton = root + miss * form / slope
        root += pole - slope * pole * pole / (1.0 / drop - (form - slope * pole))
        if not low < root < high:
            root = 100.0 * high if low == -np.inf else -np.sqrt(low * high)
            root = newton if low < newton < high else root
    return found, u


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
