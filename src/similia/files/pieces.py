"""Pieces of a file of judgements: read all at once, or row by row, or cut in two.

A piece in which any row is bad cannot be read at once. It is cut until the bad row is in a small
piece, so that few bad rows cost little, and only then read row by row, which names them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, Protocol

from numpy.typing import NDArray

from similia.files.columns import Column
from similia.files.lines import LineBlock
from similia.files.text import Fields, csv_rows, json_rows

#: bytes of text, and rows of tables, that are no longer cut
SMALL_TEXT = 2**14
SMALL_TABLE = 2**9

Numbered = Iterator[tuple[int, Fields]]


class Piece(Protocol):
    """Some rows of a file."""

    @property
    def number(self) -> int:
        """The number of the first row."""
        ...

    def at_once(self, columns: Sequence[Column]) -> list[Any] | None:
        """Give the columns as they are, one value for each row, or None."""
        ...

    def rows(self, columns: Sequence[Column]) -> Numbered:
        """Yield the number and the fields of each row, or why it has none."""
        ...

    def halves(self) -> list["Piece"]:
        """Give the same rows in two pieces, or nothing if this one is small."""
        ...


@dataclass(frozen=True)
class TextPiece:
    """Lines of CSV, if there is a header, else of JSON."""

    block: LineBlock
    header: list[str] | None

    @property
    def number(self) -> int:
        """The number of the first line."""
        return self.block.number

    def at_once(self, columns: Sequence[Column]) -> list[Any] | None:
        """Parse by Arrow, where it is installed: it is only quicker."""
        if not self.block.data or find_spec("pyarrow") is None:
            return None
        from similia.files import arrow_text

        if self.header is None:
            return arrow_text.json_columns(self.block, columns)
        return arrow_text.csv_columns(self.block, self.header, columns)

    def rows(self, columns: Sequence[Column]) -> Numbered:
        """Parse line by line."""
        names = [column.name for column in columns]
        if self.header is None:
            return json_rows(self.block, names)
        return csv_rows(self.block, self.header, names)

    def halves(self) -> list[Piece]:
        """Cut at the line break nearest to the middle from below."""
        data = self.block.data
        cut = data.rfind(b"\n", 0, len(data) // 2) + 1
        if len(data) <= SMALL_TEXT or not cut or find_spec("pyarrow") is None:
            return []
        first = LineBlock(self.number, data[:cut])
        second = LineBlock(self.number + data.count(b"\n", 0, cut), data[cut:])
        return [TextPiece(first, self.header), TextPiece(second, self.header)]


@dataclass(frozen=True)
class TablePiece:
    """Rows of a Parquet or Arrow table, in a record batch."""

    batch: Any
    number: int

    def at_once(self, columns: Sequence[Column]) -> list[Any] | None:
        """Give the columns as arrays."""
        from similia.files.arrow import plain_columns

        return plain_columns(self.batch, [column.name for column in columns])

    def rows(self, columns: Sequence[Column]) -> Numbered:
        """Give plain values."""
        lists = [self.batch.column(column.name).to_pylist() for column in columns]
        yield from enumerate(map(list, zip(*lists, strict=True)), start=self.number)

    def halves(self) -> list[Piece]:
        """Cut in the middle."""
        middle = self.batch.num_rows // 2
        if self.batch.num_rows <= SMALL_TABLE:
            return []
        rest = TablePiece(self.batch.slice(middle), self.number + middle)
        return [TablePiece(self.batch.slice(0, middle), self.number), rest]


@dataclass(frozen=True)
class ArrayPiece:
    """Rows of a matrix of numbers."""

    values: NDArray[Any]
    number: int

    def at_once(self, columns: Sequence[Column]) -> list[Any]:
        """Give the columns."""
        return list(self.values.T)

    def rows(self, columns: Sequence[Column]) -> Numbered:
        """Give plain numbers."""
        yield from enumerate(self.values.tolist(), start=self.number)

    def halves(self) -> list[Piece]:
        """Cut in the middle."""
        middle = len(self.values) // 2
        if len(self.values) <= SMALL_TABLE:
            return []
        rest = ArrayPiece(self.values[middle:], self.number + middle)
        return [ArrayPiece(self.values[:middle], self.number), rest]
