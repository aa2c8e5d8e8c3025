"""The service over HTTP: acknowledged judgements a second, and connections that do nothing."""

import contextlib
import json
import queue
import resource
import secrets
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from benchmarks.serving import Serving, Wire, in_parallel, post, save_items
from benchmarks.timing import table

CLIENTS = 16
SECONDS = 2.0
ROUNDS = 5
WIDTH = 16


def judgement(client, n, items=1000):
    """A judgement with an id of its own."""
    query, better, worse = (17 * n + client) % items, (31 * n + 7) % items, (13 * n + 3) % items
    return {
        "kind": "triplet",
        "id": f"{client}-{n}-{secrets.token_hex(6)}",
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


def feedback_over_http():
    """Clients with one request at a time each; bare group commit takes turns with HTTP.

    The clients of HTTP are a process of their own, as elsewhere they would be other machines. The
    processor time is that of the service, learning included, and of all threads of the bare form.
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
            "HTTP",
            "share",
            "all rounds",
            "µs bare",
            "µs HTTP",
        ],
        rows,
    )


def _compared(folder, clients, batch):
    """Rates of the round with the middle share, all shares, and processor time a judgement."""
    folder.mkdir()
    flags = ("--log-level", "warning", "--max-requests", "1000")
    rounds, times = [], ([], [])
    with Serving(folder / "store", *flags) as served:
        _put_items(served, folder.parent / "items.npy")
        bare = Bare(folder / "bare.sqlite")
        _drive(served.address, clients, batch, 1.0)
        for _ in range(ROUNDS):
            start = time.process_time()
            plain = in_parallel(clients, lambda i, stop: _append(bare, i, stop, batch), SECONDS)
            times[0].append((time.process_time() - start) / (plain * SECONDS))
            start = served.processor
            rate = _drive(served.address, clients, batch, SECONDS)
            times[1].append((served.processor - start) / (rate * SECONDS))
            rounds.append((rate / plain, plain, rate))
        bare.close()
    rounds.sort()
    share, plain, rate = rounds[ROUNDS // 2]
    spread = f"{rounds[0][0]:.0%} to {rounds[-1][0]:.0%}"
    return plain, rate, f"{share:.0%}", spread, *(1e6 * sorted(t)[ROUNDS // 2] for t in times)


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
    n = 0
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
    """Send prepared judgements as fast as they are acknowledged; print the rate."""

    def work(client, stop):
        wire, n = Wire((host, int(port))), 0
        while not stop.is_set():
            rows = [judgement(client, n + i) for i in range(int(batch))]
            body = rows[0] if len(rows) == 1 else {"judgements": rows}
            status, answer = wire.ask(post("/v1/default/feedback", body))
            assert status == 200, answer
            n += len(rows)
        wire.close()
        return n

    print(in_parallel(int(clients), work, float(seconds)))


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
