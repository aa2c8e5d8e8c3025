"""Parquet and Arrow files, and tables in memory, in batches."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.exceptions import MissingExtraError
from similia.files import limits
from similia.files.columns import EncodedColumn, RawValues
from similia.files.locations import Location
from similia.files.vectors import PARQUET_SUFFIXES

try:
    import pyarrow as pa
    from pyarrow import compute, ipc, parquet
except ImportError as error:
    raise MissingExtraError("similia.files.tables", "pyarrow", "io") from error

#: values of a column, or its distinct values and their places
TableColumn: TypeAlias = "RawValues | EncodedColumn"

_IS_LIST = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
_IS_TEXT = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)


def is_list(kind: Any) -> bool:
    """Whether values of a type are lists."""
    return any(test(kind) for test in _IS_LIST)


def is_number(kind: Any) -> bool:
    """Whether values of a type are integers or floats."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


class Frame:
    """A table in memory, of pandas, polars, Arrow or anything that speaks Arrow."""

    def __init__(self, given: Any) -> None:
        try:
            self.table = given if isinstance(given, pa.Table) else pa.table(given)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                "feedback must be a path, or a table with named columns, "
                f"got {type(given).__name__} ({error})."
            ) from error
        self.n_rows = int(self.table.num_rows)
        self.names = column_names("feedback", self.table.schema)

    def columns(self, names: Sequence[str]) -> Iterator[list[TableColumn]]:
        """Yield the named columns in batches."""
        for batch in self.table.to_batches(max_chunksize=limits.BATCH_ROWS):
            yield [file_column(nested_column(batch, name)) for name in names]


class Table:
    """A Parquet or Arrow file, local or remote, read in batches.

    Parts are what a file stores together: groups of rows, or record batches. What Parquet unpacks
    at a time is checked before; `allowed` bytes are fine.
    """

    def __init__(
        self, given: Path | Location, what: str = "feedback", allowed: int | None = None
    ) -> None:
        self.given, self.what, self.allowed = given, what, allowed
        self.name = given.name if isinstance(given, Location) else str(given)
        self.is_parquet = given.suffix in PARQUET_SUFFIXES
        self._footer: Any = None
        with self._file() as file:
            self.schema = file.schema_arrow if self.is_parquet else file.schema
            self.names = column_names(self.name, self.schema)
            if self.is_parquet:
                self._footer = file.metadata
                groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
                self._rows = [int(group.num_rows) for group in groups]
                leaves = [file.schema.column(place) for place in range(len(file.schema))]
                self._texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
                if file.metadata.num_rows != sum(self._rows):
                    raise pa.ArrowInvalid("the rows of its groups are not all rows")
        if not self.is_parquet:
            # Batches are counted by their first column alone, as others may be compressed.
            with self._file(ipc.IpcReadOptions(included_fields=[0])) as file:
                batches = map(file.get_batch, range(file.num_record_batches))
                self._rows = [batch.num_rows for batch in batches]
        self.n_rows = sum(self._rows)

    @contextmanager
    def _file(self, options: Any = None, *, encoded: bool = False) -> Iterator[Any]:
        """The open file; with `encoded`, Parquet texts are dictionary-encoded."""
        texts = self._texts if encoded and self.is_parquet else None
        try:
            with self._source() as source:
                if not self.is_parquet:
                    yield ipc.open_file(source, options=options)
                    return
                remote = isinstance(self.given, Location)  # neighbouring columns in one request
                with parquet.ParquetFile(
                    source,
                    metadata=self._footer,
                    read_dictionary=texts,
                    pre_buffer=remote,
                    buffer_size=0 if remote else limits.PARQUET_BUFFER_BYTES,
                ) as file:
                    yield file
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:  # not Arrow's own
                raise
            raise ValueError(f"{self.name}: could not be read as a table ({error}).") from error

    def _source(self) -> Any:
        if isinstance(self.given, Location):
            return self.given.open()
        with open(self.given, "rb"):  # a missing file raises the same error in every format
            pass
        # Pages of a mapped file count as memory; those of Arrow files hold the values themselves.
        return pa.OSFile(self.name) if self.is_parquet else pa.memory_map(self.name)

    def columns(self, names: Sequence[str]) -> Iterator[list[TableColumn]]:
        """Yield the named columns in batches."""
        known = self.schema.names
        outer = dict.fromkeys(name if name in known else name.split(".")[0] for name in names)
        for batch in self.batches(list(outer), encoded=True):
            yield [file_column(nested_column(batch, name)) for name in names]

    def parts(self, start: int = 0, stop: int | None = None) -> range:
        """Parts that contain the given rows; all by default."""
        ends = np.cumsum(self._rows)
        first = int(np.searchsorted(ends, start, "right")) if start else 0
        last = len(ends) if stop is None else int(np.searchsorted(ends, stop)) + 1
        return range(first, min(last, len(ends)))

    def first_row(self, parts: range) -> int:
        """First row of some parts."""
        return sum(self._rows[: parts.start])

    def batches(
        self,
        names: list[str],
        size: int = limits.BATCH_ROWS,
        *,
        encoded: bool = False,
        parts: range | None = None,
    ) -> Iterator[Any]:
        """Yield the named columns, of some parts or of all, in batches of at most `size` rows."""
        parts = self.parts() if parts is None else parts
        for kind in (self.schema.field(name).type for name in names):
            _check_kind(self.name, kind)
        with self._file(encoded=encoded) as file:
            if self.is_parquet:
                self.check_room(max(self._unpacked(file, names, parts), default=0))
                yield from file.iter_batches(size, list(parts), names)
                return
            for number in parts:
                batch = file.get_batch(number)
                batch.validate(full=True)  # Arrow trusts impossible offsets, and crashes
                batch = batch.select(names)
                for start in range(0, batch.num_rows, size):
                    yield batch.slice(start, size)

    def check_room(self, wanted: int) -> None:
        """Raise ValueError if a file of this size should not need so much memory."""
        size = (
            self.given.mark()["size"]
            if isinstance(self.given, Location)
            else (self.given.stat().st_size)
        )
        limits.check_unpacked(self.name, self.what, wanted, size, self.allowed)

    def _unpacked(self, file: Any, names: list[str], parts: range) -> Iterator[int]:
        """Unpacked bytes of the named columns of each part, from the Parquet footer."""
        for number in parts:
            group, total = file.metadata.row_group(number), 0
            for place in range(group.num_columns):
                chunk, column = group.column(place), file.schema.column(place)
                if chunk.path_in_schema.split(".")[0] in names:
                    total += chunk.total_uncompressed_size
                    if column.max_repetition_level:  # all values of a list are held at once
                        total += limits.LIST_VALUE_BYTES * chunk.num_values
            yield total


