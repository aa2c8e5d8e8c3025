"""Parquet and Arrow files: vectors as lists or columns, and judgements, in batches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.exceptions import MissingExtraError
from similia.files.arrow_text import plain_column

try:
    import pyarrow as pa
    from pyarrow import ipc, parquet
except ImportError as error:
    raise MissingExtraError("similia.files.arrow", "pyarrow", "io") from error

#: rows held at a time
BATCH = 2**16
#: numbers of vectors held at a time beside the result
NUMBERS = 2**22


class Table:
    """A Parquet or Arrow file that is read in batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_parquet = path.suffix in (".parquet", ".pq")
        with open(path, "rb"):  # what cannot be opened is said as for any other file
            pass
        with self._file() as file:
            self.schema = file.schema_arrow if self.is_parquet else file.schema
            if len(set(self.schema.names)) != len(self.schema.names):
                raise ValueError(f"{path}: the columns must have different names.")
            self.n_rows = file.metadata.num_rows if self.is_parquet else _n_rows(file)

    @contextmanager
    def _file(self) -> Iterator[Any]:
        try:
            if self.is_parquet:
                with parquet.ParquetFile(self.path, memory_map=True) as file:
                    yield file
            else:
                with pa.memory_map(str(self.path)) as source:
                    yield ipc.open_file(source)
        except pa.ArrowInvalid as error:
            raise ValueError(f"{self.path}: could not be read as a table ({error}).") from error

    def batches(self, names: Sequence[str], size: int = BATCH) -> Iterator[Any]:
        """Yield the named columns in batches of at most `size` rows."""
        with self._file() as file:
            if self.is_parquet:
                yield from file.iter_batches(batch_size=size, columns=list(names))
                return
            for number in range(file.num_record_batches):
                batch = _checked(file.get_batch(number)).select(list(names))
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


def _n_rows(file: Any) -> int:
    return sum(file.get_batch(i).num_rows for i in range(file.num_record_batches))


def _checked(batch: Any) -> Any:
    """Give the batch if its offsets and lengths are possible: Arrow trusts them, and crashes."""
    batch.validate(full=True)
    return batch


def plain_columns(batch: Any, names: Sequence[str]) -> list[Any] | None:
    """Give the columns of a batch as arrays or encoded texts; None if a value is missing."""
    found = [plain_column(pa.chunked_array([batch.column(name)])) for name in names]
    return None if any(column is None for column in found) else found


def read_vectors(
    path: Path, vector_column: str | None, id_column: str | None
) -> tuple[NDArray[Any], list[Any] | None, NDArray[np.bool_]]:
    """Give the matrix, the ids if there are any, and which rows are whole.

    The vectors are one column of lists, or else all columns of numbers but the ids.
    """
    table = Table(path)
    name = id_column or ("id" if "id" in table.schema.names else None)
    names = _vector_columns(table, vector_column, name)
    lists = len(names) == 1 and _is_list(table.schema.field(names[0]).type)
    width = _width(table, names[0]) if lists else len(names)
    kinds = [table.schema.field(n).type for n in names]
    single = all(_is_single(kind.value_type if lists else kind) for kind in kinds)
    X = np.full((table.n_rows, width), np.nan, np.float32 if single else np.float64)
    ids: list[Any] | None = None if name is None else []
    row = 0
    for batch in table.batches([*names, *([name] if name else [])], max(1, NUMBERS // width)):
        part = X[row : row + batch.num_rows]
        if lists:
            _fill_lists(part, batch.column(0), width)
        else:
            for place in range(width):
                part[:, place] = batch.column(place).to_numpy(zero_copy_only=False)
        if ids is not None:
            ids += batch.column(batch.num_columns - 1).to_pylist()
        row += batch.num_rows
    whole = np.array([np.isfinite(x).all() for x in X], dtype=bool)
    return X, ids, whole


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
    numbers = [f.name for f in schema if _is_number(f.type) and f.name != id_column]
    if lists or not numbers:
        raise ValueError(
            f"{table.path}: vectors must be one column of lists of numbers, or columns of numbers; "
            f"name it with --vector-column, one of {', '.join(schema.names)}."
        )
    return numbers


def _is_number(kind: Any) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _is_single(kind: Any) -> bool:
    return bool(pa.types.is_floating(kind) and kind != pa.float64())


def _is_list(kind: Any) -> bool:
    lists = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
    return any(test(kind) for test in lists) and _is_number(kind.value_type)


def _width(table: Table, name: str) -> int:
    kind = table.schema.field(name).type
    if pa.types.is_fixed_size_list(kind):
        return int(kind.list_size)
    for batch in table.batches([name], 1024):
        for vector in batch.column(0):
            if vector.is_valid and len(vector):
                return len(vector)
    raise ValueError(f"{table.path}: vectors must be at least one, got none.")


def _fill_lists(out: NDArray[Any], column: Any, width: int) -> None:
    """Set the rows of `out` to the lists of a column; other lengths leave NaN."""
    if not pa.types.is_fixed_size_list(column.type):
        lengths = np.diff(column.offsets.to_numpy())
        right = (lengths == width) & column.is_valid().to_numpy(zero_copy_only=False)
    else:
        right = column.is_valid().to_numpy(zero_copy_only=False)
    chosen = column if right.all() else column.filter(pa.array(right))
    out[right] = chosen.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)


def write_vectors(path: Path, X: NDArray[Any], ids: NDArray[Any] | None) -> None:
    """Write a fixed-size-list column ``vector``, and ``id`` if there are ids."""
    kind = pa.list_(pa.from_numpy_dtype(X.dtype), X.shape[1])
    fields = [pa.field("vector", kind)]
    if ids is not None:
        fields.insert(0, pa.field("id", pa.string() if ids.dtype == object else pa.int64()))
    schema = pa.schema(fields)
    step = max(1, NUMBERS // X.shape[1])
    with _writer(path, schema) as writer:
        for start in range(0, len(X), step):
            part = np.ascontiguousarray(X[start : start + step])
            arrays = [pa.FixedSizeListArray.from_arrays(pa.array(part.ravel()), X.shape[1])]
            if ids is not None:
                arrays.insert(0, pa.array(ids[start : start + step], schema.field(0).type))
            writer.write_batch(pa.record_batch(arrays, schema=schema))


def _writer(path: Path, schema: Any) -> Any:
    if path.suffix in (".parquet", ".pq"):
        return parquet.ParquetWriter(path, schema)
    return ipc.new_file(str(path), schema)


def copy_rows(path: Path, kept: NDArray[np.bool_], output: Path) -> None:
    """Copy the first rows of a table that a mask selects; rows beyond the mask are left out."""
    table, row = Table(path), 0
    with _writer(output, table.schema) as writer:
        for batch in table.batches(table.schema.names):
            chosen = kept[row : row + batch.num_rows]
            writer.write_batch(batch.slice(0, len(chosen)).filter(pa.array(chosen)))
            row += batch.num_rows
