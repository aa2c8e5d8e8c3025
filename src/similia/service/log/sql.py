"""What logs in SQL databases have in common: the table, and what is read from it."""

import bisect
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from typing import Any

from similia.service.log.log import Appended, Entry, Row
from similia.service.log.writer import Request, Writer

COLUMNS = "seq, time, kind, body, id, query, judge, target, hash"
#: fields of `Told`
TOLD = "seq, body, query, target"
#: a day in microseconds
DAY = 86_400_000_000

#: the schema, as it grew; `number` and `bytes` are the types of the database
TABLE = """
    CREATE TABLE rows (
        seq {number} PRIMARY KEY, time {number} NOT NULL, kind TEXT NOT NULL, body {bytes} NOT NULL,
        id TEXT UNIQUE, query TEXT, judge TEXT, target {number}, hash {bytes} NOT NULL
    )"""
INDICES = """
    CREATE INDEX retractions ON rows (target) WHERE target IS NOT NULL;
    CREATE INDEX others ON rows (seq) WHERE query IS NULL;
    CREATE INDEX judged ON rows (seq, query, judge) WHERE query IS NOT NULL;
    """
#: rows after it are hashed in another form, which earlier versions of similia do not know
HASHES = "SELECT 1"
#: rows of the lookup read at a time
PART = 50_000


class _Lookup:
    """Rows by query and by judge, in memory.

    An index of the database would be written at random places with every judgement; this one is
    read from an index that only ever grows at its end, when it is first asked for.
    """

    def __init__(self) -> None:
        self.queries: dict[str, list[int]] = {}
        self.judges: dict[str, list[int]] = {}
        self.n = 0
        self.last = 0

    def add(self, seq: int, query: str, judge: str | None) -> None:
        self.queries.setdefault(query, []).append(seq)
        if judge is not None:
            self.judges.setdefault(judge, []).append(seq)
        self.n += 1
        self.last = seq

    def rows(self, query: str | None, judge: str | None) -> list[int]:
        if query is None:
            return self.judges.get(judge or "", [])
        found = self.queries.get(query, [])
        if judge is None:
            return found
        own = set(self.judges.get(judge, []))
        return [seq for seq in found if seq in own]


class SqlLog(ABC):
    """A log in a table of its own."""

    _writer: Writer

    def __init__(self) -> None:
        self._lookup = _Lookup()
        self._looking = threading.Lock()

    @abstractmethod
    def _read(self, statement: str, *given: Any) -> list[Any]:
        """Rows of an answer; values stand for question marks."""

    def stop(self) -> None:
        """Write what waits, and take no more."""
        self._writer.close()

    @property
    def last(self) -> int:
        """Number of the last row; 0 if there is none."""
        return self._writer.last

    def append(self, batch: Sequence[Entry]) -> list[Appended]:
        """Append all of a batch or nothing; return once it is on the disk."""
        return self._writer.append(batch)

    def send(self, *requests: Request) -> None:
        """The same for batches whose clients do not wait here."""
        self._writer.send(*requests)

    def subscribe(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` with new rows, in order, after each commit."""
        self._writer.subscribe(listener)

    def find(self, id: str) -> Row | None:
        """The judgement with this id."""
        found = self._read(f"SELECT {COLUMNS} FROM rows WHERE id = ?", id)
        return Row(*found[0]) if found else None

    def row(self, seq: int) -> Row | None:
        """The row with this number."""
        found = self._read(f"SELECT {COLUMNS} FROM rows WHERE seq = ?", seq)
        return Row(*found[0]) if found else None

    def search(
        self, after: int, limit: int, *, query: str | None = None, judge: str | None = None
    ) -> list[tuple[Row, bool]]:
        """Judgements of a query or a judge, and whether each was retracted."""
        columns = f"{COLUMNS}, EXISTS (SELECT 1 FROM rows AS r WHERE r.target = rows.seq)"
        if query is None and judge is None:
            found = self._read(
                f"SELECT {columns} FROM rows WHERE seq > ? AND query IS NOT NULL "
                "ORDER BY seq LIMIT ?",
                after,
                limit,
            )
        else:
            known = self._known().rows(query, judge)
            start = bisect.bisect_right(known, after)
            found = [
                row
                for seq in known[start : start + limit]
                for row in self._read(f"SELECT {columns} FROM rows WHERE seq = ?", seq)
            ]
        return [(Row(*row[:-1]), bool(row[-1])) for row in found]

    def _known(self) -> _Lookup:
        """The lookup, with all rows there are."""
        with self._looking:
            lookup = self._lookup
            while lookup.last < self.last:
                found = self._read(
                    "SELECT seq, query, judge FROM rows WHERE seq > ? AND query IS NOT NULL "
                    f"ORDER BY seq LIMIT {PART}",
                    lookup.last,
                )
                for seq, query, judge in found:
                    lookup.add(seq, query, judge)
                if len(found) < PART:
                    break
            return lookup

    def retracted(self) -> dict[int, int]:
        """Rows that were retracted, and the rows that first did."""
        return dict(
            self._read("SELECT target, min(seq) FROM rows WHERE target IS NOT NULL GROUP BY target")
        )

    def at(self, time: int) -> int:
        """Last row written by that time: times never decrease, so a search by halves finds it."""
        low, high = 0, self.last
        while low < high:
            middle = (low + high + 1) // 2
            found = self.row(middle)
            low, high = (middle, high) if found and found.time <= time else (low, middle - 1)
        return low

    def counts(self) -> tuple[int, int]:
        """Number of judgements, and of the queries that they are about."""
        lookup = self._known()
        return lookup.n, len(lookup.queries)

    def days(self) -> dict[str, int]:
        """Number of judgements by day (UTC)."""
        found = self._read(
            f"SELECT time / {DAY} AS day, count(*) FROM rows WHERE query IS NOT NULL "
            "GROUP BY day ORDER BY day"
        )
        start = date(1970, 1, 1)
        return {str(start + timedelta(days=int(day))): int(n) for day, n in found}
