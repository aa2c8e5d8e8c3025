"""The eigenvalue below zero that a rank-one subtraction can give to a semidefinite matrix.

For A ⪰ 0 the matrix A - αvvᵀ has at most one negative eigenvalue (interlacing), and its eigenvector
is (A - λI)⁻¹v. So it lies in the Krylov space of A *started at v*, and Lanczos finds it in tens of
products with A. In the basis of that space A is tridiagonal, T, and αvvᵀ is its first entry alone.

A λ close to zero, among many small eigenvalues of A, takes nearly all dimensions of the space to
find. Small matrices then take another way: a Cholesky factor of A - λI costs as many operations as
d/6 products Aq, and less time, since they run from the cache.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, fabs, sqrt
from libc.string cimport memcpy
from scipy.linalg.cython_blas cimport dsymv, dtrsv, ssymv
from scipy.linalg.cython_lapack cimport dpotrf, dpotrs
from similia.linalg.clones cimport void_clones

SMALL = 320  #: side up to which a few factorizations cost less than many products Aq

cdef enum:
    SIDE = 320  # the same
    ROWS = 48  # rows of the Krylov basis that are allocated at first
    NEWTON = 60  # most steps of Newton's method for one root; it needs about three
    PATIENCE = 24  # products after which a small matrix is factorized; they provide a first guess
    FACTORIZATIONS = 40  # most for one eigenvalue; from a good guess it takes three or four

cdef double KEPT = 0.7  # share of a vector that remains where one subtraction is exact enough
cdef double HUGE = 1e12  # squared length at which a growing vector is rescaled


cdef class Space:
    """Memory for `find_negative` with matrices of side n."""

    def __cinit__(self, Py_ssize_t n, Py_ssize_t itemsize):
        cdef Py_ssize_t side = n if n <= SIDE else 0
        self.n, self.rows = n, min(n, ROWS)
        self.basis = np.empty(self.rows * n * itemsize, np.uint8)
        self.w = np.empty(n * itemsize, np.uint8)
        self.diagonal, self.beside, self.pivots = np.empty((3, n))
        self.unit, self.u, self.x, self.half = np.empty((4, side))
        self.upper, self.factor = np.empty((2, side, side))

    cdef void grow(self, Py_ssize_t itemsize) noexcept with gil:
        """Make room for twice as many rows of the basis."""
        self.rows = min(2 * self.rows, self.n)
        longer = np.empty(self.rows * self.n * itemsize, np.uint8)
        longer[: len(self.basis)] = self.basis
        self.basis = longer


def negative_eigenpair(
    const floating[:, ::1] A,
    const floating[:, ::1] R,
    const floating[::1] c,
    const floating[::1] v,
    double alpha,
    double tol,
):
    """λ < 0 and u with (A + Rᵀdiag(c)R - αvvᵀ)u = λu, |u| = 1; λ = 0 if there is none.

    A + Rᵀdiag(c)R is positive semidefinite; the rows of R are rank-one terms still to be added to
    A. `tol` is the largest residual, relative to the size of the matrix. If A is indefinite by
    rounding, λ is the lowest eigenvalue of a small A, or as small as that rounding for a large one.
    """
    u = np.empty(A.shape[0], np.asarray(A).dtype)
    cdef floating[::1] into = u
    cdef Space space = Space(A.shape[0], sizeof(floating))
    cdef double value
    with nogil:
        value = find_negative[floating](space, A, R, c, c.shape[0], v, alpha, tol, into)
    return value, u


cdef double find_negative(
    Space space,
    const floating[:, ::1] A,
    const floating[:, ::1] R,
    const floating[::1] c,
    Py_ssize_t terms,
    const floating[::1] v,
    double alpha,
    double tol,
    floating[::1] u,
) noexcept nogil:
    """Set u and return λ, with the first `terms` rows of R."""
    cdef Py_ssize_t n = space.n, step = 0, k
    cdef floating* basis = <floating*>&space.basis[0]
    cdef floating* w = <floating*>&space.w[0]
    cdef double* diagonal = &space.diagonal[0]
    cdef double* beside = &space.beside[0]
    cdef double length = sqrt(_dot(&v[0], &v[0], n))
    cdef double drop = alpha * length * length  # what T loses in its first entry
    cdef double scale = drop, root = 0.0, zero, residual, value
    cdef double eps = 2.0**-23 if floating is float else 2.0**-52
    for k in range(n):
        basis[k] = v[k] / <floating>length
    while True:
        _multiply[floating](A, R, c, terms, basis + step * n, w)
        diagonal[step] = _dot(basis + step * n, w, n)
        scale = max(scale, diagonal[step])
        zero = 4.0 * eps * scale  # up to rounding
        root = _lowest_root(space, step + 1, drop, min(root, -zero), zero)
        _orthogonalize[floating](basis, n, step, w, diagonal[step], beside)
        residual = _residual(space, step + 1, drop, root < -zero)
        if residual <= tol * scale or step + 1 == n:
            break
        step += 1
        if n <= SIDE and step == PATIENCE:
            _set_upper[floating](space.upper, A, R, c, terms)
            for k in range(n):
                space.unit[k] = basis[k]
            value = _find_shifted(space, drop, min(root, -1e-6 * scale), zero, tol * scale)
            if value > 0.0:
                value = _lowest_eigenpair(space, drop)
                value = value if value < -zero else 0.0
            for k in range(n):
                u[k] = <floating>space.u[k]
            return value
        if step == space.rows:
            space.grow(sizeof(floating))
            basis = <floating*>&space.basis[0]
        for k in range(n):
            basis[step * n + k] = w[k] / <floating>beside[step - 1]
    if root == -zero:
        for k in range(n):
            u[k] = v[k]
        return 0.0
    _set_eigenvector[floating](space, basis, step + 1, u)
    return root


cdef double _lowest_root(
    Space space, Py_ssize_t size, double drop, double start, double zero
) noexcept nogil:
    """The λ < 0 at which T - λI stops being definite when its first entry falls by `drop`.

    Elimination from the last row upwards leaves the pivots p_i(λ) = T_ii - λ - T_{i,i+1}²/p_{i+1},
    all positive, and λ is the root of p_0(λ) = drop. p_0 is concave and falling, so Newton's method
    from the right never overshoots. Without a root left of `start` the result is `start`.
    """
    cdef double* diagonal = &space.diagonal[0]
    cdef double* beside = &space.beside[0]
    cdef double* pivots = &space.pivots[0]
    cdef double root = start, slope, ratio, change
    cdef Py_ssize_t i
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


cdef double _residual(Space space, Py_ssize_t size, double drop, bint negative) noexcept nogil:
    """|(A - αvvᵀ)u - λu| for the eigenvector u so far; without one, the part of v outside A."""
    cdef double entry = 1.0, square = 1.0, rest
    cdef Py_ssize_t i
    for i in range(size - 1):
        entry *= space.beside[i] / space.pivots[i + 1]
        square += entry * entry
        if negative and square > HUGE:
            entry, square = entry / sqrt(square), 1.0
    rest = space.beside[size - 1] * entry
    return rest / sqrt(square) if negative else rest * drop / space.pivots[0]


cdef void _set_eigenvector(
    Space space, const floating* basis, Py_ssize_t size, floating[::1] u
) noexcept nogil:
    cdef double entry = 1.0, square = 1.0
    cdef Py_ssize_t n = space.n, i, k
    cdef floating factor
    for k in range(n):
        u[k] = basis[k]
    for i in range(1, size):
        entry *= -space.beside[i - 1] / space.pivots[i]
        square += entry * entry
        factor = <floating>entry
        for k in range(n):
            u[k] += factor * basis[i * n + k]
        if square > HUGE:
            factor = <floating>sqrt(square)
            for k in range(n):
                u[k] /= factor
            entry, square = entry / sqrt(square), 1.0
    factor = <floating>sqrt(_dot(&u[0], &u[0], n))
    for k in range(n):
        u[k] /= factor


cdef double _lowest_eigenpair(Space space, double drop) noexcept with gil:
    """Lowest eigenvalue of A - drop·vvᵀ from A's upper half; space.u is set to its eigenvector."""
    upper, v = np.asarray(space.upper), np.asarray(space.unit)
    whole = np.triu(upper) + np.triu(upper, 1).T
    values, vectors = np.linalg.eigh(whole - drop * np.outer(v, v))
    np.asarray(space.u)[:] = vectors[:, 0]
    return values[0]


