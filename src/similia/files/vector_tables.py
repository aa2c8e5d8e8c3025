"""Vectors in Parquet and Arrow files."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.files import limits
from similia.files.ids import Ids
from similia.files.locations import Location
from similia.files.rows import BadRows, RowError
from similia.files.tables import Table, is_list, is_number, plain_values
from similia.files.vectors import PARQUET_SUFFIXES

try:
    import pyarrow as pa
    from pyarrow import ipc, parquet
except ImportError as error:
    raise MissingExtraError("similia.files.vector_tables", "pyarrow", "io") from error


class VectorTable:
    """Vectors in a table: a column of lists or, without one, all numeric columns but the id.

    What is read may take the `allowed` bytes. Lists without a fixed length have the `width`, or
    that of the first vector.
    """

    def __init__(
        self,
        given: Path | Location,
        vector_column: str | None = None,
        id_column: str | None = None,
        *,
        width: int | None = None,
        allowed: int | None = None,
    ) -> None:
        self.table = table = Table(given, "vectors", allowed)
        self.id_column = id_column or ("id" if "id" in table.schema.names else None)
        self.columns = _vector_columns(table, vector_column, self.id_column)
        kinds = [table.schema.field(name).type for name in self.columns]
        self.lists = len(kinds) == 1 and _is_vector(kinds[0])
        single = all(_is_single(kind.value_type if self.lists else kind) for kind in kinds)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        if width is None:
            width = _width(table, self.columns[0]) if self.lists else len(kinds)
        self.shape = (table.n_rows, width)
        if 0 in self.shape:
            raise ValueError(
                f"{table.name}: vectors must be at least one row of numbers, got none."
            )
        #: ids that replace those of the table, if any
        self.other_ids: Array | None = None

    def read(self, start: int, stop: int) -> Array:
        """Vectors of a range of rows; raise BadRowError for a row without a vector."""
        X, whole = self.read_all(start, stop)
        self._check(start, whole)
        return X

    def read_all(self, start: int = 0, stop: int | None = None) -> tuple[Array, NDArray[np.bool_]]:
        """Matrix of a range of rows, and a mask of those that are whole vectors.

        Of the file, the parts that the range is in are read.
        """
        n = (self.shape[0] if stop is None else stop) - start
        self.table.check_room(n * (self.shape[1] * self.dtype.itemsize + 1))
        X = np.full((n, self.shape[1]), np.nan, self.dtype)
        for row, block in self._blocks(self.table.parts(start, stop)):
            skipped, place = max(0, start - row), max(0, row - start)
            own = block[skipped : skipped + max(0, n - place)]
            X[place : place + len(own)] = own
        return X, np.array([np.isfinite(x).all() for x in X], dtype=bool)

    def take(self, rows: NDArray[np.intp]) -> Array:
        """Vectors of ascending rows, in the memory of one block beside them."""
        found, table = np.empty((len(rows), self.shape[1]), self.dtype), self.table
        for number in table.parts():
            part = range(number, number + 1)
            first, last = table.first_row(part), table.first_row(range(number + 1, number + 1))
            if np.searchsorted(rows, first) == np.searchsorted(rows, last):
                continue
            for row, block in self._blocks(part):
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
            raise ValueError(f"{self.table.name}: {error}") from None

    def names(self, start: int, stop: int) -> list[Any]:
        """Ids of a range of rows."""
        return Ids(self._names(start, stop), stop - start).names()

    def _names(self, start: int, stop: int) -> Array | list[Any]:
        if self.other_ids is not None:
            return self.other_ids[start:stop]
        found = self.own_ids(start, stop)
        return np.arange(start, stop) if found is None else found

    def own_ids(self, start: int = 0, stop: int | None = None) -> Array | list[Any] | None:
        """Own ids of a range of rows, if the table has any: integers as an array.

        Vectors are not read.
        """
        if self.id_column is None:
            return None
        parts = self.table.parts(start, stop)
        batches = self.table.batches([self.id_column], encoded=True, parts=parts)
        found = [_ids_of(batch.column(0)) for batch in batches]
        own = slice(start - (first := self.table.first_row(parts)), stop and stop - first)
        if found and all(isinstance(some, np.ndarray) for some in found):
            return np.concatenate(found)[own]
        return list(chain.from_iterable(found))[own]

    def _blocks(self, parts: range) -> Iterator[tuple[int, Array]]:
        """Yield all vectors of some parts of the file in blocks, after the first row of each."""
        width = self.shape[1]
        row, size = self.table.first_row(parts), max(1, limits.BATCH_NUMBERS // width)
        for batch in self.table.batches(self.columns, size, parts=parts):
            block = np.full((batch.num_rows, width), np.nan, self.dtype)
            if self.lists:
                _fill_lists(block, batch.column(0), width)
            else:
                for place in range(width):
                    block[:, place] = batch.column(place).to_numpy(zero_copy_only=False)
            yield row, block
            row += batch.num_rows

    def blocks_with_ids(self) -> Iterator[tuple[Array, Array | list[Any] | None]]:
        """Yield all vectors in blocks, with the ids that the table has; raise for what is none.

        A part of the file is closed before the next, so that no more of it is in memory.
        """
        for number in self.table.parts():
            part = range(number, number + 1)
            first = self.table.first_row(part)
            last = self.table.first_row(range(number + 1, number + 1))
            has_ids = self.other_ids is not None or self.id_column is not None
            names = self._names(first, last) if has_ids and last > first else None
            for row, block in self._blocks(part):
                self._check(row, np.asarray(np.isfinite(block).all(axis=1)))
                own = slice(row - first, row - first + len(block))
                yield block, None if names is None else names[own]

    def no_vector(self) -> RowError:
        """Reason why a row has no vector."""
        return RowError("not a vector of finite numbers", f" of length {self.shape[1]}")

    def _check(self, start: int, whole: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(~whole)[:1].tolist():
            BadRows().add(self.table.name, start + row + 1, self.no_vector())


def _ids_of(column: Any) -> Array | list[Any]:
    """Ids in a column: integers as an array, which takes a fifth of the memory of objects."""
    if pa.types.is_integer(column.type) and not column.null_count:
        return np.asarray(column.to_numpy())
    return plain_values(column)


def _vector_columns(table: Table, asked: str | None, id_column: str | None) -> list[str]:
    schema = table.schema
    for wanted in (asked, id_column):
        if wanted is not None and wanted not in schema.names:
            raise ValueError(
                f"{table.name}: column must be one of {', '.join(schema.names)}, got {wanted}."
            )
    if asked is not None:
        return [asked]
    lists = [field.name for field in schema if _is_vector(field.type)]
    if len(lists) == 1 or "vector" in lists:
        return ["vector"] if "vector" in lists else lists
    numbers = [f.name for f in schema if is_number(f.type) and f.name != id_column]
    if lists or not numbers:
        raise ValueError(
            f"{table.name}: vectors must be one column of lists of numbers, or columns of numbers; "
            f"name it with --vector-column, one of {', '.join(schema.names)}."
        )
    return numbers


def _is_single(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) and kind != pa.float64())


def _is_vector(kind: Any) -> bool:
    return is_list(kind) and is_number(kind.value_type)


def _width(table: Table, name: str) -> int:
    kind = table.schema.field(name).type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for part in table.parts():
        for batch in table.batches([name], 1024, parts=range(part, part + 1)):
            for vector in batch.column(0):
                if vector.is_valid and len(vector):
                    return len(vector)
    raise ValueError(f"{table.name}: vectors must be at least one, got none.")


def _fill_lists(out: Array, column: Any, width: int) -> None:
    """Copy a column of lists into the rows of `out`; lists of another length leave NaN."""
    right = column.is_valid().to_numpy(zero_copy_only=False)
    if not pa.types.is_fixed_size_list(column.type):
        right = right & (np.diff(column.offsets.to_numpy()) == width)
    chosen = column if right.all() else column.filter(pa.array(right))
    out[right] = chosen.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)


def write_table(path: Path, X: Array, ids: Array | None) -> None:
    """Write a fixed-size-list column ``vector``, and ``id`` if there are ids."""
    kind = pa.list_(pa.from_numpy_dtype(X.dtype), X.shape[1])
    fields = [pa.field("vector", kind)]
    if ids is not None:
        fields.insert(0, pa.field("id", pa.string() if ids.dtype == object else pa.int64()))
    schema = pa.schema(fields)
    writer = parquet.ParquetWriter if path.suffix in PARQUET_SUFFIXES else ipc.new_file
    step = max(1, limits.BATCH_NUMBERS // X.shape[1])
    with writer(str(path), schema) as file:
        for start in range(0, len(X), step):
            part = np.ascontiguousarray(X[start : start + step])
            arrays = [pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), X.shape[1])]
            if ids is not None:
                arrays.insert(0, pa.array(ids[start : start + step], schema.field(0).type))
            file.write_batch(pa.record_batch(arrays, schema=schema))
