"""Rows shared out among the processor's cores."""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")

SHARES_PER_CORE = 4  # so that a core with easy rows takes over from one with hard rows


def _n_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def over_rows(task: Callable[[int, int], T], n_rows: int) -> list[T]:
    """Call task(start, stop) on shares of the rows, in threads; give the results in order.

    Worth its while for tasks that release the interpreter lock.
    """
    n_cores = _n_cores()
    size = max(1, -(-n_rows // (n_cores * SHARES_PER_CORE)))
    starts = range(0, n_rows, size)
    stops = (min(start + size, n_rows) for start in starts)
    if n_cores == 1 or len(starts) == 1:
        return [task(start, stop) for start, stop in zip(starts, stops, strict=True)]
    with ThreadPoolExecutor(n_cores) as pool:
        return list(pool.map(task, starts, stops))