cdef void_clones _set_upper(
    double[:, ::1] whole,
    const floating[:, ::1] A,
    const floating[:, ::1] R,
    const floating[::1] c,
    Py_ssize_t terms,
) noexcept nogil:
    """Upper half of A + Rᵀdiag(c)R, in double precision."""
    cdef Py_ssize_t i, j, k
    cdef floating factor
    for j in range(A.shape[0]):
        for k in range(j, A.shape[0]):
            whole[j, k] = A[j, k]
        for i in range(terms):
            factor = c[i] * R[i, j]
            for k in range(j, A.shape[0]):
                whole[j, k] += factor * R[i, k]


cdef void_clones _multiply(
    const floating[:, ::1] A,
    const floating[:, ::1] R,
    const floating[::1] c,
    Py_ssize_t terms,
    const floating* q,
    floating* w,
) noexcept nogil:
    """Set w to (A + Rᵀdiag(c)R)q."""
    cdef char lower = b"L"
    cdef int size = <int>A.shape[0], step = 1
    cdef floating one = 1, zero = 0, factor
    cdef Py_ssize_t i, k
    if floating is float:
        ssymv(&lower, &size, &one, <float*>&A[0, 0], &size, <float*>q, &step, &zero, w, &step)
    else:
        dsymv(&lower, &size, &one, <double*>&A[0, 0], &size, <double*>q, &step, &zero, w, &step)
    for i in range(terms):
        factor = 0
        for k in range(size):
            factor += R[i, k] * q[k]
        factor *= c[i]
        for k in range(size):
            w[k] += factor * R[i, k]


