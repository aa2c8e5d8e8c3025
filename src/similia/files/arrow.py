"""Everything that needs pyarrow: Parquet and Arrow files, fast parsing of CSV and JSON lines."""

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.files.keys import keys_of_bytes
from similia.files.pieces import Entries, Fields, RawColumn, Types
from similia.files.rows import Encoded, Lists
from similia.files.unpacked import arrow_batches, check_size, parquet_groups

try:
    import pyarrow as pa
    from pyarrow import compute, csv, ipc, json, parquet
except ImportError as error:
    raise MissingExtraError("similia.files.arrow", "pyarrow", "io") from error

#: rows held at a time
BATCH = 2**16
#: numbers of vectors held at a time beside the result
NUMBERS = 2**22
#: bytes of texts that are copied at a time
LETTERS = 2**26
PARQUET = (".parquet", ".pq")
ARROW_TYPES = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "list": pa.list_(pa.string()),
    "mixed": pa.string(),
    "key": pa.string(),
}
LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)
CSV_TYPES = {
    **ARROW_TYPES,
    **dict.fromkeys(("string", "mixed", "key"), pa.dictionary(pa.int32(), pa.string())),
}

# -- text --------------------------------------------------------------------------------------


def text_columns(
    data: bytes, n_lines: int, layout: Fields | Entries | None, types: Types
) -> list[RawColumn] | None:
    """Parse lines of fields or of JSON.

    Return None if anything is unusual; the caller then finds out what, line by line.
    """
    try:
        if isinstance(layout, Fields):
            columns = _parsed_fields(data, layout, types)
        elif isinstance(layout, Entries):
            columns = _parsed_entries(data, layout, types)
        else:
            return None
    except pa.ArrowInvalid:
        return None
    if any(len(column) != n_lines for column in columns):
        return None
    # Reading fields line by line strips the spaces around texts, and refuses empty ones.
    if isinstance(layout, Fields) and not all(map(_is_stripped, columns)):
        return None
    return plain_columns(columns, list(types.values()))


def _parsed_fields(data: bytes, layout: Fields, types: Types) -> list[Any]:
    delimiter = layout.delimiter
    if delimiter == " ":
        data = re.sub(rb"[ \t]*(\r?\n)[ \t]*", rb"\1", re.sub(rb"[ \t]+", b" ", data.strip(b" \t")))
    elif b'"' in data:  # quoting is interpreted in one place: line by line
        raise pa.ArrowInvalid("quotes")
    names = [str(place) for place in range(layout.width)]
    first = data[: data.find(b"\n")].split(delimiter.encode())
    if len(first) != layout.width:
        raise pa.ArrowInvalid("fields")
    wanted = {
        names[place]: pa.float64()
        if kind == "mixed" and _is_float(first[place])
        else CSV_TYPES[kind]
        for place, kind in ((layout.places[name], kind) for name, kind in types.items())
    }
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        csv.ParseOptions(delimiter=delimiter, quote_char=False if delimiter == " " else '"'),
        csv.ConvertOptions(column_types=wanted, include_columns=list(wanted), null_values=[""]),
    )
    return [table.column(names[layout.places[name]]) for name in types]


