"""A log in one SQLite file, in WAL mode and with every commit on the disk."""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any

import apsw
from filelock import FileLock
from filelock import Timeout as LockTimeout

from similia.safety.whole import make_folder, replacing
from similia.service.errors import Damaged, Full, Invalid, NotFound, ServiceError, Unavailable
from similia.service.log.log import Log
from similia.service.log.rows import ROW_COLUMNS, Row
from similia.service.log.writer import LogDatabase, LogWriter

#: earlier versions can lose a commit when the write-ahead log starts over
OLDEST_SQLITE = (3, 51, 3)
#: marks files as logs of similia: "simi"
APPLICATION_ID = 0x73696D69
#: rows that one statement adds
ROWS_PER_STATEMENT = 64
#: files in a tenant's folder: the log, and an index made from it
LOG_FILE, LOOKUP_FILE = "log.sqlite", "lookup.sqlite"

#: first version of the schema; `number` and `bytes` are types of the database
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
#: changes no table, but marks logs with hashes that earlier versions of similia do not know
HASHES = "SELECT 1"
#: statements from each version of the schema to the next
SQLITE_MIGRATIONS = (ROWS_TABLE.format(number="INTEGER", bytes="BLOB") + " STRICT", INDICES, HASHES)


def sqlite_log(folder: Path) -> Log:
    """The log in a folder, for one process at a time."""
    database = SqliteDatabase(folder / LOG_FILE)
    try:
        reader = SqliteReader(database.path)
        writer = LogWriter(database, reader, folder.name)
    except BaseException:
        database.close()
        raise
    return Log(folder.name, reader, writer, folder / LOOKUP_FILE)


def read_sqlite(path: Path | str) -> Log:
    """A log that a service may be using, for reading alone."""
    return Log(Path(path).parent.name, SqliteReader(Path(path)))


class SqliteDatabase(LogDatabase):
    """The writing connection, and the lock against other processes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        make_folder(path.parent)
        # Any thread may release it.
        self._lock = FileLock(path.with_name(f"{path.name}.lock"), thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except LockTimeout:
            raise Unavailable(
                f"log: {path} must be free, but another process has it; stop that first."
            ) from None
        try:
            with _translated():
                self._connection = opened(path, writing=True)
        except BaseException:
            self._lock.release()
            raise

    def insert(self, rows: Sequence[Row]) -> bool:
        """Insert rows in one transaction; True once on the disk, False if an id is taken."""
        try:
            if len(rows) <= ROWS_PER_STATEMENT:  # one statement and commit
                given = tuple(chain.from_iterable(rows))
                self._connection.execute(_insertion(len(rows)), given)
            else:
                insert_all(self._connection, rows)
        except apsw.ConstraintError:
            return False
        except apsw.Error as error:
            raise explained(error) from error
        return True

    def reopen(self) -> None:
        """Reconnect after an error."""
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        with _translated():
            self._connection = opened(self.path, writing=True)

    def close(self) -> None:
        """Disconnect, and free the lock."""
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self._lock.release()


class SqliteReader:
    """Reading connections: one for short queries, one for each stream of rows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._reading = threading.Lock()
        with _translated():
            self._connection = opened(path)

    def read(self, statement: str, *given: Any) -> list[Any]:
        """Run a query; `given` replaces its question marks."""
        with _translated(), self._reading:
            return self._connection.execute(statement, given).fetchall()

    def stream(self, columns: str, where: str, after: int, up_to: int) -> Iterator[Any]:
        """Columns of the rows with after < seq <= up_to, in one state of the log."""
        statement = (
            f"SELECT {columns} FROM rows WHERE seq > ? AND seq <= ? AND {where} ORDER BY seq"
        )
        with _translated(), contextlib.closing(opened(self._path)) as connection:
            yield from connection.execute(statement, (after, up_to))

    def verify(self) -> None:
        """Check the pages of the file; raises Damaged."""
        with _translated(), contextlib.closing(opened(self._path)) as connection:
            found = connection.execute("PRAGMA integrity_check(1)").get
        if found != "ok":
            raise Damaged(f"log: {self._path} is damaged ({found}); restore it from a backup.")

    def close(self) -> None:
        """Disconnect."""
        with self._reading:
            self._connection.close()


