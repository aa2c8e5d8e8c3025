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

from similia.contract import Array
from similia.linalg.blas import panels
from similia.linalg.bound import gemm
from similia.linalg.crosses import ACCURACY, crosses
from similia.linalg.threads import processors, side_by_side

__all__ = ["ACCURACY", "crosses", "turn_rows"]

LEAF = 96  #: rows of the smallest diagonal block
PAYS = 0.3  #: largest rank that pays, as a share of the rows of a block


def turn_rows(turn, before, after):
    """Replace `after` by turn @ before, for a `turn` with rows and columns in ascending order."""
    leaves, beside = _partition(len(turn))
    blocks: list[tuple[slice, slice, Array | None, Array | None]] = []
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
