"""Rows of dense and CSR matrices: in blocks, which bound the memory of a pass; singly; queued."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy import sparse

FEW = 16  #: rows up to which copying them one by one is faster than scipy's indexing


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
        P = difference_of_rows(Z, better, worse, dtype)
        if sparse.issparse(Q) != sparse.issparse(P):
            Q, P = dense(Q), dense(P)
        yield block, Q, P


def squared(rows):
    """Squares of the entries; a sparse matrix's own ** is the matrix power."""
    return rows.multiply(rows).tocsr() if sparse.issparse(rows) else rows * rows


class Row(NamedTuple):
    """A vector as `values` at `places`; all places for a dense one."""

    places: slice | np.ndarray
    values: np.ndarray


def row_of(X, i):
    """Row i of an array or CSR matrix, without a copy."""
    if sparse.issparse(X):
        entries = slice(X.indptr[i], X.indptr[i + 1])
        return Row(X.indices[entries], X.data[entries])
    return Row(slice(None), X[i])


def dense_rows(X, indices):
    """The named rows of an array or CSR matrix as a new dense array."""
    indices = np.asarray(indices, dtype=np.intp)
    if len(indices) > FEW or not sparse.issparse(X):
        return dense(X[indices])
    rows = np.zeros((len(indices), X.shape[1]), X.dtype)
    for row, i in zip(rows, indices, strict=True):
        places, values = row_of(X, i)
        row[places] = values
    return rows


class RowStore:
    """Array or CSR matrix that grows at its end and shrinks at its beginning, in place.

    Memory is doubled when it runs out, and removed rows are dropped at the same time.
    """

    def __init__(self, like):
        """Start empty, with the width, dtype and form of the matrix `like`."""
        self._width, self._sparse = like.shape[1], sparse.issparse(like)
        self._values = np.empty(0, like.dtype)
        self._indices = np.empty(0, np.int32)
        self._starts = np.zeros(1, np.int64)  # of each row among the values; then the end
        self._first = self._last = 0
        self._view = None

    def __len__(self):
        return self._last - self._first

    @property
    def rows(self):
        """The rows, valid until the store changes."""
        if self._view is None:
            starts = self._starts[self._first : self._last + 1]
            values = self._values[starts[0] : starts[-1]]
            if self._sparse:
                indices = self._indices[starts[0] : starts[-1]]
                parts = (values, indices, starts - starts[0])
                self._view = sparse.csr_array(parts, shape=(len(self), self._width), copy=False)
            else:
                self._view = values.reshape(len(self), self._width)
        return self._view

    def append(self, row):
        """Append a row, whose places must be sorted."""
        size = len(row.values)
        full = self._starts[self._last] + size > len(self._values)
        if full or self._last + 1 == len(self._starts):
            self._make_room(size)
        new = slice(self._starts[self._last], self._starts[self._last] + size)
        self._values[new] = row.values
        if self._sparse:
            self._indices[new] = row.places
        self._last += 1
        self._starts[self._last] = new.stop
        self._view = None

    def remove_first(self):
        """Remove the oldest row."""
        self._first += 1
        self._view = None

    def _make_room(self, n_values):
        starts = self._starts[self._first : self._last + 1]
        used = slice(starts[0], starts[-1])
        size = 2 * (used.stop - used.start + n_values)
        self._values = np.resize(self._values[used], size)
        if self._sparse:
            self._indices = np.resize(self._indices[used], size)
        self._starts = np.resize(starts - starts[0], 2 * len(starts) + 1)
        self._first, self._last = 0, len(starts) - 1
