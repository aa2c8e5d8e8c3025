"""Pieces of a file: some rows each, parsed at once or row by row.

A piece with a bad row cannot be parsed as a whole. It is halved until the bad row is in a small
piece, so that a few bad rows cost little; only that piece is parsed row by row, which names them.
"""

import csv
import io
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import numpy as np

from similia.contract import Array
from similia.exceptions import BadRowError
from similia.files.columns import Columns, Reader
from similia.files.rows import BadRows, Encoded, Ids, Lists, RawColumn, RowError, Rows

#: bytes read at a time
BLOCK = 2**23
#: longest accepted line, in bytes
LONGEST = 2**26
#: bytes of text for which Arrow is not worth its import
TINY_TEXT = 2**10
#: bytes of text, and rows of tables, that are parsed row by row rather than cut
SMALL_TEXT = 2**14
SMALL_TABLE = 2**9

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

T = TypeVar("T")


class Fields(NamedTuple):
    """Where a line of text has its columns."""

    #: place of each column among the fields of a line
    places: dict[str, int]
    #: fields in a line
    width: int
    #: what is between them; " " is any white space
    delimiter: str

    def split(self, line: str) -> list[str]:
        """Fields of one line."""
        if self.delimiter == " ":
            return line.split()
        return csv_fields(line, self.delimiter)

    def values(self, line: str, names: Sequence[str]) -> list[Any]:
        """Values of the named columns; None for an empty field."""
        found = self.split(line)
        if len(found) != self.width:
            raise RowError(
                "wrong number of fields", f": {len(found)} where others have {self.width}"
            )
        return [found[self.places[name]].strip() or None for name in names]


class Entries(NamedTuple):
    """Where a line of JSON has its columns."""

    #: keys that lead to each column
    paths: dict[str, tuple[str, ...]]
    #: types of the values of the first line
    types: dict[str, str]

    def values(self, line: str, names: Sequence[str]) -> list[Any]:
        """Values of the named columns; None where there is none."""
        found = json_object(line)
        return [entry(found, self.paths[name]) for name in names]


def entry(found: Any, path: Sequence[str]) -> Any:
    """Value that keys lead to in nested objects, or None."""
    for key in path:
        found = found.get(key) if isinstance(found, dict) else None
    return found


