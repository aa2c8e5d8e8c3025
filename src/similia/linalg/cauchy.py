"""Products with the matrix that turns eigenvectors, in less than the work of a product.

Its entries ûᵢ/(dᵢ - λⱼ) vary smoothly away from the diagonal, so a block beside the diagonal is of
low rank to rounding, whatever its size: around 20 to 30 for spectra as they come. The diagonal is
halved again and again; blocks beside it are approximated by crosses of their own rows and columns
[Bebendorf2000], and each approximation is compared with its block before it is used.

References
----------
.. [Bebendorf2000] M. Bebendorf, "Approximation of boundary element matrices", Numerische
   Mathematik 86, 2000.
"""

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.compiled import compiled, overwrite
from similia.linalg.threads import processors, side_by_side

#: rows of the smallest diagonal block
LEAF = 96
#: largest rank that pays, for each row of a block
PAYS = 0.3
#: largest difference between a block and what is used instead of it; entries are at most one
ACCURACY = 4.0 * np.finfo(np.float64).eps
#: rows that are compared at a time
COMPARED = 32


class Block(NamedTuple):
    """Rows and columns beside the diagonal, and U, V with UᵀV for them; None if it does not pay."""

    rows: slice
    columns: slice
    U: Any
    V: Any


def turn_rows(turn, before, after):
    """Replace `after` by turn @ before, for a `turn` with rows and columns in ascending order."""
    leaves, beside = _partition(len(turn))
    blocks: list[Block] = []
    side_by_side([partial(_approximate, turn, i, j, blocks) for i, j in beside])
    tasks = []
    for start, stop in panels(before.shape[1], processors()):
        columns = before[:, start:stop], after[:, start:stop]
        tasks.append(partial(_multiply, turn, leaves, blocks, *columns))
    side_by_side(tasks)


def _partition(n):
    """Give the diagonal blocks of range(n), and the pairs (rows, columns) of those beside it."""
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
    block = turn[rows, columns]
    most = int(PAYS * min(block.shape))
    U, V = np.empty((most, block.shape[0])), np.empty((most, block.shape[1]))
    # The largest entries are those nearest to the diagonal.
    rank = crosses(block, len(block) - 1 if rows.start < columns.start else 0, U, V)
    found = (None, None) if rank < 0 else (U[:rank], V[:rank])
    blocks.append(Block(rows, columns, *found))


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


@compiled
def crosses(A, row, U, V):
    """Find U and V with UᵀV = A, to `ACCURACY` in each entry, from rows and columns of A itself.

    Each term makes one row, the given one at first, and one column exact. Gives how many terms it
    takes; -1 if more would be needed than there is room for.
    """
    used = np.zeros(len(A), np.bool_)
    rank = 0
    while rank < len(U):
        u, v = U[rank], V[rank]
        overwrite(v, A[row])
        for q in range(rank):
            for j in range(len(v)):
                v[j] -= U[q, row] * V[q, j]
        used[row] = True
        column, largest = 0, 0.0
        for j in range(len(v)):
            if abs(v[j]) > largest:
                column, largest = j, abs(v[j])
        following, size = -1, 0.0
        if largest > 0.1 * ACCURACY:
            pivot = v[column]
            for i in range(len(u)):
                u[i] = A[i, column]
            for q in range(rank):
                for i in range(len(u)):
                    u[i] -= U[q, i] * V[q, column]
            for j in range(len(v)):
                v[j] /= pivot
            rank += 1
            for i in range(len(u)):
                if abs(u[i]) > size and not used[i]:
                    following, size = i, abs(u[i])
        if size <= 0.1 * ACCURACY:
            # It seems to be all: compare, and go on where it is not.
            following, size = _worst_row(A, U[:rank], V[:rank])
            if size <= ACCURACY:
                return rank
            if used[following]:  # rounding, which no further term mends
                return -1
        row = following
    return -1


@compiled
def _worst_row(A, U, V):
    """Give the row in which UᵀV differs most from A, and how much."""
    worst, size = 0, 0.0
    found = np.empty((COMPARED, A.shape[1]))
    for start in range(0, len(A), COMPARED):
        stop = min(start + COMPARED, len(A))
        gemm(True, U[:, start:stop], False, V, 0.0, found[: stop - start])
        for i in range(start, stop):
            for j in range(A.shape[1]):
                difference = abs(A[i, j] - found[i - start, j])
                if difference > size:
                    worst, size = i, difference
    return worst, size
