"""Learning beside serving: a thread feeds the fold with new rows and publishes frozen states."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from similia.linalg.threads import single_blas_thread
from similia.service.catalogue.items import Items
from similia.service.catalogue.shared import SharedItems, SharedSource, check_followed
from similia.service.engine.fold import Fold, State, Unlearnable, set_aside_entry
from similia.service.engine.snapshots import Snapshots
from similia.service.errors import ServiceError, Timeout, Unavailable
from similia.service.log.log import Log, Row
from similia.service.log.records import TenantSettings

logger = logging.getLogger("similia.service")

#: how many times as long as it learnt a learner rests while nobody waits for it, and seconds
REST_RATIO, MAX_REST_SECONDS = 19, 1.0
#: rows that end its rest, and those that it takes at a time: many blocks in one go cost least
ROWS_ENDING_REST, ROWS_TAKEN = 50_000, 4096
#: rows, and bytes of them, that may wait to be learnt; then the log waits, too
MAX_UNLEARNT_ROWS, MAX_UNLEARNT_BYTES = 100_000, 256_000_000
#: seconds that anybody waits by default
WAIT_SECONDS = 10.0
#: seconds without rows after which the thread ends; the next row starts another
IDLE_SECONDS = 5.0
#: seconds until a log that is away is asked again
LOG_RETRY_SECONDS = 1.0
#: seconds after which another thread has its turn
SWITCH_SECONDS = 0.0005


class LiveLearner:
    """The learner of a tenant. Readers take the last published state and never wait for it.

    With an `owner` it learns and ranks the items of that one, which must be closed after it.
    """

    def __init__(
        self, log: Log, cache: Path, name: str, owner: "LiveLearner | None" = None
    ) -> None:
        self.name = name
        self._log = log
        self._owner = owner
        source = None
        if owner is not None:
            source = SharedSource(owner._log, lambda: owner.items)
            check_followed(name, owner.name, log.rows(others=True), owner._log.row)
        self.snapshots = Snapshots(cache / "snapshots", log, source)
        self._folding = threading.Lock()
        self._changed = threading.Condition()
        self._rows: list[Row] = []
        self._bytes = 0
        self._resting = False
        self._waiting = 0
        #: whom to call once a row is learnt
        self._waiters: list[tuple[int, Callable[[], None]]] = []
        self._closed = self._setting_aside = False
        self._error: BaseException | None = None
        # Threads of a BLAS wait by spinning, and searches come from many threads anyway.
        self._limits = ExitStack()
        self._limits.enter_context(single_blas_thread())
        log.subscribe(self._receive)
        self._aside = log.set_aside()
        self._thread: threading.Thread | None = None
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
    def live(self) -> State:
        """The state that learns at once."""
        if self._owner is None:
            return self._live
        there = self._owner.live
        return self._live._replace(layout=there.layout, snapshot=there.snapshot)

    def wait(self, seq: int, timeout: float) -> None:
        """Wait until a row is in the published state."""
        if self._live.seq >= seq:
            return
        with self._changed:
            self._waiting += 1
            self._changed.notify_all()
            try:
                there = self._changed.wait_for(
                    lambda: self._live.seq >= seq or self._error is not None, timeout
                )
            finally:
                self._waiting -= 1
        if self._live.seq >= seq:
            return
        if self._error is not None:
            raise Unavailable(
                f"learner: learning has stopped ({self._error}); restart the service."
            )
        if not there:
            raise Timeout(
                f"rank: row {seq} must be learnt within {timeout:g} s, got as far as row "
                f"{self._live.seq}; ask again."
            )

    def when_learnt(self, seq: int, done: Callable[[], None]) -> None:
        """Call `done` once a row is in the published state, or learning has stopped.

        It is called by the thread that learns, which does not rest meanwhile, or at once.
        """
        with self._changed:
            if self._live.seq < seq and self._error is None:
                self._waiters.append((seq, done))
                self._changed.notify_all()
                return
        done()

    def exams(self) -> tuple[State, list[int]]:
        """The published state, and the rows that were kept apart until then."""
        with self._folding:
            fold = self._fold
            return self.live, [seq for seq in fold.exams if seq not in fold.retracted]

    def state_at(self, seq: int) -> State:
        """The state after some row, folded again from the log."""
        return self._replayed(seq)[1]

    # -- the thread ----------------------------------------------------------------------------

    def _receive(self, rows: list[Row]) -> None:
        """Take rows of a commit; with far too many, the log writes no others meanwhile."""
        with self._changed:
            if self._error is not None:
                return
            self._rows += rows
            self._bytes += sum([len(row.body) for row in rows])
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"learner {self.name}", daemon=True
                )
                self._thread.start()
            elif not self._resting or len(self._rows) >= ROWS_ENDING_REST:
                self._changed.notify_all()
            if self._is_far_behind():
                self._changed.wait_for(lambda: not self._is_far_behind() or self._error is not None)

    def _is_far_behind(self) -> bool:
        behind = len(self._rows) > MAX_UNLEARNT_ROWS or self._bytes > MAX_UNLEARNT_BYTES
        return behind and not self._setting_aside

    def _run(self) -> None:
        try:
            while rows := self._taken():
                start = time.perf_counter()
                with self._folding:
                    self._advance(rows)
                    self.snapshots.keep(self._fold)
                self._rest(time.perf_counter() - start)
        except BaseException as error:
            with self._changed:
                self._error = error
                self._drop_waiting()
            self._call_waiters()
            raise

    def _taken(self) -> list[Row]:
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._closed, IDLE_SECONDS)
            rows, self._rows = self._rows[:ROWS_TAKEN], self._rows[ROWS_TAKEN:]
            self._bytes -= sum([len(row.body) for row in rows])
            if not rows:
                self._thread = None
            self._changed.notify_all()
            return rows

    def _drop_waiting(self) -> None:
        """Forget rows that wait: the log has them."""
        self._rows, self._bytes = [], 0
        self._changed.notify_all()

    def _advance(self, rows: list[Row]) -> None:
        """Learn rows and publish the state; where that fails, start again from the log."""
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

    def _publish(self, state: State) -> None:
        with self._changed:
            self._live = state
            self._changed.notify_all()
        self._call_waiters()

    def _call_waiters(self) -> None:
        with self._changed:
            stopped, seq = self._error is not None, self._live.seq
            ready = [done for row, done in self._waiters if stopped or row <= seq]
            self._waiters = [] if stopped else [each for each in self._waiters if each[0] > seq]
        for done in ready:
            done()

    def _rest(self, seconds: float) -> None:
        """Leave the processor to others for longer than learning took, unless somebody waits."""
        with self._changed:
            self._resting = True
            self._changed.wait_for(
                lambda: (
                    self._waiting
                    or self._waiters
                    or self._closed
                    or len(self._rows) >= ROWS_ENDING_REST
                ),
                min(REST_RATIO * seconds, MAX_REST_SECONDS),
            )
            self._resting = False

    def _replayed(self, last: int) -> tuple[Fold, State]:
        """The fold after row `last`, from the newest snapshot that still holds, and its state.

        Rows that cannot be learnt are set aside.
        """
        careful = False
        while True:
            retracted = {
                row: by
                for row, by in self._log.retracted().items()
                if by <= last or row in self._aside
            }
            fold = self.snapshots.restored(retracted, last)
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
        """Say in the log that a row cannot be learnt; from then on no fold takes it."""
        logger.error("A row of %s is set aside: %s", self.name, error)
        with self._changed:
            self._setting_aside = True  # else the log might wait for this thread
            self._changed.notify_all()
        try:
            self._log.append([set_aside_entry(error.seq, str(error))])
        finally:
            self._setting_aside = False
        self._aside.add(error.seq)

    def snapshot(self) -> int:
        """Write a snapshot of the last full block; return the last row in it."""
        with self._folding:
            return self.snapshots.write(self._fold)

    def close(self) -> None:
        """Learn what waits, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None:
            thread.join()
        self._limits.close()
        if self._error is None:
            self.snapshots.write(self._fold)


def lower_switch_interval() -> None:
    """Let threads of this process take turns more often: an answer must not wait for a lesson.

    A thread that has work to do otherwise keeps the interpreter for five milliseconds.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH_SECONDS))