class Piece(Protocol):
    """Some rows of a file."""

    @property
    def number(self) -> int:
        """Number of the first row."""

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """All values of each column, or None if they must be read row by row."""

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Yield the number of each row with its fields, or with the reason it has none."""

    def halves(self) -> "list[Piece]":
        """The same rows in two pieces; empty if this one is small."""


@dataclass(frozen=True)
class TextPiece:
    """Whole lines, numbered from 1, of fields or of JSON."""

    number: int
    data: bytes
    layout: Fields | Entries | None = None
    #: lines, if they have been counted
    n_lines: int | None = None

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """Split lines without quotes; let Arrow parse if it is installed and worth its import."""
        if len(self.data) > TINY_TEXT and find_spec("pyarrow") is not None:
            from similia.files.arrow.text import text_columns

            n_lines = self.n_lines
            if n_lines is None:
                n_lines = self.data.count(b"\n") + (not self.data.endswith(b"\n"))
            types = {name: reader.dtype for name, reader in columns.items()}
            return text_columns(self.data, n_lines, self.layout, types)
        if not isinstance(self.layout, Fields) or b'"' in self.data:
            return None
        try:
            lines = self.data.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            return None
        separator = self.layout.delimiter.strip(" ") or None
        rows = [[text.strip() for text in line.split(separator)] for line in lines]
        if any(len(row) != self.layout.width or not all(row) for row in rows):
            return None
        return [
            Encoded(np.arange(len(rows)), [row[place] for row in rows])
            for place in map(self.layout.places.__getitem__, columns)
        ]

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Parse line by line."""
        layout = self.layout
        assert layout is not None
        return self.parsed(lambda line: layout.values(line, names))

    def parsed(self, parse: Callable[[str], T]) -> Iterator[tuple[int, T | RowError]]:
        """Yield the number and the parsed text of each line that is not blank."""
        for number, line in enumerate(io.BytesIO(self.data), start=self.number):
            if not line.strip():
                continue
            try:
                yield number, parse(line.decode("utf-8").removesuffix("\n").rstrip("\r"))
            except UnicodeDecodeError as error:
                yield number, RowError("not valid UTF-8", f" at byte {error.start}")
            except RowError as error:
                yield number, error

    def halves(self) -> list[Piece]:
        """Cut at the last line break of the first half."""
        cut = self.data.rfind(b"\n", 0, len(self.data) // 2) + 1
        if len(self.data) <= SMALL_TEXT or not cut:
            return []
        number = self.number + self.data.count(b"\n", 0, cut)
        return [
            TextPiece(self.number, self.data[:cut], self.layout),
            TextPiece(number, self.data[cut:], self.layout),
        ]


@dataclass(frozen=True)
class TablePiece:
    """Rows of a table: a column is an array of numbers, or one of Arrow."""

    number: int
    columns: dict[str, Any]

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """Convert the columns of Arrow."""
        found = [self.columns[name] for name in columns]
        if all(isinstance(column, np.ndarray) for column in found):
            return found
        from similia.files.arrow.columns import plain_columns

        return plain_columns(found, [reader.dtype for reader in columns.values()])

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Yield plain values."""
        lists = [_values(self.columns[name]) for name in names]
        yield from enumerate(map(list, zip(*lists, strict=True)), start=self.number)

    def halves(self) -> list[Piece]:
        """Cut in the middle."""
        middle = len(next(iter(self.columns.values()))) // 2
        if 2 * middle <= SMALL_TABLE:
            return []
        first = {name: column[:middle] for name, column in self.columns.items()}
        second = {name: column[middle:] for name, column in self.columns.items()}
        return [TablePiece(self.number, first), TablePiece(self.number + middle, second)]


def _values(column: Any) -> list[Any]:
    """Values of a column of a table as Python has them."""
    if isinstance(column, np.ndarray):
        return list(column.tolist())
    from similia.files.arrow.columns import values

    return values(column)


# -- from pieces to numbers --------------------------------------------------------------------


def read_columns(
    columns: Columns, piece: Piece, source: str, bad_rows: BadRows
) -> Iterator[tuple[list[Any], Rows]]:
    """Yield numbers by column, and row numbers.

    A piece is parsed as a whole if all of it is good, else in halves, finally row by row.
    """
    found: list[Any] = []
    raw_columns = piece.raw_columns(columns) or ()
    for reader, raw in zip(columns.values(), raw_columns, strict=False):
        numbers = _numbers(reader, raw)
        if numbers is None:
            break
        found.append(numbers)
    if len(found) == len(columns):
        yield found, np.arange(piece.number, piece.number + len(found[0]))
    elif halves := piece.halves():
        for half in halves:
            yield from read_columns(columns, half, source, bad_rows)
    else:
        yield from _good_rows(columns, piece, source, bad_rows)


def _numbers(reader: Reader | Ids, raw: RawColumn) -> Any:
    """Numbers of a column, or None if any value is bad."""
    if isinstance(raw, Encoded):
        gaps = raw.codes < 0
    elif isinstance(raw, np.ndarray) and raw.dtype.kind == "f":
        gaps = np.isnan(raw)
    else:
        return reader.column(raw)
    if not gaps.any():
        return reader.column(raw)
    if reader.missing is None:
        return None
    known = raw._replace(codes=raw.codes[~gaps]) if isinstance(raw, Encoded) else raw[~gaps]
    numbers = reader.column(known) if len(gaps) > gaps.sum() else np.zeros(0)
    if numbers is None:
        return None
    whole = np.full(len(gaps), reader.missing)
    whole[~gaps] = numbers
    return whole


def _good_rows(
    columns: Columns, piece: Piece, source: str, bad_rows: BadRows
) -> Iterator[tuple[list[Any], Rows]]:
    """Yield numbers of the good rows by column, and their row numbers; the others are reported.

    Where a bad row is an error, it is raised after the rows before it.
    """
    kept, numbers, stop = [], [], None
    for number, fields in piece.rows(list(columns)):
        try:
            if isinstance(fields, RowError):
                raise fields
            row = []
            for (name, reader), value in zip(columns.items(), fields, strict=True):
                if value is None and reader.missing is None:
                    raise RowError(f"column {name} is missing")
                try:
                    row.append(reader.missing if value is None else reader.value(value))
                except RowError as error:
                    raise error.within(name) from None
            kept.append(row)
            numbers.append(number)
        except RowError as error:
            try:
                bad_rows.add(source, number, error)
            except BadRowError as raised:
                stop = raised
                break
    if kept:
        found = [
            _joined(column) if reader.dtype == "list" else np.array(column)
            for reader, column in zip(columns.values(), zip(*kept, strict=True), strict=False)
        ]
        yield found, np.array(numbers, dtype=np.int64)
    if stop is not None:
        raise stop


def _joined(parts: Sequence[Array]) -> Lists:
    return Lists(np.array([len(part) for part in parts]), np.concatenate(parts))


# -- texts ------------------------------------------------------------------------------------


def csv_fields(line: str, delimiter: str = ",") -> list[str]:
    """Split one line; quoted fields may hold delimiters and doubled quotes, but no line breaks.

    An unclosed quote therefore spoils its own line and no other.
    """
    try:
        rows = list(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise RowError("not valid CSV", f" ({error})") from None
    return rows[0] if rows else []


def json_object(line: str) -> dict[str, Any]:
    """Parse one line as a JSON object; raise RowError if it is none."""
    try:
        found = json.loads(line)
    except (RecursionError, ValueError) as error:
        reason = "a number has too many digits"
        if isinstance(error, RecursionError):
            reason = "it is nested too deeply"
        elif isinstance(error, json.JSONDecodeError):
            reason = error.msg
        raise RowError("not valid JSON", f" ({reason})") from None
    if not isinstance(found, dict):
        raise RowError("not a JSON object", f": {line!r:.80}")
    return found


def opened(path: Path | str) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading bytes; ``-`` is standard input, which is left open."""
    return nullcontext(sys.stdin.buffer) if str(path) == "-" else open(path, "rb")


def text_pieces(file: IO[bytes], source: str, size: int = BLOCK) -> Iterator[TextPiece]:
    """Split a file into pieces of whole lines, without a byte order mark, in flat memory."""
    number = 1
    while data := file.read(size):
        if not data.endswith(b"\n"):
            data += file.readline(LONGEST)
            if not data.endswith(b"\n") and file.read(1):
                row = number + data.count(b"\n")
                raise ValueError(
                    f"{source}: lines must be of at most {LONGEST} bytes, got a longer one in row "
                    f"{row}."
                )
        if number == 1:
            data = data.removeprefix(BYTE_ORDER_MARK)
        n_lines = int(np.count_nonzero(np.frombuffer(data, np.uint8) == ord("\n")))
        yield TextPiece(number, data, n_lines=n_lines + (not data.endswith(b"\n")))
        number += n_lines
