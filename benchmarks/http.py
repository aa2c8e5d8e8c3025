"""The service over HTTP: acknowledged judgements a second, and connections that do nothing."""

import contextlib
import json
import queue
import resource
import secrets
import selectors
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.serving import Serving, Wire, in_parallel, post, processor_of, save_items
from benchmarks.timing import table

CLIENTS = 16
SECONDS = 1.0
ROUNDS = 9
WIDTH = 16


def judgement(client, n, items=1000):
    """A judgement with an id of its own, if clients have names of their own."""
    query, better, worse = 17 * n % items, (31 * n + 7) % items, (13 * n + 3) % items
    return {
        "kind": "triplet",
        "id": f"{client}-{n}",
        "query": {"item": str(query)},
        "better": str(better),
        "worse": str(worse if worse != better else (worse + 1) % items),
    }


class Bare:
    """Group commit by apsw and nothing else: one thread writes whatever waits."""

    def __init__(self, path):
        import apsw

        self.connection = apsw.Connection(str(path))
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "full")
        self.connection.execute(
            "CREATE TABLE rows (seq INTEGER PRIMARY KEY, id TEXT UNIQUE, body BLOB)"
        )
        self.waiting: queue.SimpleQueue = queue.SimpleQueue()
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def append(self, rows):
        done = threading.Lock()
        done.acquire()
        self.waiting.put((rows, done))
        done.acquire()

    def _run(self):
        while True:
            group = [self.waiting.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    group.append(self.waiting.get_nowait())
            rows = [row for given, _ in group for row in given]
            with self.connection:
                self.connection.executemany("INSERT INTO rows (id, body) VALUES (?, ?)", rows)
            for _, done in group:
                done.release()
            if not all(given for given, _ in group):
                self.connection.close()
                return

    def close(self):
        self.append([])
        self.thread.join()


async def nothing(scope, receive, send):
    """The least that a service could do: read a body, answer 200."""
    if scope["type"] == "lifespan":
        for word in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{word}.complete"})
        return
    while (await receive()).get("more_body"):
        pass
    headers = [(b"content-type", b"application/json"), (b"content-length", b"2")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"{}"})


class Limit:
    """uvicorn with httptools and uvloop, serving nothing: what HTTP alone allows."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = free.getsockname()
        words = ["-m", "uvicorn", "benchmarks.http:nothing", "--port", str(self.address[1])]
        words += ["--log-level", "error", "--no-access-log"]
        self.process = subprocess.Popen([sys.executable, *words], stdout=subprocess.DEVNULL)
        end = time.monotonic() + 60
        while True:
            try:
                wire = Wire(self.address)
                wire.ask(post("/", {}))
                wire.close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    def close(self):
        self.process.terminate()
        self.process.wait(60)


def feedback_over_http():
    """Clients with one request at a time each; bare group commit and bare HTTP take turns with it.

    Clients of HTTP are one lean process for all connections, as elsewhere they would be other
    machines, but they share the processors with the service. Its processor time includes
    learning; that of the bare commit is of all its threads, clients included.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_items(folder / "items.npy", 1000, WIDTH)
        for clients, batch in ((CLIENTS, 1), (64, 1), (CLIENTS, 32)):
            rows.append([clients, batch, *_compared(folder / f"{clients}-{batch}", clients, batch)])
    table(
        "Acknowledged judgements a second, every commit on the disk",
        [
            "clients",
            "judgements a request",
            "bare apsw",
            "service",
            "service / bare",
            "all rounds",
            "bare HTTP, nothing stored",
            "µs bare",
            "µs service",
            "µs bare HTTP",
        ],
        rows,
    )