def _is_float(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_stripped(column: Any) -> bool:
    if not pa.types.is_dictionary(column.type):
        return True
    texts = column.combine_chunks().dictionary
    stripped = compute.equal(texts, compute.utf8_trim_whitespace(texts))
    return bool(compute.all(compute.and_(stripped, compute.not_equal(texts, ""))).as_py())


def _parsed_entries(data: bytes, layout: Entries, types: Types) -> list[Any]:
    tree: dict[str, Any] = {}
    for name, kind in types.items():
        *parents, last = layout.paths[name]
        branch = tree
        for key in parents:
            branch = branch.setdefault(key, {})
        met = layout.types.get(name, kind)
        branch[last] = ARROW_TYPES[kind if (met, kind) == ("int64", "float64") else met]
    parsing = json.ParseOptions(
        explicit_schema=pa.schema(_arrow_fields(tree)), unexpected_field_behavior="ignore"
    )
    reading = json.ReadOptions(use_threads=False, block_size=len(data) + 1)
    table = json.read_json(pa.BufferReader(data), reading, parsing)
    found = []
    for name in types:
        first, *others = layout.paths[name]
        column = table.column(first)
        found.append(compute.struct_field(column, others) if others else column)
    return found


def _arrow_fields(tree: dict[str, Any]) -> list[Any]:
    return [
        pa.field(key, pa.struct(_arrow_fields(kind)) if isinstance(kind, dict) else kind)
        for key, kind in tree.items()
    ]


def plain_columns(columns: Sequence[Any], kinds: Sequence[str]) -> list[RawColumn] | None:
    """Columns as arrays of numbers or encoded texts; None if one is neither."""
    found: list[RawColumn] = []
    for column, kind in zip(columns, kinds, strict=True):
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # an empty column has no chunk to combine
            parts = column.chunks or [pa.array([], column.type)]
            column = pa.concat_arrays(parts)
        plain: RawColumn | None = _hashed(column) if kind == "key" else None
        if plain is None:
            plain = _plain(column)
        if plain is None:
            return None
        found.append(plain)
    return found


def _hashed(column: Any) -> NDArray[np.int64] | None:
    """Keys of a column of texts without gaps, else None."""
    if column.null_count:
        return None
    if pa.types.is_dictionary(column.type):
        distinct = _hashed(column.dictionary)
        return None if distinct is None else distinct[column.indices.to_numpy()]
    if column.type != pa.string():
        return None
    _, offsets, data = column.buffers()
    if data is None:
        return None
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return keys_of_bytes(np.frombuffer(data, np.uint8), ends.astype(np.int64))


def _plain(column: Any) -> RawColumn | None:
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        lengths = compute.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        texts = _plain(column.flatten())
        return Lists(lengths, texts) if isinstance(texts, Encoded) else None
    if pa.types.is_timestamp(kind):
        column = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()).cast(pa.float64())
        return column.to_numpy(zero_copy_only=False) / 1e6
    if _is_text(kind):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type) and _is_text(column.type.value_type):
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return Encoded(codes, column.dictionary.to_numpy(zero_copy_only=False).tolist())
    if not _is_number(kind) and (column.null_count or not pa.types.is_boolean(kind)):
        return None
    return column.to_numpy(zero_copy_only=False)


def _is_text(kind: Any) -> bool:
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


# -- tables ------------------------------------------------------------------------------------


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
                self.n_rows = int(file.metadata.num_rows)
                leaves = [file.schema.column(place) for place in range(len(file.schema))]
                self._texts = [leaf.path for leaf in leaves if leaf.physical_type == "BYTE_ARRAY"]
            else:
                batches, self._dictionaries = arrow_batches(path)
                self.n_rows = sum(batch.rows for batch in batches)
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

    def unpacked(self, names: Iterable[str], rows: int = BATCH) -> list[int]:
        """Bytes of each part of the file that is unpacked at once, for the named columns."""
        if not self.is_parquet:
            return [self._dictionaries + size for size in self._sizes]
        with self._file() as file:
            return parquet_groups(self.path, file.metadata, set(names), rows)

    def batches(
        self, names: Iterable[str], size: int = BATCH, *, encoded: bool = False
    ) -> Iterator[Any]:
        """Yield the named columns in batches of at most `size` rows."""
        names = list(names)
        for kind in (self.schema.field(name).type for name in names):
            _check_kind(self.path, kind)
        largest = max(self.unpacked(names, size), default=0)
        check_size(self.path, self.what, largest, self.allowed)
        with self._file(encoded=encoded) as file:
            if self.is_parquet:
                yield from file.iter_batches(batch_size=size, columns=list(names))
                return
            for number in range(file.num_record_batches):
                batch = file.get_batch(number)
                batch.validate(full=True)  # Arrow trusts impossible offsets, and crashes
                batch = batch.select(list(names))
                for start in range(0, batch.num_rows, size):
                    part = batch.slice(start, size)
                    self._check_views(part)
                    yield part

    def _check_views(self, batch: Any) -> None:
        """Texts of views may overlap, and then are longer than the file."""
        leaves = (leaf for column in batch.columns for leaf in _leaves(column))
        held = (leaf.dictionary if pa.types.is_dictionary(leaf.type) else leaf for leaf in leaves)
        total = sum(_letters(leaf) for leaf in held if pa.types.is_string_view(leaf.type))
        check_size(self.path, self.what, total, self.allowed)


