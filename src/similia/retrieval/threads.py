"""Rows distributed over the processors."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from similia.linalg.threads import processors, side_by_side

T = TypeVar("T")

SHARES = 4  # per processor, so that uneven shares balance out


def over_rows(task: Callable[[int, int], T], n_rows: int) -> list[T]:
    """Call task(start, stop) on shares of the rows in threads; return the results in order.

    Pays off for tasks that release the interpreter lock.
    """
    size = max(1, -(-n_rows // (processors() * SHARES)))
    results: dict[int, T] = {}

    def keep(start: int) -> None:
        results[start] = task(start, min(start + size, n_rows))

    starts = range(0, n_rows, size)
    side_by_side([partial(keep, start) for start in starts])
    return [results[start] for start in starts]
