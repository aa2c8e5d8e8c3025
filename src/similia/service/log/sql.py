"""What logs in SQL databases have in common: the table, and what is read from it."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

from similia.service.log.log import Appended, Entry, Row
from similia.service.log.lookup import Lookup
from similia.service.log.writer import LogWriter, Request

LOG_COLUMNS = "seq, time, kind, body, id, query, judge, target, hash"
QUERY_COLUMN, JUDGE_COLUMN = Row._fields.index("query"), Row._fields.index("judge")
#: fields of `LearnerRow`
LEARNER_COLUMNS = "seq, body, query, target"
#: a day in microseconds
DAY_MICROSECONDS = 86_400_000_000

#: the schema, as it grew; `number` and `bytes` are the types of the database
ROWS_TABLE = """
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


class SqlLog(ABC):
    """A log in a table of its own."""

    _writer: LogWriter

    def __init__(self, lookup: Path | None) -> None:
        self._lookup = Lookup(lookup, self._judged_after, self._hash_of)

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
        found = self._read(f"SELECT {LOG_COLUMNS} FROM rows WHERE id = ?", id)
        return Row(*found[0]) if found else None

    def row(self, seq: int) -> Row | None:
        """The row with this number."""
        found = self._read(f"SELECT {LOG_COLUMNS} FROM rows WHERE seq = ?", seq)
        return Row(*found[0]) if found else None

    def search(
        self, after: int, limit: int, *, query: str | None = None, judge: str | None = None
    ) -> list[tuple[Row, bool]]:
        """Judgements of a query or a judge, and whether each was retracted."""
        columns = f"{LOG_COLUMNS}, EXISTS (SELECT 1 FROM rows AS r WHERE r.target = rows.seq)"
        if query is None and judge is None:
            found = self._read(
                f"SELECT {columns} FROM rows WHERE seq > ? AND query IS NOT NULL "
                "ORDER BY seq LIMIT ?",
                after,
                limit,
            )
        else:
            known = self._lookup.rows(self.last, after, limit, query, judge)
            rows = [
                row
                for seq in known
                for row in self._read(f"SELECT {columns} FROM rows WHERE seq = ?", seq)
            ]
            # Two names may have one digest.
            found = [
                row
                for row in rows
                if query in (None, row[QUERY_COLUMN]) and judge in (None, row[JUDGE_COLUMN])
            ]
        return [(Row(*row[:-1]), bool(row[-1])) for row in found]

    def _judged_after(self, seq: int, limit: int) -> list[Any]:
        return self._read(
            "SELECT seq, query, judge FROM rows WHERE seq > ? AND query IS NOT NULL "
            "ORDER BY seq LIMIT ?",
            seq,
            limit,
        )

    def _hash_of(self, seq: int) -> bytes:
        row = self.row(seq)
        return b"" if row is None else row.hash

    def retracted(self) -> dict[int, int]:
        """Rows that were retracted or set aside, and the rows that first say so."""
        return dict(
            self._read("SELECT target, min(seq) FROM rows WHERE target IS NOT NULL GROUP BY target")
        )

    def set_aside(self) -> set[int]:
        """Rows that cannot be learnt."""
        found = self._read(
            "SELECT target FROM rows WHERE target IS NOT NULL AND kind = 'set_aside'"
        )
        return {target for (target,) in found}

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
        return self._lookup.counts(self.last)

    def days(self) -> dict[str, int]:
        """Number of judgements by day (UTC)."""
        found = self._read(
            f"SELECT time / {DAY_MICROSECONDS} AS day, count(*) FROM rows WHERE query IS NOT NULL "
            "GROUP BY day ORDER BY day"
        )
        start = date(1970, 1, 1)
        return {str(start + timedelta(days=int(day))): int(n) for day, n in found}
