"""Judgements, and the pieces of a file that they come from.

A piece with a bad row cannot be parsed as a whole. It is halved until the bad row is in a small
piece, so that a few bad rows cost little; only that piece is parsed row by row, which names them.
"""

import csv
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.files.rows import Encoded, RowError

#: bytes read at a time
BLOCK = 2**22
#: longest accepted line, in bytes
LONGEST = 2**26
#: bytes of text for which Arrow is not worth its import
TINY_TEXT = 2**10
#: bytes of text, and rows of tables, that are parsed row by row rather than cut
SMALL_TEXT = 2**14
SMALL_TABLE = 2**9

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

RawColumn: TypeAlias = Array | Encoded
T = TypeVar("T")


@dataclass(frozen=True, eq=False, slots=True)
class Judgements:
    """A batch of judgements, in order."""

    #: rows of vectors: (query, better, worse), (a, b), (query, item) or (row,)
    tuples: NDArray[np.int64]
    #: labels of pairs, grades, or class numbers; None for triplets
    values: Array | None
    #: row of the file that each one comes from
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tuples)

    def part(self, chosen: slice | Array) -> Self:
        """Select by a slice, a mask or indices."""
        values = None if self.values is None else self.values[chosen]
        return type(self)(self.tuples[chosen], values, self.numbers[chosen])


def joined(parts: Sequence[Judgements]) -> Judgements:
    """Several batches as one."""
    if len(parts) == 1:
        return parts[0]
    values = [part.values for part in parts if part.values is not None]
    return Judgements(
        np.concatenate([part.tuples for part in parts]),
        np.concatenate(values) if values else None,
        np.concatenate([part.numbers for part in parts]),
    )


def in_chunks(
    batches: Iterator[Judgements], size: int, smallest: int | None = None
) -> Iterator[Judgements]:
    """Yield the same judgements in chunks of exactly `size`, except for the last.

    With `smallest`, chunks start at that size and grow to `size`: each is at most a quarter of all
    judgements before it, and a multiple of `smallest`, because learners work in whole blocks. Sizes
    depend on nothing else, so what is learnt does not depend on how the file was read.
    """
    held: list[Judgements] = []
    n = done = 0
    wanted = min(size, smallest or size)
    for batch in batches:
        held.append(batch)
        n += len(batch)
        if n < wanted:
            continue
        whole, start = joined(held), 0
        while n - start >= wanted:
            yield whole.part(slice(start, start + wanted))
            start += wanted
            done += wanted
            if smallest is not None:
                wanted = min(size, max(wanted, done // 4 // smallest * smallest))
        held, n = [whole.part(slice(start, n))], n - start
    if n:
        yield joined(held)


class Reader(NamedTuple):
    """How the values of one column become numbers."""

    #: type for a fast parser: "int64", "float64" or "string"
    dtype: str
    #: numbers of a whole column, or None if any value is bad
    column: Callable[[RawColumn], Array | None]
    #: number of one value; raises RowError
    value: Callable[[Any], float]


#: readers by column name, in order
Columns: TypeAlias = Mapping[str, Reader]


class Piece(Protocol):
    """Some rows of a file."""

    @property
    def number(self) -> int:
        """Number of the first row."""

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """All values of each column, or None if they must be read row by row."""

    def rows(self, columns: Columns) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Yield the number of each row with its fields, or with the reason it has none."""

    def halves(self) -> "list[Piece]":
        """The same rows in two pieces; empty if this one is small."""


@dataclass(frozen=True)
class TextPiece:
    """Whole lines of CSV or, without a header, of JSON; numbered from 1."""

    number: int
    data: bytes
    header: list[str] | None = None

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """Split lines without quotes; let Arrow parse if it is installed and worth its import."""
        if len(self.data) > TINY_TEXT and find_spec("pyarrow") is not None:
            from similia.files.arrow import text_columns

            n_lines = self.data.count(b"\n") + (not self.data.endswith(b"\n"))
            return text_columns(self.data, n_lines, self.header, columns)
        if self.header is None or b'"' in self.data:
            return None
        try:
            lines = self.data.decode("utf-8").removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            return None
        rows = [[text.strip() for text in line.split(",")] for line in lines]
        if any(len(row) != len(self.header) or not all(row) for row in rows):
            return None
        return [
            Encoded(np.arange(len(rows)), [row[i] for row in rows])
            for i in map(self.header.index, columns)
        ]

    def rows(self, columns: Columns) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Parse line by line; a missing or empty field is None."""

        def fields(line: str) -> list[Any]:
            if self.header is None:
                values = json_object(line)
                return [values.get(name) for name in columns]
            found = csv_fields(line)
            if len(found) != len(self.header):
                wanted = f"where the header has {len(self.header)}"
                raise RowError("wrong number of fields", f": {len(found)} {wanted}")
            return [found[self.header.index(name)].strip() or None for name in columns]

        return self.parsed(fields)

    def parsed(self, parse: Callable[[str], T]) -> Iterator[tuple[int, T | RowError]]:
        """Yield the number and the parsed text of each line that is not blank."""
        for number, line in enumerate(self.data.split(b"\n"), start=self.number):
            if not line.strip():
                continue
            try:
                yield number, parse(line.decode("utf-8").rstrip("\r"))
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
            TextPiece(self.number, self.data[:cut], self.header),
            TextPiece(number, self.data[cut:], self.header),
        ]


@dataclass(frozen=True)
class TablePiece:
    """Rows of a table: a column is an array of numbers, or one of Arrow."""

    number: int
    columns: list[Any]

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """Convert the columns of Arrow."""
        if all(isinstance(column, np.ndarray) for column in self.columns):
            return self.columns
        from similia.files.arrow import plain_columns

        return plain_columns(self.columns)

    def rows(self, columns: Columns) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Yield plain values."""
        lists = [column.tolist() for column in self.columns]
        yield from enumerate(map(list, zip(*lists, strict=True)), start=self.number)

    def halves(self) -> list[Piece]:
        """Cut in the middle."""
        middle = len(self.columns[0]) // 2
        if 2 * middle <= SMALL_TABLE:
            return []
        return [
            TablePiece(self.number, [column[:middle] for column in self.columns]),
            TablePiece(self.number + middle, [column[middle:] for column in self.columns]),
        ]


def csv_fields(line: str) -> list[str]:
    """Split one line; quoted fields may hold commas and doubled quotes, but no line breaks.

    An unclosed quote therefore spoils its own line and no other.
    """
    try:
        rows = list(csv.reader([line], strict=True))
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
    parts: list[bytes] = []
    while data := file.read(size):
        if number == 1 and not parts:
            data = data.removeprefix(BYTE_ORDER_MARK)
        end = data.rfind(b"\n") + 1
        parts.append(data[:end] if end else data)
        if end:
            piece = TextPiece(number, b"".join(parts))
            number += piece.data.count(b"\n")
            parts = [data[end:]]
            yield piece
        elif sum(map(len, parts)) > LONGEST:
            raise ValueError(
                f"{source}: lines must be of at most {LONGEST} bytes, got a longer one in row "
                f"{number}."
            )
    if rest := b"".join(parts):
        yield TextPiece(number, rest)


@contextmanager
def spooled(path: Path | str) -> Iterator[Path]:
    """Yield a path that can be read more than once; standard input is first copied to disk."""
    if str(path) != "-":
        yield Path(path)
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "feedback"
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with open(copy, "rb") as file:
            head = file.read(1024).removeprefix(BYTE_ORDER_MARK).lstrip()
        yield copy.rename(copy.with_suffix(".jsonl" if head.startswith(b"{") else ".csv"))
