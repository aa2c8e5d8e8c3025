"""Tables of Arrow, in files and in memory, in batches."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute, ipc, parquet

from similia.files.arrow.columns import LISTS, leaves_of, letters_of
from similia.files.unpacked import arrow_batches, check_size, parquet_groups

#: rows held at a time
BATCH = 2**16
#: bytes of texts that are copied at a time
LETTERS = 2**26
PARQUET = (".parquet", ".pq")


class Frame:
    """A table in memory, of pandas, polars, Arrow or anything that speaks Arrow, in batches."""

    def __init__(self, given: Any) -> None:
        try:
            self.table = given if isinstance(given, pa.Table) else pa.table(given)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise ValueError(
                "feedback must be a path, or a table with named columns, "
                f"got {type(given).__name__} ({error})."
            ) from error
        self.n_rows = int(self.table.num_rows)
        self.names = _names("feedback", self.table.schema)

    def columns(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the named columns in batches."""
        for batch in self.table.to_batches(max_chunksize=BATCH):
            yield [_column(batch, name) for name in names]


def _names(source: object, schema: Any) -> list[str]:
    """Names of columns, also of nested ones, with dots."""
    if len(set(schema.names)) != len(schema.names):
        raise ValueError(f"{source}: the columns must have different names.")

    def below(field: Any, name: str) -> Iterator[str]:
        yield name
        if pa.types.is_struct(field.type):
            for inner in field.type:
                yield from below(inner, f"{name}.{inner.name}")

    return [name for field in schema for name in below(field, field.name)]


def _column(batch: Any, name: str) -> Any:
    if name in batch.schema.names:
        return batch.column(name)
    first, *others = name.split(".")
    return compute.struct_field(batch.column(first), others)


class Table:
    """A Parquet or Arrow file, read in batches.

    What is unpacked at a time, a group of rows or a batch, is checked before memory is taken for
    it; `allowed` bytes are fine.
    """

    def __init__(self, path: Path, what: str = "feedback", allowed: int | None = None) -> None:
        self.path, self.what, self.allowed = path, what, allowed
        self.is_parquet = path.suffix in PARQUET
        with open(path, "rb"):  # a missing file raises the same error in every format
            pass
        with self._file() as file:
            self.schema = file.schema_arrow if self.is_parquet else file.schema
            self.names = _names(path, self.schema)
            if self.is_parquet:
                groups = map(file.metadata.row_group, range(file.metadata.num_row_groups))
                self._rows = [int(group.num_rows) for group in groups]
                self.n_rows = int(file.metadata.num_rows)
                if self.n_rows != sum(self._rows):
                    raise pa.ArrowInvalid("the rows of its groups are not all rows")
                leaves = [file.schema.column(place) for place in range(len(file.schema))]
                self._texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            else:
                batches, self._dictionaries = arrow_batches(path)
                self._rows = [batch.rows for batch in batches]
                self.n_rows = sum(self._rows)
                self._sizes = [batch.size for batch in batches]

    @contextmanager
    def _file(self, *, encoded: bool = False) -> Iterator[Any]:
        """The opened file; texts are encoded if asked for, so that each is held once."""
        try:
            if self.is_parquet:
                texts = self._texts if encoded else None
                with parquet.ParquetFile(self.path, memory_map=True, read_dictionary=texts) as file:
                    yield file
            else:
                with pa.memory_map(str(self.path)) as source:
                    yield ipc.open_file(source)
        except pa.ArrowException as error:
            raise ValueError(f"{self.path}: could not be read as a table ({error}).") from error

    def columns(self, names: Sequence[str]) -> Iterator[list[Any]]:
        """Yield the named columns in batches."""
        known = self.schema.names
        outer = dict.fromkeys(name if name in known else name.split(".")[0] for name in names)
        for batch in self.batches(outer, encoded=True):
            yield [_column(batch, name) for name in names]

    def parts(self, start: int = 0, stop: int | None = None) -> range:
        """Groups of rows, or record batches, that some of the rows are in; all by default."""
        ends = np.cumsum(self._rows)
        first = int(np.searchsorted(ends, start, "right")) if start else 0
        last = len(ends) if stop is None else int(np.searchsorted(ends, stop)) + 1
        return range(first, min(last, len(ends)))

    def first_row(self, parts: range) -> int:
        """First row of some parts."""
        return sum(self._rows[: parts.start])

    def unpacked(
        self, names: Iterable[str], rows: int = BATCH, parts: range | None = None
    ) -> list[int]:
        """Bytes of each part of the file that is unpacked at once, for the named columns."""
        parts = self.parts() if parts is None else parts
        if not self.is_parquet:
            return [self._dictionaries + self._sizes[number] for number in parts]
        with self._file() as file:
            return parquet_groups(self.path, file.metadata, set(names), rows, parts)

    def batches(
        self,
        names: Iterable[str],
        size: int = BATCH,
        *,
        encoded: bool = False,
        parts: range | None = None,
    ) -> Iterator[Any]:
        """Yield the named columns, of some parts or of all, in batches of at most `size` rows."""
        names, parts = list(names), self.parts() if parts is None else parts
        for kind in (self.schema.field(name).type for name in names):
            _check_kind(self.path, kind)
        largest = max(self.unpacked(names, size, parts), default=0)
        check_size(self.path, self.what, largest, self.allowed)
        with self._file(encoded=encoded) as file:
            if self.is_parquet:
                yield from file.iter_batches(size, list(parts), list(names))
                return
            for number in parts:
                batch = file.get_batch(number)
                batch.validate(full=True)  # Arrow trusts impossible offsets, and crashes
                batch = batch.select(list(names))
                for start in range(0, batch.num_rows, size):
                    part = batch.slice(start, size)
                    self._check_views(part)
                    yield part

    def _check_views(self, batch: Any) -> None:
        """Texts of views may overlap, and then are longer than the file."""
        leaves = (leaf for column in batch.columns for leaf in leaves_of(column))
        held = (leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf for leaf in leaves)
        total = sum(letters_of(leaf) for leaf in held if pa.types.is_string_view(leaf.type))
        check_size(self.path, self.what, total, self.allowed)


def _check_kind(path: Path, kind: Any) -> None:
    """Refuse types whose values may share memory without end."""
    if pa.types.is_dictionary(kind) or any(test(kind) for test in LISTS):
        _check_kind(path, kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            _check_kind(path, field.type)
    elif pa.types.is_nested(kind) or pa.types.is_binary_view(kind):
        raise ValueError(f"{path}: columns must be numbers, texts or lists of them, got {kind}.")


def copy_rows(path: Path, kept: NDArray[np.bool_], output: Path) -> None:
    """Copy the first rows of a table that a mask selects; rows beyond the mask are left out."""
    table, row = Table(path), 0
    writer = parquet.ParquetWriter if table.is_parquet else ipc.new_file
    with writer(str(output), table.schema) as file:
        for batch in table.batches(table.schema.names, encoded=True):
            chosen = kept[row : row + batch.num_rows]
            for part in _parts(batch.slice(0, len(chosen)).filter(pa.array(chosen))):
                file.write_batch(part.cast(table.schema) if table.is_parquet else part)
            row += batch.num_rows


def _parts(batch: Any) -> Iterator[Any]:
    """The rows of a batch in parts whose texts are short once they are no longer encoded."""
    letters = sum(letters_of(leaf) for column in batch.columns for leaf in leaves_of(column))
    if letters <= LETTERS or batch.num_rows < 2:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
