"""Ranges of rows of vectors in Parquet and Arrow files, without reading the others."""

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.files.locations import Location, local_path, url_of
from similia.files.rows import BadRows, Ids
from similia.files.vectors import TABLES, check_matrix, no_vector, read_ids

#: formats of which ranges are read by URL, too
PARQUET = (".parquet", ".pq")


def is_ranged(path: Path | str) -> bool:
    """Whether ranges of rows can be read; other files are mapped, or read whole."""
    local = local_path(path)
    if local is not None:
        return local.suffix in TABLES
    return Location(url_of(path) or "").suffix in PARQUET


class VectorRows:
    """Rows of vectors in a table, read as they are asked for: the same as by `read_vectors`.

    A row that is no vector raises BadRowError. Use `open_rows`.
    """

    def __init__(self, name: str, table: Any, ids: str | None) -> None:
        self.name, self._table = name, table
        self.shape = (int(table.table.n_rows), int(table.width))
        check_matrix(name, np.broadcast_to(np.zeros((), table.dtype), self.shape))
        self._ids = ids

    def read(self, start: int, stop: int) -> Array:
        """Vectors of a range of rows."""
        X, whole = self._table.read(start, stop)
        self._check(start, whole)
        return X

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Vectors of ascending rows, in the memory of one block beside them."""
        found = np.empty((len(rows), self.shape[1]), self._table.dtype)
        table = self._table.table
        for number in table.parts():
            part = range(number, number + 1)
            first, last = table.first_row(part), table.first_row(range(number + 1, number + 1))
            if np.searchsorted(rows, first) == np.searchsorted(rows, last):
                continue
            for row, block in self._table.blocks(part):
                own = slice(*np.searchsorted(rows, (row, row + len(block))))
                found[own] = block[rows[own] - row]
        for row, vector in zip(rows.tolist(), found, strict=True):
            self._check(row, np.array([np.isfinite(vector).all()]))
        return found

    def ids(self) -> Ids:
        """Ids of all rows."""
        try:
            return Ids(self._names(0, self.shape[0]), self.shape[0])
        except ValueError as error:
            raise ValueError(f"{self._ids or self.name}: {error}") from None

    def names(self, start: int, stop: int) -> list[int | str]:
        """Ids of a range of rows."""
        return Ids(self._names(start, stop), stop - start).names()

    def _names(self, start: int, stop: int) -> Any:
        if self._ids is not None:
            return read_ids(Path(self._ids))[start:stop]
        found = self._table.ids(start, stop)
        return np.arange(start, stop) if found is None else found

    def _check(self, start: int, whole: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(~whole)[:1].tolist():
            BadRows().add(self.name, start + row + 1, no_vector(self.shape[1]))


@contextmanager
def open_rows(
    path: Path | str,
    *,
    ids: str | None = None,
    vector_column: str | None = None,
    id_column: str | None = None,
    width: int | None = None,
) -> Iterator[VectorRows]:
    """Open vectors in a table, by path or, for Parquet, by URL.

    Parameters are those of `read_vectors`; `width`, if it is known, saves a look at the first one.
    """
    from similia.files.arrow.remote import RemoteTable
    from similia.files.arrow.tables import Table
    from similia.files.arrow.vectors import VectorTable

    local, url = local_path(path), url_of(path)
    location = None if local is not None or url is None else Location(url)
    name = str(local) if location is None else location.name
    with ExitStack() as stack:
        if location is None:
            table = Table(Path(name), "vectors")
        else:
            temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
            folder = stack.enter_context(temporary)
            stack.enter_context(_named(folder, name))
            table = RemoteTable(location, Path(folder), "vectors")
        found = VectorTable(table, vector_column, id_column, width)
        beside = Path(f"{name}.ids")
        if ids is None and found.id_column is None and location is None and beside.exists():
            ids = str(beside)
        yield VectorRows(name, found, ids)


@contextmanager
def _named(folder: str, name: str) -> Iterator[None]:
    """Let errors about a file in the folder name the one that it stands for."""
    try:
        yield
    except ValueError as error:
        if folder not in str(error):
            raise
        message = re.sub(rf"{re.escape(folder)}[^:]*", lambda _: name, str(error))
        raise type(error)(message) from error
