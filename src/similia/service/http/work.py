"""Work in threads, with a bound on what waits for one."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from similia.service.http.problems import Problem

T = TypeVar("T")


class Pool:
    """A few threads; what would wait too long for one is refused with 503."""

    def __init__(self, name: str, threads: int, waiting: int) -> None:
        self.limit = threads + waiting
        self.active = 0
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=f"similia-{name}")

    async def run(self, work: Callable[..., T], *arguments: Any, **named: Any) -> T:
        """Run work in a thread. Time-outs leave it running, and counted."""
        if self.active >= self.limit:
            raise Problem(503, "too much work is waiting; try again later.", retry_after=1)
        self.active += 1
        loop = asyncio.get_running_loop()
        future = self._executor.submit(work, *arguments, **named)
        future.add_done_callback(lambda _: _soon(loop, self._done))
        return await asyncio.wrap_future(future)

    def _done(self) -> None:
        self.active -= 1

    def close(self) -> None:
        """Finish what runs; what waits is dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)


def _soon(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
    try:
        loop.call_soon_threadsafe(call)
    except RuntimeError:  # the loop has ended, and nobody counts any more
        call()
