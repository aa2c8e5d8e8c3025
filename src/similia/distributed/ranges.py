"""Ranges of vectors: a worker reads its own rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Matrix
from similia.distributed.shares import VectorPath
from similia.files.locations import changed
from similia.files.vectors import is_ranged, open_rows


@dataclass(frozen=True)
class VectorRange:
    """Some rows of a file of vectors, as every worker finds them.

    Of tables, the groups of rows that these are in are read; .npy files are mapped, others read
    whole, once by a process.
    """

    where: VectorPath
    start: int
    stop: int
    #: numbers of a vector, and the version of the file
    width: int
    mark: str

    def read(self) -> Matrix:
        """The vectors."""
        with self._unchanged():
            if not is_ranged(self.where.path):
                return self.where.read().X[self.start : self.stop]
            return _open(self.where, self.width).read(self.start, self.stop)

    def names(self) -> list[int | str]:
        """The ids."""
        with self._unchanged():
            if not is_ranged(self.where.path):
                return self.where.read().ids.names(range(self.start, self.stop))
            return _open(self.where, self.width).names(self.start, self.stop)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Refuse what is read from another version of the file."""
        self._check()
        yield
        self._check()

    def _check(self) -> None:
        found = _version(self.where)
        if found != self.mark:
            raise changed(json.loads(found).get("url") or self.where.path)


class RangedVectors:
    """Vectors of which the driver reads what it needs, and cuts the rest into ranges.

    Ids are read and checked here, once; the vectors themselves where they are read.
    """

    def __init__(self, where: VectorPath) -> None:
        self.where, self.mark = where, _version(where)
        if is_ranged(where.path):
            rows = _open(where, None)
            self.shape, self.ids = rows.shape, rows.ids()
        else:
            file = where.read()
            self.shape, self.ids = file.X.shape, file.ids

    def take(self, rows: NDArray[np.intp]) -> Any:
        """Vectors of ascending rows."""
        if not is_ranged(self.where.path):
            return self.where.read().X[rows]
        return _open(self.where, self.shape[1]).take(rows)

    def ranges(self, size: int) -> list[VectorRange]:
        """All rows, in ranges of that size."""
        n, width = self.shape
        return [
            VectorRange(self.where, start, min(start + size, n), width, self.mark)
            for start in range(0, n, size)
        ]


def _open(where: VectorPath, width: int | None) -> Any:
    columns = {"vector_column": where.vector_column, "id_column": where.id_column}
    return open_rows(where.path, ids=where.ids, width=width, **columns)


def _version(where: VectorPath) -> str:
    """Version of a file: of a path its size alone, as machines may have copies of their own."""
    mark = where.mark()
    mark.pop("changed", None)
    return json.dumps(mark, sort_keys=True)
