"""How much memory a table takes once it is unpacked, read from its headers before any of it is.

Arrow files say the size of each buffer in front of it, Parquet files that of each page. Their
footers say more, but a forged footer does not bind the reader, so it is the parts that are asked.
"""

import mmap
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

#: bytes of a value of a list beside its text: a number and two levels
VALUE = 12
#: encoding of Parquet in which a text may repeat all of the one before it
PREFIXES = 7
#: headers of pages nest less deeply than this
DEEPEST = 8
#: marks a compressed Arrow message of before version 1.0
EXPERIMENTAL = b"ARROW:experimental_compression"


def check_size(path: Path, what: str, wanted: int, allowed: int | None = None) -> None:
    """Refuse a small file that unfolds into much memory, unless the caller allows that much."""
    limit = 64 * path.stat().st_size + 2**28 if allowed is None else allowed
    if wanted > limit:
        way = "allow more with max_bytes, or store it without compression"
        if what == "feedback":
            way = "store it in batches of fewer rows, or without compression"
        raise ValueError(
            f"{path}: {what} must take at most {limit} bytes of memory at a time, got {wanted}; "
            f"if the file is trusted, {way}."
        )


@contextmanager
def _mapped(path: Path) -> Iterator[mmap.mmap]:
    """The bytes of a file; whatever points out of them is damage."""
    try:
        with open(path, "rb") as file:
            data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            with data:
                yield data
    except (struct.error, LookupError, ValueError) as error:
        raise ValueError(f"{path}: could not be read as a table ({error}).") from error


# -- Arrow -------------------------------------------------------------------------------------


class Batch(NamedTuple):
    """A record batch of an Arrow file."""

    rows: int
    #: bytes of its compressed buffers once they are unpacked
    size: int


def arrow_batches(path: Path) -> tuple[list[Batch], int]:
    """Record batches of a file, and the unpacked bytes of its dictionaries.

    The layout is that of Arrow's File.fbs and Message.fbs.
    """
    with _mapped(path) as data:
        end = len(data) - 10  # the length of the footer, and the magic letters
        (length,) = struct.unpack_from("<i", data, end)
        footer = _root(data, end - length)
        dictionaries, batches = (_blocks(data, footer, slot) for slot in (2, 3))
        unpacked = [_batch(data, *block) for block in dictionaries]
        return [_batch(data, *block) for block in batches], sum(part.size for part in unpacked)


def _root(data: mmap.mmap, start: int) -> int:
    if start < 0:
        raise IndexError("the footer is longer than the file")
    return int(start + struct.unpack_from("<I", data, start)[0])


def _slot(data: mmap.mmap, table: int, number: int) -> int | None:
    """Where a table of flatbuffers has a field; None if it is absent."""
    near = table - struct.unpack_from("<i", data, table)[0]
    if near < 0 or 4 + 2 * number >= struct.unpack_from("<H", data, near)[0]:
        return None
    offset = struct.unpack_from("<H", data, near + 4 + 2 * number)[0]
    return table + offset if offset else None


def _follow(data: mmap.mmap, place: int) -> int:
    return int(place + struct.unpack_from("<I", data, place)[0])


def _structs(data: mmap.mmap, table: int, slot: int, form: str) -> list[tuple[int, ...]]:
    place = _slot(data, table, slot)
    if place is None:
        return []
    start = _follow(data, place)
    (count,) = struct.unpack_from("<I", data, start)
    if count * struct.calcsize(form) > len(data):
        raise IndexError("a list is longer than the file")
    return [
        struct.unpack_from(form, data, start + 4 + i * struct.calcsize(form)) for i in range(count)
    ]


def _blocks(data: mmap.mmap, footer: int, slot: int) -> list[tuple[int, ...]]:
    return _structs(data, footer, slot, "<qi4xq")


