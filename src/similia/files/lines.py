"""Text files line by line: fields of CSV and of TREC, and JSON."""

import csv
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from itertools import chain
from pathlib import Path
from typing import IO, Any, Generic, NamedTuple, TypeVar

from similia.files import limits
from similia.files.rows import RowError

#: random text, which no file contains
_MARK = os.urandom(16).hex()
_BETWEEN = f',"{_MARK}",'
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
JSON_SUFFIXES = (".jsonl", ".ndjson")
FIELD_DELIMITERS = {".csv": ",", ".tsv": "\t"}
#: TREC's files: fields between white space, without a header
TREC_SUFFIXES = (".qrels", ".qrel", ".run", ".trec", ".txt")
#: columns of TREC's files by the number of fields in a line
TREC_NAMES = {
    4: ["query", "iteration", "item", "relevance"],
    6: ["query", "Q0", "item", "rank", "score", "run"],
}
#: bytes between the delimiters, by delimiter: without them, lines of one width look the same
_UNMARKED = {d: bytes(set(range(256)) - set(f'{d}\n\r"'.encode())) for d in ",\t "}
#: white space within lines of ASCII
_SPACES = [bytes([code]) for code in b" \t\v\f\x1c\x1d\x1e\x1f"]

Line = TypeVar("Line")


class Parsed(NamedTuple, Generic[Line]):
    """Parsed lines, and errors."""

    values: list[Line]
    numbers: list[int]
    #: why the others could not be parsed, by number
    wrong: dict[int, RowError]


class Block(NamedTuple):
    """Whole lines of a file; `number` is that of the first, from 1."""

    number: int
    data: bytes

    def parsed(self, parse: Callable[[str], Line]) -> Parsed[Line]:
        """All lines that are not blank, parsed one by one."""
        found: Parsed[Line] = Parsed([], [], {})
        for number, line in enumerate(self._lines(), self.number):
            try:
                text = line if isinstance(line, str) else line.decode()
                if not text or text.isspace():
                    continue
                found.values.append(parse(text.rstrip("\r")))
                found.numbers.append(number)
            except UnicodeDecodeError as error:
                found.wrong[number] = RowError("not valid UTF-8", f" at byte {error.start}")
            except RowError as error:
                found.wrong[number] = error
        return found

    def objects(self) -> Parsed[dict[str, Any]]:
        """All lines that are not blank, as JSON objects.

        They are parsed at once if all are good, as a call takes longer than an object. The random
        text between them is found in its places only if no object begins and ends in other lines.
        """
        try:
            lines, numbers = self._texts()
            found = json.loads(f"[{_BETWEEN.join(lines)}]")
        except (RecursionError, ValueError):
            return self.parsed(json_object)
        objects, between = found[::2], found[1::2]
        are_objects = len(objects) == len(lines) and set(map(type, objects)) <= {dict}
        if not are_objects or between != [_MARK] * (len(lines) - 1):
            return self.parsed(json_object)
        return Parsed(objects, numbers, {})

    def fields(self, layout: "FieldLayout") -> Parsed[str]:
        """Fields of all lines that are not blank, line after line.

        Lines with the right number of delimiters and no quotes are split all at once.
        """
        _, width, delimiter = layout
        data = self.data.replace(b"\r\n", b"\n").removesuffix(b"\n")
        marks = data.translate(None, _UNMARKED[delimiter]) + b"\n"
        n = len(marks) // width
        if width > 1 and marks == (delimiter.encode() * (width - 1) + b"\n") * n:
            with suppress(UnicodeDecodeError):
                found = data.decode().replace("\n", delimiter).split(delimiter)
                if not data.isascii() or any(s in data for s in _SPACES if s != delimiter.encode()):
                    found = list(map(str.strip, found))
                return Parsed(found, list(range(self.number, self.number + n)), {})
        rows, numbers, wrong = self.parsed(layout.parse)
        return Parsed(list(chain.from_iterable(rows)), numbers, wrong)

    def _texts(self) -> tuple[list[str], list[int]]:
        """Lines that are not blank, and their numbers; raises UnicodeDecodeError."""
        lines = self.data.decode().replace("\r\n", "\n").split("\n")
        places = [place for place, line in enumerate(lines) if line and not line.isspace()]
        return [lines[place] for place in places], [self.number + place for place in places]

    def _lines(self) -> Sequence[str | bytes]:
        try:
            return self.data.decode().split("\n")
        except UnicodeDecodeError:
            return self.data.split(b"\n")


