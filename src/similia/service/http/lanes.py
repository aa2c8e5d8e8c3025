"""Threads by kind of work, so that no kind waits for another; keys take turns."""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Literal, TypeAlias, TypeVar

from similia.service.http.problems import Problem
from similia.service.settings import Settings

T = TypeVar("T")

#: search: one ranking, one item; write: items, and feedback that takes long to check;
#: ask: questions for judges; bulk: many rows of anything; long: exams, promotions, replays
LaneName: TypeAlias = Literal["search", "write", "ask", "bulk", "long"]
#: one key may have this part of the places in which work waits
QUEUE_RATIO = 1 / 2


def open_lanes(settings: Settings) -> dict[LaneName, "Lane"]:
    """All lanes of a service: threads, and calls that may wait for one."""
    return {
        "search": Lane("search", settings.threads, settings.max_waiting),
        "write": Lane("write", 4, settings.max_requests),
        "ask": Lane("ask", 2, settings.max_waiting),
        "bulk": Lane("bulk", 1, settings.max_waiting),
        "long": Lane("long", 1, 8),
    }


class _Job:
    """Work that has a place in a lane."""

    __slots__ = ("answer", "work")

    def __init__(self, work: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        self.work, self.answer = work, answer


class Lane:
    """A few threads. Of the work that waits for one, each caller's first comes in turn."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.name, self.waiting = name, waiting
        self.quota = max(1, int(waiting * QUEUE_RATIO))
        self._free = threads
        self._queues: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"similia-{name}")

    async def run(self, caller: str, work: Callable[[], T], *, admitted: bool = False) -> T:
        """Run work in a thread; refuse it if too much waits. A time-out does not end the work.

        Work that goes on with what was `admitted` before waits its turn and is not refused.
        """
        loop = asyncio.get_running_loop()
        job = _Job(work, loop.create_future())
        if self._free:
            self._start(loop, job)
        else:
            if not admitted:
                self._check_room(caller)
            self._queues.setdefault(caller, deque()).append(job)
        found: T = await job.answer
        return found

    def _check_room(self, caller: str) -> None:
        """Refuse work that would wait behind too much."""
        if len(self._queues.get(caller, ())) >= self.quota:
            raise Problem(429, f"too much {self.name} work for one key; try later.", retry_after=1)
        if sum(map(len, self._queues.values())) >= self.waiting:
            raise Problem(503, f"too much {self.name} work is waiting; try later.", retry_after=1)

    def _start(self, loop: asyncio.AbstractEventLoop, job: _Job) -> None:
        self._free -= 1
        self._executor.submit(job.work).add_done_callback(
            lambda done: _soon(loop, lambda: self._finish(loop, job, done))
        )

    def _finish(self, loop: asyncio.AbstractEventLoop, job: _Job, done: "Future[Any]") -> None:
        self._free += 1
        if not job.answer.done():
            error = None if done.cancelled() else done.exception()
            if done.cancelled():
                job.answer.cancel()
            elif error is not None:
                job.answer.set_exception(error)
            else:
                job.answer.set_result(done.result())
        following = self._next()
        if following is not None:
            self._start(loop, following)

    def _next(self) -> _Job | None:
        """The next job that somebody still waits for; its caller goes to the end of the line."""
        while self._queues:
            caller, queue = self._queues.popitem(last=False)
            job = queue.popleft()
            if queue:
                self._queues[caller] = queue
            if not job.answer.done():
                return job
        return None

    def close(self) -> None:
        """Finish what runs; what waits is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits any more
        loop.call_soon_threadsafe(call)
