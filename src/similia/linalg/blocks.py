"""Blocks of rows, which bound the memory of a pass, and memory as passes like it."""

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from similia.contract import Array

LINE = 64  #: bytes that the processor fetches at a time


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Cut range(n) into consecutive slices of at most `size`."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def rows_of(X, indices, dtype):
    """The named rows of X, dense and C-ordered or CSR, in the given precision."""
    if sparse.issparse(X):
        rows = sparse.csr_array(X[indices]).astype(dtype, copy=False)
        rows.sum_duplicates()  # two entries for one place would be squared one by one
        return rows
    return np.ascontiguousarray(X.take(indices, axis=0), dtype=dtype)


def difference_of_rows(X, some, others, dtype):
    """X[some] - X[others], dense and C-ordered or CSR, in the given precision."""
    return rows_of(X, some, dtype) - rows_of(X, others, dtype)


def dense(rows):
    """The rows as a dense array."""
    return rows.toarray() if sparse.issparse(rows) else rows


def triplet_rows(X, Z, triplets, dtype, size):
    """Slice, queries from X, differences better - worse from Z, for each block of triplets.

    Both are CSR if both sources are, else dense.
    """
    for block in row_blocks(len(triplets), size):
        query, better, worse = triplets[block].T
        Q = rows_of(X, query, dtype)
        P = rows_of(Z, better, dtype) - rows_of(Z, worse, dtype)
        if sparse.issparse(Q) != sparse.issparse(P):
            Q, P = dense(Q), dense(P)
        yield block, Q, P


def squared(rows):
    """Squares of the entries; a sparse matrix's own ** is the matrix power."""
    return rows.multiply(rows).tocsr() if sparse.issparse(rows) else rows * rows


def aligned_zeros(shape: tuple[int, int], dtype: DTypeLike) -> Array:
    """Zeros that begin with a line of the cache.

    numpy's own begin 16 bytes later, so that every second 32-byte read touches two lines.
    """
    size = prod(shape) * np.dtype(dtype).itemsize
    memory = np.zeros(size + LINE, np.uint8)
    start = -memory.ctypes.data % LINE
    return memory[start : start + size].view(dtype).reshape(shape)


def aligned(A):
    """Copy of A that begins with a line of the cache."""
    copy = aligned_zeros(A.shape, A.dtype)
    copy[:] = A
    return copy
