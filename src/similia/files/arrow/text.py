"""Lines of fields, or of JSON, parsed many at a time."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import compute, csv, json

from similia.files.arrow.columns import is_text, plain_columns
from similia.files.pieces import Entries, Fields
from similia.files.rows import RawColumn

#: types of columns by name: "int64", "float64", "bool", "string", "list", "mixed", numbers or
#: texts, or "key", an integer or a text that is hashed
Types: TypeAlias = Mapping[str, str]

ARROW_TYPES = {
    "int64": pa.int64(),
    "float64": pa.float64(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "list": pa.list_(pa.string()),
    "mixed": pa.string(),
    "key": pa.string(),
}


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
        else ARROW_TYPES[kind]
        for place, kind in ((layout.places[name], kind) for name, kind in types.items())
    }
    table = csv.read_csv(
        pa.BufferReader(data),
        csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        csv.ParseOptions(delimiter=delimiter, quote_char=False if delimiter == " " else '"'),
        csv.ConvertOptions(column_types=wanted, include_columns=list(wanted), null_values=[""]),
    )
    columns = (table.column(names[layout.places[name]]) for name in types)
    # Texts encoded now take less time than texts that the parser encodes.
    return [column.dictionary_encode() if is_text(column.type) else column for column in columns]


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
