"""The service over HTTP: acknowledged judgements a second, and connections that do nothing."""

import asyncio
import contextlib
import json
import os
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
ROUNDS = 7
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
    if await _is_life(scope, receive, send):
        return
    await _body(receive)
    await _answer(send)


class Plain:
    """The least that keeps a promise: a body is on the disk before the answer."""

    def __init__(self):
        self.bare = None

    async def __call__(self, scope, receive, send):
        if await _is_life(scope, receive, send):
            return
        if self.bare is None:
            self.bare = Bare(os.environ["BARE"])
        loop, body = asyncio.get_running_loop(), await _body(receive)
        done = _Done(loop)
        # A batch is so many rows here, too; their bodies are not looked for.
        n = int(dict(scope["headers"])[b"x-rows"])
        start = body.index(b'"id":"') + 6
        key = body[start : start + LONG].decode()
        self.bare.waiting.put(([(f"{key}-{i}", body[i::n]) for i in range(n)], done))
        await done.future
        await _answer(send)


plain = Plain()


class _Done:
    """A lock to the thread that writes, a future to the loop."""

    def __init__(self, loop):
        self.loop, self.future = loop, loop.create_future()

    def release(self):
        self.loop.call_soon_threadsafe(self.future.set_result, None)


async def _is_life(scope, receive, send):
    if scope["type"] != "lifespan":
        return False
    for word in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{word}.complete"})
    return True


async def _body(receive):
    parts = []
    while True:
        message = await receive()
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


async def _answer(send):
    headers = [(b"content-type", b"application/json"), (b"content-length", b"14")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b'{"results":[]}'})


class Limit:
    """uvicorn with httptools and uvloop, serving one of the least applications."""

    def __init__(self, application, path):
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = free.getsockname()
        words = ["-m", "uvicorn", f"benchmarks.http:{application}", "--port", str(self.address[1])]
        words += ["--log-level", "error", "--no-access-log"]
        environment = {**os.environ, "BARE": str(path)}
        self.process = subprocess.Popen(
            [sys.executable, *words], stdout=subprocess.DEVNULL, env=environment
        )
        end = time.monotonic() + 60
        while True:
            try:
                Wire(self.address).close()
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.1)

    @property
    def processor(self):
        return processor_of(self.process.pid)

    def close(self):
        self.process.kill()
        self.process.wait(60)


def feedback_over_http():
    """Clients with one request at a time each; the least that could do it takes turns with it.

    Clients of HTTP are one lean process for all connections, as elsewhere they would be other
    machines, but they share the processors with the service. Its processor time includes
    learning; that of the bare commit is of all its threads, clients included. Before the others
    have their turn the service has learnt all that it took.
    """
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        save_items(folder / "items.npy", 1000, WIDTH)
        for clients, batch in ((CLIENTS, 1), (CLIENTS, 10), (CLIENTS, 100)):
            rows.append([clients, batch, *_compared(folder / f"{clients}-{batch}", clients, batch)])
    header = ["clients", "judgements a request", "bare apsw", "service", "service / bare"]
    header += ["all rounds", "learnt in the end", "bare apsw over HTTP", "HTTP alone"]
    header += ["µs bare", "µs service", "µs bare over HTTP", "µs HTTP", "service / bare over HTTP"]
    table("Acknowledged judgements a second, every commit on the disk", header, rows)


