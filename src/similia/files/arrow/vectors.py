"""Vectors in Parquet and Arrow files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import ipc, parquet

from similia.contract import Array
from similia.files.arrow.columns import LISTS, is_number, values
from similia.files.arrow.tables import PARQUET, Table
from similia.files.unpacked import check_size

#: numbers of vectors held at a time beside the result
NUMBERS = 2**22


class VectorTable:
    """Vectors in a table: a column of lists or, without one, all numeric columns but the id.

    What is read may take the `allowed` bytes. Lists without a fixed length have the `width`, or
    that of the first vector.
    """

    def __init__(
        self,
        table: Table,
        vector_column: str | None,
        id_column: str | None,
        width: int | None = None,
    ) -> None:
        self.table = table
        self.id_column = id_column or ("id" if "id" in table.schema.names else None)
        self.columns = _vector_columns(table, vector_column, self.id_column)
        kinds = [table.schema.field(name).type for name in self.columns]
        self.lists = len(kinds) == 1 and _is_list(kinds[0])
        single = all(_is_single(kind.value_type if self.lists else kind) for kind in kinds)
        self.dtype = np.dtype(np.float32 if single else np.float64)
        if width is None:
            width = _width(table, self.columns[0]) if self.lists else len(kinds)
        self.width = width

    def read(self, start: int = 0, stop: int | None = None) -> tuple[Array, NDArray[np.bool_]]:
        """Matrix of a range of rows, and a mask of those that are whole vectors.

        Of the file, the groups of rows, or batches, that the range is in are read.
        """
        table, n = self.table, (self.table.n_rows if stop is None else stop) - start
        parts = table.parts(start, stop)
        names = [*self.columns, *([self.id_column] if self.id_column else [])]
        dense = n * (self.width * self.dtype.itemsize + 1)
        taken = dense + sum(table.unpacked(names, parts=parts))
        check_size(table.path, "vectors", taken, table.allowed)
        X = np.full((n, self.width), np.nan, self.dtype)
        for row, block in self.blocks(parts):
            skipped, place = max(0, start - row), max(0, row - start)
            own = block[skipped : skipped + max(0, n - place)]
            X[place : place + len(own)] = own
        return X, np.array([np.isfinite(x).all() for x in X], dtype=bool)

    def blocks(self, parts: range) -> Iterator[tuple[int, Array]]:
        """Yield all vectors of some parts of the file in blocks, after the first row of each."""
        row, size = self.table.first_row(parts), max(1, NUMBERS // self.width)
        for batch in self.table.batches(self.columns, size, parts=parts):
            block = np.full((batch.num_rows, self.width), np.nan, self.dtype)
            if self.lists:
                _fill_lists(block, batch.column(0), self.width)
            else:
                for place in range(self.width):
                    block[:, place] = batch.column(place).to_numpy(zero_copy_only=False)
            yield row, block
            row += batch.num_rows

    def ids(self, start: int = 0, stop: int | None = None) -> list[Any] | None:
        """Ids of a range of rows, if there are any, without their vectors."""
        if self.id_column is None:
            return None
        parts = self.table.parts(start, stop)
        batches = self.table.batches([self.id_column], encoded=True, parts=parts)
        found = [value for batch in batches for value in values(batch.column(0))]
        first = self.table.first_row(parts)
        return found[start - first : None if stop is None else stop - first]


def _vector_columns(table: Table, asked: str | None, id_column: str | None) -> list[str]:
    schema = table.schema
    for wanted in (asked, id_column):
        if wanted is not None and wanted not in schema.names:
            raise ValueError(
                f"{table.path}: column must be one of {', '.join(schema.names)}, got {wanted}."
            )
    if asked is not None:
        return [asked]
    lists = [field.name for field in schema if _is_list(field.type)]
    if len(lists) == 1 or "vector" in lists:
        return ["vector"] if "vector" in lists else lists
    numbers = [f.name for f in schema if is_number(f.type) and f.name != id_column]
    if lists or not numbers:
        raise ValueError(
            f"{table.path}: vectors must be one column of lists of numbers, or columns of numbers; "
            f"name it with --vector-column, one of {', '.join(schema.names)}."
        )
    return numbers


def _is_single(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) and kind != pa.float64())


def _is_list(kind: Any) -> bool:
    return any(test(kind) for test in LISTS) and is_number(kind.value_type)


def _width(table: Table, name: str) -> int:
    kind = table.schema.field(name).type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for part in table.parts():
        for batch in table.batches([name], 1024, parts=range(part, part + 1)):
            for vector in batch.column(0):
                if vector.is_valid and len(vector):
                    return len(vector)
    raise ValueError(f"{table.path}: vectors must be at least one, got none.")


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
    writer = parquet.ParquetWriter if path.suffix in PARQUET else ipc.new_file
    step = max(1, NUMBERS // X.shape[1])
    with writer(str(path), schema) as file:
        for start in range(0, len(X), step):
            part = np.ascontiguousarray(X[start : start + step])
            arrays = [pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), X.shape[1])]
            if ids is not None:
                arrays.insert(0, pa.array(ids[start : start + step], schema.field(0).type))
            file.write_batch(pa.record_batch(arrays, schema=schema))
