"""Judgements by query and by judge: an index beside the log, on the disk.

An index in the log would be written at random places with every judgement. This one is a cache: it
is brought up to date when it is asked, needs no safe writes, and is made anew if it was not closed.
"""

import contextlib
import hashlib
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeAlias

import apsw

#: rows read at a time
PART = 50_000
#: memory for pages of the index
CACHE_KIB = 8192
#: rows (seq, query, judge) after one
ReadOn: TypeAlias = Callable[[int, int], list[tuple[int, str, str | None]]]

LOOKUP_TABLES = """
    CREATE TABLE state (clean INTEGER, seq INTEGER, hash BLOB, n INTEGER, queries INTEGER);
    INSERT INTO state VALUES (0, 0, x'', 0, 0);
    CREATE TABLE by_query (query INTEGER, seq INTEGER, judge INTEGER, PRIMARY KEY (query, seq))
        WITHOUT ROWID;
    CREATE TABLE by_judge (judge INTEGER, seq INTEGER, PRIMARY KEY (judge, seq)) WITHOUT ROWID;
    """


class Lookup:
    """Numbers of rows by query and judge; without a path in a temporary file."""

    def __init__(self, path: Path | None, read_on: ReadOn, hash_of: Callable[[int], bytes]) -> None:
        self._path = path
        self._read_on = read_on
        self._hash_of = hash_of
        self._lock = threading.Lock()
        self._connection: apsw.Connection | None = None
        self._seq = self._n = self._queries = 0

    def rows(
        self, last: int, after: int, limit: int, query: str | None, judge: str | None
    ) -> list[int]:
        """Rows of a query, of a judge or of both, in order."""
        with self._lock:
            connection = self._caught_up(last)
            if query is None:
                return self._numbers(
                    connection,
                    "SELECT seq FROM by_judge WHERE judge = ? AND seq > ? ORDER BY seq LIMIT ?",
                    (_key(judge or ""), after, limit),
                )
            wanted = "" if judge is None else " AND judge = ?3"
            given = (_key(query), after, *([] if judge is None else [_key(judge)]), limit)
            return self._numbers(
                connection,
                f"SELECT seq FROM by_query WHERE query = ?1 AND seq > ?2{wanted} "
                f"ORDER BY seq LIMIT ?{len(given)}",
                given,
            )

    def counts(self, last: int) -> tuple[int, int]:
        """Number of judgements, and of the queries that they are about."""
        with self._lock:
            self._caught_up(last)
            return self._n, self._queries

    def close(self) -> None:
        """Keep the index for the next time."""
        with self._lock:
            if self._connection is not None:
                hash = self._hash_of(self._seq) if self._seq else b""
                self._connection.execute(
                    "UPDATE state SET clean = 1, seq = ?, hash = ?, n = ?, queries = ?",
                    (self._seq, hash, self._n, self._queries),
                )
                self._connection.close()
                self._connection = None

    @staticmethod
    def _numbers(connection: apsw.Connection, statement: str, given: Iterable[int]) -> list[int]:
        return [seq for (seq,) in connection.execute(statement, tuple(given))]

    def _caught_up(self, last: int) -> apsw.Connection:
        connection = self._connection or self._opened()
        while self._seq < last:
            found = self._read_on(self._seq, PART)
            if found:
                self._add(connection, found)
            if len(found) < PART:
                self._seq = max(last, found[-1][0] if found else 0)
        return connection

    def _add(self, connection: apsw.Connection, found: list[tuple[int, str, str | None]]) -> None:
        keyed = [(_key(query), seq, judge and _key(judge)) for seq, query, judge in found]
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
        """A connection to the index, if it fits the log, or to an empty one."""
        self._seq = self._n = self._queries = 0
        if self._path is not None and self._path.exists():
            with contextlib.suppress(apsw.Error):
                connection = self._connected()
                clean, seq, hash, n, queries = connection.execute("SELECT * FROM state").get
                if clean and (not seq or self._hash_of(seq) == hash):
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
        connection.pragma("cache_size", -CACHE_KIB)
        return connection


def _key(name: str) -> int:
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)
