"""Group commit: one thread writes all waiting batches in one transaction.

All that differs between databases is a `LogReader` and a `LogDatabase`. Duplicates, conflicts,
numbers, times and the hash chain are decided here.
"""

import contextlib
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from msgspec import Struct

from similia.service.errors import Conflict, Invalid, ServiceError, Unavailable
from similia.service.log.rows import GENESIS, ROW_COLUMNS, Appended, Entry, Row, link

logger = logging.getLogger("similia.service")

#: most rows and bytes of one transaction
MAX_COMMIT_ROWS, MAX_COMMIT_BYTES = 2048, 64_000_000
#: batches that may wait
MAX_WAITING = 10_000
#: seconds to wait for clients that were answered together last time
GATHER_SECONDS = 0.001
#: ids that one statement looks up
IDS_PER_STATEMENT = 1000
#: seconds without batches after which the thread ends; the next batch starts another
LINGER_SECONDS = 0.1


class Head(NamedTuple):
    """The last row: what the next one depends on."""

    seq: int = 0
    time: int = 0
    hash: bytes = GENESIS


class LogReader(Protocol):
    """Reading side of a database; safe to use from many threads."""

    def read(self, statement: str, *given: Any) -> list[Any]:
        """Run a query; `given` replaces its question marks."""

    def stream(self, columns: str, where: str, after: int, up_to: int) -> Iterator[Any]:
        """Columns of the rows with after < seq <= up_to; other readers do not wait."""

    def verify(self) -> None:
        """Run the database's own integrity check; raises Damaged."""

    def close(self) -> None:
        """Disconnect."""


class LogDatabase:
    """Writing side of a database; its errors are those of a service."""

    def insert(self, rows: Sequence[Row]) -> bool:
        """Insert rows in one transaction; True once on the disk, False if an id is taken."""
        raise NotImplementedError

    def announce(self) -> None:
        """Wake processes that follow the log."""

    def check(self) -> None:
        """Raise if the connection is lost."""

    def reopen(self) -> None:
        """Reconnect after an error."""

    def close(self) -> None:
        """Disconnect."""


