"""Processes that follow one log: rankings of 1, 2 and 4 of them, and what each request costs."""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from functools import partial
from http.client import HTTPConnection

import numpy as np

from benchmarks.timing import table

#: items, numbers in a vector, and items asked for
N_ITEMS, WIDTH, K = 10_000, 128, 10
#: processes that rank
SIZES = (1, 2, 4)
#: seconds of each turn, and turns, of which the one with the least CPU time counts
TURN, TURNS = 4.0, 3
#: connections to each process, and judgements in one request
CONNECTIONS, BATCH = 2, 100
TICKS = os.sysconf("SC_CLK_TCK")


class Process:
    """A service in a process of its own."""

    def __init__(self, url, folder, *flags):
        words = ["--store", url, "--cache", folder, "--keys", f"{folder}-keys.json", "--port", "0"]
        words += ["--rate", "0", "--log-level", "error", *flags]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "similia.cli.main", "serve", *words],
            stderr=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        line = self.process.stderr.readline()
        while not line.startswith("Listening on "):
            assert line, "the service did not start"
            line = self.process.stderr.readline()
        self.port = int(line.split()[2].rstrip(";").rpartition(":")[2])
        threading.Thread(target=self.process.stderr.read, daemon=True).start()
        while self.status("GET", "/readyz") != 200:
            time.sleep(0.1)

    def status(self, method, path):
        connection = HTTPConnection("127.0.0.1", self.port)
        try:
            connection.request(method, path)
            return connection.getresponse().status
        except ConnectionRefusedError:
            assert self.process.poll() is None, "the service ended"
            return 0
        finally:
            connection.close()

    def seconds(self):
        """CPU seconds so far."""
        with open(f"/proc/{self.process.pid}/stat", encoding="ascii") as file:
            found = file.read().rpartition(")")[2].split()
        return (int(found[11]) + int(found[12])) / TICKS

    def stop(self):
        self.process.terminate()
        self.process.wait()


def post(connection, path, body):
    headers = {"content-type": "application/json"}
    connection.request("POST", path, json.dumps(body), headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    assert answer.status == 200, found
    return found


def asked(processes, body, path="/v1/default/rank", seconds=TURN, clients=CONNECTIONS):
    """Requests answered in some seconds by all processes, from threads here."""
    stop = time.perf_counter() + seconds
    counts = []

    def client(port, own):
        connection, n = HTTPConnection("127.0.0.1", port), 0
        while time.perf_counter() < stop:
            post(connection, path, body(own, n))
            n += 1
        counts.append(n)

    threads = [
        threading.Thread(target=client, args=(process.port, (place, number)))
        for place, process in enumerate(processes)
        for number in range(clients)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts)


def judgements(rng, name, n):
    told = []
    for number in range(n):
        better, worse = rng.choice(N_ITEMS, 2, replace=False)
        query = {"item": str(rng.integers(N_ITEMS))}
        told.append({"kind": "triplet", "query": query, "better": str(better), "worse": str(worse)})
        told[-1]["id"] = f"{name}-{number}"
    return {"judgements": told}


def batch(size, name, own, n):
    return judgements(np.random.default_rng([size, *own, n]), f"{name} {own} {n}", size)


def followers():
    """Rankings of 1, 2 and 4 processes on one log, by the clock and by their CPU time."""
    from tests.service.servers import Server

    database = Server()
    processes = []
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        try:
            np.save(f"{folder}/items.npy", rng.normal(size=(N_ITEMS, WIDTH)).astype(np.float32))
            url = database.database("followers")
            writer = Process(url, f"{folder}/0", f"{folder}/items.npy")
            processes.append(writer)
            vectors = rng.normal(size=(64, WIDTH)).round(3).tolist()
            first = HTTPConnection("127.0.0.1", writer.port)
            seq = post(first, "/v1/default/feedback", judgements(rng, "first", 500))["results"][-1]
            _rankings(processes, url, folder, vectors, seq["seq"])
            _feedback(processes, rng)
        finally:
            for process in processes:
                process.stop()
            database.close()


def _rankings(processes, url, folder, vectors, seq):
    rows = []

    def rank(own, n):
        query = {"vectors": {"vectors": vectors[n % len(vectors)]}}
        return {"query": query, "k": K, "min_seq": seq}

    while len(processes) < SIZES[-1]:
        processes.append(Process(url, f"{folder}/{len(processes)}", "--follow"))
    asked(processes, rank, seconds=1.0)
    best = {}
    for _ in range(TURNS):
        for n in SIZES:
            before = sum(process.seconds() for process in processes[:n])
            start = time.perf_counter()
            count = asked(processes[:n], rank)
            rate = count / (time.perf_counter() - start)
            cpu = (sum(process.seconds() for process in processes[:n]) - before) / count
            best[n] = min(best.get(n, (cpu, rate)), (cpu, rate))
    for n, (cpu, rate) in best.items():
        rows.append([n, f"{rate:.0f}", f"{1000 * cpu:.2f}", f"{n / cpu:.0f}"])
    names = ["processes", "rankings/s here", "CPU ms a ranking", "rankings/s, a core for each"]
    table(f"{N_ITEMS} items of {WIDTH} numbers, the {K} best", names, rows)


def _feedback(processes, rng):
    """CPU time of judgements, in the process that writes and in those that follow."""
    writer, follower = processes[:2]
    rows = []
    for where, process in (("the writer", writer), ("a follower", follower)):
        for size, told in ((1, "one"), (BATCH, str(BATCH))):
            settled(processes)
            before = [each.seconds() for each in processes]
            judged = partial(batch, size, f"{where} {size}")
            count = size * asked([process], judged, "/v1/default/feedback", clients=4)
            settled(processes)
            after = [each.seconds() for each in processes]
            spent = [1e6 * (b - a) / count for a, b in zip(before, after, strict=True)]
            rows.append(
                [where, told, count, *(f"{s:.0f}" for s in spent[:2]), f"{np.mean(spent[2:]):.0f}"]
            )
    names = ["sent to", "in a request", "judgements", "CPU µs: writer", "that follower", "another"]
    table("Judgements", names, rows)


def settled(processes):
    """Wait until all have learnt all."""
    while True:
        found = []
        for process in processes:
            connection = HTTPConnection("127.0.0.1", process.port)
            connection.request("GET", "/v1/default/status")
            found.append(json.loads(connection.getresponse().read()))
        last = max(status["seq"] for status in found)
        if all(status["learnt_seq"] == last for status in found):
            return
        time.sleep(0.1)


ALL = (followers,)
