"""A log in a PostgreSQL database: a schema for each tenant, one writer held by a lock."""

import contextlib
import hashlib
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from similia.exceptions import MissingExtraError
from similia.safety.whole import make_folder
from similia.service.errors import (
    Damaged,
    Full,
    Invalid,
    NotFound,
    ServiceError,
    Taken,
    Unavailable,
)
from similia.service.log.log import Log
from similia.service.log.rows import ROW_COLUMNS, Row
from similia.service.log.sqlite import HASHES, INDICES, LOOKUP_FILE, ROWS_TABLE
from similia.service.log.writer import LogDatabase, LogWriter

try:
    import psycopg
    from psycopg import errors, sql
except ImportError as error:
    raise MissingExtraError(__name__, "psycopg", "postgres") from error

#: prefix of our schemas
SCHEMA_PREFIX = "similia_"
#: rows fetched at a time
ROWS_READ = 4096
#: seconds to wait for a tenant's lock
LOCK_SECONDS = 2.0
#: seconds after which the other side of a connection counts as gone, if its machine is
KEEPALIVE: dict[str, Any] = {"keepalives_idle": 5, "keepalives_interval": 5, "keepalives_count": 2}
#: one step from each version of the schema to the next
POSTGRES_MIGRATIONS = (ROWS_TABLE.format(number="BIGINT", bytes="BYTEA"), INDICES, HASHES)

Connection = psycopg.Connection[Any]


def postgres_log(url: str, tenant: str, folder: Path | None = None, address: str = "") -> Log:
    """The log of a tenant, for one process at a time; an index of it is in a folder.

    `address` is the URL at which those who follow the log reach this process.
    """
    if folder is not None:
        make_folder(folder)
    with translated():
        database = PostgresDatabase(url, tenant, address)
        try:
            reader = PostgresReader(url, tenant)
            writer = LogWriter(database, reader, tenant)
        except BaseException:
            database.close()
            raise
    return Log(tenant, reader, writer, None if folder is None else folder / LOOKUP_FILE)


def read_postgres(url: str, tenant: str) -> Log:
    """The log of a tenant that a service may be using, for reading alone."""
    with translated():
        return Log(tenant, PostgresReader(url, tenant))


def schema_of(tenant: str) -> str:
    """Name of the schema of a tenant."""
    return f"{SCHEMA_PREFIX}{tenant}"


def lock_key(name: str) -> int:
    """Number by which PostgreSQL knows an advisory lock."""
    digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def connected(url: str, tenant: str | None = None, address: str = "") -> Connection:
    """A connection whose tables are those of a tenant; others see an address beside it."""
    shown: dict[str, Any] = {"application_name": address} if address else {}
    connection = psycopg.connect(url, autocommit=True, connect_timeout=10, **KEEPALIVE, **shown)
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
    with translated(), connected(url) as connection:
        found = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s)", (SCHEMA_PREFIX,)
        ).fetchall()
    return sorted(name.removeprefix(SCHEMA_PREFIX) for (name,) in found)


class PostgresDatabase(LogDatabase):
    """The writing connection, which holds the tenant's lock."""

    def __init__(self, url: str, tenant: str, address: str = "") -> None:
        self._url, self._tenant, self._address = url, tenant, address
        self._connection = self._opened()

    def _opened(self) -> Connection:
        connection = connected(self._url, self._tenant, self._address)
        try:
            (fsync,) = connection.execute("SHOW fsync").fetchone() or ("",)
            if fsync != "on":
                raise Unavailable(
                    f"log: fsync must be on in the database, got {fsync}; a commit would not be "
                    "on the disk."
                )
            noticed_when_gone(connection)
            if not _locked(connection, lock_key(schema_of(self._tenant))):
                raise Taken(
                    f"log: the tenant {self._tenant!r} must be free, but another process has it; "
                    "stop that first."
                )
            migrate(connection, self._tenant)
        except BaseException:
            connection.close()
            raise
        return connection

    def insert(self, rows: Sequence[Row]) -> bool:
        """Insert rows in one transaction; True once on the disk, False if an id is taken."""
        marks = "%s, " * (len(Row._fields) - 1) + "%s"
        statement = f"INSERT INTO rows ({ROW_COLUMNS}) VALUES ({marks})"
        try:
            with self._connection.transaction(), self._connection.cursor() as cursor:
                cursor.executemany(statement, rows)
        except errors.UniqueViolation:
            return False
        except psycopg.Error as error:
            raise explained(error) from error
        return True

    def check(self) -> None:
        """Raise if the connection, and so the lock, is lost."""
        self._connection.execute("SELECT 1")

    def announce(self) -> None:
        """Wake processes that follow the log; what they miss they find by looking.

        Not in the transaction: all commits with a notification wait for one lock.
        """
        with contextlib.suppress(psycopg.Error):  # the next insert meets it, too
            self._connection.execute("SELECT pg_notify(%s, '')", (schema_of(self._tenant),))

    def reopen(self) -> None:
        """Reconnect after an error."""
        self.close()
        with translated():
            self._connection = self._opened()

    def close(self) -> None:
        """Disconnect, which frees the lock."""
        with contextlib.suppress(psycopg.Error):
            self._connection.close()


def noticed_when_gone(connection: Connection) -> None:
    """Make the database free the locks of a connection whose machine has lost power."""
    for name, value in KEEPALIVE.items():
        connection.execute(f"SET tcp_{name} TO {value}".encode())


def _locked(connection: Connection, key: int) -> bool:
    """Take a tenant's lock; a killed process may hold it a moment longer."""
    until = time.monotonic() + LOCK_SECONDS
    while True:
        found = connection.execute("SELECT pg_try_advisory_lock(%s)", (key,)).fetchone()
        if found is not None and found[0]:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.05)


def migrate(connection: Connection, tenant: str) -> None:
    """Migrate the schema to the present version, one transaction for each step."""
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


def explained(error: psycopg.Error) -> ServiceError:
    """Translate an error of PostgreSQL for clients."""
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
def translated() -> Iterator[None]:
    """Raise errors of PostgreSQL as those of a service."""
    try:
        yield
    except psycopg.Error as error:
        raise explained(error) from error


class PostgresReader:
    """A reading connection that reconnects after the database restarts."""

    def __init__(self, url: str, tenant: str | None = None) -> None:
        self._url, self._tenant = url, tenant
        self._connection = connected(url, tenant)
        self._reading = threading.Lock()
        self._closed = False

    def read(self, statement: str, *given: Any) -> list[Any]:
        """Run a query; `given` replaces its question marks."""
        query = statement.replace("?", "%s").encode()
        with translated(), self._reading:
            try:
                return self._connection.execute(query, given).fetchall()
            except psycopg.OperationalError:
                if self._closed:
                    raise
                self._connection.close()
                self._connection = connected(self._url, self._tenant)
                return self._connection.execute(query, given).fetchall()

    def stream(self, columns: str, where: str, after: int, up_to: int) -> Iterator[Any]:
        """Columns of the rows with after < seq <= up_to, in pages."""
        found = [(after,)]
        while found:
            found = self.read(
                f"SELECT {columns} FROM rows WHERE seq > ? AND seq <= ? AND {where} "
                f"ORDER BY seq LIMIT {ROWS_READ}",
                found[-1][0],
                up_to,
            )
            yield from found

    def verify(self) -> None:
        """Nothing to do: the database checks its own pages."""

    def close(self) -> None:
        """Disconnect."""
        with self._reading:
            self._closed = True
            self._connection.close()
