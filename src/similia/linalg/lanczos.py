"""The eigenvalue below zero that a rank-one subtraction can give to a semidefinite matrix.

For A ⪰ 0 the matrix A - αvvᵀ has at most one negative eigenvalue (interlacing), and its eigenvector
is (A - λI)⁻¹v. So it lies in the Krylov space of A *started at v*, and Lanczos finds it in tens of
products with A. In the basis of that space A is tridiagonal, T, and αvvᵀ is its first entry alone.
"""

import numpy as np

from similia.linalg.bound import symmetric_product
from similia.linalg.compiled import compiled, overwrite
from similia.linalg.shifted import shifted_eigenpair

#: rows of the Krylov basis that are reserved at first
ROWS = 48
#: most steps of Newton's method for one root; it needs about three
NEWTON = 60
#: side up to which a few factorizations cost less than many products Aq
SMALL = 320
#: products after which that is done; they give the first guess
PATIENCE = 24
#: squared length at which a vector that is being built is made short again; within single precision
HUGE = 1e12


@compiled
def negative_eigenpair(A, R, c, v, alpha, tol):
    """Give λ < 0 and u with (A + Rᵀdiag(c)R - αvvᵀ)u = λu, |u| = 1; λ = 0 if there is none.

    A + Rᵀdiag(c)R is positive semidefinite, where the rows of R are rank-one terms that A still
    lacks. `tol` is the largest residual, relative to the size of the matrix. Where rounding has
    taken A a little below zero, λ is the lowest eigenvalue if A is small; else u is some vector of
    length one, and finite, for a λ that is as small as that rounding.
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
    """Give the λ < 0 at which T - λI loses its definiteness when its first entry falls by `drop`.

    Elimination from the last row upwards leaves the pivots p_i(λ) = T_ii - λ - T_{i,i+1}²/p_{i+1};
    all of them are positive, and λ is the root of p_0(λ) = drop. p_0 is concave and falling, so
    Newton's method from the right goes down to the root and never beyond. Without a root to the
    left of `start` it is `start` that is given, with its pivots.
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
    """Give |(A - αvvᵀ)u - λu| for the eigenvector u so far; without one, what of v is not in A."""
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
    """Give the lowest eigenvalue of A - drop·vvᵀ and its eigenvector, of A's upper half."""
    n = len(v)
    M = np.empty((n, n))
    for j in range(n):
        for k in range(j, n):
            M[j, k] = M[k, j] = upper[j, k] - drop * v[j] * v[k]
    values, vectors = np.linalg.eigh(M)
    return values[0], np.ascontiguousarray(vectors[:, 0])


@compiled
def _upper(A, R, c):
    """Give A + Rᵀdiag(c)R in double precision; below the diagonal it is not made."""
    whole = A.astype(np.float64)
    for j in range(len(A)):
        for i in range(len(c)):
            factor = c[i] * R[i, j]
            for k in range(j, len(A)):
                whole[j, k] += factor * R[i, k]
    return whole


@compiled
def _product(A, R, c, q):
    """Give (A + Rᵀdiag(c)R)q."""
    w = np.empty_like(q)
    symmetric_product(A, q, w)
    for i in range(len(c)):
        factor = c[i] * _dot(R[i], q)
        for k in range(len(q)):
            w[k] += factor * R[i, k]
    return w


@compiled
def _orthogonalize(basis, size, w):
    """Take from w its components along the first rows of the basis."""
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
