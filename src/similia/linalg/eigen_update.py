"""Eigendecompositions that follow a rank-one change of their matrix.

From G = Q diag(values) Qᴴ that of G + ρxxᴴ takes O(n²), except for one matrix product that turns
the eigenvectors, and only those that change at all (`linalg.secular`).

Eigenvectors are *rows* of real numbers, in any order, changed in place: rows that stay need not
move, and a complex row is a real one of twice the length, because the matrix that turns it is real.
"""

from collections import namedtuple
from functools import partial

import numpy as np
from numba.extending import overload
from scipy import linalg

from similia.linalg.blas import panels
from similia.linalg.bound_by_numba import gemm
from similia.linalg.cauchy import turn_rows
from similia.linalg.compiled import compiled
from similia.linalg.secular import deflate, exact_weights, secular_roots, secular_vectors
from similia.linalg.threads import processors, side_by_side

SHARED = 256  #: eigenpairs from which on the work is shared out among processors
COMPRESSED = 384  #: eigenpairs from which on the structure of the matrix that turns them pays
FAR = 0.5  #: defect of orthogonality from which Newton's iteration may fail to converge
ROUNDING = 4.0 * np.finfo(np.float64).eps  #: defect, for each of n rows, that no iteration improves
NEWTON = 10  #: Newton's iterations; each squares the defect, so from FAR seven reach rounding

EigenWorkspace = namedtuple("EigenWorkspace", "places poles weights exact roots turn before after")


def eigen_workspace(rows):
    """Reusable memory for `eigen_step` on such rows: about three times theirs."""
    n, m = rows.shape
    poles, weights, exact, roots = np.empty((4, n))
    # Flat, so that the leading part of any size is contiguous.
    turn, before, after = np.empty(n * n), np.empty(n * m), np.empty(n * m)
    return EigenWorkspace(np.empty(n, np.intp), poles, weights, exact, roots, turn, before, after)


def real_components(rows, x):
    """Components of x in the rows, which are turned in place, if complex, to make them real."""
    if rows.dtype.kind != "c":
        return rows @ x
    components = rows.conj() @ x
    z = np.abs(components)
    np.divide(components, z, out=components, where=z > 0.0)
    rows *= np.where(z > 0.0, components, 1.0)[:, None]
    return z


def update_eigenpairs(values, rows, z, rho, work):
    """Change eigenpairs to those of the matrix with ρxxᴴ added; return how many changed.

    `values` (n), `rows` (n × n, or n × 2n for complex ones: ``rows.view(float)``) and real `z`, the
    components of x in the rows, are float64 and C-ordered. Large problems use all processors.
    """
    if len(values) < SHARED:
        return eigen_step(values, rows, z, rho, work)
    k, scale, strength, views = _prepared(values, rows, z, rho, work)
    poles, weights, exact, turn, before, after = views
    parts = list(panels(k, processors() if k >= SHARED else 1))

    def shared(stage, *arguments):
        side_by_side([partial(stage, *part, *arguments) for part in parts])

    shared(secular_roots, poles, weights, strength, work.roots, turn)
    if k > 2:
        shared(exact_weights, poles, weights, turn, exact)
        shared(secular_vectors, exact, turn)
    if k >= COMPRESSED:
        turn_rows(turn, before, after)
    else:
        shared(_multiply, turn, before, after)
    _finish(values, rows, scale, after, work)
    return k


@compiled
def eigen_step(values, rows, z, rho, work):
    """`update_eigenpairs` on one processor."""
    k, scale, strength, views = _prepared(values, rows, z, rho, work)
    poles, weights, exact, turn, before, after = views
    first = np.intp(0)  # a literal 0 would be a type of its own, and compile all twice
    secular_roots(first, k, poles, weights, strength, work.roots, turn)
    if k > 2:
        exact_weights(first, k, poles, weights, turn, exact)
        secular_vectors(first, k, exact, turn)
    _multiply(first, k, turn, before, after)
    _finish(values, rows, scale, after, work)
    return k


@overload(update_eigenpairs)
def _within_compiled_code(values, rows, z, rho, work):
    return lambda values, rows, z, rho, work: eigen_step(values, rows, z, rho, work)


@compiled
def _prepared(values, rows, z, rho, work):
    """Deflate, and gather the k rows to be turned; if all are, they are turned in place."""
    k, scale, strength = deflate(values, rows, z, rho, work.places, work.poles, work.weights)
    m = rows.shape[1]
    turn = work.turn[: k * k].reshape((k, k))
    before = work.before[: k * m].reshape((k, m))
    after = rows if k == len(rows) else work.after[: k * m].reshape((k, m))
    for j in range(k):
        for i in range(m):
            before[j, i] = rows[work.places[j], i]
    views = (work.poles[:k], work.weights[:k], work.exact[:k], turn, before, after)
    return k, scale, strength, views


@compiled
def _multiply(start, stop, turn, before, after):
    """Set rows start … stop-1 of `after` to those of turn @ before."""
    if stop > start:
        gemm(False, turn[start:stop], False, before, 0.0, after[start:stop])


@compiled
def _finish(values, rows, scale, after, work):
    """Write back changed eigenpairs; if all changed, rows are in place, and order is free."""
    for j in range(len(after)):
        place = j if len(after) == len(rows) else work.places[j]
        values[place] = scale * work.roots[j]
        if len(after) < len(rows):
            for i in range(rows.shape[1]):
                rows[place, i] = after[j, i]


def orthogonality_defect(rows):
    """Estimate of |RRᴴ - I|_F for a square R, by two products with a vector of signs.

    Its square has the right expectation over random signs; a fixed choice makes it repeatable.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=len(rows))
    return float(np.linalg.norm(rows @ (rows.conj().T @ signs) - signs))


def orthogonalize(rows):
    """Replace R by the orthonormal rows nearest to it; return the estimated defect before.

    Newton-Schulz, R <- R + (I - RRᴴ)R/2, converges to the polar factor, argmin |R - U|_F over
    unitary U, from an R close to it. Rows far off are first replaced by those of a QR
    factorization: orthonormal, in the same order and directions.
    """
    first = orthogonality_defect(rows)
    if not first < FAR:
        Q, R = linalg.qr(rows.T)
        signs = np.diagonal(R) / np.maximum(np.abs(np.diagonal(R)), np.finfo(np.float64).tiny)
        rows[:] = (Q * np.where(np.abs(signs) > 0.0, signs, 1.0)).T
    for _ in range(NEWTON):
        if orthogonality_defect(rows) <= ROUNDING * len(rows):
            break
        error = -(rows @ rows.conj().T)
        error[np.diag_indices_from(error)] += 1.0
        rows += 0.5 * (error @ rows)
    return first
