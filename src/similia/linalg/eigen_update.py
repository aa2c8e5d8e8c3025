"""Eigendecompositions that follow a rank-one change of their matrix.

From G = Q diag(values) Qᴴ that of G + ρxxᴴ is found in O(n²), except for one matrix product that
turns the eigenvectors, and only those that change at all (`linalg.deflation`, `linalg.secular`).

Loops keep eigenvectors as *rows* of real numbers, in any order, and change them in place: rows that
stay need not move, and a complex row is a real one of twice the length, because the matrix that
turns them is real.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.cauchy import turn_rows
from similia.linalg.compiled import compiled
from similia.linalg.deflation import deflate
from similia.linalg.secular import exact_weights, secular_roots, secular_vectors
from similia.linalg.threads import processors, side_by_side

#: eigenpairs from which on the work is shared out among processors
SHARED = 256
#: eigenpairs from which on the structure of the matrix that turns them pays
COMPRESSED = 384


class EigenWorkspace(NamedTuple):
    """Memory for `eigen_step`, to be used again and again: about three times that of the rows."""

    places: Any
    poles: Any
    weights: Any
    exact: Any
    roots: Any
    turn: Any
    before: Any
    after: Any


def eigen_workspace(rows):
    """Give the workspace for n eigenvectors, kept as real rows."""
    n, m = rows.shape
    poles, weights, exact, roots = np.empty((4, n))
    # Flat, so that the leading part of any size is contiguous.
    turn, before, after = np.empty(n * n), np.empty(n * m), np.empty(n * m)
    return EigenWorkspace(np.empty(n, np.intp), poles, weights, exact, roots, turn, before, after)


def rank_one_eigen_update(values, vectors, x, rho):
    """Eigenvalues, ascending, and eigenvectors of Q diag(values) Qᴴ + ρxxᴴ.

    Parameters
    ----------
    values : array of shape (n,)
        Eigenvalues, in any order.
    vectors : real or complex array of shape (n, n)
        Q, the orthonormal eigenvectors as columns, as `numpy.linalg.eigh` gives them.
    x : array of shape (n,)
        The vector itself, not its components in the eigenvectors. If it or Q is complex, so is
        the result.
    rho : number of either sign
    """
    kind = np.result_type(vectors, x, np.float64)
    rows = np.array(vectors.T, dtype=kind, order="C")
    values = np.array(values, dtype=np.float64)
    z = real_components(rows, np.asarray(x, dtype=kind))
    update_eigenpairs(values, rows.view(np.float64), z, float(rho))
    order = np.argsort(values)
    return values[order], rows[order].T


def rank_one_eigenvalues(values, z, rho):
    """Eigenvalues, ascending, of diag(values) + ρzzᴴ, in O(n²): for looking before stepping.

    With z = Qᴴx these are those of Q diag(values) Qᴴ + ρxxᴴ.
    """
    values, z = np.array(values, dtype=np.float64), np.ascontiguousarray(np.abs(z), np.float64)
    work = eigen_workspace(np.empty((len(values), 0)))
    k, scale, strength = _prepared(values, np.empty((0, 0)), z, float(rho), work)
    turn = work.turn[: k * k].reshape(k, k)
    secular_roots(0, k, work.poles[:k], work.weights[:k], strength, work.roots, turn)
    values[work.places[:k]] = scale * work.roots[:k]
    return np.sort(values)


def real_components(rows, x):
    """Give the components of x in eigenvectors kept as rows, as real numbers.

    Real ones are plain products. Complex rows are turned in place, each by a number of modulus one,
    so that x = Σ zᵢ qᵢ with zᵢ ≥ 0.
    """
    if rows.dtype.kind != "c":
        return rows @ x
    components = rows.conj() @ x
    z = np.abs(components)
    np.divide(components, z, out=components, where=z > 0.0)
    rows *= np.where(z > 0.0, components, 1.0)[:, None]
    return z


def update_eigenpairs(values, rows, z, rho, work=None):
    """Change eigenpairs to those of the matrix with ρxxᴴ added; give how many took part.

    `values` (n), `rows` (n × n, or n × 2n for complex ones: ``rows.view(float)``) and real `z`, the
    components of x in the rows, are float64 and C-ordered; order among eigenpairs does not matter,
    and none is kept. As `eigen_step`, but large problems use all processors.
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
    """Change eigenpairs in place; see `update_eigenpairs`. For loops that are compiled."""
    k, scale, strength = _prepared(values, rows, z, rho, work)
    poles, weights, exact, turn, before, after = _views(work, k, rows)
    secular_roots(0, k, poles, weights, strength, work.roots, turn)
    if k > 2:
        exact_weights(0, k, poles, weights, turn, exact)
        secular_vectors(0, k, exact, turn)
    _multiply(0, k, turn, before, after)
    _finish(values, rows, scale, k, work)
    return k


@compiled
def _prepared(values, rows, z, rho, work):
    """Deflate, and gather the rows that are to be turned."""
    k, scale, strength = deflate(values, rows, z, rho, work.places, work.poles, work.weights)
    if rows.size:
        before = work.before[: k * rows.shape[1]].reshape((k, rows.shape[1]))
        for j in range(k):
            for i in range(rows.shape[1]):
                before[j, i] = rows[work.places[j], i]
    return k, scale, strength


@compiled
def _views(work, k, rows):
    """Give the leading parts of the workspace, for k eigenpairs; all rows are turned in place."""
    m = rows.shape[1]
    turn = work.turn[: k * k].reshape((k, k))
    before = work.before[: k * m].reshape((k, m))
    after = rows if k == len(rows) else work.after[: k * m].reshape((k, m))
    return work.poles[:k], work.weights[:k], work.exact[:k], turn, before, after


@compiled
def _multiply(start, stop, turn, before, after):
    """Put a panel of turn @ before into `after`."""
    if stop > start:
        gemm(False, turn[start:stop], False, before, 0.0, after[start:stop])


@compiled
def _finish(values, rows, scale, k, work):
    """Put changed eigenpairs into their places; none has one of its own where all have changed."""
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
