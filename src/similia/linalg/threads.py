"""Several processors at work without getting in each other's way.

The threads of a BLAS wait for each other by spinning. On a busy machine, and where two such
libraries alternate (numpy and scipy bring one each), that can cost a hundred times the work itself.
So the BLAS is held to one thread while learning, and independent products are shared out here:
whoever is free takes the next one. The standard thread pool is as fast as a bare queue, provided
that a helper that never started is not waited for.
"""

import os
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import cache
from importlib import import_module
from threading import Lock, get_ident
from typing import Any

from threadpoolctl import ThreadpoolController

Task = Callable[[], None]

SMALL = 4_000_000  #: multiplications below which sharing out costs more than it gains
TINY = 2**18  #: multiplications up to which OpenBLAS uses one thread anyway

_lock = Lock()
_users: Counter[int] = Counter()  # of the limit, by thread
_limit: Any = None  # threadpoolctl's, while there are users
_alone = ContextVar("alone", default=False)


@cache
def _blas() -> ThreadpoolController:
    """The BLAS of numpy and of scipy, both loaded first, as only loaded ones can be limited."""
    import_module("scipy.linalg")
    return ThreadpoolController().select(user_api="blas")


def _take_control() -> None:
    """Let this thread set limits: threadpoolctl 3.8 obeys the first one alone, in silence."""
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


@contextmanager
def single_blas_thread() -> Iterator[None]:
    """Hold the BLAS to one thread; overlapping users share one limit, and the last one lifts it.

    Products round differently on more threads. All that ends in a state is computed within, so that
    what is learnt does not depend on whether other threads learn at the same time.
    """
    global _limit
    me = get_ident()
    with _lock:
        if _limit is None:
            _take_control()
            _limit = _blas().limit(limits=1)
        _users[me] += 1
    try:
        yield
    finally:
        with _lock:
            _users[me] -= 1
            if not +_users:
                _users.clear()
                _take_control()
                _limit.restore_original_limits()
                _limit = None


@cache
def processors() -> int:
    """Number of processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextmanager
def one_processor() -> Iterator[None]:
    """Let `side_by_side` do its tasks one after another, as other processes use the processors.

    Work is still cut up for all of them, so that it rounds the same. Libraries with threads of
    their own are to use `free_processors`.
    """
    token = _alone.set(True)
    try:
        yield
    finally:
        _alone.reset(token)


def free_processors() -> int:
    """Number of processors that work may use just now: within `one_processor`, one."""
    return 1 if _alone.get() else processors()


def side_by_side(tasks: Sequence[Task], work: int = SMALL) -> None:
    """Run tasks that touch different data on all processors; then raise the first error, if any.

    `work` is the number of multiplications in all of them: a small one is not shared out. The BLAS
    has one thread meanwhile, also because a fork amid a product on several threads never returns.
    """
    helpers = 0 if work < SMALL else min(free_processors(), len(tasks)) - 1
    waiting, errors = deque(tasks), []

    def help_out() -> None:
        while True:
            try:
                task = waiting.popleft()
            except IndexError:
                return
            try:
                task()
            except BaseException as error:
                errors.append(error)

    with single_blas_thread() if work > TINY else nullcontext():
        if helpers < 1:
            for task in tasks:
                task()
            return
        futures = [_pool().submit(help_out) for _ in range(helpers)]
        help_out()
        for future in futures:
            if not future.cancel():
                future.result()
    if errors:
        raise errors[0]


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max(1, processors() - 1), thread_name_prefix="similia")


# -- forks ---------------------------------------------------------------------------------------


def _begin_anew() -> None:
    """In a forked process, which has the state of other threads but not the threads.

    Where those held the BLAS to one thread, the next user lifts that limit with its own.
    """
    for thread in _users.keys() - {get_ident()}:
        del _users[thread]
    _pool.cache_clear()
    _lock.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_begin_anew
    )
