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

    def append(self, row):
        done = threading.Lock()
        done.acquire()
        self.waiting.put((row, done))
        done.acquire()

    def _run(self):
        while True:
            group = [self.waiting.get()]
            with contextlib.suppress(queue.Empty):
                while True:
                    group.append(self.waiting.get_nowait())
            rows = [row for row, _ in group if row is not None]
            with self.connection:
                self.connection.executemany("INSERT INTO rows (id, body) VALUES (?, ?)", rows)
            for _, done in group:
                done.release()
            if len(rows) < len(group):
                self.connection.close()
                return

    def close(self):
        self.append(None)
        self.thread.join()


def feedback_over_http():
    """16 clients, each with one judgement at a time; bare group commit takes turns with HTTP.

    The clients of HTTP are a process of their own, as elsewhere they would be other machines.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_items(folder / "items.npy", 1000, WIDTH)
        for clients, batch in ((CLIENTS, 1), (64, 1), (CLIENTS, 32)):
            store = folder / f"store-{clients}-{batch}"
            flags = ("--log-level", "warning", "--max-requests", "1000")
            with Serving(
                store,
                *flags,
            ) as first:
                _put_items(first, folder / "items.npy")
                bare = Bare(folder / f"bare-{clients}-{batch}.sqlite")
                ratios, rates = [], []
                _drive(first.address, clients, batch, 1.0)
                for _ in range(ROUNDS):
                    plain = in_parallel(
                        clients, lambda i, stop, b=bare, k=batch: _append(b, i, stop, k), SECONDS
                    )
                    served = _drive(first.address, clients, batch, SECONDS)
                    ratios.append(served / plain)
                    rates.append((plain, served))
                bare.close()
            middle = sorted(range(ROUNDS), key=ratios.__getitem__)[ROUNDS // 2]
            rows.append(
                [
                    clients,
                    batch,
                    *rates[middle],
                    f"{ratios[middle]:.0%}",
                    f"{min(ratios):.0%} to {max(ratios):.0%}",
                ]
            )
    table(
        "Acknowledged judgements a second, every commit on the disk",
        [
            "clients",
            "judgements a request",
            "bare apsw group commit",
            "HTTP",
            "share",
            "all rounds",
        ],
        rows,
    )


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
        for _ in range(batch):
            row = judgement(client, n)
            bare.append((row["id"], json.dumps(row).encode()))
            n += 1
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
