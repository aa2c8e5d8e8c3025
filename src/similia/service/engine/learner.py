"""Learning while serving: a thread feeds new rows to the fold and publishes frozen states."""

import contextlib
import ctypes
import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from similia.linalg.threads import single_blas_thread
from similia.service.catalogue.items import Items
from similia.service.catalogue.shared import SharedItems, SharedSource, check_followed
from similia.service.engine.fold import Fold, FrozenState, Unlearnable, set_aside_entry
from similia.service.engine.snapshots import Snapshots
from similia.service.errors import Damaged, ServiceError, Timeout, Unavailable
from similia.service.log.log import Log
from similia.service.log.opening import SNAPSHOTS_FOLDER
from similia.service.log.records import TenantSettings
from similia.service.log.rows import Row

logger = logging.getLogger("similia.service")

#: rest after learning, if nobody waits: a multiple of the time it took, and most seconds
REST_RATIO, MAX_REST_SECONDS = 19, 1.0
#: waiting rows that end a rest, and rows taken at a time
ROWS_ENDING_REST, ROWS_TAKEN = 50_000, 4096
#: rows and bytes that may wait to be learnt before the log blocks
MAX_UNLEARNT_ROWS, MAX_UNLEARNT_BYTES = 100_000, 256_000_000
#: default timeout of waiting readers, in seconds
WAIT_SECONDS = 10.0
#: seconds between attempts to read a log that is unavailable
LOG_RETRY_SECONDS = 1.0
#: bytes from which an array has memory of its own, and the parameter of glibc that says so
LARGE_ARRAY_BYTES, M_MMAP_THRESHOLD = 2**20, -3
#: the interpreter's switch interval, in seconds
SWITCH_SECONDS = 0.0005