class RowSource:
    """What hands new rows of a log on: its writer, or a follower of another process's."""

    #: when the log was last read to its end, by the monotonic clock; None if written here
    heard: float | None = None

    @property
    def last(self) -> int:
        """Number of the last row."""
        raise NotImplementedError

    def newest(self) -> int:
        """The same, also of a row that another process wrote just now."""
        return self.last

    def append(self, batch: Sequence[Entry]) -> list[Appended]:
        """Return once a batch is on the disk."""
        raise NotImplementedError

    def send(self, *requests: "Request") -> None:
        """Queue batches; their callbacks get the answers."""
        raise NotImplementedError

    def subscribe(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` with new rows, in order, after each commit."""
        raise NotImplementedError

    def subscribe_to_others(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener`, before those of `subscribe`, with rows that another process writes."""

    def begin(self) -> None:
        """Hand on rows that another process writes: all who want them have subscribed."""

    def recover(self) -> None:
        """Reconnect if the database was away; raises Taken if another process writes now."""

    def close(self) -> None:
        """Write what waits, then refuse new batches."""

    def disconnect(self) -> None:
        """Disconnect from the database."""


class Request(Struct, eq=False):
    """A batch to commit, and a callback, called once for all batches of a commit."""

    batch: Sequence[Entry]
    told: Callable[["list[Request]"], None]
    #: what the callback wakes for this batch
    waiter: Any = None
    answer: list[Appended] | ServiceError | None = None


class LogWriter(RowSource):
    """Writes to a log in one thread, which lives while there is something to write."""

    def __init__(self, database: LogDatabase, reader: LogReader, name: str) -> None:
        self.database, self._reader = database, reader
        found = reader.read("SELECT seq, time, hash FROM rows ORDER BY seq DESC LIMIT 1")
        self._head = Head(*found[0]) if found else Head()
        self._listener: Callable[[list[Row]], None] = lambda _: None
        self._waiting: deque[Request] = deque()
        #: wakes the thread: for the first batch, and once as many wait as last time
        self._bell: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._expected = 1
        self._sending = threading.Lock()
        self._closed = self._broken = False
        self._name = name
        self._thread: threading.Thread | None = None

    @property
    def last(self) -> int:
        """Number of the last row."""
        return self._head.seq

    def subscribe(self, listener: Callable[[list[Row]], None]) -> None:
        """Call `listener` after each commit."""
        self._listener = listener

    def append(self, batch: Sequence[Entry]) -> list[Appended]:
        """Return once a batch is on the disk."""
        return self._stored(batch) if batch else []

    def _stored(self, batch: Sequence[Entry]) -> list[Appended]:
        done = threading.Lock()
        done.acquire()
        request = Request(batch, lambda _: done.release())
        self.send(request)
        done.acquire()
        if isinstance(request.answer, ServiceError):
            raise request.answer
        assert request.answer is not None
        return request.answer

    def send(self, *requests: Request) -> None:
        """Queue batches; their callbacks get the answers."""
        if len(self._waiting) + len(requests) > MAX_WAITING:
            raise Unavailable(f"log: at most {MAX_WAITING} batches may wait; try again later.")
        with self._sending:  # no batch after the last, and an exact count
            if self._closed:
                raise Unavailable("log: the log is closing; try again later.")
            before = len(self._waiting)
            self._waiting.extend(requests)
            # One ring is enough: the thread takes all that waits.
            enough = before < self._expected <= len(self._waiting)
            if (before == 0 or enough) and self._bell.empty():
                self._bell.put(None)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"log {self._name}", daemon=True
                )
                self._thread.start()

    def recover(self) -> None:
        """Reconnect if the database was away; raises Taken if another process writes now."""
        try:
            self.database.check()
        except Exception:
            self._broken = True
            self._stored([])

    def disconnect(self) -> None:
        """Disconnect from the database."""
        self.database.close()

    def close(self) -> None:
        """Write what waits, then stop."""
        with self._sending:
            self._closed = True
            self._bell.put(None)
            thread = self._thread
        if thread is not None:
            thread.join()
        self._listener = lambda _: None  # a closed log keeps nothing else alive

    # -- the thread ----------------------------------------------------------------------------

    def _run(self) -> None:
        while requests := self._taken():
            self._commit(requests)

    def _commit(self, requests: list[Request]) -> None:
        """Write batches in one transaction, or one by one if a row cannot be stored."""
        try:
            rows = self._write(requests)
        except Exception as error:
            meaning = self._failed(error)
            if isinstance(meaning, Invalid) and len(requests) > 1:
                for request in requests:
                    self._commit([request])
                return
            rows = []
            for request in requests:
                request.answer = meaning
        _answer(requests)
        self._tell(rows)
        if rows:
            self.database.announce()

    def _tell(self, rows: list[Row]) -> None:
        try:
            if rows:
                self._listener(rows)
        except Exception:  # the rows are stored and acknowledged
            logger.exception("Commit listener failed.")

    def _taken(self) -> list[Request]:
        """What waits, at least one batch; none if the thread is to end.

        Clients that were answered together mostly come back together, and one commit is faster
        than two: the writer waits a moment for as many as last time.
        """
        while not self._waiting:
            with contextlib.suppress(queue.Empty):
                self._bell.get(timeout=0 if self._closed else LINGER_SECONDS)
                continue
            with self._sending:
                if not self._waiting:
                    self._thread = None
                    return []
        until = time.perf_counter() + GATHER_SECONDS
        while len(self._waiting) < self._expected and not self._closed:
            try:
                self._bell.get(timeout=max(until - time.perf_counter(), 0.0))
            except queue.Empty:
                break
        taken: list[Request] = []
        rows = size = 0
        while self._waiting:
            batch = self._waiting[0].batch
            rows += len(batch)
            size += sum([len(entry.body) for entry in batch])
            if taken and (rows > MAX_COMMIT_ROWS or size > MAX_COMMIT_BYTES):
                break
            taken.append(self._waiting.popleft())
        self._expected = len(taken)
        return taken

    def _write(self, requests: list[Request]) -> list[Row]:
        if self._broken:
            self._recover()
        # Ids are rarely taken, so try to insert first.
        head, rows, answers = self._numbered(requests, {})
        if rows and not self.database.insert(rows):
            head, rows, answers = self._numbered(requests, self._taken_by(requests))
            if rows and not self.database.insert(rows):
                raise RuntimeError("an id was taken while nobody else wrote")
        self._head = head
        for request, answer in zip(requests, answers, strict=True):
            request.answer = answer
        return rows

    def _taken_by(self, requests: list[Request]) -> dict[str, tuple[int, bytes]]:
        """Row number and body by id, for ids of batches that are taken."""
        ids = [entry.id for request in requests for entry in request.batch if entry.id is not None]
        found: dict[str, tuple[int, bytes]] = {}
        for start in range(0, len(ids), IDS_PER_STATEMENT):
            part = ids[start : start + IDS_PER_STATEMENT]
            marks = ", ".join("?" * len(part))
            statement = f"SELECT id, seq, body FROM rows WHERE id IN ({marks})"
            rows = self._reader.read(statement, *part)
            found |= {id: (seq, body) for id, seq, body in rows}
        return found

    def _numbered(
        self, requests: list[Request], known: dict[str, tuple[int, bytes]]
    ) -> tuple[Head, list[Row], list[list[Appended] | Conflict]]:
        """Rows for new entries, and the answers."""
        seq, earlier, previous = self._head
        moment = max(time.time_ns() // 1000, earlier)
        known, rows = dict(known), []
        answers: list[list[Appended] | Conflict] = []
        for request in requests:
            answer = _placed(request.batch, known, seq)
            answers.append(answer)
            if isinstance(answer, Conflict):
                continue
            for entry, (place, duplicate) in zip(request.batch, answer, strict=True):
                if duplicate:
                    continue
                previous = link(previous, place, moment, entry)
                rows.append(Row(place, moment, *entry, previous))
                if entry.id is not None:
                    known[entry.id] = place, entry.body
                seq = place
        return Head(seq, moment if rows else earlier, previous), rows, answers

    def _recover(self) -> None:
        """Reconnect, and adopt whatever the failed transaction has stored."""
        self.database.reopen()
        statement = f"SELECT {ROW_COLUMNS} FROM rows WHERE seq > ? ORDER BY seq"
        found = [Row(*row) for row in self._reader.read(statement, self._head.seq)]
        if found:
            self._head = Head(found[-1].seq, found[-1].time, found[-1].hash)
            self._tell(found)
        self._broken = False

    def _failed(self, error: Exception) -> ServiceError:
        """Translate an error; Invalid if the rows are at fault."""
        self._broken = True
        if isinstance(error, ServiceError):
            return error
        what = f"{type(error).__name__}: {error}"
        meaning: ServiceError
        if isinstance(error, ValueError | TypeError | OverflowError):
            meaning = Invalid(f"log: the row cannot be stored ({what}).")
        else:
            meaning = Unavailable(f"log: nothing could be written ({what}); try again later.")
        meaning.__cause__ = error
        return meaning


def _answer(requests: list[Request]) -> None:
    """Call each callback once, with its requests."""
    waiting: dict[Callable[[list[Request]], None], list[Request]] = {}
    for request in requests:
        waiting.setdefault(request.told, []).append(request)
    for told, own in waiting.items():
        try:
            told(own)
        except Exception:  # the others still get their answers
            logger.exception("Reply callback failed.")


def _placed(
    batch: Sequence[Entry], known: dict[str, tuple[int, bytes]], last: int
) -> list[Appended] | Conflict:
    """Row numbers for a batch; a conflict if an id is taken by another body."""
    ids = {entry.id for entry in batch}
    if len(ids) == len(batch) and known.keys().isdisjoint(ids):  # as almost always
        return [Appended(seq, False) for seq in range(last + 1, last + 1 + len(batch))]
    found: list[Appended] = []
    own: dict[str, tuple[int, bytes]] = {}
    wrong: dict[int, str] = {}
    for place, entry in enumerate(batch):
        there = None
        if entry.id is not None:
            there = own.get(entry.id) or known.get(entry.id)
        if there is None:
            last += 1
            found.append(Appended(last, False))
            if entry.id is not None:
                own[entry.id] = last, entry.body
        elif there[1] == entry.body:
            found.append(Appended(there[0], True))
        else:
            wrong[place] = f"id must be new, got {entry.id!r:.80}, which row {there[0]} has."
    if wrong:
        first = next(iter(wrong.values()))
        return Conflict(f"feedback: {first} Send another id, or the same judgement.", wrong)
    return found
