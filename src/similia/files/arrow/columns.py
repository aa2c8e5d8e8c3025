"""Columns of Arrow as arrays of numbers, encoded texts or plain values."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import compute

from similia.files.keys import keys_of_bytes
from similia.files.rows import Encoded, Lists, RawColumn

LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


class Texts(Sequence[Any]):
    """Distinct texts of a column, found among known ones without being made Python's."""

    def __init__(self, given: Any) -> None:
        self._found = given if isinstance(given, pa.Array) else pa.array(given, pa.string())

    @cached_property
    def _plain(self) -> list[Any]:
        return list(self._found.to_pylist())

    def __len__(self) -> int:
        return len(self._found)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._plain)

    def __getitem__(self, place: Any) -> Any:
        return self._plain[place]

    def places_among(self, known: "Texts") -> NDArray[np.int32]:
        """Place of each text among known ones; -1 where it is none of them."""
        places = compute.index_in(self._found, value_set=known._found)
        return places.fill_null(-1).to_numpy(zero_copy_only=False)


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
    if is_text(kind):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type) and is_text(column.type.value_type):
        codes = column.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        texts = column.dictionary
        return Encoded(codes, Texts(texts) if texts.type == pa.string() else texts.to_pylist())
    if not is_number(kind) and (column.null_count or not pa.types.is_boolean(kind)):
        return None
    return column.to_numpy(zero_copy_only=False)


def is_number(kind: Any) -> bool:
    """Whether values of a type are integers or floats."""
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def is_text(kind: Any) -> bool:
    """Whether values of a type are texts."""
    return bool(
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )


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


def leaves_of(column: Any) -> Iterator[Any]:
    """Columns of numbers or texts that a column is made of."""
    kind = column.type
    if pa.types.is_struct(kind):
        for inner in column.flatten():
            yield from leaves_of(inner)
    elif any(test(kind) for test in LISTS):
        yield from leaves_of(column.flatten())
    else:
        yield column


def letters_of(leaf: Any) -> int:
    """Bytes of all texts of an encoded column, or of one of views; 0 for others."""
    if pa.types.is_string_view(leaf.type):  # four integers, of which the first is a length
        lengths = np.frombuffer(leaf.buffers()[1], "<i4")[::4][leaf.offset :][: len(leaf)]
        return int(lengths[leaf.is_valid().to_numpy(zero_copy_only=False)].sum(dtype=np.int64))
    kind = leaf.type
    if not pa.types.is_dictionary(kind) or not (
        is_text(kind.value_type) or pa.types.is_binary(kind.value_type)
    ):
        return 0
    lengths = compute.binary_length(leaf.dictionary).cast(pa.int64())
    return int(compute.sum(lengths.take(leaf.indices)).as_py() or 0)
