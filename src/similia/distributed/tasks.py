"""Tasks that leave checksummed files in a folder: none is done twice, any can be retried.

The folder is the truth. A task writes its files, then a record with their SHA-256; who finds the
record intact has nothing to do. So a worker may die or hang, two may do the same task at once, and
the driver may be killed and started again: the files at the end are the same.
"""

import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from contextlib import suppress
from numbers import Integral
from pathlib import Path
from typing import Protocol, TypeVar

from similia.distributed.engines import Engine, this_process
from similia.distributed.folders import PAUSE, Record, WorkFolder, finish, finished
from similia.linalg.threads import one_processor, single_blas_thread
from similia.progress import live_progress
from similia.validation import Rule

T = TypeVar("T")
Report = Callable[[int], None]

#: a run stops after more lost workers than this without a finished task in between
MAX_LOSSES = 4
#: seconds without a report after which a worker counts as hung, and a run in which none moves ends
DEFAULT_PATIENCE = 600.0
#: seconds after which a run in which no task moves says so, and between two looks at the workers
QUIET_SECONDS, NEWS_SECONDS = 30.0, 2.0
#: seconds that workers may take to start, however short the patience
START_SECONDS = 60.0

LOG = logging.getLogger("similia.distributed")

#: number of parts; bounded, as each has files of its own
number_of_parts = Rule("an integer between 1 and 10000", kind=Integral, above=0, below=10_001)


class Task(Protocol):
    """Work on files, described by paths and numbers only."""

    @property
    def name(self) -> str:
        """Name of the record, and of the files."""

    @property
    def needs(self) -> tuple[str, ...]:
        """Names of the files of the folder that the work is made from."""

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Do the work; return plain values and the names of the files written to the folder."""


def perform(task: Task, address: str) -> Record:
    """Do a task unless it is done; workers run this on one processor each."""
    folder = WorkFolder(address)
    found = finished(folder, task.name)
    if found is None:
        report = _Reporter(folder, task.name)
        for name in task.needs:
            folder.get(name)
        with one_processor(), single_blas_thread():
            found, files = task.run(folder.path, report)
        finish(folder, task.name, found, files)
    return found


class _Reporter:
    """Writes a task's progress and process, from time to time."""

    def __init__(self, folder: WorkFolder, name: str) -> None:
        self.folder, self.name, self.written = folder, name, -folder.pause
        self(0)

    def __call__(self, n: int) -> None:
        now = time.monotonic()
        if now - self.written >= self.folder.pause:
            # What is done does not depend on who hears of it.
            with suppress(OSError):
                self.folder.say(self.name, f"{n} {this_process()}")
            self.written = now


def run_all(
    tasks: Sequence[Task],
    folder: WorkFolder,
    engine: Engine,
    *,
    patience: float = DEFAULT_PATIENCE,
    watch: Callable[[int], None] | None = None,
) -> list[Record]:
    """Do tasks on an engine; return their outcomes in the order of the tasks.

    A task whose worker is lost, or has not reported for `patience` seconds, is given to another; if
    no task moves for so long, for want of workers, say, that is an error. An error of the task
    itself is raised. `watch` is called with the sum of all reports; lost workers are logged.
    """
    run = _Run(tasks, folder, engine, patience, watch)
    while run.waiting:
        with engine.open() as executor:
            run.on(executor)
    return [run.found[task.name] for task in tasks]


def run_shown(
    tasks: Sequence[Task],
    folder: WorkFolder,
    engine: Engine,
    title: str,
    total: int,
    words: str,
    *,
    patience: float,
    verbose: bool,
) -> list[Record]:
    """`run_all` with a progress bar; its text is the sum of all reports and `words`."""
    with live_progress(title, total, enabled=verbose) as show:

        def beside(done: int) -> None:
            if show is not None:
                show(done, f"{done:,} {words} {engine.dashboard()}".rstrip())

        watch = None if show is None else beside
        return run_all(tasks, folder, engine, patience=patience, watch=watch)


