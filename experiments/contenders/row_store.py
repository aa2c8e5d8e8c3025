"""A store of rows that come and go."""

import numpy as np
from scipy import sparse

from similia.contract import Array, Matrix
from similia.filtering.relevance import row_of


class RowStore:
    """Rows as an array or CSR matrix that grows at its end and shrinks at its beginning, in place.

    On average, adding and removing a row costs no more than the row itself: room is doubled when it
    runs out, and removed rows are cleared away at the same time.
    """

    def __init__(self, like: Matrix) -> None:
        """Start without rows, of the width, dtype and form of the matrix `like`."""
        self._width, self._sparse = like.shape[1], sparse.issparse(like)
        self._values = np.empty(0, like.dtype)
        self._indices = np.empty(0, np.int32)
        self._starts = np.zeros(1, np.int64)  # of each row among the values, and the end of all
        self._first = self._last = 0
        self._view: Matrix | None = None

    def __len__(self) -> int:
        return self._last - self._first

    @property
    def rows(self) -> Matrix:
        """The rows: valid until the store changes."""
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

    def append(self, X: Matrix, i: int) -> None:
        """Add row i of X, whose places must be sorted, at the end."""
        places, values = row_of(X, i)
        start = self._starts[self._last]
        stop = start + len(values)
        if stop > len(self._values) or self._last + 1 == len(self._starts):
            self._make_room(len(values))
            start = self._starts[self._last]
            stop = start + len(values)
        self._values[start:stop] = values
        if self._sparse:
            self._indices[start:stop] = places
        self._last += 1
        self._starts[self._last] = stop
        self._view = None

    def remove_first(self) -> None:
        """Remove the oldest row."""
        self._first += 1
        self._view = None

    def _make_room(self, n_values: int) -> None:
        starts = self._starts[self._first : self._last + 1]
        used = slice(starts[0], starts[-1])
        size = 2 * (used.stop - used.start + n_values)
        self._values = _moved(self._values[used], size)
        if self._sparse:
            self._indices = _moved(self._indices[used], size)
        self._starts = _moved(starts - starts[0], 2 * len(starts) + 1)
        self._first, self._last = 0, len(starts) - 1


def _moved(values: Array, size: int) -> Array:
    """Array of that size that begins with the values."""
    larger = np.empty(size, values.dtype)
    larger[: len(values)] = values
    return larger
