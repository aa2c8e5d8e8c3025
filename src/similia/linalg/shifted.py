"""The eigenvalue of `lanczos` by factorizations, for small matrices on which Lanczos is slow.

Where it is close to zero, as it often is when A has many small eigenvalues, a Krylov space tells it
from its neighbors only with nearly all its dimensions. A Cholesky factor of A - λI costs as many
operations as d/6 products Aq, and less time, since they run from the cache.
"""

import numpy as np

from similia.linalg.bound import LOWER, PLAIN, routine
from similia.linalg.compiled import compiled, overwrite

_dpotrf = routine("cython_lapack", "dpotrf", 5)
_dpotrs = routine("cython_lapack", "dpotrs", 8)
_dtrsv = routine("cython_blas", "dtrsv", 8)

#: most factorizations for one eigenvalue; from a good start it needs three or four
FACTORIZATIONS = 40


@compiled
def shifted_eigenpair(A, v, drop, start, zero, accuracy):
    """Give λ < 0 and u with (A - drop·vvᵀ)u = λu for |v| = 1; λ = 0 if there is none below -zero.

    A is symmetric, and only its upper half is read. λ is where s(λ) = vᵀ(A - λI)⁻¹v comes up to
    1/drop, and u is along x = (A - λI)⁻¹v. `start` is a first guess of λ. A factor gives s,
    s' = |x|² and s", and with them the one function a + b/(c - λ) that agrees with s so far. The
    next guess is its root or else Newton's, if it lies where λ can be, or else a point between.
    The residual of u, |1 - drop·s|/|x|, ends at `accuracy` or where rounding stops it. λ = 1 says
    that A - λI could not be factored: A is then not semidefinite to rounding.
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
    """Give the first of three guesses that lies between low and high."""
    guess = root + pole - slope * pole * pole / (1.0 / drop - offset)
    if low < guess < high:
        return guess
    guess = root + miss * form / slope
    if low < guess < high:
        return guess
    return 100.0 * high if low == -np.inf else -np.sqrt(low * high)


@compiled
def _solve_shifted(A, shift, x, half):
    """With A - shift·I = LLᵀ make x = (LLᵀ)⁻¹half, then half = L⁻¹x; say if there is such an L."""
    factor = A.copy()
    for i in range(len(x)):
        factor[i, i] -= shift
    letters = np.array([LOWER, PLAIN], np.uint8)
    sizes = np.array([len(x), 1, 0], np.int32)
    letter, size = letters.ctypes.data, sizes.ctypes.data
    _dpotrf(letter, size, factor.ctypes.data, size, size + 8)
    if sizes[2] != 0:
        return False
    overwrite(x, half)
    _dpotrs(letter, size, size + 4, factor.ctypes.data, size, x.ctypes.data, size, size + 8)
    overwrite(half, x)
    # fmt: off
    _dtrsv(letter, letter + 1, letter + 1, size, factor.ctypes.data, size, half.ctypes.data,
           size + 4)
    # fmt: on
    return letters[0] + sizes[0] + factor[0, 0] > 0.0  # used, so that they outlive the calls