def _compared(folder, clients, batch):
    """Medians over rounds: rates, the share of the bare commit, processor time a judgement."""
    folder.mkdir()
    flags = ("--max-requests", "1000")  # a line of the log for each request, as by default
    rounds, times, learnt = [], [], []
    with Serving(folder / "store", *flags) as served:
        _put_items(served, folder.parent / "items.npy")
        bare = Bare(folder / "bare.sqlite")
        limits = [Limit("plain", folder / "plain.sqlite"), Limit("nothing", "")]
        for each in (served, *limits):
            _drive(each.address, clients, batch, 0.5)
        _wait_for_learning(served)
        for _ in range(ROUNDS):
            start = time.process_time()
            rates = [in_parallel(clients, lambda i, stop: _append(bare, i, stop, batch), SECONDS)]
            used = [(time.process_time() - start) / (rates[0] * SECONDS)]
            for each in (served, *limits):
                start, began = each.processor, time.perf_counter()
                rates.append(_drive(each.address, clients, batch, SECONDS))
                if each is served:
                    seconds = time.perf_counter() - began + _wait_for_learning(served)
                    learnt.append(rates[-1] * SECONDS / seconds)
                used.append((each.processor - start) / (rates[-1] * SECONDS))
            rounds.append((rates[1] / rates[0], *rates))
            times.append(used)
        bare.close()
        for each in limits:
            each.close()
    shares, *rates = (sorted(column) for column in zip(*rounds, strict=True))
    plain, rate, stored, most = (column[ROUNDS // 2] for column in rates)
    spread = f"{shares[0]:.0%} to {shares[-1]:.0%}"
    middle = [1e6 * sorted(column)[ROUNDS // 2] for column in zip(*times, strict=True)]
    share = f"{shares[ROUNDS // 2]:.0%}"
    # What could be reached: the service against the least that stores over HTTP, in each round.
    near = sorted(served / least for _, _, served, least, _ in rounds)[ROUNDS // 2]
    found = plain, rate, share, spread, sorted(learnt)[ROUNDS // 2], stored, most, *middle
    return *found, f"{near:.0%}"


def _wait_for_learning(serving):
    """Seconds until everything is learnt."""
    wire, start = Wire(serving.address), time.perf_counter()
    status, body = wire.ask(b"GET /v1/default/status HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert status == 200, body
    asked = {"query": {"item": "0"}, "k": 1, "min_seq": json.loads(body)["seq"]}
    while wire.ask(post("/v1/default/rank", asked))[0] != 200:
        pass
    wire.close()
    return time.perf_counter() - start


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


#: a judgement of always the same length, where its id is, and how long that is
FORM = '{"kind":"triplet","id":"%s-%02d-%08d","query":{"item":"%d"},"better":"%d","worse":"%d"}'
ID, LONG = FORM.index("%s"), 24


def written(name, client, n):
    """A judgement as bytes, with little work; `name` has twelve letters."""
    places = 100 + 17 * n % 900, 100 + 31 * n % 450, 550 + 13 * n % 450
    return (FORM % (name, client, n, *places)).encode()


def _append(bare, client, stop, batch):
    n, name = 0, secrets.token_hex(6)
    while not stop.is_set():
        given = [written(name, client, n + i) for i in range(batch)]
        bare.append([(row[ID : ID + LONG].decode(), row) for row in given])
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
    batch, seconds, name = int(batch), float(seconds), secrets.token_hex(6)
    waiting = selectors.DefaultSelector()
    head = f"POST /v1/default/feedback HTTP/1.1\r\nhost: {host}:{port}\r\nx-rows: {batch}\r\n"
    head = f"{head}content-type: application/json\r\ncontent-length: ".encode()

    def request(client, n):
        body = b",".join([written(name, client, n + i) for i in range(batch)])
        body = body if batch == 1 else b'{"judgements":[%s]}' % body
        return b"%s%d\r\n\r\n%s" % (head, len(body), body)

    for client in range(int(clients)):
        wire = socket.create_connection((host, int(port)), 60)
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        waiting.register(wire, selectors.EVENT_READ, [client, 0, b""])
        wire.sendall(request(client, 0))
    start, done = time.perf_counter(), 0
    while time.perf_counter() < start + seconds:
        for key, _ in waiting.select():
            data = key.data
            data[2] += key.fileobj.recv(1_000_000)
            if not data[2].endswith(b"]}"):
                continue
            assert data[2][9:12] == b"200", data[2]
            done += batch
            data[1] += batch
            data[2] = b""
            key.fileobj.sendall(request(data[0], data[1]))
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
