"""A tenant's log: rows in one order, each on the disk before it is acknowledged."""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import date, timedelta
from itertools import starmap
from pathlib import Path

from similia.exceptions import MissingExtraError
from similia.service.log.rows import (
    GENESIS,
    ROW_COLUMNS,
    Appended,
    Checked,
    Entry,
    LearnerRow,
    Row,
    checked,
    is_linked,
)
from similia.service.log.writer import LogReader, RowSource

try:
    import apsw
except ImportError as error:
    raise MissingExtraError(__name__, "apsw", "serve") from error

LEARNER_COLUMNS = ", ".join(LearnerRow.__struct_fields__)
#: a day in microseconds
DAY_MICROSECONDS = 86_400_000_000


class NoWriter(RowSource):
    """In place of a writer, for a log that is only read."""

    def __init__(self, reader: LogReader) -> None:
        self._reader = reader

    @property
    def last(self) -> int:
        """Number of the last row."""
        return int(self._reader.read("SELECT coalesce(max(seq), 0) FROM rows")[0][0])


class Log:
    """One totally ordered log: any number of readers, one writer, or none if it is only read.

    Where another process writes, what follows it is the `writer`. `lookup` is the path of an
    index of judgements; without one it is a temporary file.
    """

    def __init__(
        self,
        name: str,
        reader: LogReader,
        writer: RowSource | None = None,
        lookup: Path | None = None,
    ) -> None:
        self.name = name
        self._reader = reader
        self.writer = writer or NoWriter(reader)
        self._lookup = Lookup(lookup, self)

    # -- writing -------------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """Number of the last row; 0 if there is none."""
        return self.writer.last

    def newest(self) -> int:
        """The same, also if another process wrote it just now; may read."""
        return self.writer.newest()

    def append(self, batch: Sequence[Entry]) -> list[Appended]:
        """Append a whole batch or nothing; return once it is on the disk.

        Raises Conflict if an id is taken by another body, Full or Unavailable if nothing could be
        written.
        """
        return self.writer.append(batch)

    def subscribe(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` with new rows, in order, after each commit."""
        self.writer.subscribe(listener)

    def stop(self) -> None:
        """Write what waits, then refuse new batches."""
        self.writer.close()

    def close(self) -> None:
        """Stop, and disconnect."""
        self.stop()
        self._lookup.close()
        self._reader.close()
        self.writer.disconnect()

    # -- reading -------------------------------------------------------------------------------

    def rows(
        self, after: int = 0, up_to: int | None = None, *, others: bool = False
    ) -> Iterator[Row]:
        """Rows with after < seq <= up_to; with `others`, all but judgements."""
        where = "query IS NULL" if others else "true"
        return map(Row._make, self._reader.stream(ROW_COLUMNS, where, after, _most(up_to)))

    def learner_rows(self, after: int = 0, up_to: int | None = None) -> Iterator[LearnerRow]:
        """The same rows with only the columns that a learner needs."""
        found = self._reader.stream(LEARNER_COLUMNS, "true", after, _most(up_to))
        return starmap(LearnerRow, found)

    def row(self, seq: int) -> Row | None:
        """The row with this number."""
        found = self._reader.read(f"SELECT {ROW_COLUMNS} FROM rows WHERE seq = ?", seq)
        return Row(*found[0]) if found else None

    def is_intact(self, seq: int) -> bool:
        """Whether a row matches its hash and that of the row before."""
        row, before = self.row(seq), self.row(seq - 1)
        previous = GENESIS if before is None else before.hash
        return row is not None and is_linked(previous, row)

    def find(self, id: str) -> Row | None:
        """The judgement with this id."""
        found = self._reader.read(f"SELECT {ROW_COLUMNS} FROM rows WHERE id = ?", id)
        return Row(*found[0]) if found else None

    def search(
        self, after: int, limit: int, *, query: str | None = None, judge: str | None = None
    ) -> list[tuple[Row, bool]]:
        """Judgements of a query or a judge, and whether each was retracted."""
        statement = (
            f"SELECT {ROW_COLUMNS}, EXISTS (SELECT 1 FROM rows AS r WHERE r.target = rows.seq) "
            "FROM rows WHERE "
        )
        if query is None and judge is None:
            statement += "seq > ? AND query IS NOT NULL ORDER BY seq LIMIT ?"
            found = self._reader.read(statement, after, limit)
        else:
            statement += "seq = ?"
            numbers = self._lookup.rows(after, limit, query, judge)
            found = [row for seq in numbers for row in self._reader.read(statement, seq)]
        rows = [(Row(*row[:-1]), bool(row[-1])) for row in found]
        # Digests can collide.
        return [
            (row, gone)
            for row, gone in rows
            if query in (None, row.query) and judge in (None, row.judge)
        ]

    def judged(self, after: int, limit: int) -> list[tuple[int, str, str | None]]:
        """Number, query and judge of the judgements after a row."""
        return self._reader.read(
            "SELECT seq, query, judge FROM rows WHERE seq > ? AND query IS NOT NULL "
            "ORDER BY seq LIMIT ?",
            after,
            limit,
        )

    def retracted(self) -> dict[int, int]:
        """Retracted rows and rows set aside, each with the first row that says so."""
        found = "SELECT target, min(seq) FROM rows WHERE target IS NOT NULL GROUP BY target"
        return dict(self._reader.read(found))

    def set_aside(self) -> set[int]:
        """Rows that cannot be learnt."""
        found = "SELECT target FROM rows WHERE target IS NOT NULL AND kind = 'set_aside'"
        return {target for (target,) in self._reader.read(found)}

    def at(self, time: int) -> int:
        """Last row written by that time, by bisection: times never decrease."""
        low, high = 0, self.last
        while low < high:
            middle = (low + high + 1) // 2
            found = self.row(middle)
            low, high = (middle, high) if found and found.time <= time else (low, middle - 1)
        return low

    def counts(self) -> tuple[int, int]:
        """Numbers of judgements and of distinct queries."""
        return self._lookup.counts()

    @property
    def is_counted(self) -> bool:
        """Whether `counts` answers without reading."""
        return self._lookup.is_caught_up

    def days(self) -> dict[str, int]:
        """Number of judgements by day (UTC)."""
        found = self._reader.read(
            f"SELECT time / {DAY_MICROSECONDS} AS day, count(*) FROM rows WHERE query IS NOT NULL "
            "GROUP BY day ORDER BY day"
        )
        start = date(1970, 1, 1)
        return {str(start + timedelta(days=int(day))): int(n) for day, n in found}

    def check(self) -> Checked:
        """Verify the database, the numbers and the chain of hashes.

        Raises Damaged with the first row that is not what was written.
        """
        self._reader.verify()
        return checked(self.name, self.rows(0, self.last))


def _most(up_to: int | None) -> int:
    return 2**62 if up_to is None else up_to


# -- judgements by query and judge -----------------------------------------------------------------

#: judgements indexed at a time
JUDGEMENTS_INDEXED = 10_000
#: page cache of the index
LOOKUP_CACHE_KIB = 2048

LOOKUP_TABLES = """
    CREATE TABLE state (clean INTEGER, seq INTEGER, hash BLOB, n INTEGER, queries INTEGER);
    INSERT INTO state VALUES (0, 0, x'', 0, 0);
    CREATE TABLE by_query (query INTEGER, seq INTEGER, judge INTEGER, PRIMARY KEY (query, seq))
        WITHOUT ROWID;
    CREATE TABLE by_judge (judge INTEGER, seq INTEGER, PRIMARY KEY (judge, seq)) WITHOUT ROWID;
    """


class Lookup:
    """Judgements by query and by judge: an index beside a log, on the disk.

    An index inside the log would add random writes to every commit. This one is a cache: it catches
    up when it is asked, needs no durable writes, and is rebuilt if it was not closed.
    """

    def __init__(self, path: Path | None, log: Log) -> None:
        self._path = path
        self._log = log
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._seq = self._n = self._queries = 0

    def rows(self, after: int, limit: int, query: str | None, judge: str | None) -> list[int]:
        """Rows of a query, of a judge or of both, in order."""
        if query is None:
            where, given = "by_judge WHERE judge = ?", [_key(judge or "")]
        elif judge is None:
            where, given = "by_query WHERE query = ?", [_key(query)]
        else:
            where, given = "by_query WHERE query = ? AND judge = ?", [_key(query), _key(judge)]
        statement = f"SELECT seq FROM {where} AND seq > ? ORDER BY seq LIMIT ?"
        with self._lock:
            found = self._caught_up().execute(statement, (*given, after, limit))
            return [seq for (seq,) in found]

    @property
    def is_caught_up(self) -> bool:
        """Whether every judgement is indexed, and nobody is indexing."""
        free = self._connection is not None and not self._lock.locked()
        return free and self._seq >= self._log.last

    def counts(self) -> tuple[int, int]:
        """Numbers of judgements and of distinct queries."""
        with self._lock:
            self._caught_up()
            return self._n, self._queries

    def close(self) -> None:
        """Mark the index as complete, and close it."""
        with self._lock:
            if self._connection is not None:
                self._connection.execute(
                    "UPDATE state SET clean = 1, seq = ?, hash = ?, n = ?, queries = ?",
                    (self._seq, self._hash_of(self._seq), self._n, self._queries),
                )
                self._connection.close()
                self._connection = None

    def _hash_of(self, seq: int) -> bytes:
        row = self._log.row(seq)
        return b"" if row is None else row.hash

    def _caught_up(self) -> apsw.Connection:
        connection, last = self._connection or self._opened(), self._log.last
        while self._seq < last:
            found = self._log.judged(self._seq, JUDGEMENTS_INDEXED)
            if found:
                self._add(connection, found)
            if len(found) < JUDGEMENTS_INDEXED:
                self._seq = max(last, found[-1][0] if found else 0)
        return connection

    def _add(self, connection: apsw.Connection, found: list[tuple[int, str, str | None]]) -> None:
        keyed = [
            (_key(query), seq, None if judge is None else _key(judge))
            for seq, query, judge in found
        ]
        with connection:
            new = {query for query, _, _ in keyed}
            known = sum(
                connection.execute(
                    "SELECT EXISTS (SELECT 1 FROM by_query WHERE query = ?)", (query,)
                ).get
                for query in sorted(new)
            )
            connection.executemany("INSERT INTO by_query VALUES (?, ?, ?)", sorted(keyed))
            connection.executemany(
                "INSERT INTO by_judge VALUES (?, ?)",
                sorted((judge, seq) for _, seq, judge in keyed if judge is not None),
            )
        self._n += len(keyed)
        self._queries += len(new) - known
        self._seq = found[-1][0]

    def _opened(self) -> apsw.Connection:
        """Open the index if it matches the log, else start an empty one."""
        self._seq = self._n = self._queries = 0
        if self._path is not None and self._path.exists():
            with contextlib.suppress(apsw.Error):
                connection = self._connected()
                clean, seq, hash, n, queries = connection.execute("SELECT * FROM state").get
                if clean and self._hash_of(seq) == hash:
                    connection.execute("UPDATE state SET clean = 0")
                    self._seq, self._n, self._queries = seq, n, queries
                    self._connection = connection
                    return connection
                connection.close()
            self._path.unlink(missing_ok=True)
        connection = self._connection = self._connected()
        connection.execute(LOOKUP_TABLES)
        return connection

    def _connected(self) -> apsw.Connection:
        connection = apsw.Connection("" if self._path is None else str(self._path))
        connection.pragma("journal_mode", "off")
        connection.pragma("synchronous", "off")
        connection.pragma("cache_size", -LOOKUP_CACHE_KIB)
        return connection


def _key(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
