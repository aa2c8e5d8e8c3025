"""Products with the matrix that turns eigenvectors, in less than the work of a product.

Its entries ûᵢ/(dᵢ - λⱼ) vary smoothly away from the diagonal, so a block beside the diagonal is of
low rank to rounding, whatever its size: typically 20 to 30. The diagonal is halved recursively;
blocks beside it are approximated by crosses of their own rows and columns [Bebendorf2000], and each
approximation is compared with its block before it is used.

References
----------
.. [Bebendorf2000] M. Bebendorf, "Approximation of boundary element matrices", Numerische
   Mathematik 86, 2000.
"""

from functools import partial

import numpy as np

from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.threads import processors, side_by_side

from libc.math cimport fabs
from similia.linalg.bound cimport multiply

LEAF = 96  #: rows of the smallest diagonal block
PAYS = 0.3  #: largest rank that pays, as a share of the rows of a block
#: largest difference between a matrix and its approximation; entries are at most one
ACCURACY = 4.0 * 2.0**-52
cdef double LARGEST = 4.0 * 2.0**-52  # the same

cdef enum:
    COMPARED = 32  # rows that are compared at a time


def turn_rows(turn, before, after):
    """Replace `after` by turn @ before, for a `turn` with rows and columns in ascending order."""
    leaves, beside = _partition(len(turn))
    blocks = []
    side_by_side([partial(_approximate, turn, i, j, blocks) for i, j in beside])
    parts = [slice(*ends) for ends in panels(before.shape[1], processors())]
    shared = partial(_multiply, turn, leaves, blocks)
    side_by_side([partial(shared, before[:, part], after[:, part]) for part in parts])


def _partition(n):
    """Diagonal blocks of range(n), and the blocks (rows, columns) beside them."""
    leaves, blocks, halves = [], [], [(0, n)]
    while halves:
        start, stop = halves.pop()
        if stop - start < 2 * LEAF:
            leaves.append(slice(start, stop))
            continue
        middle = (start + stop) // 2
        above, below = slice(start, middle), slice(middle, stop)
        blocks += [(above, below), (below, above)]
        halves += [(start, middle), (middle, stop)]
    return leaves, blocks


def _approximate(turn, rows, columns, blocks):
    """Append (rows, columns, U, V), with UᵀV equal to that block, or None if that does not pay."""
    block = turn[rows, columns]
    most = int(PAYS * min(block.shape))
    U, V = np.empty((most, block.shape[0])), np.empty((most, block.shape[1]))
    # The largest entries are those nearest to the diagonal.
    rank = crosses(block, len(block) - 1 if rows.start < columns.start else 0, U, V)
    blocks.append((rows, columns, *((None, None) if rank < 0 else (U[:rank], V[:rank]))))


def _multiply(turn, leaves, blocks, before, after):
    for leaf in leaves:
        gemm(False, turn[leaf, leaf], False, before[leaf], 0.0, after[leaf])
    for rows, columns, U, V in blocks:
        if U is None:
            gemm(False, turn[rows, columns], False, before[columns], 1.0, after[rows])
        elif len(U):
            short = np.empty((len(V), before.shape[1]))
            gemm(False, V, False, before[columns], 0.0, short)
            gemm(True, U, False, short, 1.0, after[rows])


def crosses(const double[:, :] A, Py_ssize_t row, double[:, ::1] U, double[:, ::1] V):
    """Set U and V so that UᵀV = A to `ACCURACY` in each entry, from rows and columns of A itself.

    Each term makes one row (`row` at first) and one column exact. Returns the number of terms, or
    -1 if there is not enough room.
    """
    cdef unsigned char[::1] used = np.zeros(A.shape[0], np.uint8)
    cdef double[:, ::1] found = np.empty((COMPARED, A.shape[1]))
    cdef Py_ssize_t rank = 0, rows = A.shape[0], columns = A.shape[1]
    cdef Py_ssize_t i, j, q, column, following, terms = -1
    cdef double largest, size, pivot
    with nogil:
        while rank < U.shape[0]:
            for j in range(columns):
                V[rank, j] = A[row, j]
            for q in range(rank):
                for j in range(columns):
                    V[rank, j] -= U[q, row] * V[q, j]
            used[row] = True
            column, largest = 0, 0.0
            for j in range(columns):
                if fabs(V[rank, j]) > largest:
                    column, largest = j, fabs(V[rank, j])
            following, size = -1, 0.0
            if largest > 0.1 * LARGEST:
                pivot = V[rank, column]
                for i in range(rows):
                    U[rank, i] = A[i, column]
                for q in range(rank):
                    for i in range(rows):
                        U[rank, i] -= U[q, i] * V[q, column]
                for j in range(columns):
                    V[rank, j] /= pivot
                rank += 1
                for i in range(rows):
                    if fabs(U[rank - 1, i]) > size and not used[i]:
                        following, size = i, fabs(U[rank - 1, i])
            if size <= 0.1 * LARGEST:
                # Seemingly done: compare, and continue where it differs.
                following = _worst_row(A, U[:rank], V[:rank], found, &size)
                if size <= LARGEST:
                    terms = rank
                    break
                if used[following]:  # rounding, which no further term mends
                    break
            row = following
    return terms


cdef Py_ssize_t _worst_row(
    const double[:, :] A,
    const double[:, ::1] U,
    const double[:, ::1] V,
    double[:, ::1] found,
    double* size,
) noexcept nogil:
    """Row in which UᵀV differs most from A, and by how much."""
    cdef Py_ssize_t worst = 0, part, start, stop, i, j
    cdef double difference
    size[0] = 0.0
    for part in range((A.shape[0] + COMPARED - 1) // COMPARED):
        start, stop = part * COMPARED, min((part + 1) * COMPARED, A.shape[0])
        multiply[double](True, U[:, start:stop], False, V, 0.0, found[: stop - start])
        for i in range(start, stop):
            for j in range(A.shape[1]):
                difference = fabs(A[i, j] - found[i - start, j])
                if difference > size[0]:
                    worst, size[0] = i, difference
    return worst