class LiveLearner:
    """The learner of a tenant. Readers take the last published state and never wait for it.

    With an `owner` it learns and ranks the items of that one, which must be closed after it.
    """

    def __init__(self, log: Log, cache: Path, owner: "LiveLearner | None" = None) -> None:
        self._log = log
        self._owner = owner
        self._source = None
        if owner is not None:
            self._source = SharedSource(
                owner._log, lambda: owner.items, lambda seq: owner.wait(seq, WAIT_SECONDS)
            )
            check_followed(log, owner._log)
        self.snapshots = Snapshots(cache / SNAPSHOTS_FOLDER, log)
        self._folding = threading.Lock()
        self._changed = threading.Condition()
        self._rows: list[Row] = []
        self._bytes = 0
        self._resting = False
        #: callbacks, and the rows that they wait for
        self._waiters: list[tuple[int, Callable[[], None]]] = []
        self._closed = self._setting_aside = False
        self._error: BaseException | None = None
        # Idle BLAS threads spin, and searches run on many threads anyway.
        self._limits = ExitStack()
        self._limits.enter_context(single_blas_thread())
        self._thread: threading.Thread | None = None
        with self._folding:  # rows that come meanwhile wait
            log.subscribe(self._receive)
            self._aside = log.set_aside()
            self._fold, self._live = self._replayed(log.last)

    # -- what readers ask ----------------------------------------------------------------------

    @property
    def items(self) -> Items | None:
        """Items as of the last row fed; those of the owner, if they are shared."""
        if self._owner is not None:
            return self._owner.items
        found = self._fold.items
        assert not isinstance(found, SharedItems)
        return found

    @property
    def mark(self) -> int:
        """Row of the owner's log that shared items were last followed to; 0 if there is none."""
        found = self._fold.items
        return found.mark if isinstance(found, SharedItems) else 0

    @property
    def has_stopped(self) -> bool:
        """Whether learning has failed for good."""
        return self._error is not None

    @property
    def settings(self) -> TenantSettings:
        """TenantSettings as of the last row fed."""
        return self._fold.settings

    @property
    def seq(self) -> int:
        """Last row in the published state."""
        return self._live.seq

    @property
    def snapshot_seq(self) -> int:
        """Last row of the newest snapshot."""
        return self.snapshots.newest

    @property
    def live(self) -> FrozenState:
        """The published state."""
        if self._owner is None:
            return self._live
        there = self._owner.live
        return self._live._replace(layout=there.layout, snapshot=there.snapshot)

    def wait(self, seq: int, timeout: float) -> None:
        """Wait until a row is in the published state."""
        if self._live.seq >= seq:
            return
        reached = threading.Event()
        self.when_learnt(seq, reached.set)
        reached.wait(timeout)
        if self._live.seq >= seq:
            return
        if self._error is not None:
            raise Unavailable(
                f"learner: learning has stopped ({self._error}); restart the service."
            )
        raise Timeout(
            f"rank: row {seq} must be learnt within {timeout:g} s, got as far as row "
            f"{self._live.seq}; ask again."
        )

    def when_learnt(self, seq: int, done: Callable[[], None]) -> None:
        """Call `done` once a row of the log is in the published state, or learning has stopped.

        It is called at once, or by the learning thread, which does not rest meanwhile.
        """
        with self._changed:
            if self._live.seq < seq and self._error is None:
                self._waiters.append((seq, done))
                self._changed.notify_all()
                return
        done()

    def exams(self) -> tuple[FrozenState, list[int]]:
        """The published state, and the exam rows up to it."""
        with self._folding:
            fold = self._fold
            return self.live, [seq for seq in fold.exams if seq not in fold.retracted]

    def state_at(self, seq: int) -> FrozenState:
        """The state after a given row, folded from the log."""
        return self._replayed(seq)[1]

    # -- the thread ----------------------------------------------------------------------------

    def _receive(self, rows: list[Row]) -> None:
        """Take the rows of a commit; block the log if too many wait."""
        with self._changed:
            if self._error is not None:
                return
            self._rows += rows
            self._bytes += sum([len(row.body) for row in rows])
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"learner {self._log.name}", daemon=True
                )
                self._thread.start()
            elif not self._resting or len(self._rows) >= ROWS_ENDING_REST:
                self._changed.notify_all()
            while self.is_far_behind:
                self._changed.wait()

    @property
    def is_far_behind(self) -> bool:
        """Whether the log blocks until some rows are learnt."""
        many = len(self._rows) > MAX_UNLEARNT_ROWS or self._bytes > MAX_UNLEARNT_BYTES
        return many and not self._setting_aside and self._error is None

    def _run(self) -> None:
        try:
            while rows := self._taken():
                start = time.perf_counter()
                with self._folding:
                    before = self._fold.through
                    self._advance(rows)
                    if self._fold.through > before:  # a block is complete
                        self.snapshots.keep(self._fold)
                self._rest(time.perf_counter() - start)
        except BaseException as error:
            with self._changed:
                self._error = error
                self._rows, self._bytes = [], 0  # the log has them
                waiters, self._waiters = self._waiters, []
                self._changed.notify_all()
            for _, done in waiters:
                done()
            raise

    def _taken(self) -> list[Row]:
        with self._changed:
            rows, self._rows = self._rows[:ROWS_TAKEN], self._rows[ROWS_TAKEN:]
            self._bytes -= sum([len(row.body) for row in rows])
            if not rows:
                self._thread = None
            self._changed.notify_all()
            return rows

    def _advance(self, rows: list[Row]) -> None:
        """Learn rows and publish the state; if that fails, fold the log again."""
        try:
            if all(self._fold.take(row) for row in rows if row.seq > self._fold.seq):
                self._publish(self._fold.state())
                return
        except Exception:
            logger.exception("Learning failed; the log is folded again.")
        while True:
            try:
                self._fold, state = self._replayed(max(rows[-1].seq, self._fold.seq))
                self._publish(state)
                return
            except ServiceError as error:
                with self._changed:
                    if self._closed:
                        raise
                    logger.warning("The log cannot be read or written: %s", error)
                    self._changed.wait_for(lambda: self._closed, LOG_RETRY_SECONDS)
                with contextlib.suppress(ServiceError):  # by the process that writes
                    self._aside |= self._log.set_aside()

    def _publish(self, state: FrozenState) -> None:
        with self._changed:
            self._live = state
            ready = [done for row, done in self._waiters if row <= state.seq]
            self._waiters = [each for each in self._waiters if each[0] > state.seq]
            self._changed.notify_all()
        for done in ready:
            done()

    def _rest(self, seconds: float) -> None:
        """Rest in proportion to the time that learning took, unless somebody waits."""
        with self._changed:
            self._resting = True
            self._changed.wait_for(
                lambda: self._waiters or self._closed or len(self._rows) >= ROWS_ENDING_REST,
                min(REST_RATIO * seconds, MAX_REST_SECONDS),
            )
            self._resting = False

    def _replayed(self, last: int) -> tuple[Fold, FrozenState]:
        """The fold after row `last`, from the newest valid snapshot, and its state.

        Rows that cannot be learnt are set aside.
        """
        careful = False
        while True:
            retracted = {
                row: by
                for row, by in self._log.retracted().items()
                if by <= last or row in self._aside
            }
            fold = self.snapshots.restored(partial(Fold, retracted, self._source), last)
            fold.careful = careful
            try:
                fold.replay(self._log.learner_rows(fold.seq, last))
                state = fold.state()
                fold.careful = False
                return fold, state
            except Unlearnable as error:
                self._set_aside(error)
            except (ServiceError, MemoryError, OSError):
                raise
            except Exception:
                if careful:
                    raise
                careful = True  # find the row

    def _set_aside(self, error: Unlearnable) -> None:
        """Record in the log that a row cannot be learnt; folds skip it from then on.

        Raises Damaged if the row is not what was written.
        """
        if not self._log.is_intact(error.seq):
            raise Damaged(
                f"log: {error}, and is not what was written; restore the log of "
                f"{self._log.name!r} from a backup."
            ) from error
        logger.error("A row of %s is set aside: %s", self._log.name, error)
        with self._changed:
            self._setting_aside = True  # the log must not wait for this thread
            self._changed.notify_all()
        try:
            self._log.append([set_aside_entry(error.seq, str(error))])
        finally:
            self._setting_aside = False
        self._aside.add(error.seq)

    def close(self) -> None:
        """Stop after the rows in hand; what waits is in the log, and learnt at the next start."""
        with self._changed:
            self._closed = True
            self._rows, self._bytes = [], 0
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        waiters, self._waiters = self._waiters, []
        for _, done in waiters:
            done()
        self._limits.close()
        if self._error is None:
            try:
                self.snapshots.write(self._fold)
            except ServiceError as error:
                logger.warning("No snapshot was written: %s", error)


def lower_switch_interval() -> None:
    """Switch threads more often, so that answers do not wait for learning.

    By default a busy thread keeps the interpreter for five milliseconds.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))


def return_large_arrays() -> None:
    """Give the memory of large arrays back to the system as soon as they are freed.

    By default glibc learns to keep arrays of up to 32 MB in its heap, where copies of states that
    come and go leave holes. Other C libraries lack the parameter.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_ARRAY_BYTES)
