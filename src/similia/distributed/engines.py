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
from functools import partial
from pathlib import Path
from typing import Any

from similia.distributed.memory import MB, machine_memory
from similia.exceptions import MissingExtraError

#: what `engine_named` understands
ENGINE_FORMS = (
    "processes, processes:N, dask://HOST:PORT, tcp://HOST:PORT, ray or ray://HOST:PORT, an "
    "Executor, or a Client or cluster of Dask"
)
LOST = (BrokenExecutor, MemoryError)
#: seconds to wait for a first worker of Dask
WORKERS_SECONDS = 30
#: workers of Dask that are named
SHOWN = 4
#: what to do about a head of Ray that does not answer
RAY_TOKEN = (
    "If its head asks for a token, which it does not say to whoever has none, set "
    "RAY_AUTH_MODE=token, and RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH as there"
)
#: attempts to reach a remote Ray, of about half a minute each
CALLS = 4


@dataclass
class Engine:
    """Opens executors, and recognizes lost workers: for engines that `engine_named` does not know.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> from similia.distributed import Engine
    >>> engine = Engine(lambda: ThreadPoolExecutor(2), memory=lambda: 2e9)
    >>> with engine.open() as executor:
    ...     executor.submit(max, 1, 2).result()
    2
    """

    open: Callable[[], AbstractContextManager[Executor]]
    #: errors of tasks whose worker died or ran out of memory; they are retried
    lost: tuple[type[BaseException], ...] = LOST
    #: ends a hanging worker, given its call and its process; by default it is left alone
    end: Callable[["Future[Any]", str], None] = field(default=lambda *_: None)
    #: whether losing a worker breaks the executor, which must then be reopened
    breaks: bool = False
    #: bytes of memory of each task, if the engine tells
    memory: Callable[[], float | None] = field(default=lambda: None)
    #: address of its dashboard, once open
    dashboard: Callable[[], str] = field(default=lambda: "")
    #: workers that were lost since the last call, a line each
    news: Callable[[], list[str]] = field(default=list)
    #: what its workers do, in words
    state: Callable[[], str] = field(default=lambda: "its workers are silent")


def this_process() -> str:
    """Name of this process, unique across machines."""
    return f"{os.getpid()}@{socket.gethostname()}"


def engine_named(name: Any) -> Engine:
    """Engine for a name such as ``processes:4``, an executor, or a Dask client or cluster.

    Examples
    --------
    >>> from similia.distributed import engine_named
    >>> with engine_named("processes:2").open() as executor:
    ...     executor.submit(sum, [1, 2]).result()
    3
    """
    if isinstance(name, Engine):
        return name
    if isinstance(name, Executor):
        return Engine(
            lambda: nullcontext(name), lost=(), memory=partial(_share, os.cpu_count() or 1)
        )
    if hasattr(name, "scheduler_address") or hasattr(name, "get_executor"):
        return _dask(name)
    if not isinstance(name, str):
        raise TypeError(f"executor must be {ENGINE_FORMS}, got {type(name).__name__}.")
    if match := re.fullmatch(r"processes(?::([1-9]\d*))?", name):
        n = int(match[1] or os.cpu_count() or 1)
        return Engine(lambda: _processes(n), end=_kill, breaks=True, memory=partial(_share, n))
    if re.fullmatch(r"(dask|tcp|tls)://[^/\s]+:\d+", name):
        return _dask(name.replace("dask://", "tcp://"))
    if re.fullmatch(r"ray(://[^/\s]+:\d+)?", name):
        return _ray(name if "://" in name else None)
    raise ValueError(f"executor must be {ENGINE_FORMS}, got {name!r}.")


