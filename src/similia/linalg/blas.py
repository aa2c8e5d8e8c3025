"""Matrix products on all processors, and bilinear forms of rows.

Independent products are shared out in panels (`linalg.threads`), which run without Python's lock.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from similia.linalg.blocks import row_blocks
from similia.linalg.bound import gemm, sparse_forms, sparse_quadratic
from similia.linalg.threads import SMALL, processors, side_by_side

#: rows that are converted at a time
CONVERTED = 256
PANEL = 96  #: fewest rows or columns of a panel that still keep a processor busy


def panels(n: int, count: int) -> Iterator[tuple[int, int]]:
    """Cut range(n) into `count` consecutive ranges of about the same length."""
    return pairwise(n * i // count for i in range(count + 1))


def _shares(n: int, work: int) -> Iterable[tuple[int, int]]:
    """Panels of n rows or columns: as many as this much work pays for."""
    return [(0, n)] if work < SMALL else panels(n, max(1, min(processors(), n // PANEL)))


def products(*pairs):
    """A B for each pair; one of the two may be sparse."""
    results, tasks, total = [], [], 0
    for A, B in pairs:
        dtype = (A if sparse.issparse(B) else B).dtype
        out, work = np.empty((A.shape[0], B.shape[1]), dtype), A.shape[0] * B.size
        results.append(out)
        total += work
        if sparse.issparse(B):
            tasks.append(partial(_multiply, B.T, A.T, out.T))
            continue
        multiply = _multiply if sparse.issparse(A) else np.matmul
        whole = np.may_share_memory(A, B)  # numpy computes only half of AAᵀ
        for start, stop in [(0, B.shape[1])] if whole else _shares(B.shape[1], work):
            tasks.append(partial(multiply, A, B[:, start:stop], out[:, start:stop]))
    side_by_side(tasks, total)
    return results


def _multiply(A, B, out):
    """A sparse matrix times a dense one."""
    out[:] = A @ B


def add_cross_products(*terms):
    """Add Aᵀ diag(weights) B to C, in place, for each term (C, A, B, weights)."""
    tasks = []
    for C, A, B, weights in terms:
        weighted = B * weights[:, None].astype(B.dtype, copy=False)
        for start, stop in _shares(len(C), len(A) * C.size):
            part = A[:, start:stop]
            tasks.append(partial(gemm, True, part, False, weighted, 1.0, C[start:stop]))
    side_by_side(tasks, sum(len(A) * C.size for C, A, _, _ in terms))


def row_products(A, B):
    """Inner products of corresponding rows; B may be sparse."""
    if sparse.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel().astype(A.dtype, copy=False)
    return np.vecdot(A, B)


def wide_row_products(A, B):
    """Inner products of corresponding rows, in double precision."""
    found = np.empty(len(A))
    for block in row_blocks(len(A), CONVERTED):  # copies that stay in the cache
        found[block] = np.vecdot(*(side[block].astype(np.float64, copy=False) for side in (A, B)))
    return found


def sparse_rows(X):
    """Ends of the rows, places and values of a CSR matrix, as compiled loops take them."""
    return X.indptr.astype(np.intp, copy=False), X.indices.astype(np.intp, copy=False), X.data


def bilinear_forms(W, Q, P):
    """q_tᵀ W p_t for the rows of Q and P, both dense or both CSR."""
    if sparse.issparse(Q):
        return sparse_forms(W, *sparse_rows(Q), *sparse_rows(P))
    return row_products(products((Q, W))[0], P)


def quadratic_forms(A, Z):
    """zᵀAz for the rows of Z, dense or CSR without duplicates; A is symmetric."""
    if sparse.issparse(Z):
        return sparse_quadratic(A, *sparse_rows(Z))
    return bilinear_forms(A, Z, Z)