cdef void_clones _orthogonalize(
    const floating* basis,
    Py_ssize_t n,
    Py_ssize_t step,
    floating* w,
    double along,
    double* beside,
) noexcept nogil:
    """Subtract from w its components along rows 0 … step of the basis.

    The last two are known; rounding makes the others. Where subtracting these shortens w, it is
    repeated: twice is enough to leave the basis orthogonal to rounding. beside[step] is set to what
    is left of |w|.
    """
    cdef double before, after = 0.0
    cdef Py_ssize_t i
    _subtract[floating](w, <floating>along, basis + step * n, n)
    if step:
        _subtract[floating](w, <floating>beside[step - 1], basis + (step - 1) * n, n)
    before = sqrt(_dot[floating](w, w, n))
    for _ in range(2):
        for i in range(step + 1):
            _subtract[floating](w, _dot[floating](basis + i * n, w, n), basis + i * n, n)
        after = sqrt(_dot[floating](w, w, n))
        if after >= KEPT * before:
            break
        before = after
    beside[step] = after


cdef inline void _subtract(
    floating* w, floating factor, const floating* row, Py_ssize_t n
) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(n):
        w[k] -= factor * row[k]


cdef inline floating _dot(const floating* x, const floating* y, Py_ssize_t n) noexcept nogil:
    cdef floating total = 0
    cdef Py_ssize_t k
    for k in range(n):
        total += x[k] * y[k]
    return total


def shifted_eigenpair(A, v, double drop, double start, double zero, double accuracy):
    """λ < 0 and u with (A - drop·vvᵀ)u = λu for |v| = 1; λ = 0 if there is none below -zero.

    Only the upper half of A is read. λ is where s(λ) = vᵀ(A - λI)⁻¹v reaches 1/drop, and u is along
    x = (A - λI)⁻¹v. A factor yields s, s' = |x|² and s" at a guess, first `start`; the next guess
    is the root of the a + b/(c - λ) that agrees with all three, else Newton's, else a point in the
    bracket. It ends when the residual of u, |1 - drop·s|/|x|, is at most `accuracy` or stops
    falling. λ = 1 means that A - λI has no factor: A is then not semidefinite to rounding.
    """
    cdef Space space = Space(len(v), 8)
    space.upper, space.unit = np.array(A, np.float64), np.array(v, np.float64)
    if len(v) > SIDE:
        space.factor = np.empty_like(space.upper)
        space.u, space.x, space.half = np.empty((3, len(v)))
    value = _find_shifted(space, drop, start, zero, accuracy)
    return value, np.asarray(space.u)


cdef double _find_shifted(
    Space space, double drop, double start, double zero, double accuracy
) noexcept nogil:
    """`shifted_eigenpair` of space.upper and space.unit; sets space.u."""
    cdef double low = -INFINITY, high = -zero, root = start, best = INFINITY, found = start
    cdef double form, slope, curve, miss, residual, pole, newton
    cdef double* v = &space.unit[0]
    cdef double* x = &space.x[0]
    cdef double* bend = &space.half[0]
    cdef Py_ssize_t n = space.n, k
    for k in range(n):
        space.u[k] = v[k]
    for _ in range(FACTORIZATIONS):
        if not _solve_shifted(space, root):
            for k in range(n):
                space.u[k] = v[k]
            return 1.0
        form = slope = curve = 0.0
        for k in range(n):
            form += v[k] * x[k]
            slope += x[k] * x[k]
            curve += bend[k] * bend[k]
        miss = 1.0 - drop * form
        residual = fabs(miss) / sqrt(slope)
        if residual < best:
            best, found = residual, root
            for k in range(n):
                space.u[k] = x[k] / sqrt(slope)
        elif best < 1e3 * accuracy:
            break  # rounding
        if best <= accuracy:
            break
        if miss < 0.0:
            high = root
        else:
            low = root
        if low > -16.0 * zero:
            for k in range(n):
                space.u[k] = v[k]
            return 0.0
        pole = slope / curve
        newton = root + miss * form / slope
        root += pole - slope * pole * pole / (1.0 / drop - (form - slope * pole))
        if not (low < root and root < high):
            root = 100.0 * high if low == -INFINITY else -sqrt(low * high)
            root = newton if low < newton and newton < high else root
    return found


cdef bint _solve_shifted(Space space, double shift) noexcept nogil:
    """With A - shift·I = LLᵀ set x = (LLᵀ)⁻¹v, then half = L⁻¹x; False if there is no such L."""
    cdef char lower = b"L", plain = b"N"
    cdef int size = <int>space.n, one = 1, info = 0
    cdef double* factor = &space.factor[0, 0]
    cdef Py_ssize_t i, n = space.n
    memcpy(factor, &space.upper[0, 0], n * n * sizeof(double))
    for i in range(n):
        factor[i * n + i] -= shift
    dpotrf(&lower, &size, factor, &size, &info)
    if info != 0:
        return False
    memcpy(&space.x[0], &space.unit[0], n * sizeof(double))
    dpotrs(&lower, &size, &one, factor, &size, &space.x[0], &size, &info)
    memcpy(&space.half[0], &space.x[0], n * sizeof(double))
    dtrsv(&lower, &plain, &plain, &size, factor, &size, &space.half[0], &one)
    return info == 0
