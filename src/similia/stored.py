"""Matrices that stay in a file: rows are read when they are asked for."""

import mmap as system
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import prod
from mmap import ACCESS_READ, mmap
from pathlib import Path
from threading import Event, Thread
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from similia.views import Array, Side

#: rows read for each that is wanted, at most, instead of gathering
DENSE = 2
#: seconds between two times that pages of a mapping are given back
DROP_SECONDS = 0.01
#: a block of all rows in turn has a multiple of these: a BLAS cuts it as it cuts the whole, by any
#: of its units, and so rounds alike
UNITS = 3 * 2**10
#: bytes of such a block, about
STORED_BYTES = 2**24


class _Opened:
    """Descriptor of an open file, closed with its last user."""

    def __init__(self, name: str, number: int) -> None:
        self.name, self.number = name, number

    def __del__(self) -> None:
        os.close(self.number)


class StoredRows:
    """A matrix of floats in a file, in row order; only requested rows are read into memory.

    Rows are read into buffers: pages of a mapping would count as memory of this process.
    """

    ndim = 2

    def __init__(self, file: _Opened, shape: tuple[int, int], stored: Any, offset: int) -> None:
        self._file, self.shape, self._stored, self._offset = file, shape, np.dtype(stored), offset
        #: rows of the file in their order, by default all
        self._order: NDArray[np.intp] | None = None
        single = self._stored.kind == "f" and self._stored.itemsize <= 4
        self.dtype = np.dtype(np.float32 if single else np.float64)

    @classmethod
    def of(cls, path: Path | str) -> Self:
        """The matrix in a .npy file."""
        mapped = np.lib.format.open_memmap(path, mode="r")
        if mapped.ndim != 2 or not mapped.flags.c_contiguous or mapped.dtype.kind not in "fiu":
            raise ValueError(
                f"{path}: vectors must be a matrix of numbers in row order, got shape "
                f"{mapped.shape} of {mapped.dtype}."
            )
        file = _Opened(str(path), os.open(path, os.O_RDONLY))
        return cls(file, mapped.shape, mapped.dtype, int(mapped.offset))

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, key: slice | NDArray[np.intp]) -> Array:
        """Some rows, as an array: a slice of them, or their numbers."""
        if isinstance(key, slice):
            start, stop, step = key.indices(len(self))
            if self._order is None and step == 1:
                return self._read(start, max(start, stop))
            key = np.arange(start, stop, step)
        return self._gathered(key if self._order is None else self._order[key])

    def at(self, rows: NDArray[np.intp]) -> "StoredRows":
        """The rows with these numbers, in this order, still in the file."""
        found = StoredRows(self._file, (len(rows), self.shape[1]), self._stored, self._offset)
        found._order = rows if self._order is None else self._order[rows]
        return found

    def blocks(self) -> Iterator[Array]:
        """Yield all rows in blocks."""
        units = STORED_BYTES // (UNITS * self.shape[1] * self.dtype.itemsize)
        size = UNITS * max(1, units)
        for start in range(0, len(self), size):
            yield self[start : start + size]

    def made(self, make: Callable[[Array], Array]) -> "StoredRows":
        """Rows made from these, block by block, in a temporary file that ends with the process."""
        width, dtype = 0, self.dtype
        with tempfile.TemporaryFile() as file:
            for block in self.blocks():
                rows = np.ascontiguousarray(make(block))
                width, dtype = rows.shape[1], rows.dtype
                file.write(rows.data.cast("B"))
            file.flush()
            kept = _Opened("a temporary file", os.dup(file.fileno()))
        return StoredRows(kept, (len(self), width), dtype, 0)

    def _read(self, start: int, stop: int) -> Array:
        read = np.empty((stop - start, self.shape[1]), self._stored)
        into = read.reshape(-1).view(np.uint8).data
        place = self._offset + start * self.shape[1] * self._stored.itemsize
        while len(into):
            n = os.preadv(self._file.number, [into], place)
            if not n:
                raise self._shorter()
            into, place = into[n:], place + n
        return read.astype(self.dtype, copy=False)

    def _gathered(self, rows: NDArray[np.intp]) -> Array:
        first, last = (int(rows.min()), int(rows.max())) if len(rows) else (0, -1)
        if last - first < DENSE * len(rows):
            return self._read(first, last + 1)[rows - first]
        found = np.empty((len(rows), self.shape[1]), self._stored)
        into, size = found.reshape(-1).view(np.uint8).data, found.strides[0]
        for place, row in enumerate(rows.tolist()):
            own = into[place * size : (place + 1) * size]
            if os.preadv(self._file.number, [own], self._offset + row * size) < size:
                raise self._shorter()
        return found.astype(self.dtype, copy=False)

    def _shorter(self) -> OSError:
        return OSError(f"{self._file.name}: the file has become shorter.")


@contextmanager
def mapped(path: Path | str) -> Iterator[Array]:
    """Yield the mapped matrix of a .npy file, and keep returning its pages to the system.

    For whoever looks at a sample of the rows: pages count as memory of this process, and the system
    would take them back only when it has no other.
    """
    X = StoredRows.of(path)
    done = Event()
    pages = mmap(X._file.number, 0, access=ACCESS_READ)

    def drop() -> None:
        while not done.wait(DROP_SECONDS):
            pages.madvise(system.MADV_DONTNEED)

    thread = Thread(target=drop if hasattr(system, "MADV_DONTNEED") else done.wait, daemon=True)
    thread.start()
    try:
        whole = np.frombuffer(pages, X._stored, prod(X.shape), X._offset)
        yield whole.reshape(X.shape).astype(X.dtype, copy=False)
    finally:
        done.set()
        thread.join()


def rows_at(X: Side, rows: NDArray[np.intp]) -> Any:
    """The rows of X with these numbers; those in a file stay there."""
    return X.at(rows) if isinstance(X, StoredRows) else X[rows]


def at_hand(X: Side, items: Side | None, tuples: NDArray[Any]) -> tuple[Any, Any, NDArray[Any]]:
    """The rows that some judgements name, in memory and in their order, and the judgements of them.

    The first column names queries, the others items, or, without items, rows of X.
    """
    if items is None:
        used, places = np.unique(tuples, return_inverse=True)
        return X[used], None, places.reshape(tuples.shape)
    asked, own = np.unique(tuples[:, 0], return_inverse=True)
    used, places = np.unique(tuples[:, 1:], return_inverse=True)
    found = np.column_stack([own, places.reshape(len(tuples), -1)])
    return X[asked], items[used], found
