"""A log in a PostgreSQL database: a schema for each tenant, one writer held by a lock."""

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from itertools import starmap
from pathlib import Path
from typing import Any

from similia.exceptions import MissingExtraError
from similia.safety.whole import make_folder
from similia.service.errors import Damaged, Full, Invalid, NotFound, ServiceError, Unavailable
from similia.service.log.log import Checked, LearnerRow, Row, checked
from similia.service.log.sql import (
    HASHES,
    INDICES,
    LEARNER_COLUMNS,
    LOG_COLUMNS,
    ROWS_TABLE,
    SqlLog,
)
from similia.service.log.sqlite import LOOKUP_NAME, write_log
from similia.service.log.writer import Head, LogWriter

try:
    import psycopg
    from psycopg import errors, sql
except ImportError as error:
    raise MissingExtraError(__name__, "psycopg", "postgres") from error

#: beginning of the names of our schemas
SCHEMA_PREFIX = "similia_"
#: rows read at a time
ROWS_READ = 4096
#: seconds to wait for the lock of a tenant
LOCK_SECONDS = 2.0
#: what leads from each version of the schema to the next
POSTGRES_MIGRATIONS = (ROWS_TABLE.format(number="BIGINT", bytes="BYTEA"), INDICES, HASHES)

Connection = psycopg.Connection[Any]


def schema_of(tenant: str) -> str:
    """Name of the schema of a tenant."""
    return f"{SCHEMA_PREFIX}{tenant}"


def connected(url: str, tenant: str | None = None) -> Connection:
    """A connection whose tables are those of a tenant."""
    connection = psycopg.connect(url, autocommit=True, connect_timeout=10)
    try:
        if tenant is not None:
            name = sql.Identifier(schema_of(tenant))
            connection.execute(sql.SQL("SET search_path TO {}").format(name))
            connection.execute("SET synchronous_commit TO on")
    except BaseException:
        connection.close()
        raise
    return connection


def tenants_in(url: str) -> list[str]:
    """Names of the tenants of a database."""
    with _translated(), connected(url) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (SCHEMA_PREFIX,)
        ).fetchall()
    return sorted(name.removeprefix(SCHEMA_PREFIX) for (name,) in found)


