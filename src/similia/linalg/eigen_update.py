"""Eigendecompositions that follow a rank-one change of their matrix.

From G = Q diag(values) Qᴴ that of G + ρxxᴴ takes O(n²), except for one matrix product that turns
the eigenvectors, and only those that change at all (`linalg.secular`).

Loops keep eigenvectors as *rows* of real numbers, in any order, and change them in place: rows that
stay need not move, and a complex row is a real one of twice the length, because the matrix that
turns them is real.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import linalg

from similia.contract import Array
from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.cauchy import turn_rows
from similia.linalg.compiled import compiled
from similia.linalg.secular import deflate, exact_weights, secular_roots, secular_vectors
from similia.linalg.threads import processors, side_by_side

#: eigenpairs from which on the work is shared out among processors
SHARED = 256
#: eigenpairs from which on the structure of the matrix that turns them pays
COMPRESSED = 384
#: defect of orthogonality from which Newton's iteration may fail to converge
FAR = 0.5
#: defect, for each of n rows, that no iteration improves
ROUNDING = 4.0 * np.finfo(np.float64).eps
#: Newton's iterations; each squares the defect, so from FAR seven reach rounding
NEWTON = 10


class EigenWorkspace(NamedTuple):
    """Reusable memory for `eigen_step`: about three times that of the rows."""

    places: Array
    poles: Array
    weights: Array
    exact: Array
    roots: Array
    turn: Array
    before: Array
    after: Array


def eigen_workspace(rows):
    """Workspace for n eigenvectors, kept as real rows."""
    n, m = rows.shape
    poles, weights, exact, roots = np.empty((4, n))
    # Flat, so that the leading part of any size is contiguous.
    turn, before, after = np.empty(n * n), np.empty(n * m), np.empty(n * m)
    return EigenWorkspace(np.empty(n, np.intp), poles, weights, exact, roots, turn, before, after)


def real_components(rows, x):
    """Components of x in eigenvectors kept as rows, as real numbers.

    For real rows these are plain products. Complex rows are turned in place, each by a number of
    modulus one, so that x = Σ zᵢ qᵢ with zᵢ ≥ 0.
    """
    if rows.dtype.kind != "c":
        return rows @ x
    components = rows.conj() @ x
    z = np.abs(components)
    np.divide(components, z, out=components, where=z > 0.0)
    rows *= np.where(z > 0.0, components, 1.0)[:, None]
    return z


def update_eigenpairs(values, rows, z, rho, work=None):
    """Change eigenpairs to those of the matrix with ρxxᴴ added; return how many changed.

    `values` (n), `rows` (n × n, or n × 2n for complex ones: ``rows.view(float)``) and real `z`, the
    components of x in the rows, are float64 and C-ordered. Eigenpairs may have any order, and it is
    not kept. As `eigen_step`, but large problems use all processors.
    """
    work = eigen_workspace(rows) if work is None else work
    if len(values) < SHARED:
        return eigen_step(values, rows, z, rho, work)
    k, scale, strength = _prepared(values, rows, z, rho, work)
    poles, weights, exact, turn, before, after = _views(work, k, rows)
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
    _finish(values, rows, scale, k, work)
    return k


@compiled
def eigen_step(values, rows, z, rho, work):
    """Change eigenpairs in place, for compiled loops; see `update_eigenpairs`."""
    k, scale, strength = _prepared(values, rows, z, rho, work)
    poles, weights, exact, turn, before, after = _views(work, k, rows)
    first = np.intp(0)  # a literal 0 would be a type of its own, and compile all twice
    secular_roots(first, k, poles, weights, strength, work.roots, turn)
    if k > 2:
        exact_weights(first, k, poles, weights, turn, exact)
        secular_vectors(first, k, exact, turn)
    _multiply(first, k, turn, before, after)
    _finish(values, rows, scale, k, work)
    return k


@compiled
def _prepared(values, rows, z, rho, work):
    """Deflate, and gather the rows to be turned."""
    k, scale, strength = deflate(values, rows, z, rho, work.places, work.poles, work.weights)
    if rows.size:
        before = work.before[: k * rows.shape[1]].reshape((k, rows.shape[1]))
        for j in range(k):
            for i in range(rows.shape[1]):
                before[j, i] = rows[work.places[j], i]
    return k, scale, strength


@compiled
def _views(work, k, rows):
    """Leading parts of the workspace for k eigenpairs; if all change, they are turned in place."""
    m = rows.shape[1]
    turn = work.turn[: k * k].reshape((k, k))
    before = work.before[: k * m].reshape((k, m))
    after = rows if k == len(rows) else work.after[: k * m].reshape((k, m))
    return work.poles[:k], work.weights[:k], work.exact[:k], turn, before, after


@compiled
def _multiply(start, stop, turn, before, after):
    """Set rows start … stop-1 of `after` to those of turn @ before."""
    if stop > start:
        gemm(False, turn[start:stop], False, before, 0.0, after[start:stop])


@compiled
def _finish(values, rows, scale, k, work):
    """Write back changed eigenpairs; if all changed, order is free."""
    if k == len(rows):
        for j in range(k):
            values[j] = scale * work.roots[j]
        return
    m = rows.shape[1]
    after = work.after[: k * m].reshape((k, m))
    for j in range(k):
        values[work.places[j]] = scale * work.roots[j]
        for i in range(m):
            rows[work.places[j], i] = after[j, i]


def orthogonality_defect(rows):
    """Estimate of |RRᴴ - I|_F for a square R, by two products with a vector of signs.

    The square of the estimate has the right expectation over random signs. They are always the
    same, so that computations can be repeated.
    """
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=len(rows))
    return float(np.linalg.norm(rows @ (rows.conj().T @ signs) - signs))


def orthogonalize(rows):
    """Replace R by the orthonormal rows nearest to it; return the estimated defect before.

    Newton-Schulz, R <- R + (I - RRᴴ)R/2, converges to the polar factor, argmin |R - U|_F over
    unitary U, from an R close to it. Rows that are far off are first replaced by those of a QR
    factorization: orthonormal, and in the order of the rows.
    """
    first = orthogonality_defect(rows)
    if not first < FAR:
        rows[:] = _orthonormal_rows(rows)
    for _ in range(NEWTON):
        if orthogonality_defect(rows) <= ROUNDING * len(rows):
            break
        error = -(rows @ rows.conj().T)
        error[np.diag_indices_from(error)] += 1.0
        rows += 0.5 * (error @ rows)
    return first


def _orthonormal_rows(rows):
    Q, R = linalg.qr(rows.T)
    signs = np.diagonal(R) / np.maximum(np.abs(np.diagonal(R)), np.finfo(np.float64).tiny)
    return (Q * np.where(np.abs(signs) > 0.0, signs, 1.0)).T
