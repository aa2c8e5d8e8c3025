"""Parquet files elsewhere, of which no more is fetched than is read."""

from collections.abc import Iterable
from pathlib import Path

from similia.files.arrow.tables import BATCH, Table
from similia.files.locations import Location
from similia.files.unpacked import chunk_span

#: bytes of the end of a file that are fetched at first, and between two columns at most
TAIL, GAP = 2**16, 2**16
#: bytes fetched at a time
PIECE = 2**26
MAGIC = b"PAR1"


class RemoteTable(Table):
    """A Parquet file by URL, read through a file with holes.

    That file is as long as the one elsewhere, and holds what has been fetched of it: its end, and
    the columns of the groups of rows that are read. So everything is checked and read as in a file
    on this machine.
    """

    def __init__(self, location: Location, folder: Path, what: str = "feedback") -> None:
        self.location, self.folder = location, folder
        self.size = location.mark()["size"]
        #: bytes fetched so far
        self.fetched = 0
        self._n_files = 0
        #: columns and groups of rows that are on this machine
        self._held: tuple[frozenset[str], range] | None = None
        self._end = self._last(min(TAIL, self.size))
        length = int.from_bytes(self._end[-8:-4], "little") + 8
        if self._end[-4:] != MAGIC or length > self.size:
            raise ValueError(f"{location.name}: could not be read as a table (it has no footer).")
        if length > len(self._end):
            self._end = self._last(length)
        super().__init__(self._file_with([]), what)

    def unpacked(
        self, names: Iterable[str], rows: int = BATCH, parts: range | None = None
    ) -> list[int]:
        """As for a table, which asks before it reads; what is asked about is fetched."""
        names, parts = list(names), self.parts() if parts is None else parts
        self._hold(names, parts)
        return super().unpacked(names, rows, parts)

    def _hold(self, names: Iterable[str], parts: range) -> None:
        """Have the named columns of some groups of rows on this machine."""
        wanted = frozenset(names)
        if self._held is not None and wanted <= self._held[0] and parts == self._held[1]:
            return
        spans = []
        with self._file() as file:
            for number in parts:
                group = file.metadata.row_group(number)
                chunks = (group.column(place) for place in range(group.num_columns))
                spans += [chunk_span(c) for c in chunks if c.path_in_schema.split(".")[0] in wanted]
        before, self.path = self.path, self._file_with(spans)
        before.unlink()
        self._held = wanted, parts

    def _file_with(self, spans: list[tuple[int, int]]) -> Path:
        """A new file with holes, in which there are the given bytes and the end."""
        self._n_files += 1
        path = self.folder / f"{self._n_files}{self.location.suffix}"
        with open(path, "wb") as file:
            file.truncate(self.size)
            for start, stop in _joined(spans):
                if start < 0 or stop > self.size:
                    raise ValueError(f"{self.location.name}: could not be read as a table.")
                file.seek(start)
                for place in range(start, stop, PIECE):
                    file.write(self._bytes(place, min(place + PIECE, stop)))
            file.seek(self.size - len(self._end))
            file.write(self._end)
        return path

    def _last(self, n: int) -> bytes:
        return self._bytes(self.size - n, self.size)

    def _bytes(self, start: int, stop: int) -> bytes:
        self.fetched += stop - start
        return self.location.read(start, stop)


def _joined(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order, those that nearly touch as one."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(spans):
        if found and start - found[-1][1] <= GAP:
            found[-1] = found[-1][0], max(stop, found[-1][1])
        else:
            found.append((start, stop))
    return found