def write_log(path: Path | str, rows: Iterable[Row]) -> None:
    """Write rows with their times and hashes to a file, whole or not at all."""
    with _translated(), replacing(path) as temporary:
        temporary.unlink()
        connection = opened(temporary, writing=True)
        try:
            connection.pragma("journal_mode", "delete")  # leaves a single file
            insert_all(connection, rows)
        finally:
            connection.close()


# -- connections -----------------------------------------------------------------------------------


def opened(path: Path, *, writing: bool = False) -> apsw.Connection:
    """Connect to a log; for writing, create or migrate it."""
    check_version(apsw.sqlite_lib_version())
    if not path.exists() and not writing:
        raise NotFound(f"log: there must be a log at {path}, got none.")
    flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if writing else 0)
    connection = apsw.Connection(str(path), flags=flags)
    try:
        connection.set_busy_timeout(10_000)
        if writing:
            connection.pragma("journal_mode", "wal")
            connection.pragma("synchronous", "full")
            migrate(connection, path)
        else:
            connection.pragma("query_only", True)
            check_schema(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def check_version(found: str) -> None:
    """Refuse an SQLite that can lose commits."""
    if tuple(map(int, found.split(".")[:3])) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise Unavailable(
            f"log: SQLite must be {needed} or later, got {found}, which can lose a commit; "
            'install a newer one with: pip install -U "similia[serve]"'
        )


def check_schema(connection: apsw.Connection, path: Path) -> int:
    """Version of the schema; refuse files of others and of later versions."""
    version, mark = connection.pragma("user_version"), connection.pragma("application_id")
    tables = connection.execute("SELECT count(*) FROM sqlite_schema").get
    if (tables or version) and mark != APPLICATION_ID:
        raise Damaged(f"log: {path} must be a log of similia, got another SQLite file.")
    if version > len(SQLITE_MIGRATIONS):
        raise Damaged(
            f"log: {path} has version {version}, but this version of similia reads versions up to "
            f"{len(SQLITE_MIGRATIONS)}; upgrade similia."
        )
    return int(version)


def migrate(connection: apsw.Connection, path: Path) -> None:
    """Migrate the schema to the present version, one transaction for each step."""
    for version in range(check_schema(connection, path), len(SQLITE_MIGRATIONS)):
        with connection:
            connection.execute(SQLITE_MIGRATIONS[version])
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", version + 1)


@lru_cache(maxsize=ROWS_PER_STATEMENT)
def _insertion(n: int) -> str:
    marks = "?, " * (len(Row._fields) - 1) + "?"
    return f"INSERT INTO rows ({ROW_COLUMNS}) VALUES ({'), ('.join([marks] * n)})"


def insert_all(connection: apsw.Connection, rows: Iterable[Row]) -> None:
    """Insert any number of rows in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        left = iter(rows)
        while part := list(islice(left, ROWS_PER_STATEMENT)):
            connection.execute(_insertion(len(part)), tuple(chain.from_iterable(part)))
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def explained(error: apsw.Error) -> ServiceError:
    """Translate an error of SQLite for clients."""
    if isinstance(error, apsw.TooBigError | apsw.MismatchError | apsw.RangeError):
        return Invalid(f"log: the row cannot be stored ({error}).")
    if isinstance(error, apsw.FullError):
        return Full("log: the disk is full, so nothing was stored; make room, then send it again.")
    if isinstance(error, apsw.ReadOnlyError | apsw.CantOpenError | apsw.PermissionsError):
        return Unavailable(
            f"log: the disk or the file cannot be written ({error}), so nothing was stored; mend "
            "that, then send it again."
        )
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return Damaged(f"log: the file is damaged ({error}); restore it from a backup.")
    return Unavailable(f"log: nothing could be stored ({error}); send it again later.")


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise explained(error) from error
