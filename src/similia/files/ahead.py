"""Pieces of text that are parsed on other threads while those before them are in use."""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeAlias

from similia.files.columns import Columns
from similia.files.pieces import Piece
from similia.files.rows import RawColumn, RowError

#: pieces that are parsed, or wait parsed, beside the one in use
AHEAD = 2
#: columns, a piece of rows, and how much of a file has been read with it
Part: TypeAlias = tuple[Columns, Piece, int]


@dataclass(frozen=True)
class BegunPiece:
    """A piece whose columns are being parsed, or have been."""

    #: number of the first row
    number: int
    piece: Piece
    parsed: "Future[list[RawColumn] | None]"

    def raw_columns(self, columns: Columns) -> list[RawColumn] | None:
        """Columns that parsing began with, once they are there."""
        return self.parsed.result()

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, list[Any] | RowError]]:
        """Parse line by line."""
        return self.piece.rows(names)

    def halves(self) -> list[Piece]:
        """Halves that nobody has begun."""
        return self.piece.halves()


def parsed_ahead(pieces: Iterable[Part]) -> Iterator[Part]:
    """The same pieces in the same order; while one is in use, `AHEAD` further ones are parsed.

    pyarrow does not hold the interpreter's lock while it parses. An error of `pieces` is raised
    after the pieces before it.
    """
    waiting: deque[Part] = deque()
    failed: Exception | None = None
    pool = ThreadPoolExecutor(AHEAD, thread_name_prefix="similia-parse")
    try:
        source = iter(pieces)
        while True:
            try:
                columns, piece, end = next(source)
            except StopIteration:
                break
            except Exception as error:
                failed = error
                break
            begun = pool.submit(piece.raw_columns, columns)
            waiting.append((columns, BegunPiece(piece.number, piece, begun), end))
            if len(waiting) > AHEAD:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
        pool.shutdown()
        if failed is not None:
            raise failed
    finally:
        # A reading that is given up may be collected on any thread, even on one that is about to
        # start and holds the lock that waiting for another would need.
        pool.shutdown(wait=False, cancel_futures=True)
