"""Matrix products, several at a time, on all processors.

Each function takes independent products and shares them out in panels (`linalg.threads`), which run
without Python's lock.
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from similia.linalg.bound import gemm
from similia.linalg.compiled import compiled
from similia.linalg.threads import SMALL, processors, side_by_side

#: fewest rows or columns of a panel that still keep a processor busy
PANEL = 96


def shares(n: int, work: int) -> int:
    """Number of processors worth sharing n rows or columns among, for so much work."""
    return 1 if work < SMALL else max(1, min(processors(), n // PANEL))


def panels(n: int, count: int) -> Iterator[tuple[int, int]]:
    """Ends of `count` consecutive ranges of about the same length that make up range(n)."""
    return pairwise(np.linspace(0, n, count + 1).astype(int).tolist())


def products(*pairs):
    """A B for each pair; A may be sparse, B is dense."""
    results, tasks = [], []
    work = sum(A.shape[0] * B.size for A, B in pairs)
    for A, B in pairs:
        out = np.empty((A.shape[0], B.shape[1]), dtype=B.dtype)
        results.append(out)
        for start, stop in panels(B.shape[1], shares(B.shape[1], A.shape[0] * B.size)):
            tasks.append(partial(_multiply, A, B[:, start:stop], out[:, start:stop]))
    side_by_side(tasks, work)
    return results


def _multiply(A, B, out):
    if sparse.issparse(A):
        out[:] = A @ B
    else:
        np.matmul(A, B, out=out)


def cross_products(*pairs):
    """A Bᵀ for each pair; B may be sparse, A is dense."""
    results = [np.empty((A.shape[0], B.shape[0]), dtype=A.dtype) for A, B in pairs]
    both = zip(pairs, results, strict=True)
    work = sum(A.size * B.shape[0] for A, B in pairs)
    side_by_side([partial(_multiply_transposed, A, B, out) for (A, B), out in both], work)
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
        for start, stop in panels(len(C), shares(len(C), len(A) * C.size)):
            tasks.append(partial(_add_cross_product, C, A, weighted, start, stop))
    side_by_side(tasks, sum(len(A) * C.size for C, A, _, _ in terms))


@compiled
def _add_cross_product(C, A, B, start, stop):
    """Add AᵀB to C, rows start … stop-1 of it. Whole arrays: panels would compile separately."""
    gemm(True, A[:, start:stop], False, B, 1.0, C[start:stop])


def row_products(A, B):
    """Inner products of corresponding rows; B may be sparse."""
    if sparse.issparse(B):
        return np.asarray(B.multiply(A).sum(axis=1)).ravel().astype(A.dtype, copy=False)
    return np.vecdot(A, B)
