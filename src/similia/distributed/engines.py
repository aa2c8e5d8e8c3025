"""Where tasks run: local processes, Dask or Ray, as `concurrent.futures.Executor`s."""

import logging
import multiprocessing
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    InvalidStateError,
    ProcessPoolExecutor,
)
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from typing import Any

from similia.exceptions import MissingExtraError

#: what `engine_named` understands
ENGINE_FORMS = (
    "processes, processes:N, dask://HOST:PORT, tcp://HOST:PORT, ray or ray://HOST:PORT, an "
    "Executor, or a Client or cluster of Dask"
)
LOST = (BrokenExecutor, MemoryError)
#: attempts to reach a remote Ray, of about half a minute each
CALLS = 4


@dataclass
class Engine:
    """Opens executors, and recognizes lost workers."""

    open: Callable[[], AbstractContextManager[Executor]]
    #: errors of tasks whose worker died or ran out of memory; they are retried
    lost: tuple[type[BaseException], ...] = LOST
    #: ends a hanging worker, given its call and its process; by default it is left alone
    end: Callable[["Future[Any]", str], None] = field(default=lambda *_: None)
    #: whether losing a worker breaks the executor, which must then be reopened
    breaks: bool = False


def this_process() -> str:
    """Name of this process, unique across machines."""
    return f"{os.getpid()}@{socket.gethostname()}"


def engine_named(name: Any) -> Engine:
    """Engine for a name such as ``processes:4``, an executor, or a Dask client or cluster."""
    if isinstance(name, Engine):
        return name
    if isinstance(name, Executor):
        return Engine(lambda: nullcontext(name), lost=())
    if hasattr(name, "scheduler_address") or hasattr(name, "get_executor"):
        return _dask(name)
    if not isinstance(name, str):
        raise TypeError(f"executor must be {ENGINE_FORMS}, got {type(name).__name__}.")
    if match := re.fullmatch(r"processes(?::([1-9]\d*))?", name):
        n = int(match[1] or os.cpu_count() or 1)
        return Engine(lambda: _processes(n), end=_kill, breaks=True)
    if re.fullmatch(r"(dask|tcp|tls)://[^/\s]+:\d+", name):
        return _dask(name.replace("dask://", "tcp://"))
    if re.fullmatch(r"ray(://[^/\s]+:\d+)?", name):
        return _ray(name if "://" in name else None)
    raise ValueError(f"executor must be {ENGINE_FORMS}, got {name!r}.")


# -- processes -------------------------------------------------------------------------------------


@contextmanager
def _processes(n: int) -> Iterator[Executor]:
    # New processes, not forks: threads and locks of this one stay behind.
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(n, mp_context=context, initializer=_end_with_the_driver)
    try:
        yield pool
    except BaseException:
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown(wait=True, cancel_futures=True)


def _end_with_the_driver() -> None:
    """End a worker whose driver was killed; it would wait forever and keep its memory."""

    def wait() -> None:
        driver = multiprocessing.parent_process()
        if driver is not None:
            driver.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _kill(call: "Future[Any]", process: str) -> None:
    for child in multiprocessing.active_children():
        if f"{child.pid}@{socket.gethostname()}" == process:
            child.kill()


# -- Dask ------------------------------------------------------------------------------------------


def _dask(given: Any) -> Engine:
    """Dask by the address of a scheduler, a cluster, or a client, which stays open."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise MissingExtraError("similia.distributed", "dask.distributed", "dask") from None
    clients: list[Client] = []

    @contextmanager
    def opened() -> Iterator[Executor]:
        with nullcontext(given) if isinstance(given, Client) else Client(given) as client:
            clients[:] = [client]
            # Tasks are identified by their files, so Dask need not deduplicate calls.
            executor = client.get_executor(pure=False)
            try:
                yield executor
            finally:
                executor.shutdown(wait=False)  # do not wait for a call that hangs

    def end(call: "Future[Any]", process: str) -> None:
        for client in clients:
            client.run(_end_worker, process, nanny=True, on_error="ignore")

    return Engine(opened, (*LOST, KilledWorker), end)


def _end_worker(process: str, dask_worker: Any = None) -> None:
    """End the nanny's process if it is this one; the nanny starts another."""
    if f"{dask_worker.pid}@{socket.gethostname()}" == process:
        os.kill(dask_worker.pid, signal.SIGKILL)


# -- Ray -------------------------------------------------------------------------------------------


def _ray(address: str | None) -> Engine:
    try:
        import ray
        from ray.exceptions import RayError, RayTaskError
    except ImportError:
        raise MissingExtraError("similia.distributed", "ray", "ray") from None

    class Call(Future[Any]):
        """A running call and Ray's reference to it."""

        def __init__(self, reference: Any) -> None:
            super().__init__()
            self.reference = reference
            reference.future().add_done_callback(self.take)

        def take(self, done: "Future[Any]") -> None:
            """Store the outcome, unless the future was cancelled."""
            error = done.exception()
            if isinstance(error, RayTaskError):
                error = error.cause  # the error of the task itself
            elif isinstance(error, ConnectionError):
                error = BrokenExecutor(*error.args)
            with suppress(InvalidStateError):
                if error is None:
                    self.set_result(done.result())
                else:
                    self.set_exception(error)

    class RayExecutor(Executor):
        """Calls as Ray tasks; Ray retries those whose worker died."""

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            try:
                return Call(ray.remote(max_retries=3)(fn).remote(*args, **kwargs))
            except ConnectionError as error:  # the server of this client has gone
                call: Future[Any] = Future()
                call.set_exception(BrokenExecutor(*error.args))
                return call

    def connect() -> None:
        """Start Ray or join it; a busy head may need several attempts."""
        for again in reversed(range(CALLS)):
            try:
                ray.init(address, log_to_driver=False, logging_level=logging.WARNING)
                return
            except ConnectionError as error:
                ray.shutdown()
                if not again:
                    why = (
                        str(error).strip().rpartition("\n")[2]
                    )  # the last line, after the server's traceback
                    raise ConnectionError(
                        f"executor must be a Ray that answers, got {address}: {why}"
                    ) from error

    @contextmanager
    def opened() -> Iterator[Executor]:
        new = not ray.is_initialized()
        if new:
            connect()
        try:
            yield RayExecutor()
        finally:
            if new:
                ray.shutdown()

    def end(call: "Future[Any]", process: str) -> None:
        if isinstance(call, Call):
            ray.cancel(call.reference, force=True)

    crashes = tuple(kind for kind in RayError.__subclasses__() if kind is not RayTaskError)
    return Engine(opened, (*LOST, *crashes), end)
