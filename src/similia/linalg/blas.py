"""Matrix products, several at a time, on all processors.

Each function takes independent products and shares them out in panels (`linalg.threads`). The BLAS
underneath is numpy's, which lets other threads run meanwhile; see `single_blas_thread`.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse
from scipy.linalg import get_blas_funcs

from similia.linalg.threads import processors, side_by_side

#: fewest rows or columns of a panel that still keep a processor busy
PANEL = 96
#: multiplications below which sharing out costs more than it gains
SMALL = 2_000_000


def _panels(n: int, work: int) -> Iterator[slice]:
    count = 1 if work < SMALL else max(1, min(processors(), n // PANEL))
    edges = np.linspace(0, n, count + 1).astype(int)
    return (slice(start, stop) for start, stop in pairwise(edges.tolist()))


def products(*pairs):
    """Give A B for each pair; A may be sparse, B is dense."""
    results, tasks = [], []
    for A, B in pairs:
        out = np.empty((A.shape[0], B.shape[1]), dtype=B.dtype)
        results.append(out)
        for panel in _panels(B.shape[1], A.shape[0] * B.size):
            tasks.append(partial(_multiply, A, B, out, panel))
    side_by_side(tasks)
    return results


def _multiply(A, B, out, panel):
    if sparse.issparse(A):
        out[:, panel] = A @ B[:, panel]
    else:
        np.matmul(A, B[:, panel], out=out[:, panel])


def cross_products(*pairs):
    """Give A Bᵀ for each pair; B may be sparse, A is dense."""
    results = [np.empty((A.shape[0], B.shape[0]), dtype=A.dtype) for A, B in pairs]
    both = zip(pairs, results, strict=True)
    side_by_side([partial(_multiply_transposed, A, B, out) for (A, B), out in both])
    return results


def _multiply_transposed(A, B, out):
    if sparse.issparse(B):
        out[:] = (B @ A.T).T
    else:
        np.matmul(A, B.T, out=out)


def add_cross_products(*terms):
    """Add Aᵀ diag(weights) B to C, in place, for each term (C, A, B, weights)."""
    tasks = []
    for C, A, B, weights in terms:
        weighted = B * weights[:, None].astype(B.dtype, copy=False)
        for panel in _panels(C.shape[0], len(A) * C.size):
            tasks.append(partial(_accumulate, C, A, weighted, panel))
    side_by_side(tasks)


def _accumulate(C, A, B, panel):
    # In pieces, so that what is to be added is still in the cache when it is added.
    for start in range(panel.start, panel.stop, PANEL):
        rows = slice(start, min(start + PANEL, panel.stop))
        C[rows] += A[:, rows].T @ B


def solve_unit_lower(L, B):
    """Replace B by L⁻¹B for a lower triangular L with ones on the diagonal."""
    # BLAS counts in columns, so C-ordered arrays are handed over transposed.
    trsm = get_blas_funcs("trsm", dtype=B.dtype)
    trsm(1.0, L.T, B.T, side=1, diag=1, overwrite_b=True)


def row_products(A, B):
    """Give the inner products of corresponding rows; B may be sparse."""
    if sparse.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel().astype(A.dtype, copy=False)
    return np.vecdot(A, B)
