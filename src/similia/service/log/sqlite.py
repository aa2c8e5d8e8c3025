"""A log in one SQLite file, in WAL mode and with every commit on the disk."""

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import chain, islice, starmap
from pathlib import Path
from typing import Any

from filelock import FileLock
from filelock import Timeout as LockTimeout

from similia.exceptions import MissingExtraError
from similia.safety.whole import make_folder, replacing
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
from similia.service.log.writer import Head, LogWriter

try:
    import apsw
except ImportError as error:
    raise MissingExtraError(__name__, "apsw", "serve") from error

#: earlier versions can lose a commit when the write-ahead log starts over
OLDEST_SQLITE = (3, 51, 3)
#: marks files as logs of similia: "simi"
APPLICATION_ID = 0x73696D69
#: rows that one statement adds
ROWS_PER_STATEMENT = 64
#: files in the folder of a tenant: the log, and an index that is made from it
NAME, LOOKUP_NAME = "log.sqlite", "lookup.sqlite"

#: what leads from each version of the schema to the next
SQLITE_MIGRATIONS = (ROWS_TABLE.format(number="INTEGER", bytes="BLOB") + " STRICT", INDICES, HASHES)


def check_version(found: str) -> None:
    """Refuse an SQLite that can lose commits."""
    if tuple(map(int, found.split(".")[:3])) < OLDEST_SQLITE:
        needed = ".".join(map(str, OLDEST_SQLITE))
        raise Unavailable(
            f"log: SQLite must be {needed} or later, got {found}, which can lose a commit; "
            'install a newer one with: pip install -U "similia[serve]"'
        )


def opened(path: Path, *, writing: bool = False) -> apsw.Connection:
    """A connection to a log that exists; of the present version, if it is for writing."""
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
    """Bring the schema to the present version, step by step, each step whole or not at all."""
    for version in range(check_schema(connection, path), len(SQLITE_MIGRATIONS)):
        with connection:
            connection.execute(SQLITE_MIGRATIONS[version])
            connection.pragma("application_id", APPLICATION_ID)
            connection.pragma("user_version", version + 1)


class _SqliteDatabase:
    """The connection that writes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._connection = opened(path, writing=True)

    def head(self) -> Head:
        found = self._connection.execute(
            "SELECT seq, time, hash FROM rows ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        return Head(*found) if found else Head()

    def known(self, ids: Sequence[str]) -> dict[str, tuple[int, bytes]]:
        found = {}
        for id in ids:
            row = self._connection.execute(
                "SELECT seq, body FROM rows WHERE id = ?", (id,)
            ).fetchone()
            if row:
                found[id] = row
        return found

    def insert(self, rows: Sequence[Row]) -> bool:
        try:
            insert(self._connection, rows)
        except apsw.ConstraintError:
            return False
        return True

    def after(self, seq: int) -> list[Row]:
        found = self._connection.execute(
            f"SELECT {LOG_COLUMNS} FROM rows WHERE seq > ? ORDER BY seq", (seq,)
        )
        return [Row(*row) for row in found]

    def reopen(self) -> None:
        with contextlib.suppress(apsw.Error):
            self._connection.close()
        self._connection = opened(self.path, writing=True)

    def explained(self, error: Exception) -> ServiceError | None:
        return explained(error)

    def close(self) -> None:
        with contextlib.suppress(apsw.Error):
            self._connection.close()


def insert(connection: apsw.Connection, rows: Sequence[Row]) -> None:
    """Add rows in one transaction; few of them in one step, so nothing else has to wake up."""
    if len(rows) <= ROWS_PER_STATEMENT:
        connection.execute(_statement(len(rows)), tuple(chain.from_iterable(rows)))
    else:
        insert_all(connection, rows)


@lru_cache(maxsize=ROWS_PER_STATEMENT)
def _statement(n: int) -> str:
    marks = "?, " * (len(Row._fields) - 1) + "?"
    return f"INSERT INTO rows ({LOG_COLUMNS}) VALUES ({'), ('.join([marks] * n)})"


def insert_all(connection: apsw.Connection, rows: Iterable[Row]) -> None:
    """Add any number of rows in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        left = iter(rows)
        while part := list(islice(left, ROWS_PER_STATEMENT)):
            connection.execute(_statement(len(part)), tuple(chain.from_iterable(part)))
        connection.execute("COMMIT")
    except BaseException:
        with contextlib.suppress(apsw.Error):
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        raise


def explained(error: Exception) -> ServiceError | None:
    """What an error of SQLite means to a client."""
    if not isinstance(error, apsw.Error):
        return None
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


