import contextlib
import faulthandler
import itertools
import os
import subprocess
import sys
import threading
import time

import httpx
import numpy as np
import pytest

pytest.importorskip("apsw", reason="needs apsw")
pytest.importorskip("starlette", reason="needs starlette")

from similia.service.http.app import Service
from similia.service.http.server import Server, listen
from similia.service.log.records import Item
from similia.service.settings import Settings
from similia.service.tenants.tenants import Tenants

WIDTH = 8
#: seconds for everything that must happen sooner or later, never for how fast: on a busy machine
#: the first judgement waits until what learns from it is compiled
PATIENCE = 300.0


def some_items(n=30, seed=0):
    rows = np.random.default_rng(seed).normal(size=(n, WIDTH)).astype(np.float32)
    return [
        Item(id=f"i{i}", vectors={"vectors": row.tolist()}, text=f"item {i}")
        for i, row in enumerate(rows)
    ]


def triplet(query=0, better=1, worse=2, **more):
    names = {"better": f"i{better}", "worse": f"i{worse}"}
    return {"kind": "triplet", "query": {"item": f"i{query}"}, **names, **more}


class Running:
    """A service in a thread of this process, on a free port."""

    def __init__(self, service, port=0):
        self.service = service
        listener = listen("127.0.0.1", port)
        self.port = listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = Server(service, listener)
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        until(lambda: self.service.ready or self.service.failure)
        assert self.service.failure is None
        return self

    def __exit__(self, *_):
        self.server.handle_exit(15, None)
        self.thread.join(PATIENCE)
        if self.thread.is_alive():
            faulthandler.dump_traceback(sys.__stderr__)  # where it hangs
        assert not self.thread.is_alive()


def until(holds, patience=PATIENCE):
    """Wait for something that must happen."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.01)


@pytest.fixture
def settings(tmp_path):
    return {
        "store": str(tmp_path / "store"),
        "port": 0,
        "rate": 0.0,
        "wrong_rate": 0.0,
        "timeout": PATIENCE,
        "warm_up": "never",
    }


@pytest.fixture
def start(settings):
    """Start services that end with the test: start(max_body=…)."""
    with contextlib.ExitStack() as stack:

        def started(*, items=True, service=None, **changes):
            made = service or Service(Settings(**{**settings, **changes}))
            running = stack.enter_context(Running(made))
            if items:
                made.tenants.get(made.settings.tenant).put_items(some_items())
            return running

        yield started


@pytest.fixture
def http(start):
    """A client of a service without keys."""
    running = start()
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        client.running = running
        yield client


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A client of a service without keys that the tests of a file share."""
    folder = str(tmp_path_factory.mktemp("shared"))
    options = {"rate": 0.0, "wrong_rate": 0.0, "warm_up": "never"}
    service = Service(Settings(store=folder, port=0, **options))
    with (
        Running(service) as running,
        httpx.Client(base_url=running.url, timeout=PATIENCE) as client,
    ):
        service.tenants.get("default").put_items(some_items())
        client.running = running
        yield client


class Process:
    """A service in a process of its own."""

    def __init__(self, folder, *flags):
        words = [
            "serve",
            "--store",
            str(folder),
            "--port",
            "0",
            "--rate",
            "0",
            "--timeout",
            "300",
            "--warm-up",
            "never",
            *flags,
        ]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "similia.cli.main", *words],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env=environment,
        )
        self.lines = []
        self._address = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        assert self._address.wait(PATIENCE), self.lines
        until(self._is_ready)

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line)
            if line.startswith("Listening on "):
                self.url = line.split()[2].rstrip(";")
                self._address.set()

    def _is_ready(self):
        assert self.process.poll() is None, self.lines
        try:
            return httpx.get(f"{self.url}/readyz", timeout=PATIENCE).is_success
        except httpx.TransportError:
            return False

    def stop(self, how="terminate"):
        getattr(self.process, how)()
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        self.process.stderr.close()
        return code


@pytest.fixture
def process(tmp_path):
    """Start processes that end with the test."""
    started = []

    def start(*flags, folder=None):
        started.append(Process(folder or tmp_path / "store", *flags))
        return started[-1]

    yield start
    for each in started:
        if each.process.poll() is None:
            each.stop("kill")


# -- logs ----------------------------------------------------------------------------------------

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    pytest.importorskip("psycopg", reason="needs psycopg")
    from tests.service.servers import Server

    server = Server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where logs are, as arguments of Tenant: a folder, or a database that others use too."""
    if request.param == "sqlite":
        return str(tmp_path / "tenants")
    return request.getfixturevalue("server").url


@pytest.fixture
def tenants(tmp_path):
    """Tenants in a folder of their own."""
    tenants = Tenants(tmp_path)
    yield tenants
    tenants.close()


@pytest.fixture
def name():
    """Name of a tenant that no other test has."""
    return f"tenant-{next(_numbers)}"


@pytest.fixture
def open_log(place, name):
    """Opens the log of a tenant, as often as called."""
    from similia.service.log.opening import is_url
    from similia.service.log.sqlite import sqlite_log

    def opened():
        if is_url(place):
            from similia.service.log.postgres import postgres_log

            return postgres_log(place, name)
        from pathlib import Path

        return sqlite_log(Path(place) / name)

    return opened
