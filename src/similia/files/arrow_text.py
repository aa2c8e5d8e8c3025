"""Blocks of CSV and JSONL parsed at once by Arrow.

Only where nothing is unusual: for anything else the answer is None, and the caller reads the block
line by line, which finds what is wrong and where.
"""

from collections.abc import Sequence
from typing import Any

from similia.exceptions import MissingExtraError
from similia.files.columns import Column
from similia.files.ids import Encoded
from similia.files.lines import LineBlock

try:
    import pyarrow as pa
    from pyarrow import csv, json
except ImportError as error:
    raise MissingExtraError("similia.files.arrow_text", "pyarrow", "io") from error


def csv_columns(
    block: LineBlock, header: Sequence[str], columns: Sequence[Column]
) -> list[Any] | None:
    """Give the columns of a block of CSV lines, or None."""
    if b'"' in block.data:  # where quotes may go is decided in one place, line by line
        return None
    names = [column.name for column in columns]
    types = {column.name: getattr(pa, column.reader.dtype)() for column in columns}
    try:
        table = csv.read_csv(
            pa.BufferReader(block.data),
            read_options=csv.ReadOptions(
                column_names=list(header), use_threads=False, block_size=len(block.data) + 1
            ),
            convert_options=csv.ConvertOptions(
                column_types=types, include_columns=names, null_values=[""]
            ),
        )
    except pa.ArrowInvalid:
        return None
    return _plain_columns(table, names, block)


def json_columns(block: LineBlock, columns: Sequence[Column]) -> list[Any] | None:
    """Give the columns of a block of JSON lines, or None."""
    names = [column.name for column in columns]
    schema = pa.schema([(c.name, getattr(pa, c.reader.dtype)()) for c in columns])
    try:
        table = json.read_json(
            pa.BufferReader(block.data),
            read_options=json.ReadOptions(use_threads=False, block_size=len(block.data) + 1),
            parse_options=json.ParseOptions(
                explicit_schema=schema, unexpected_field_behavior="ignore"
            ),
        )
    except pa.ArrowInvalid:
        return None
    return _plain_columns(table, names, block)


def _plain_columns(table: Any, names: Sequence[str], block: LineBlock) -> list[Any] | None:
    """Give the columns unless a value is missing or a line is not a row."""
    if table.num_rows != block.n_lines:
        return None
    found = []
    for name in names:
        plain = plain_column(table.column(name))
        if plain is None:
            return None
        if isinstance(plain, Encoded) and any(
            text != text.strip() or not text for text in plain[1]
        ):
            return None
        found.append(plain)
    return found


def plain_column(column: Any) -> Any:
    """Give an Arrow column as an array of numbers or as encoded texts, or None."""
    if column.null_count:
        return None
    column = column.combine_chunks()
    if isinstance(column, pa.ChunkedArray):  # an empty column has no chunk to be combined into
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_dictionary(kind) and pa.types.is_string(kind.value_type):
        return Encoded(column.indices.to_numpy(), column.dictionary.to_pylist())
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        coded = column.dictionary_encode()
        return Encoded(coded.indices.to_numpy(), coded.dictionary.to_pylist())
    return None