def _share(n: int) -> float | None:
    memory = machine_memory()
    return memory and memory / n


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
        from distributed import Client
    except ImportError:
        raise MissingExtraError("similia.distributed", "dask.distributed", "dask") from None
    clients: list[Client] = []
    workers: dict[str, Any] = {}

    @contextmanager
    def opened() -> Iterator[Executor]:
        with nullcontext(given) if isinstance(given, Client) else Client(given) as client:
            clients[:] = [client]
            workers.clear()
            workers.update(_workers(client))
            # Tasks are identified by their files, so Dask need not deduplicate calls.
            executor = client.get_executor(pure=False)
            try:
                yield executor
            finally:
                executor.shutdown(wait=False)  # do not wait for a call that hangs

    def end(call: "Future[Any]", process: str) -> None:
        for client in clients:
            client.run(_end_worker, process, nanny=True, on_error="ignore")

    def memory() -> float | None:
        with opened():
            with suppress(TimeoutError):
                clients[0].wait_for_workers(1, timeout=WORKERS_SECONDS)
            found = _workers(clients[0]).values()
            limits = [w["memory_limit"] / w["nthreads"] for w in found if w["memory_limit"]]
            return min(limits, default=None)

    def news() -> list[str]:
        now = _workers(clients[0])
        gone = [address for address in workers if address not in now]
        lines = [f"worker {one} is gone; it last held {_held(workers[one])}" for one in gone]
        workers.clear()
        workers.update(now)
        return lines

    def state() -> str:
        now = _workers(clients[0])
        if not now:
            return "the cluster has no workers"
        kinds = [f"{one} is {found['status']} with {_held(found)}" for one, found in now.items()]
        more = f", and {len(kinds) - SHOWN} more" if len(kinds) > SHOWN else ""
        return f"{', '.join(kinds[:SHOWN])}{more}"

    # Dask retries tasks whose worker died, and gives one up that has killed several.
    return Engine(
        opened,
        LOST,
        end,
        memory=memory,
        dashboard=lambda: clients[0].dashboard_link or "",
        news=news,
        state=state,
    )


def _workers(client: Any) -> dict[str, Any]:
    """Workers by address, as the scheduler knows them."""
    try:
        found = client.scheduler_info(n_workers=-1)
    except TypeError:  # before distributed 2025.4
        found = client.scheduler_info()
    return dict(found["workers"])


def _held(worker: Any) -> str:
    held = worker["metrics"].get("memory", 0) / MB
    return f"{held:,.0f} MB of {(worker['memory_limit'] or 0) / MB:,.0f} MB"


def _end_worker(process: str, dask_worker: Any = None) -> None:
    """End the nanny's process if it is this one; the nanny starts another."""
    if f"{dask_worker.pid}@{socket.gethostname()}" == process:
        os.kill(dask_worker.pid, signal.SIGKILL)


def _has_ray_token() -> bool:
    named = "RAY_AUTH_TOKEN" in os.environ or "RAY_AUTH_TOKEN_PATH" in os.environ
    return named or (Path.home() / ".ray" / "auth_token").exists()


# -- Ray -------------------------------------------------------------------------------------------


def _ray(address: str | None) -> Engine:
    if address is not None and _has_ray_token():
        # A head takes a token that is there for granted; a client only if this is set on import.
        os.environ.setdefault("RAY_AUTH_MODE", "token")
    try:
        import ray
        from ray.exceptions import RayError, RayTaskError
    except ImportError:
        raise MissingExtraError("similia.distributed", "ray", "ray") from None

    #: whether Ray was started or joined here, and so is left at the end
    ours: list[bool] = []

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
        """Calls as Ray tasks; lost ones are retried by us, as Ray would do so silently."""

        def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
            try:
                return Call(ray.remote(max_retries=0)(fn).remote(*args, **kwargs))
            except ConnectionError as error:  # the server of this client has gone
                call: Future[Any] = Future()
                call.set_exception(BrokenExecutor(*error.args))
                return call

    def memory() -> float | None:
        if address is None and not ray.is_initialized() and "RAY_ADDRESS" not in os.environ:
            return _share(os.cpu_count() or 1)  # of a Ray that is not there yet
        if not ray.is_initialized():  # and leave it open for the tasks
            connect()
            ours.append(True)
        found = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        limits = [one["memory"] / one["CPU"] for one in found if {"memory", "CPU"} <= set(one)]
        return min(limits, default=None)

    def state() -> str:
        alive = [node for node in ray.nodes() if node["Alive"]]
        free = ray.available_resources().get("CPU", 0)
        return f"{len(alive)} nodes of Ray are alive, {free:g} processors are free"

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
                        f"executor must be a Ray that answers, got {address}: {why}. {RAY_TOKEN}"
                    ) from error

    @contextmanager
    def opened() -> Iterator[Executor]:
        if not ray.is_initialized():
            connect()
            ours.append(True)
        try:
            yield RayExecutor()
        finally:
            if ours:
                ours.clear()
                ray.shutdown()

    def end(call: "Future[Any]", process: str) -> None:
        if isinstance(call, Call):
            ray.cancel(call.reference, force=True)

    crashes = tuple(kind for kind in RayError.__subclasses__() if kind is not RayTaskError)
    return Engine(opened, (*LOST, *crashes), end, memory=memory, state=state)