def column_names(source: object, schema: Any) -> list[str]:
    """Names of columns, also of nested ones, with dots."""
    if len(set(schema.names)) != len(schema.names):
        raise ValueError(f"{source}: the columns must have different names.")

    def below(field: Any, name: str) -> Iterator[str]:
        yield name
        if pa.types.is_struct(field.type):
            for inner in field.type:
                yield from below(inner, f"{name}.{inner.name}")

    return [name for field in schema for name in below(field, field.name)]


def nested_column(batch: Any, name: str) -> Any:
    """Column of that name; dots lead into structures."""
    if name in batch.schema.names:
        return batch.column(name)
    first, *others = name.split(".")
    return compute.struct_field(batch.column(first), others)


def _check_kind(name: str, kind: Any) -> None:
    """Refuse nested types, whose values may share memory without bound."""
    if pa.types.is_dictionary(kind) or is_list(kind):
        _check_kind(name, kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            _check_kind(name, field.type)
    elif pa.types.is_nested(kind) or pa.types.is_binary_view(kind):
        raise ValueError(f"{name}: columns must be numbers, texts or lists of them, got {kind}.")


# -- values ------------------------------------------------------------------------------------


def file_column(column: Any) -> TableColumn:
    """Values of an Arrow column: numbers as an array, texts encoded, the rest as Python objects."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.float64())
        return column.to_numpy(zero_copy_only=False) / 1e6
    if any(test(kind) for test in _IS_TEXT):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        places = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return EncodedColumn(column.dictionary.to_pylist(), places.astype(np.int64))
    if pa.types.is_floating(kind) or (pa.types.is_integer(kind) and not column.null_count):
        return column.to_numpy(zero_copy_only=False)
    return plain_values(column)


def plain_values(column: Any) -> list[Any]:
    """Values of a column as Python objects; equal texts share one."""
    kind = column.type
    if is_list(kind):
        rest = iter(plain_values(column.flatten()))
        lengths = compute.list_value_length(column).to_pylist()
        return [None if n is None else list(islice(rest, n)) for n in lengths]
    if not pa.types.is_dictionary(kind):
        return list(column.to_pylist())
    texts = column.dictionary.to_pylist()
    return [None if place is None else texts[place] for place in column.indices.to_pylist()]


def copy_table_rows(path: Path, kept: NDArray[np.bool_], output: Path) -> None:
    """Copy the first rows of a table that a mask selects; rows beyond the mask are left out."""
    table, row = Table(path), 0
    writer = parquet.ParquetWriter if table.is_parquet else ipc.new_file
    with writer(str(output), table.schema) as file:
        for batch in table.batches(table.schema.names):
            chosen = kept[row : row + batch.num_rows]
            file.write_batch(batch.slice(0, len(chosen)).filter(pa.array(chosen)))
            row += batch.num_rows
