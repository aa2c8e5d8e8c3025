"""How many threads the BLAS uses while small matrices are at work.

A product of small matrices gains little from a second thread, and on a busy machine it loses much:
the threads wait for each other by spinning while others have the processor.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

from threadpoolctl import ThreadpoolController

#: entries of a matrix from which on a second thread is worth its risk
LARGE = 300 * 300

_lock = Lock()
_users: list[Any] = []


@cache
def _controller() -> Any:
    return ThreadpoolController()


@contextmanager
def threads_for(entries: int) -> Iterator[None]:
    """Use one BLAS thread while matrices with so many entries are worked on, unless they are large.

    Threads of one process may overlap here: the first one in sets the limit, the last one out lifts
    it.
    """
    if entries >= LARGE:
        yield
        return
    with _lock:
        if not _users:
            _users.append(_controller().limit(limits=1, user_api="blas"))
        else:
            _users.append(None)
    try:
        yield
    finally:
        with _lock:
            _users.pop() if len(_users) > 1 else _users.pop().restore_original_limits()