def _leaves(column: Any) -> Iterator[Any]:
    """Columns of numbers or texts that a column is made of."""
    kind = column.type
    if pa.types.is_struct(kind):
        for inner in column.flatten():
            yield from _leaves(inner)
    elif any(test(kind) for test in LISTS):
        yield from _leaves(column.flatten())
    else:
        yield column


def _letters(leaf: Any) -> int:
    """Bytes of all texts of an encoded column, or of one of views; 0 for others."""
    if pa.types.is_string_view(leaf.type):  # four integers, of which the first is a length
        lengths = np.frombuffer(leaf.buffers()[1], "<i4")[::4][leaf.offset :][: len(leaf)]
        return int(lengths[leaf.is_valid().to_numpy(zero_copy_only=False)].sum(dtype=np.int64))
    kind = leaf.type
    if not pa.types.is_dictionary(kind) or not (
        _is_text(kind.value_type) or pa.types.is_binary(kind.value_type)
    ):
        return 0
    lengths = compute.binary_length(leaf.dictionary).cast(pa.int64())
    return int(compute.sum(lengths.take(leaf.indices)).as_py() or 0)


def _check_kind(path: Path, kind: Any) -> None:
    """Refuse types whose values may share memory without end."""
    if pa.types.is_dictionary(kind) or any(test(kind) for test in LISTS):
        _check_kind(path, kind.value_type)
    elif pa.types.is_struct(kind):
        for field in kind:
            _check_kind(path, field.type)
    elif pa.types.is_nested(kind) or pa.types.is_binary_view(kind):
        raise ValueError(f"{path}: columns must be numbers, texts or lists of them, got {kind}.")


# -- vectors -----------------------------------------------------------------------------------


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


def values(column: Any) -> list[Any]:
    """Values of a column; equal texts are one object, so that long repeats take no memory."""
    kind = column.type
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        rest = iter(values(column.flatten()))
        lengths = compute.list_value_length(column).to_pylist()
        return [None if n is None else list(islice(rest, n)) for n in lengths]
    if not pa.types.is_dictionary(kind):
        return list(column.to_pylist())
    texts = column.dictionary.to_pylist()
    return [None if code is None else texts[code] for code in column.indices.to_pylist()]


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
    return any(test(kind) for test in LISTS) and _is_number(kind.value_type)


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
        for batch in table.batches(table.schema.names, encoded=True):
            chosen = kept[row : row + batch.num_rows]
            for part in _parts(batch.slice(0, len(chosen)).filter(pa.array(chosen))):
                file.write_batch(part.cast(table.schema) if table.is_parquet else part)
            row += batch.num_rows


def _parts(batch: Any) -> Iterator[Any]:
    """The rows of a batch in parts whose texts are short once they are no longer encoded."""
    letters = sum(_letters(leaf) for column in batch.columns for leaf in _leaves(column))
    if letters <= LETTERS or batch.num_rows < 2:
        yield batch
        return
    middle = batch.num_rows // 2
    yield from _parts(batch.slice(0, middle))
    yield from _parts(batch.slice(middle))
