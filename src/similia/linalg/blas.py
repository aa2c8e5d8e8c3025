"""Matrix products on all processors, and bilinear forms of rows.

Independent products are shared out in panels (`linalg.threads`), which run without Python's lock.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise

import numpy as np
from scipy import sparse

from similia.linalg.bound import gemm
from similia.linalg.compiled import compiled
from similia.linalg.threads import SMALL, processors, side_by_side

PANEL = 96  #: fewest rows or columns of a panel that still keep a processor busy


def panels(n: int, count: int) -> Iterator[tuple[int, int]]:
    """Ends of `count` consecutive ranges of about the same length that make up range(n)."""
    return pairwise(n * i // count for i in range(count + 1))


def _shares(n: int, work: int) -> Iterable[tuple[int, int]]:
    """Panels of n rows or columns, as many as pay for so many multiplications."""
    return [(0, n)] if work < SMALL else panels(n, max(1, min(processors(), n // PANEL)))


def products(*pairs):
    """A B for each pair; one of the two may be sparse."""
    results, tasks, total = [], [], 0
    for A, B in pairs:
        dtype = (A if sparse.issparse(B) else B).dtype
        out, work = np.empty((A.shape[0], B.shape[1]), dtype), A.shape[0] * B.size
        results.append(out)
        total += work
        if sparse.issparse(B) or np.may_share_memory(A, B):  # numpy computes only half of AAᵀ
            tasks.append(partial(_multiply, A, B, out))
            continue
        for start, stop in _shares(B.shape[1], work):
            tasks.append(partial(_multiply, A, B[:, start:stop], out[:, start:stop]))
    side_by_side(tasks, total)
    return results


@compiled
def row_product(q, B):
    """Product of one row with a matrix: on this thread, as a BLAS would wake up others for it."""
    out = np.zeros(B.shape[1], B.dtype)
    n = len(q) - len(q) % 8
    for i in range(0, n, 8):  # an eighth of the traffic of one at a time
        x, rows = q[i : i + 8], B[i : i + 8]
        for j in range(len(out)):
            first = (x[0] * rows[0, j] + x[1] * rows[1, j]) + (
                x[2] * rows[2, j] + x[3] * rows[3, j]
            )
            last = (x[4] * rows[4, j] + x[5] * rows[5, j]) + (x[6] * rows[6, j] + x[7] * rows[7, j])
            out[j] += first + last
    for i in range(n, len(q)):
        for j in range(len(out)):
            out[j] += q[i] * B[i, j]
    return out


def _multiply(A, B, out):
    if sparse.issparse(B):
        out[:] = (B.T @ A.T).T
    elif sparse.issparse(A):
        out[:] = A @ B
    else:
        np.matmul(A, B, out=out)


def add_cross_products(*terms):
    """Add Aᵀ diag(weights) B to C, in place, for each term (C, A, B, weights)."""
    tasks = []
    for C, A, B, weights in terms:
        weighted = B * weights[:, None].astype(B.dtype, copy=False)
        for start, stop in _shares(len(C), len(A) * C.size):
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


@compiled
def wide_row_products(A, a, B, b):
    """Inner products of rows a of A with rows b of B, in double precision whatever theirs is."""
    found = np.empty(len(a))
    for i in range(len(a)):
        total, x, y = 0.0, A[a[i]], B[b[i]]
        for j in range(len(x)):
            total += np.float64(x[j]) * np.float64(y[j])
        found[i] = total
    return found


def bilinear_forms(W, Q, P):
    """q_tᵀ W p_t for the rows of Q and P, both dense or both CSR."""
    if sparse.issparse(Q):
        return _sparse_forms(W, Q.indptr, Q.indices, Q.data, P.indptr, P.indices, P.data)
    return row_products(products((Q, W))[0], P)


@compiled
def _sparse_forms(W, q_ptr, q_index, q_value, p_ptr, p_index, p_value):
    forms = np.zeros(len(q_ptr) - 1, dtype=W.dtype)
    for i in range(len(forms)):
        total = 0.0
        for a in range(q_ptr[i], q_ptr[i + 1]):
            w = W[q_index[a]]
            score = 0.0
            for b in range(p_ptr[i], p_ptr[i + 1]):
                score += w[p_index[b]] * p_value[b]
            total += q_value[a] * score
        forms[i] = total
    return forms


def quadratic_forms(A, Z):
    """zᵀAz for the rows of Z, dense or CSR without duplicates; A is symmetric."""
    if sparse.issparse(Z):
        return _sparse_quadratic(A, Z.indptr, Z.indices, Z.data)
    return bilinear_forms(A, Z, Z)


@compiled
def _sparse_quadratic(A, ptr, index, value):
    forms = np.empty(len(ptr) - 1, dtype=A.dtype)
    for i in range(len(forms)):
        total = 0.0
        for a in range(ptr[i], ptr[i + 1]):
            row = A[index[a]]
            half = 0.5 * row[index[a]] * value[a]
            for b in range(a + 1, ptr[i + 1]):
                half += row[index[b]] * value[b]
            total += value[a] * half
        forms[i] = 2.0 * total
    return forms
