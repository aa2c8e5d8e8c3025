"""Everything that needs pyarrow: Parquet and Arrow files, fast parsing of CSV and JSON lines."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.files.ids import Encoded
from similia.files.pieces import Columns, RawColumn

try:
    import pyarrow as pa
    from pyarrow import csv, ipc, json, parquet
except ImportError as error:
    raise MissingExtraError("similia.files.arrow", "pyarrow", "io") from error

#: rows held at a time
BATCH = 2**16
#: numbers of vectors held at a time beside the result
NUMBERS = 2**22
PARQUET = (".parquet", ".pq")

# -- text --------------------------------------------------------------------------------------


def text_columns(
    data: bytes, n_lines: int, header: Sequence[str] | None, columns: Columns
) -> list[RawColumn] | None:
    """Parse lines of CSV or, without a header, of JSON.

    Return None if anything is unusual; the caller then finds out what, line by line.
    """
    types = {name: pa.type_for_alias(reader.dtype) for name, reader in columns.items()}
    try:
        table = _json(data, types) if header is None else _csv(data, header, types)
    except pa.ArrowInvalid:
        return None
    if table is None or table.num_rows != n_lines:
        return None
    found = [_plain(table.column(name)) for name in columns]
    whole = [column for column in found if column is not None and not _has_stray_spaces(column)]
    return whole if len(whole) == len(found) else None


def _csv(data: bytes, header: Sequence[str], types: dict[str, Any]) -> Any:
    if b'"' in data:  # quoting is interpreted in one place only: line by line
        return None
    reading = csv.ReadOptions(
        column_names=list(header), use_threads=False, block_size=len(data) + 1
    )
    converting = csv.ConvertOptions(
        column_types=types, include_columns=list(types), null_values=[""]
    )
    return csv.read_csv(pa.BufferReader(data), read_options=reading, convert_options=converting)


def _json(data: bytes, types: dict[str, Any]) -> Any:
    reading = json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    parsing = json.ParseOptions(
        explicit_schema=pa.schema(types), unexpected_field_behavior="ignore"
    )
    return json.read_json(pa.BufferReader(data), read_options=reading, parse_options=parsing)


def _has_stray_spaces(column: RawColumn) -> bool:
    """Whether a text is empty or has spaces around it, which reading line by line strips."""
    return isinstance(column, Encoded) and any(
        text != text.strip() or not text for text in column.texts
    )


def _plain(column: Any) -> RawColumn | None:
    """An Arrow column as an array of numbers or as encoded texts; None if it is neither."""
    if column.null_count:
        return None
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # an empty column has no chunk to combine
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if _is_number(kind):
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return Encoded(column.indices.to_numpy(), column.dictionary.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = column.dictionary_encode()
        return Encoded(coded.indices.to_numpy(), coded.dictionary.to_pylist())
    return None


# -- tables ------------------------------------------------------------------------------------


class Table:
    """A Parquet or Arrow file, read in batches."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_parquet = path.suffix in PARQUET
        with open(path, "rb"):  # a missing file raises the same error in every format
            pass
        with self._file() as file:
            self.schema = file.schema_arrow if self.is_parquet else file.schema
            if len(set(self.schema.names)) != len(self.schema.names):
                raise ValueError(f"{path}: the columns must have different names.")
            if self.is_parquet:
                self.n_rows = int(file.metadata.num_rows)
            else:
                batches = map(file.get_batch, range(file.num_record_batches))
                self.n_rows = sum(batch.num_rows for batch in batches)

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

    def batches(self, names: Iterable[str], size: int = BATCH) -> Iterator[Any]:
        """Yield the named columns in batches of at most `size` rows."""
        with self._file() as file:
            if self.is_parquet:
                yield from file.iter_batches(batch_size=size, columns=list(names))
                return
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)  # Arrow trusts impossible offsets, and crashes
                batch = batch.select(list(names))
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)


def batch_columns(batch: Any, names: Iterable[str]) -> list[RawColumn] | None:
    """Columns of a batch, or None if a value is missing."""
    found = [_plain(pa.chunked_array([batch.column(name)])) for name in names]
    whole = [column for column in found if column is not None]
    return whole if len(whole) == len(found) else None


# -- vectors -----------------------------------------------------------------------------------


def read_table(
    path: Path, vector_column: str | None, id_column: str | None
) -> tuple[Array, list[Any] | None, NDArray[np.bool_]]:
    """Matrix, ids if there are any, and a mask of the rows that are whole vectors.

    Vectors are a column of lists or, without one, all numeric columns but the id.
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


def copy_rows(path: Path, kept: NDArray[np.bool_], output: Path) -> None:
    """Copy the first rows of a table that a mask selects; rows beyond the mask are left out."""
    table, row = Table(path), 0
    writer = parquet.ParquetWriter if table.is_parquet else ipc.new_file
    with writer(str(output), table.schema) as file:
        for batch in table.batches(table.schema.names):
            chosen = kept[row : row + batch.num_rows]
            file.write_batch(batch.slice(0, len(chosen)).filter(pa.array(chosen)))
            row += batch.num_rows
