"""Vectors in Parquet and Arrow files."""

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


def read_table(
    path: Path, vector_column: str | None, id_column: str | None, allowed: int | None = None
) -> tuple[Array, list[Any] | None, NDArray[np.bool_]]:
    """Matrix, ids if there are any, and a mask of the rows that are whole vectors.

    Vectors are a column of lists or, without one, all numeric columns but the id. They may take the
    `allowed` bytes.
    """
    table = Table(path, "vectors", allowed)
    name = id_column or ("id" if "id" in table.schema.names else None)
    names = _vector_columns(table, vector_column, name)
    lists = len(names) == 1 and _is_list(table.schema.field(names[0]).type)
    width = _width(table, names[0]) if lists else len(names)
    kinds = [table.schema.field(n).type for n in names]
    single = all(_is_single(kind.value_type if lists else kind) for kind in kinds)
    dtype = np.dtype(np.float32 if single else np.float64)
    wanted = [*names, *([name] if name else [])]
    dense = table.n_rows * (width * dtype.itemsize + 1)
    check_size(path, "vectors", dense + sum(table.unpacked(wanted)), allowed)
    X = np.full((table.n_rows, width), np.nan, dtype)
    ids: list[Any] | None = None if name is None else []
    row = 0
    for batch in table.batches(wanted, max(1, NUMBERS // width), encoded=True):
        part = X[row : row + batch.num_rows]
        if lists:
            _fill_lists(part, batch.column(0), width)
        else:
            for place in range(width):
                part[:, place] = batch.column(place).to_numpy(zero_copy_only=False)
        if ids is not None:
            ids += values(batch.column(batch.num_columns - 1))
        row += batch.num_rows
    return X, ids, np.array([np.isfinite(x).all() for x in X], dtype=bool)


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
    for batch in table.batches([name], 1024):
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