def opened(path: Path | str) -> AbstractContextManager[IO[bytes]]:
    """Open a file for reading bytes; ``-`` is standard input, which is left open."""
    return nullcontext(sys.stdin.buffer) if str(path) == "-" else open(path, "rb")


def blocks(file: IO[bytes], source: str) -> Iterator[Block]:
    """Cut a file into blocks of whole lines, without a byte order mark."""
    number = 1
    while data := file.read(limits.TEXT_BLOCK_BYTES):
        if not data.endswith(b"\n"):
            data += file.readline(limits.MAX_LINE_BYTES)
            if not data.endswith(b"\n") and file.read(1):
                row = number + data.count(b"\n")
                raise ValueError(
                    f"{source}: lines must be of at most {limits.MAX_LINE_BYTES} bytes, got a "
                    f"longer one in row {row}."
                )
        yield Block(number, data.removeprefix(BYTE_ORDER_MARK) if number == 1 else data)
        number += data.count(b"\n")


class FieldLayout(NamedTuple):
    """Positions of columns in delimited lines."""

    #: place of each column among the fields of a line
    places: dict[str, int]
    #: fields in a line
    width: int
    #: what is between them; " " is any white space
    delimiter: str

    def parse(self, line: str) -> list[str]:
        """Fields of a line; raise RowError unless there are `width`."""
        found = fields_of(line, self.delimiter)
        if len(found) != self.width:
            raise RowError(
                "wrong number of fields", f": {len(found)} where others have {self.width}"
            )
        return list(map(str.strip, found))

    def column(self, fields: Sequence[str], name: str) -> Sequence[str | None]:
        """A column, from the fields of all lines; empty ones are missing values."""
        values = fields[self.places[name] :: self.width]
        return [value or None for value in values] if "" in values else values


def fields_of(line: str, delimiter: str) -> list[str]:
    """Split a line; quoted fields may hold delimiters and doubled quotes, but no line breaks.

    An unclosed quote therefore spoils its own line and no other.
    """
    if delimiter == " ":
        return line.split()
    if '"' not in line and "\r" not in line:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter, strict=True))
    except csv.Error as error:
        raise RowError("not valid CSV", f" ({error})") from None


def header_of(source: str, block: Block, delimiter: str) -> tuple[list[str], Block]:
    """Names of the columns, from the first line that is not blank, and the lines after it."""
    blank = block.data[: len(block.data) - len(block.data.lstrip())].count(b"\n")
    line, _, rest = block.data.split(b"\n", blank)[blank].partition(b"\n")
    try:
        header = fields_of(line.decode().rstrip("\r"), delimiter)
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{source}: the header is not valid UTF-8 at byte {error.start}."
        ) from None
    except RowError as error:
        raise ValueError(f"{source}: the header is {error}.") from None
    if delimiter == " ":
        if len(header) not in TREC_NAMES:
            raise ValueError(
                f"{source}: lines must have 4 fields, as qrels do, or 6, as runs do, "
                f"got {len(header)}."
            )
        return TREC_NAMES[len(header)], block
    header = [name.strip().lower() for name in header]
    if len(set(header)) != len(header):
        raise ValueError(f"{source}: the columns must have different names.")
    return header, Block(block.number + blank + 1, rest)


class ObjectLayout(NamedTuple):
    """Key paths of columns in JSON objects."""

    paths: dict[str, tuple[str, ...]]

    def column(self, rows: Sequence[Mapping[str, Any]], name: str) -> Sequence[Any]:
        """A column of some objects; null and absent values are missing."""
        first, *others = self.paths[name]
        found = [row.get(first) for row in rows]
        for key in others:
            found = [value.get(key) if isinstance(value, dict) else None for value in found]
        return found


def json_object(line: str) -> dict[str, Any]:
    """Parse a line as a JSON object."""
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


def unwrapped(found: dict[str, Any]) -> dict[str, Any]:
    """A search engine's document, unwrapped from `_source`."""
    inner = found.get("_source")
    return inner if isinstance(inner, dict) else found