def _batch(data: mmap.mmap, offset: int, header: int, body: int) -> Batch:
    """Rows and unpacked bytes of the batch, or of the dictionary, at an offset."""
    if min(offset, header, body) < 0:
        raise IndexError("an offset is negative")
    start = offset + (8 if data[offset : offset + 4] == b"\xff\xff\xff\xff" else 4)
    message = _root(data, start)
    kind, place = _slot(data, message, 1), _slot(data, message, 2)
    if kind is None or place is None:
        raise IndexError("a message has no header")
    batch = _follow(data, place)
    if data[kind] == 2:  # a dictionary holds a batch
        inner = _slot(data, batch, 1)
        if inner is None:
            raise IndexError("a dictionary has no values")
        batch = _follow(data, inner)
    counted = _slot(data, batch, 0)
    rows = 0 if counted is None else struct.unpack_from("<q", data, counted)[0]
    packed = _slot(data, batch, 3) is not None
    if not packed and EXPERIMENTAL not in data[start : offset + header]:
        return Batch(rows, 0)
    size = 0
    for place, length in _structs(data, batch, 2, "<qq"):
        if length:
            size += max(0, struct.unpack_from("<q", data, offset + header + place)[0])
    return Batch(rows, size)


# -- Parquet -----------------------------------------------------------------------------------


def parquet_groups(
    path: Path, metadata: Any, names: set[str], rows: int, groups: Iterable[int]
) -> list[int]:
    """Unpacked bytes of the named columns of groups of rows, read `rows` at a time."""
    found = []
    with _mapped(path) as data:
        for number in groups:
            group = metadata.row_group(number)
            size = 0
            for place in range(group.num_columns):
                chunk = group.column(place)
                if chunk.path_in_schema.split(".")[0] in names:
                    size += _chunk_size(data, chunk, metadata.schema.column(place), rows)
            found.append(size)
    return found


def chunk_span(chunk: Any) -> tuple[int, int]:
    """Where the bytes of a column in a group of rows begin and end."""
    start = chunk.data_page_offset
    if chunk.has_dictionary_page and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    return start, start + chunk.total_compressed_size


def _chunk_size(data: mmap.mmap, chunk: Any, column: Any, rows: int) -> int:
    place, end = chunk_span(chunk)
    end = min(end, len(data))
    size = values = 0
    while place < end:
        header, place = _thrift(data, place)
        unpacked, packed = header[2], header[3]
        if min(place, unpacked, packed) < 0:
            raise IndexError("a size is negative")
        page = header.get(5) or header.get(8) or {}
        n, encoding = page.get(1, 0), page.get(2 if 5 in header else 4)
        size += unpacked * (n if encoding == PREFIXES else 1)
        values += n
        place += packed
    if column.max_repetition_level:  # all values of a list are held at once
        size += VALUE * values
    return int(size + column.length * min(values, rows))


def _varint(data: mmap.mmap, place: int) -> tuple[int, int]:
    found = shift = 0
    while True:
        byte = data[place]
        place += 1
        found |= (byte & 127) << shift
        if byte < 128:
            return found, place
        shift += 7
        if shift > 63:
            raise IndexError("a number is too long")


def _number(data: mmap.mmap, place: int) -> tuple[int, int]:
    found, place = _varint(data, place)
    return (found >> 1) ^ -(found & 1), place


def _thrift(data: mmap.mmap, place: int, depth: int = 0) -> tuple[dict[int, Any], int]:
    """Integers and structures of a structure in Thrift's compact protocol, and where it ends."""
    if depth > DEEPEST:
        raise IndexError("a header is nested too deeply")
    found: dict[int, Any] = {}
    name = 0
    while byte := data[place]:
        place += 1
        kind = byte & 15
        if byte >> 4:
            name += byte >> 4
        else:
            name, place = _number(data, place)
        found[name], place = _value(data, place, kind, depth)
    return found, place + 1


def _value(data: mmap.mmap, place: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (1, 2):  # booleans are in their type
        return kind, place
    if kind == 3:
        return data[place], place + 1
    if kind in (4, 5, 6):
        return _number(data, place)
    if kind == 7:
        return None, place + 8
    if kind == 8:
        length, place = _varint(data, place)
        return None, place + length
    if kind == 12:
        return _thrift(data, place, depth + 1)
    raise IndexError("a header has a field of an unknown type")
