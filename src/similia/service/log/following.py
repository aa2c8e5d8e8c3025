"""The log of a tenant that another process writes: followed by notifications, and by looking."""

import contextlib
import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence

import psycopg
from psycopg import sql

from similia.service.errors import Damaged, Unavailable
from similia.service.log.log import Log
from similia.service.log.postgres import (
    Connection,
    PostgresReader,
    connected,
    schema_of,
    translated,
)
from similia.service.log.rows import ROW_COLUMNS, Appended, Entry, Row, is_linked
from similia.service.log.writer import Request, RowSource

logger = logging.getLogger("similia.service")

#: seconds after which a log is read without having been notified
POLL_SECONDS = 1.0
#: seconds between attempts to reach a database that is away
RECONNECT_SECONDS = 0.5
#: rows read at a time
ROWS_A_PAGE = 256


def followed_log(url: str, tenant: str) -> Log:
    """The log of a tenant that another process writes, kept up to date."""
    with translated():
        reader = PostgresReader(url, tenant)
        try:
            return Log(tenant, reader, LogFollower(url, tenant, reader))
        except BaseException:
            reader.close()
            raise


class LogFollower(RowSource):
    """Stands where a log has its writer, and hands on what another process writes.

    Each row must follow from the one before by its hash, also across restarts of the database: if
    one does not, the log is not the one that was followed, and following ends.
    """

    #: last row that is known to be in the log
    last = 0

    def __init__(self, url: str, tenant: str, reader: PostgresReader) -> None:
        self._url, self._tenant, self._reader = url, tenant, reader
        self._listeners: list[Callable[[list[Row]], None]] = []
        found = reader.read("SELECT seq, hash FROM rows ORDER BY seq DESC LIMIT 1")
        if not found:
            raise Unavailable(f"log: {tenant!r} must have a first row, got none; try again later.")
        #: last row that was handed on, and its hash
        self._seq, self._hash = found[0]
        self.last = self._seq
        self.heard = time.monotonic()
        #: why following has ended
        self.failure: Damaged | None = None
        self._closed = False
        #: whether a commit was heard of while rows were read
        self._notified = threading.Event()
        self._ringing, self._bell = socket.socketpair()
        self._bell.setblocking(False)
        self._thread: threading.Thread | None = None

    # -- in place of a writer --------------------------------------------------------------------

    def append(self, batch: Sequence[Entry]) -> list[Appended]:
        """Refuse: another process writes."""
        if batch:
            raise self._elsewhere()
        return []

    def send(self, *requests: Request) -> None:
        """Refuse: another process writes."""
        raise self._elsewhere()

    def _elsewhere(self) -> Unavailable:
        return Unavailable(
            f"log: the log of {self._tenant!r} is followed here, and written by another process; "
            "send this to that one."
        )

    def subscribe(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` with new rows."""
        self._listeners.append(listener)

    def subscribe_to_others(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` with new rows, before those of `subscribe`."""
        self._listeners.insert(0, listener)

    def begin(self) -> None:
        """Hand on rows from now on, in a thread."""
        self._thread = threading.Thread(
            target=self._run, name=f"follower {self._tenant}", daemon=True
        )
        self._thread.start()

    def newest(self) -> int:
        """Number of the last row in the database, which is read for that."""
        if self.failure is not None:
            raise self.failure
        (seq,) = self._reader.read("SELECT coalesce(max(seq), 0) FROM rows")[0]
        if seq > self.last:
            self.last = seq
            self._ring()
        return self.last

    def close(self) -> None:
        """End the thread."""
        self._closed = True
        self._ring()
        if self._thread is not None:
            self._thread.join()
        self._listeners.clear()

    def disconnect(self) -> None:
        """Close what wakes the thread."""
        self._ringing.close()
        self._bell.close()

    def _ring(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it rings already
            self._bell.send(b"!")

    # -- the thread ------------------------------------------------------------------------------

    def _run(self) -> None:
        away = ""
        while not self._closed:
            try:
                with contextlib.closing(self._listening()) as connection:
                    self._check_same(connection)
                    away = ""
                    while not self._closed:
                        self._read_on(connection)
                        self._wait(POLL_SECONDS, connection)
            except Damaged as error:
                self.failure = error
                logger.error("The log of %s is no longer followed: %s", self._tenant, error)
                return
            except psycopg.Error as error:
                reason = str(error).strip().partition("\n")[0]
                if reason != away:
                    logger.warning("The log of %s cannot be followed: %s", self._tenant, reason)
                away = reason
                self._wait(RECONNECT_SECONDS)

    def _listening(self) -> Connection:
        """A connection that hears of commits; nothing after this is missed."""
        connection = connected(self._url, self._tenant)
        try:
            connection.add_notify_handler(lambda _: self._notified.set())
            channel = sql.Identifier(schema_of(self._tenant))
            connection.execute(sql.SQL("LISTEN {}").format(channel))
        except BaseException:
            connection.close()
            raise
        return connection

    def _check_same(self, connection: Connection) -> None:
        """Refuse a database that has gone back, such as one restored from a backup."""
        found = connection.execute("SELECT hash FROM rows WHERE seq = %s", (self._seq,)).fetchone()
        if found is None or found[0] != self._hash:
            raise self._changed(self._seq)

    def _changed(self, seq: int) -> Damaged:
        return Damaged(
            f"log: row {seq} of {self._tenant!r} is not the one that was followed; start this "
            "process again."
        )

    def _read_on(self, connection: Connection) -> None:
        """Hand on all rows that are new."""
        statement = f"SELECT {ROW_COLUMNS} FROM rows WHERE seq > %s ORDER BY seq LIMIT %s"
        while not self._closed:
            self._notified.clear()
            found = connection.execute(statement.encode(), (self._seq, ROWS_A_PAGE)).fetchall()
            rows = [Row(*row) for row in found]
            if not rows and not self._notified.is_set():
                self.heard = time.monotonic()
                return
            seq, previous = self._seq, self._hash
            for row in rows:
                if row.seq != seq + 1 or not is_linked(previous, row):
                    raise self._changed(row.seq)
                seq, previous = row.seq, row.hash
            self.last = max(self.last, seq)
            if rows:
                for listener in self._listeners:
                    listener(rows)
            self._seq, self._hash = seq, previous

    def _wait(self, seconds: float, connection: Connection | None = None) -> None:
        """Wait until the database or somebody here calls."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._ringing, selectors.EVENT_READ)
            if connection is not None:
                selector.register(connection, selectors.EVENT_READ)
            ready = selector.select(seconds)
        if any(key.fileobj is self._ringing for key, _ in ready):
            self._ringing.recv(4096)