class SQLiteLog(SqlLog):
    """A log in a folder, for one process at a time."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder / LOOKUP_NAME)
        make_folder(folder)
        self.path = folder / NAME
        # Whatever thread closes the log lets go of it.
        self._lock = FileLock(folder / f"{NAME}.lock", thread_local=False)
        try:
            self._lock.acquire(timeout=0)
        except LockTimeout:
            raise Unavailable(
                f"log: {self.path} must be free, but another process has it; stop that first."
            ) from None
        try:
            with _translated():
                self._store = _SqliteDatabase(self.path)
                self._reader = opened(self.path)
                self._reading = threading.Lock()
                self._writer = LogWriter(self._store, folder.name)
        except BaseException:
            self._lock.release()
            raise

    def rows(
        self, after: int = 0, up_to: int | None = None, *, others: bool = False
    ) -> Iterator[Row]:
        """Rows with after < seq <= up_to; with `others` those that are no judgements."""
        with self._own_connection() as connection:
            yield from _rows(connection, after, up_to, others)

    def learner_rows(self, after: int = 0, up_to: int | None = None) -> Iterator[LearnerRow]:
        """The same rows for a learner, with less work for each."""
        with self._own_connection() as connection:
            yield from starmap(LearnerRow, _selected(connection, LEARNER_COLUMNS, after, up_to))

    @contextlib.contextmanager
    def _own_connection(self) -> Iterator[apsw.Connection]:
        with _translated():
            connection = opened(self.path)
            try:
                yield connection
            finally:
                connection.close()

    def check(self) -> Checked:
        """Verify the chain of hashes; raises Damaged."""
        return check_log(self.path)

    def backup(self, path: Path) -> None:
        """Write a copy while the log is in use."""
        backup_log(self.path, path)

    def close(self) -> None:
        """Stop, and disconnect."""
        self.stop()
        self._lookup.close()
        with self._reading:
            self._reader.close()
        self._lock.release()

    def _read(self, statement: str, *given: Any) -> list[Any]:
        with _translated(), self._reading:
            return self._reader.execute(statement, given).fetchall()


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        meaning = explained(error)
        assert meaning is not None
        raise meaning from error


def _rows(
    connection: apsw.Connection, after: int, up_to: int | None, others: bool = False
) -> Iterator[Row]:
    return map(Row._make, _selected(connection, LOG_COLUMNS, after, up_to, others))


def _selected(
    connection: apsw.Connection,
    columns: str,
    after: int,
    up_to: int | None,
    others: bool = False,
) -> apsw.Cursor:
    last = 2**62 if up_to is None else up_to
    wanted = " AND query IS NULL" if others else ""
    return connection.execute(
        f"SELECT {columns} FROM rows WHERE seq > ? AND seq <= ?{wanted} ORDER BY seq",
        (after, last),
    )


# -- without a service ---------------------------------------------------------------------------


def check_log(path: Path | str) -> Checked:
    """Verify the file, the numbers and the chain of hashes of a log; a service may be using it.

    Raises Damaged with the first row that is not what was written.
    """
    path = Path(path)
    with _translated():
        connection = opened(path)
        try:
            connection.execute("BEGIN")  # one state throughout
            found = connection.execute("PRAGMA integrity_check(1)").get
            if found != "ok":
                raise Damaged(f"log: {path} is damaged ({found}); restore it from a backup.")
            return checked(str(path), _rows(connection, 0, None))
        finally:
            connection.close()


def read_log(
    path: Path | str, after: int = 0, up_to: int | None = None, *, others: bool = False
) -> Iterator[Row]:
    """Rows of a log that a service may be using."""
    with _translated():
        connection = opened(Path(path))
        try:
            yield from _rows(connection, after, up_to, others)
        finally:
            connection.close()


def backup_log(path: Path | str, copy: Path | str) -> None:
    """Copy a log that may be in use, in one state, and put it in place once it is on the disk."""
    path, copy = Path(path), Path(copy)
    with _translated():
        connection = opened(path)
        try:
            connection.pragma("query_only", False)  # the copy is written, the log is not
            with replacing(copy) as temporary:
                connection.execute("VACUUM INTO ?", (str(temporary),))
        finally:
            connection.close()


def write_log(path: Path | str, rows: Iterable[Row]) -> None:
    """Write rows of another log, with their times and hashes, to a file of this kind."""
    with _translated(), replacing(path) as temporary:
        temporary.unlink()
        connection = opened(temporary, writing=True)
        try:
            connection.pragma("journal_mode", "delete")  # one file is left, and no other
            insert_all(connection, rows)
        finally:
            connection.close()
