"""Fair shares: request rates, budgets of calls and bytes, and threads."""

import asyncio
import contextlib
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from similia.service.errors import Gone, Problem
from similia.service.settings import Settings

T = TypeVar("T")

#: callers whose rates are remembered; the least recent is forgotten
MAX_REMEMBERED_CALLERS = 10_000
#: seconds before a stranger over the rate gets an answer
STRANGERS_WAIT = 1.0
#: share of a budget that one caller may hold
QUOTA_RATIO = 1 / 4
#: share of a lane's queue that one caller may fill
QUEUE_RATIO = 1 / 2

#: search: rankings; wait: rankings that waited for a row to be learnt; look: cheap reads; check:
#: long bodies and large feedback; write: items; ask: questions for judges; open: creating and
#: replaying tenants; bulk: many rows of anything; long: exams and promotions
LaneName: TypeAlias = Literal[
    "search", "wait", "look", "check", "write", "ask", "open", "bulk", "long"
]


class Rates:
    """Token buckets: a caller may make `burst` requests at once, and `rate` a second."""

    def __init__(self, rate: float, burst: int) -> None:
        self.rate, self.burst = rate, float(burst)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, caller: str, *, stranger: bool = False) -> None:
        """Count a request; refuse it with 429 if there are too many.

        A `stranger` gets that answer late and is then disconnected: a flood of refusals would cost
        the service more than the caller.
        """
        wait = self.take(caller)
        if wait > 0:
            raise Problem(
                429,
                f"too many requests: at most {self.rate:g} a second; try again later.",
                retry_after=wait,
                headers={"connection": "close"} if stranger else None,
                pause=STRANGERS_WAIT if stranger else 0.0,
            )

    def take(self, caller: str) -> float:
        """Count a request; seconds until the next one may come, 0 if this one may."""
        if self.rate <= 0:
            return 0.0
        now = time.monotonic()
        tokens, seen = self._buckets.pop(caller, (self.burst, now))
        tokens = min(self.burst, tokens + (now - seen) * self.rate)
        self._buckets[caller] = (tokens - 1 if tokens >= 1 else tokens, now)
        if len(self._buckets) > MAX_REMEMBERED_CALLERS:
            self._buckets.popitem(last=False)
        return (1 - tokens) / self.rate if tokens < 1 else 0.0


class Budget:
    """Limits how much is in use at a time, in total and by each caller."""

    def __init__(self, what: str, total: int, min_quota: int = 1) -> None:
        self.what, self.total = what, total
        self.quota = max(int(total * QUOTA_RATIO), min_quota)
        self.taken = 0
        self._by_caller: dict[str, int] = {}

    def take(self, caller: str, amount: int = 1) -> None:
        """Take some, or refuse: 429 beyond the caller's quota, 503 beyond the total.

        A caller that holds nothing may take one thing larger than a quota.
        """
        own = self._by_caller.get(caller, 0) + amount
        if own > max(self.quota, amount):
            raise Problem(429, f"too many {self.what} for one key; try again later.", retry_after=1)
        if self.taken + amount > max(self.total, amount):
            raise Problem(503, f"too many {self.what} at a time; try again later.", retry_after=1)
        self._by_caller[caller] = own
        self.taken += amount

    def give(self, caller: str, amount: int = 1) -> None:
        """Give back some of what was taken."""
        self.taken -= amount
        left = self._by_caller[caller] - amount
        if left:
            self._by_caller[caller] = left
        else:
            del self._by_caller[caller]


class _Job(NamedTuple):
    """Work waiting for a thread, and whether its client is still connected."""

    work: Callable[[], Any]
    answer: "asyncio.Future[Any]"
    is_wanted: Callable[[], bool]


class Lane:
    """A few threads with a queue in which callers take turns."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.name, self.waiting = name, waiting
        self.quota = max(1, int(waiting * QUEUE_RATIO))
        self._free = threads
        self._queues: OrderedDict[str, deque[_Job]] = OrderedDict()
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"similia-{name}")

    async def run(
        self,
        caller: str,
        work: Callable[[], T],
        *,
        admitted: bool = False,
        is_wanted: Callable[[], bool] = lambda: True,
    ) -> T:
        """Run work in a thread; refuse it if the queue is full. A time-out does not end the work.

        Work that continues what was `admitted` before is queued, never refused. Work that is no
        longer wanted when its turn comes is dropped.
        """
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        if self._free:
            self._start(work, answer)
        else:
            if not admitted:
                self._check_room(caller)
            self._queues.setdefault(caller, deque()).append(_Job(work, answer, is_wanted))
        return await answer

    def _check_room(self, caller: str) -> None:
        """Refuse work if the queue is full, for its caller or for all."""
        if len(self._queues.get(caller, ())) >= self.quota:
            raise Problem(429, f"too much {self.name} work for one key; try later.", retry_after=1)
        if sum(map(len, self._queues.values())) >= self.waiting:
            raise Problem(503, f"too much {self.name} work is waiting; try later.", retry_after=1)

    def _start(self, work: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        self._free -= 1
        self._executor.submit(self._work, work, answer)

    def _work(self, work: Callable[[], Any], answer: "asyncio.Future[Any]") -> None:
        """Do the work, in a thread of the lane."""
        found: Any = None
        failure: BaseException | None = None
        try:
            found = work()
        except BaseException as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop has ended, and nobody waits
            answer.get_loop().call_soon_threadsafe(self._finish, answer, found, failure)

    def _finish(
        self, answer: "asyncio.Future[Any]", found: Any, failure: BaseException | None
    ) -> None:
        """Answer, then start the next work that is still wanted."""
        self._free += 1
        if answer.done():  # timed out
            pass
        elif failure is not None:
            answer.set_exception(failure)
        else:
            answer.set_result(found)
        while self._queues and self._free:
            caller, queue = self._queues.popitem(last=False)
            job = queue.popleft()
            if queue:  # the caller goes to the end of the line
                self._queues[caller] = queue
            if job.answer.done():
                continue
            if job.is_wanted():
                self._start(job.work, job.answer)
            else:
                job.answer.set_exception(Gone())

    def close(self) -> None:
        """Finish running work; drop the queue."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def open_lanes(settings: Settings) -> dict[LaneName, Lane]:
    """The lanes of a service, each with its threads and the length of its queue.

    Threads share one interpreter, and rankings wait for each busy one. So only `search` has several
    that compute; `write` and `open` have a second for while the first waits for the disk.
    """
    return {
        "search": Lane("search", settings.threads, settings.max_waiting),
        "wait": Lane("wait", 1, settings.max_requests),
        "look": Lane("look", 1, settings.max_waiting),
        "check": Lane("check", 1, settings.max_requests),
        "write": Lane("write", 2, settings.max_requests),
        "ask": Lane("ask", 1, settings.max_waiting),
        "open": Lane("open", 2, settings.max_requests),
        "bulk": Lane("bulk", 1, settings.max_waiting),
        "long": Lane("long", 1, 8),
    }
