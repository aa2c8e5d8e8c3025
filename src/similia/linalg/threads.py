"""Two ways of using several processors that do not get into each other's way.

A BLAS with threads of its own makes them wait for each other by spinning. On a busy machine, and
where two such libraries alternate (numpy and scipy bring one each), that can cost a hundred times
the work itself. So while learning, the BLAS is held to one thread, and independent products are
shared out here: whoever is free takes the next one, and nobody spins.
"""

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any

from threadpoolctl import ThreadpoolController

Task = Callable[[], None]

#: multiplications below which sharing out costs more than it gains
SMALL = 2_000_000

_lock = Lock()
_limits: list[Any] = []


@cache
def _controller() -> Any:
    return ThreadpoolController()


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold the BLAS to one thread; overlapping users share one limit, the last one out lifts it."""
    with _lock:
        _limits.append(_limits[0] if _limits else _controller().limit(limits=1, user_api="blas"))
    try:
        yield
    finally:
        with _lock:
            limit = _limits.pop()
            if not _limits:
                limit.restore_original_limits()


@cache
def processors() -> int:
    """Give the number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(tasks: Sequence[Task], work: int = SMALL) -> None:
    """Run tasks that touch different data, on all processors; raise the first error, if any.

    `work` is the number of multiplications in all of them: a small one is not shared out.
    """
    helpers = min(processors(), len(tasks)) - 1
    if helpers < 1 or work < SMALL:
        for task in tasks:
            task()
        return
    shared = _Shared(tasks)
    jobs = _jobs(os.getpid())
    for _ in range(helpers):
        jobs.put(shared)
    shared()
    shared.finished.acquire()
    if shared.errors:
        raise shared.errors[0]


class _Shared:
    """Tasks that several threads take from, until none is left; the last one done lifts the lock.

    Counting by tasks, not by threads: a helper that was never scheduled is not waited for.
    """

    __slots__ = ("errors", "finished", "unfinished", "waiting")

    def __init__(self, tasks: Sequence[Task]) -> None:
        self.waiting = deque(tasks)
        self.unfinished = [None] * len(tasks)
        self.errors: list[BaseException] = []
        self.finished = Lock()
        self.finished.acquire()

    def __call__(self) -> None:
        while True:
            try:
                task = self.waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:
                self.errors.append(error)
            with _lock:
                self.unfinished.pop()
                last = not self.unfinished
            if last:
                self.finished.release()


@cache
def _jobs(process: int) -> "SimpleQueue[Task]":
    """Give the queue that this process's helping threads serve; a forked one gets its own."""
    jobs: SimpleQueue[Task] = SimpleQueue()
    for _ in range(processors() - 1):
        Thread(target=_serve, args=(jobs,), daemon=True, name="similia").start()
    return jobs


def _serve(jobs: "SimpleQueue[Task]") -> None:
    while True:
        jobs.get()()