def _compared(folder, clients, batch):
    """Medians over rounds: rates, the share of the bare commit, processor time a judgement."""
    folder.mkdir()
    flags = ("--max-requests", "1000")  # a line of the log for each request, as by default
    rounds, times = [], ([], [], [])
    with Serving(folder / "store", *flags) as served:
        _put_items(served, folder.parent / "items.npy")
        bare, limit = Bare(folder / "bare.sqlite"), Limit()
        _drive(served.address, clients, batch, 1.0)
        for _ in range(ROUNDS):
            start = time.process_time()
            plain = in_parallel(clients, lambda i, stop: _append(bare, i, stop, batch), SECONDS)
            times[0].append((time.process_time() - start) / (plain * SECONDS))
            start = served.processor
            rate = _drive(served.address, clients, batch, SECONDS)
            times[1].append((served.processor - start) / (rate * SECONDS))
            start = processor_of(limit.process.pid)
            most = _drive(limit.address, clients, batch, SECONDS)
            times[2].append((processor_of(limit.process.pid) - start) / (most * SECONDS))
            rounds.append((rate / plain, plain, rate, most))
        bare.close()
        limit.close()
    shares, *rates = (sorted(column) for column in zip(*rounds, strict=True))
    plain, rate, most = (column[ROUNDS // 2] for column in rates)
    spread = f"{shares[0]:.0%} to {shares[-1]:.0%}"
    middle = [1e6 * sorted(column)[ROUNDS // 2] for column in times]
    return plain, rate, f"{shares[ROUNDS // 2]:.0%}", spread, most, *middle


def _put_items(serving, path):
    import numpy as np

    X = np.load(path)
    wire = Wire(serving.address)
    for start in range(0, len(X), 500):
        items = [
            {"id": str(start + i), "vectors": {"vectors": row.tolist()}}
            for i, row in enumerate(X[start : start + 500])
        ]
        status, body = wire.ask(post("/v1/default/items", {"items": items}))
        assert status == 200, body
    wire.close()


def _append(bare, client, stop, batch):
    n, client = 0, f"{client}-{secrets.token_hex(4)}"
    while not stop.is_set():
        given = [judgement(client, n + i) for i in range(batch)]
        bare.append([(row["id"], json.dumps(row).encode()) for row in given])
        n += batch
    return n


def _drive(address, clients, batch, seconds):
    """Rate of clients in a process of their own."""
    words = [*map(str, (*address, clients, batch, seconds))]
    out = subprocess.run(
        [sys.executable, "-m", "benchmarks.http", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    return float(out.stdout)


def drive(host, port, clients, batch, seconds):
    """Send judgements as fast as they are acknowledged; print the rate.

    One thread for all connections, as threads would cost more than the requests.
    """
    batch, seconds, name = int(batch), float(seconds), secrets.token_hex(4)
    waiting = selectors.DefaultSelector()

    def request(client, n):
        rows = [judgement(f"{name}-{client}", n + i) for i in range(batch)]
        body = rows[0] if batch == 1 else {"judgements": rows}
        return post("/v1/default/feedback", body)

    wires = [Wire((host, int(port))) for _ in range(int(clients))]
    start, done = time.perf_counter(), 0
    for client, wire in enumerate(wires):
        waiting.register(wire.socket, selectors.EVENT_READ, [client, 0, wire])
        wire.socket.sendall(request(client, 0))
    while time.perf_counter() < start + seconds:
        for key, _ in waiting.select():
            client, n, wire = key.data
            status, answer = wire.answer()
            assert status == 200, answer
            done += batch
            key.data[1] = n + batch
            wire.socket.sendall(request(client, n + batch))
    print(done / (time.perf_counter() - start))


def idle_connections():
    """10,000 connections that send nothing, and one that asks all the while."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(10_000, hard - 500)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, wanted + 400), hard))
    request = b"GET /livez HTTP/1.1\r\nhost: localhost\r\n\r\n"
    with (
        tempfile.TemporaryDirectory() as folder,
        Serving(folder, "--header-timeout", "60") as served,
    ):
        wire = Wire(served.address)
        before, quiet = served.memory, _latency(wire, request)
        idle = []
        for _ in range(wanted):
            idle.append(socket.create_connection(("127.0.0.1", served.address[1]), 60))
        beside = _latency(wire, request)
        more = (served.memory - before) / wanted
        for connection in idle:
            connection.close()
        time.sleep(2)
        after = _latency(wire, request)
        wire.close()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    table(
        "Idle connections: milliseconds of a request beside them",
        ["connections", "KiB each", "without (median, p99)", "beside", "afterwards"],
        [[wanted, more / 1024, *(f"{m:.2f}, {p:.2f}" for m, p in (quiet, beside, after))]],
    )


def _latency(wire, request, n=1000):
    times = []
    for _ in range(n):
        start = time.perf_counter()
        status, _ = wire.ask(request)
        assert status == 200
        times.append(1000 * (time.perf_counter() - start))
    times.sort()
    return times[n // 2], times[n * 99 // 100]


ALL = (feedback_over_http, idle_connections)

if __name__ == "__main__":
    drive(*sys.argv[1:])
