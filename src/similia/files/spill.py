"""Records on disk, sorted into buckets: what may not fit into memory is joined bucket by bucket."""

import tempfile
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import DTypeLike

from similia.contract import Array, Indices

#: records that wait in memory before they are written
HELD = 2**18
#: buckets of a spill; one of them has to fit into memory
BUCKETS = 256


class Spill:
    """Records in a temporary file, which is gone when the spill is closed.

    Parameters
    ----------
    dtype : structured dtype
        Of the records.
    n_buckets : int
        Number of buckets.
    """

    def __init__(self, dtype: DTypeLike, n_buckets: int = BUCKETS) -> None:
        self.dtype = np.dtype(dtype)
        self.n_buckets = n_buckets
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._waiting: list[tuple[Indices, Array]] = []
        self._n_waiting = 0
        #: records by bucket of each block that was written
        self._counts: list[Indices] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._file.close()

    def add(self, bucket: Indices, records: Array) -> None:
        """Put each record into its bucket."""
        self._waiting.append((bucket, records))
        self._n_waiting += len(records)
        if self._n_waiting >= HELD:
            self._write()

    def _write(self) -> None:
        """Write the records that wait, sorted by bucket, as one block."""
        if not self._n_waiting:
            return
        bucket, records = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        self._file.seek(0, 2)
        self._file.write(records[np.argsort(bucket, kind="stable")].tobytes())
        self._counts.append(np.bincount(bucket, minlength=self.n_buckets))
        self._waiting, self._n_waiting = [], 0

    def bucket(self, number: int) -> Array:
        """Records of a bucket, in the order in which they were added."""
        self._write()
        found, start = [np.empty(0, self.dtype)], 0
        for counts in self._counts:
            first, n = start + int(counts[:number].sum()), int(counts[number])
            if n:
                self._file.seek(first * self.dtype.itemsize)
                found.append(np.frombuffer(self._file.read(n * self.dtype.itemsize), self.dtype))
            start += int(counts.sum())
        return np.concatenate(found)