class _PostgresDatabase:
    """The connection that writes, and holds the lock on its tenant."""

    def __init__(self, url: str, tenant: str) -> None:
        self._url, self._tenant = url, tenant
        self._connection = self._opened()

    def _opened(self) -> Connection:
        connection = connected(self._url, self._tenant)
        try:
            (fsync,) = connection.execute("SHOW fsync").fetchone() or ("",)
            if fsync != "on":
                raise Unavailable(
                    f"log: fsync must be on in the database, got {fsync}; a commit would not be "
                    "on the disk."
                )
            digest = hashlib.blake2b(schema_of(self._tenant).encode(), digest_size=8).digest()
            key = int.from_bytes(digest, "big", signed=True)
            if not _locked(connection, key):
                raise Unavailable(
                    f"log: the tenant {self._tenant!r} must be free, but another process has it; "
                    "stop that first."
                )
            migrate(connection, self._tenant)
        except BaseException:
            connection.close()
            raise
        return connection

    def head(self) -> Head:
        found = self._connection.execute(
            "SELECT seq, time, hash FROM rows ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return Head(*found) if found else Head()

    def known(self, ids: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        found = self._connection.execute(
            "SELECT id, seq, body FROM rows WHERE id = ANY(%s)", (list(ids),)
        )
        return {id: (seq, body) for id, seq, body in found}

    def insert(self, rows: Sequence[Row]) -> bool:
        marks = "%s, " * (len(Row._fields) - 1) + "%s"
        statement = f"INSERT INTO rows ({LOG_COLUMNS}) VALUES ({marks})"
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(statement, rows)
        except errors.UniqueViolation:
            return False
        return True

    def after(self, seq: int) -> list[Row]:
        found = self._connection.execute(
            f"SELECT {LOG_COLUMNS} FROM rows WHERE seq > %s ORDER BY seq", (seq,)
        )
        return [Row(*row) for row in found]

    def reopen(self) -> None:
        self.close()
        self._connection = self._opened()

    def explained(self, error: Exception) -> ServiceError | None:
        return explained(error)

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()


def _locked(connection: Connection, key: int) -> bool:
    """Take the lock of a tenant; a process that was killed may hold it for another moment."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        found = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        if found is not None and found[0]:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.05)


def migrate(connection: Connection, tenant: str) -> None:
    """Bring the schema to the present version, step by step, each step whole or not at all."""
    with connection.transaction():
        name = sql.Identifier(schema_of(tenant))
        connection.execute(sql.SQL("CREATE SCHEMA IF NOT EXISTS {}").format(name))
        connection.execute("CREATE TABLE IF NOT EXISTS version (number BIGINT NOT NULL)")
        found = connection.execute("SELECT number FROM version").fetchone()
        if found is None:
            connection.execute("INSERT INTO version VALUES (0)")
        version = 0 if found is None else int(found[0])
        if version > len(POSTGRES_MIGRATIONS):
            raise Damaged(
                f"log: the tenant {tenant!r} has version {version}, but this version of similia "
                f"reads versions up to {len(POSTGRES_MIGRATIONS)}; upgrade similia."
            )
        for step in POSTGRES_MIGRATIONS[version:]:
            connection.execute(step.encode())
        connection.execute("UPDATE version SET number = %s", (len(POSTGRES_MIGRATIONS),))


def explained(error: Exception) -> ServiceError | None:
    """What an error of PostgreSQL means to a client."""
    if not isinstance(error, psycopg.Error):
        return None
    if isinstance(error, errors.ProgramLimitExceeded | psycopg.DataError):
        return Invalid(f"log: the row cannot be stored ({error!s:.200}).")
    if isinstance(error, errors.DiskFull):
        return Full("log: the disk is full, so nothing was stored; make room, then send it again.")
    if isinstance(error, errors.InvalidSchemaName | errors.UndefinedTable):
        return NotFound("tenant: name must be that of a tenant in the database, got another.")
    reason = str(error).strip().splitlines()
    return Unavailable(
        f"log: the database did not answer ({reason[0] if reason else type(error).__name__}), so "
        "nothing counts as stored; send it again later."
    )


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except psycopg.Error as error:
        meaning = explained(error)
        assert meaning is not None
        raise meaning from error


class _Reader:
    """A connection that reads, and finds its way back after the database was restarted."""

    def __init__(self, url: str, tenant: str) -> None:
        self._url, self._tenant = url, tenant
        self._connection = connected(url, tenant)
        self._reading = threading.Lock()

    def read(self, statement: str, *given: Any) -> list[Any]:
        """Rows of an answer; values stand for question marks."""
        query = statement.replace("?", "%s").encode()
        with _translated(), self._reading:
            try:
                return self._connection.execute(query, given).fetchall()
            except psycopg.OperationalError:
                self._connection.close()
                self._connection = connected(self._url, self._tenant)
                return self._connection.execute(query, given).fetchall()

    def rows(self, after: int, up_to: int | None, others: bool = False) -> Iterator[Row]:
        """Rows with after < seq <= up_to."""
        return map(Row._make, self.selected(LOG_COLUMNS, after, up_to, others))

    def selected(
        self, columns: str, after: int, up_to: int | None, others: bool = False
    ) -> Iterator[Any]:
        """Columns of the same rows, the number first."""
        last = 2**62 if up_to is None else up_to
        wanted = " AND query IS NULL" if others else ""
        while True:
            found = self.read(
                f"SELECT {columns} FROM rows WHERE seq > ? AND seq <= ?{wanted} "
                f"ORDER BY seq LIMIT {ROWS_READ}",
                after,
                last,
            )
            yield from found
            if len(found) < ROWS_READ:
                return
            after = found[-1][0]

    def last(self) -> int:
        """Number of the last row."""
        return int(self.read("SELECT coalesce(max(seq), 0) FROM rows")[0][0])

    def close(self) -> None:
        """Disconnect."""
        with self._reading:
            self._connection.close()


class PostgresLog(SqlLog):
    """A log in a database, for one process at a time."""

    def __init__(self, url: str, tenant: str, folder: Path | None = None) -> None:
        if folder is not None:
            make_folder(folder)
        super().__init__(None if folder is None else folder / LOOKUP_NAME)
        self._tenant = tenant
        with _translated():
            self._store = _PostgresDatabase(url, tenant)
            self._reader = _Reader(url, tenant)
            self._writer = LogWriter(self._store, tenant)

    def rows(
        self, after: int = 0, up_to: int | None = None, *, others: bool = False
    ) -> Iterator[Row]:
        """Rows with after < seq <= up_to; with `others` those that are no judgements."""
        return self._reader.rows(after, up_to, others)

    def learner_rows(self, after: int = 0, up_to: int | None = None) -> Iterator[LearnerRow]:
        """The same rows for a learner, with less work for each."""
        return starmap(LearnerRow, self._reader.selected(LEARNER_COLUMNS, after, up_to))

    def check(self) -> Checked:
        """Verify the chain of hashes; raises Damaged."""
        return checked(self._tenant, self.rows(0, self.last))

    def backup(self, path: Path) -> None:
        """Write a copy, as an SQLite file, while the log is in use."""
        write_log(path, self.rows(0, self.last))

    def close(self) -> None:
        """Stop, and disconnect."""
        self.stop()
        self._lookup.close()
        self._reader.close()

    def _read(self, statement: str, *given: Any) -> list[Any]:
        return self._reader.read(statement, *given)


# -- without a service ---------------------------------------------------------------------------


@contextlib.contextmanager
def _reading(url: str, tenant: str) -> Iterator[_Reader]:
    with _translated():
        reader = _Reader(url, tenant)
        try:
            yield reader
        finally:
            reader.close()


def check_log(url: str, tenant: str) -> Checked:
    """Verify the numbers and the chain of hashes of a log; a service may be using it."""
    with _reading(url, tenant) as reader:
        return checked(tenant, reader.rows(0, reader.last()))


def read_log(
    url: str, tenant: str, after: int = 0, up_to: int | None = None, *, others: bool = False
) -> Iterator[Row]:
    """Rows of a log that a service may be using."""
    with _reading(url, tenant) as reader:
        yield from reader.rows(after, up_to, others)


def backup_log(url: str, tenant: str, copy: Path | str) -> None:
    """Copy a log that may be in use to an SQLite file; rows are never changed, so in one state."""
    with _reading(url, tenant) as reader:
        write_log(copy, reader.rows(0, reader.last()))