class _Run:
    """Tasks under way."""

    def __init__(
        self,
        tasks: Sequence[Task],
        folder: WorkFolder,
        engine: Engine,
        patience: float,
        watch: Callable[[int], None] | None,
    ) -> None:
        self.folder, self.engine, self.patience, self.watch = folder, engine, patience, watch
        there = folder.names()
        known = [task.name for task in tasks if f"{task.name}.json" in there]
        self.found = {name: r for name in known if (r := finished(folder, name)) is not None}
        self.waiting = {task.name: task for task in tasks if task.name not in self.found}
        self.losses = 0
        self.broken = False
        self.moved = self.looked = time.monotonic()
        self.quiet = False

    def on(self, executor: Executor) -> None:
        """Use an executor until all is done or it breaks."""
        self.broken, self.moved = False, time.monotonic()
        for name in list(self.folder.said(self.waiting)):
            self.folder.silence(name)  # of a lost worker
        address = self.folder.address
        futures = {executor.submit(perform, t, address): n for n, t in self.waiting.items()}
        heard = {name: ("", time.monotonic()) for name in self.waiting}
        try:
            while futures:
                done, _ = wait(futures, timeout=PAUSE, return_when=FIRST_COMPLETED)
                again = [name for future in done if self._lost(future, name := futures.pop(future))]
                self._tell(bool(done))
                silent = self._silent(heard)
                for future, name in [pair for pair in futures.items() if pair[1] in silent]:
                    del futures[future]
                    future.cancel()
                    self.engine.end(future, silent[name])
                again = list(dict.fromkeys([*again, *silent]))
                if again:
                    self._count_loss(again[0])
                if self.broken or (self.engine.breaks and silent):
                    return  # finished work is found again; the rest is redone
                for name in again:
                    self.folder.silence(name)
                    heard[name] = ("", time.monotonic())
                    futures[executor.submit(perform, self.waiting[name], address)] = name
                if self.watch is not None:
                    self.watch(self._reported())
                futures = {f: name for f, name in futures.items() if name in self.waiting}
        finally:
            for future in futures:
                future.cancel()

    def _tell(self, any_done: bool) -> None:
        """Log lost workers, and that nothing moves; raise if it has not for long."""
        now = time.monotonic()
        if now - self.looked >= NEWS_SECONDS:
            self.looked = now
            for line in self._heard(self.engine.news, list[str]()):
                LOG.warning("%s", line)
        if any_done:
            self.moved, self.quiet = now, False
        still = now - self.moved
        if still > max(self.patience, START_SECONDS) + 2 * PAUSE:  # what hangs is ended first
            raise RuntimeError(
                f"no task has moved for {still:.0f} seconds: {self._state()}. What is "
                "finished is kept, and the same call goes on from there."
            )
        if still > QUIET_SECONDS and not self.quiet:
            self.quiet = True
            LOG.warning("no task has moved for %.0f seconds: %s", still, self._state())

    def _state(self) -> str:
        return self._heard(self.engine.state, "its engine does not answer")

    def _heard(self, ask: Callable[[], T], otherwise: T) -> T:
        """What an engine tells, unless it has just been lost: that alone ends no run."""
        try:
            return ask()
        except Exception as error:
            LOG.debug("an engine did not answer", exc_info=error)
            return otherwise

    def _lost(self, future: "Future[Record]", name: str) -> bool:
        """Record the outcome of a future; return whether its worker was lost."""
        try:
            self.found[name] = future.result()
        except self.engine.lost as error:
            self.broken |= isinstance(error, BrokenExecutor)
            if name in self.waiting:
                why = " ".join(str(error).split())[:200]
                LOG.warning("%s: its worker was lost (%s: %s)", name, type(error).__name__, why)
            return name in self.waiting
        self.waiting.pop(name, None)
        self.losses = 0
        return False

    def _count_loss(self, name: str) -> None:
        self.losses, self.moved = self.losses + 1, time.monotonic()
        if self.losses > MAX_LOSSES:
            raise RuntimeError(
                f"{name}: its worker died or hung {self.losses} times in a row; workers may lack "
                "memory. Use fewer of them, or more shares; what is finished is kept."
            )

    def _silent(self, heard: dict[str, tuple[str, float]]) -> dict[str, str]:
        """Running tasks without a recent report, and their processes."""
        now, silent, found = time.monotonic(), {}, self._said()
        for name in self.waiting:
            said = found.get(name, "")
            if said != heard[name][0]:
                heard[name] = (said, now)
                self.moved, self.quiet = now, False
            elif said and now - heard[name][1] > self.patience:
                silent[name] = said.split()[1]
                self.moved = now
                LOG.warning("%s: no report for %.0f seconds, so it is ended", name, self.patience)
        return silent

    def _said(self) -> dict[str, str]:
        """Whole reports of the tasks that wait."""
        found = self.folder.said(self.waiting)
        return {name: said for name, said in found.items() if len(said.split()) == 2}

    def _reported(self) -> int:
        done = sum(record.get("n", 0) for record in self.found.values())
        return done + sum(int(said.split()[0]) for said in self._said().values())
