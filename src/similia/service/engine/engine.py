"""Learning beside serving: one thread feeds the fold with new rows and publishes frozen states."""

import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from similia.linalg.threads import single_blas_thread
from similia.service.catalogue.borrowed import Borrowed, Source
from similia.service.catalogue.items import Items
from similia.service.catalogue.sharing import check_followed
from similia.service.engine.fold import Fold, State
from similia.service.engine.snapshots import Snapshots
from similia.service.errors import Timeout, Unavailable
from similia.service.log.log import Log, Row
from similia.service.log.records import Settings

#: how many times as long as it learnt a learner rests while nobody waits for it, and seconds
REST, LONGEST = 19, 1.0
#: rows that end its rest, and those that it takes at a time: many blocks in one go cost least
PLENTY, PORTION = 50_000, 4096
#: rows, and bytes of them, that may wait to be learnt; then the log waits, too
MOST_ROWS, MOST_BYTES = 100_000, 256_000_000
#: seconds that anybody waits by default
PATIENCE = 10.0
#: seconds after which another thread has its turn
SWITCH = 0.0005


class Engine:
    """The learner of a tenant. Readers take the last published state and never wait for it.

    With an `owner` it learns and ranks the items of that one, which must be closed after it.
    """

    def __init__(self, log: Log, cache: Path, name: str, owner: "Engine | None" = None) -> None:
        self.name = name
        self._log = log
        self._owner = owner
        source = None
        if owner is not None:
            source = Source(owner._log, lambda: owner.items)
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
        self._closed = False
        self._error: BaseException | None = None
        # Threads of a BLAS wait by spinning, and searches come from many threads anyway.
        self._limits = ExitStack()
        self._limits.enter_context(single_blas_thread())
        log.subscribe(self._receive)
        self._fold = self._replayed(log.last)
        self._live = self._fold.state()
        self._thread = threading.Thread(target=self._run, name=f"learner {name}", daemon=True)
        self._thread.start()

    # -- what readers ask ----------------------------------------------------------------------

    @property
    def items(self) -> Items | None:
        """Items as of the last row fed; those of the owner, if they are shared."""
        if self._owner is not None:
            return self._owner.items
        found = self._fold.items
        assert not isinstance(found, Borrowed)
        return found

    @property
    def mark(self) -> int:
        """Row of the owner's log that shared items were last followed to; 0 if there is none."""
        found = self._fold.items
        return found.mark if isinstance(found, Borrowed) else 0

    @property
    def settings(self) -> Settings:
        """Settings as of the last row fed."""
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
        return self._live._replace(layout=there.layout, shelf=there.shelf)

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
        return self._replayed(seq).state()

    # -- the thread ----------------------------------------------------------------------------

    def _receive(self, rows: list[Row]) -> None:
        """Take rows of a commit; with far too many, the log writes no others meanwhile."""
        with self._changed:
            self._rows += rows
            self._bytes += sum([len(row.body) for row in rows])
            if not self._resting or len(self._rows) >= PLENTY:
                self._changed.notify_all()
            if self._is_far_behind():
                self._changed.wait_for(lambda: not self._is_far_behind() or self._error is not None)

    def _is_far_behind(self) -> bool:
        return len(self._rows) > MOST_ROWS or self._bytes > MOST_BYTES

    def _run(self) -> None:
        try:
            while rows := self._taken():
                start = time.perf_counter()
                with self._folding:
                    self._learn(rows)
                    self._publish(self._fold.state())
                    self.snapshots.keep(self._fold)
                self._rest(time.perf_counter() - start)
        except BaseException as error:
            with self._changed:
                self._error = error
                self._changed.notify_all()
            self._call_waiters()
            raise

    def _taken(self) -> list[Row]:
        with self._changed:
            self._changed.wait_for(lambda: self._rows or self._closed)
            rows, self._rows = self._rows[:PORTION], self._rows[PORTION:]
            self._bytes -= sum([len(row.body) for row in rows])
            self._changed.notify_all()
            return rows

    def _learn(self, rows: list[Row]) -> None:
        for row in rows:
            if row.seq <= self._fold.seq:
                continue
            if not self._fold.take(row):
                self._fold = self._replayed(rows[-1].seq)
                return

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
                lambda: self._waiting or self._waiters or self._closed or len(self._rows) >= PLENTY,
                min(REST * seconds, LONGEST),
            )
            self._resting = False

    def _replayed(self, last: int) -> Fold:
        """The fold after row `last`, from the newest snapshot that still holds."""
        retracted = {row: by for row, by in self._log.retracted().items() if by <= last}
        fold = self.snapshots.restored(retracted, last)
        fold.replay(self._log.told(fold.seq, last))
        return fold

    def snapshot(self) -> int:
        """Write a snapshot of the last full block; return the last row in it."""
        with self._folding:
            return self.snapshots.write(self._fold)

    def close(self) -> None:
        """Learn what waits, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self._limits.close()
        if self._error is None:
            self.snapshots.write(self._fold)


def answer_promptly() -> None:
    """Let threads of this process take turns more often: an answer must not wait for a lesson.

    A thread that has work to do otherwise keeps the interpreter for five milliseconds.
    """
    sys.setswitchinterval(min(sys.getswitchinterval(), SWITCH))
