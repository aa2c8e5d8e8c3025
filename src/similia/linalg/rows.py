"""Single rows: a row of a matrix, and a queue of rows."""

from typing import NamedTuple

import numpy as np
from scipy import sparse

from similia.linalg.blocks import dense

#: rows up to which copying them one by one is faster than scipy's indexing
FEW = 16


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

    Appending and removing a row costs no more than the row itself, on average: memory is doubled
    when it runs out, and removed rows are dropped at the same time.
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
        start = self._starts[self._last]
        stop = start + len(row.values)
        if stop > len(self._values) or self._last + 1 == len(self._starts):
            self._make_room(len(row.values))
            start = self._starts[self._last]
            stop = start + len(row.values)
        self._values[start:stop] = row.values
        if self._sparse:
            self._indices[start:stop] = row.places
        self._last += 1
        self._starts[self._last] = stop
        self._view = None

    def remove_first(self):
        """Remove the oldest row."""
        self._first += 1
        self._view = None

    def _make_room(self, n_values):
        starts = self._starts[self._first : self._last + 1]
        used = slice(starts[0], starts[-1])
        size = 2 * (used.stop - used.start + n_values)
        self._values = _moved(self._values[used], size)
        if self._sparse:
            self._indices = _moved(self._indices[used], size)
        self._starts = _moved(starts - starts[0], 2 * len(starts) + 1)
        self._first, self._last = 0, len(starts) - 1


def _moved(values, size):
    """Array of that size that begins with the values."""
    larger = np.empty(size, values.dtype)
    larger[: len(values)] = values
    return larger
