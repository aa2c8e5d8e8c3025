"""Kill processes on one database, and the database, at random moments, and see what is left.

One process writes, one stands by, two follow. Clients send each judgement to any of them until one
acknowledges it, and then ask any of them for a ranking that knows it. Killed processes start again.
In the end all acknowledged rows must be there once, with their numbers, no ranking may have been
older than asked, and all processes must rank alike, by the bits that a fold of the whole log has.

    python -m tests.service.kills_of_followers 50 [seed]
"""

import json
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path

import httpx

from similia.service.engine import fold, snapshots
from similia.service.http.app import Service
from similia.service.http.server import Server, listen
from similia.service.log.opening import Access
from similia.service.settings import Settings
from similia.service.tenants.tenant import Tenant
from tests.service.kills import forked, warm_up
from tests.service.problems import bits, folded, item, learner, query
from tests.service.servers import Server as Database

ROLES = ("writer", "stand-by", "follower 1", "follower 2")
#: how often the database is stopped instead of a process
DATABASE_SHARE = 0.15
CLIENTS = 4
#: seconds in which any request must succeed at last
PATIENCE = 120.0
TENANT = "default"


def free_ports(n):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def serve(url, folder, role, port):
    settings = Settings(
        store=url,
        cache=str(folder / role),
        keys=str(folder / "keys.json"),
        port=port,
        follow=role.startswith("follower"),
        rate=0.0,
        warm_up="never",
        log_level="error",
    )
    Server(Service(settings), listen("127.0.0.1", port)).run()


class Clients:
    """Threads that send and ask until told to stop; each acknowledgement goes through a pipe."""

    def __init__(self, ports, pipe, number):
        self.ports, self.pipe, self.number = ports, pipe, number
        self.stopped = threading.Event()

    def run(self):
        signal.signal(signal.SIGTERM, lambda *_: self.stopped.set())
        threads = [threading.Thread(target=self.client, args=(own,)) for own in range(CLIENTS)]
        for thread in threads:
            thread.start()
        while not self.stopped.is_set():
            time.sleep(0.05)
        for thread in threads:
            thread.join()

    def client(self, own):
        try:
            rng = random.Random(1000 * self.number + own)
            with httpx.Client(timeout=10, limits=httpx.Limits(max_keepalive_connections=0)) as http:
                number = 0
                while not self.stopped.is_set():
                    number += 1
                    self.turn(http, rng, f"{self.number}-{own}-{number}")
        except BaseException as error:
            sys.stderr.write(f"client: {type(error).__name__}: {error}\n")
            sys.stderr.flush()
            os._exit(1)

    def turn(self, http, rng, id):
        better, worse = rng.sample(range(30), 2)
        told = {"kind": "triplet", "better": f"i{better}", "worse": f"i{worse}", "id": id}
        told["query"] = {"item": f"i{rng.randrange(30)}"}
        (receipt,) = self.asked(http, rng, "feedback", told)["results"]
        self.tell("stored", id, receipt["seq"])
        asked = {"query": told["query"], "k": 5, "min_seq": receipt["seq"]}
        found = self.asked(http, rng, "rank", asked)
        assert found["seq"] >= receipt["seq"], f"a ranking of row {found['seq']} for {receipt}"
        self.tell("ranked", id, found["seq"])

    def asked(self, http, rng, what, body):
        until, last = time.monotonic() + PATIENCE, ""
        while time.monotonic() < until:
            port = rng.choice(self.ports)
            try:
                answer = http.post(f"http://127.0.0.1:{port}/v1/{TENANT}/{what}", json=body)
            except httpx.TransportError as error:
                last = repr(error)
            else:
                if answer.is_success:
                    return answer.json()
                last = answer.text
                assert answer.status_code == 503, f"{what}: {last}"
            self.tell("again", what, 0)
            time.sleep(0.02)
        raise AssertionError(f"{what} did not succeed: {last}")

    def tell(self, *line):
        os.write(self.pipe, (json.dumps(line) + "\n").encode())


def verify(url, folder, stored):
    """Raise unless everything acknowledged is there, once, and a follower has the right bits."""
    tenant = Tenant.open(url, TENANT, cache=folder / "verify", access=Access(follows=True))
    ids = Counter(row.id for row in tenant.log.rows() if row.id is not None)
    assert set(ids.values()) == {1}, "a judgement is there twice"
    assert tenant.log.check().rows == tenant.log.last
    for id, seq in stored:
        row = tenant.log.row(seq)
        assert row is not None, f"row {seq} ({id}) was acknowledged and is lost"
        assert row.id == id, f"row {seq} was {id} and is {row.id}"
    expected = folded(tenant.log.rows(), tenant.log.retracted())
    assert bits(learner(tenant)) == bits(expected), "the bits differ"
    tenant.close()


class Fleet:
    """The processes, each started again whenever it has ended."""

    def __init__(self, url, folder):
        self.url, self.folder = url, folder
        self.ports = dict(zip(ROLES, free_ports(len(ROLES)), strict=True))
        self.pids = {}

    def start(self):
        """Start what does not run."""
        for role in ROLES:
            pid = self.pids.get(role)
            if pid is not None and os.waitpid(pid, os.WNOHANG) == (0, 0):
                continue
            port = self.ports[role]
            self.pids[role] = forked(lambda: serve(self.url, self.folder, role, port))  # noqa: B023

    def kill(self, role):
        pid = self.pids.pop(role)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    def rankings(self, seq):
        """What each of them ranks now, but for the one that stands by."""
        found = {}
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and len(found) < len(ROLES) - 1:
            self.start()
            for role, port in self.ports.items():
                asked = {"query": {"item": "i0"}, "k": 30, "min_seq": seq}
                try:
                    url = f"http://127.0.0.1:{port}/v1/{TENANT}/rank"
                    answer = httpx.post(url, json=asked, timeout=10)
                except httpx.TransportError:
                    continue
                if answer.is_success:
                    found[role] = answer.json()
            time.sleep(0.1)
        return found


def rounds(folder, n, seed=0):
    """Kill n times; returns what happened, counted."""
    snapshots.BLOCKS_BETWEEN, fold.LISTS_PER_BLOCK = 2, 16  # many snapshots, and many blocks
    warm_up()
    database = Database()
    rng = random.Random(seed)
    try:
        url = database.database("kills")

        def begin():
            tenant = Tenant.create(url, TENANT, cache=folder / "begin")
            first = [item(i) for i in range(30)]
            tenant.learner.wait(tenant.put_items(first).seq, 60)
            assert tenant.rank(query(0)).results
            tenant.close()

        assert os.waitpid(forked(begin), 0)[1] == 0
        fleet = Fleet(url, folder)
        fleet.start()
        reading, writing = os.pipe()
        driver = forked(Clients(list(fleet.ports.values()), writing, seed).run)
        os.close(writing)
        lines = []
        collector = _Collector(reading, lines)
        counts = Counter()
        collector.until(20)
        for _ in range(n):
            before = len(lines)
            collector.sleep(rng.expovariate(1 / 0.3))
            if rng.random() < DATABASE_SHARE:
                database.stop()
                counts["database"] += 1
                collector.sleep(rng.uniform(0, 1))
                database.start()
            else:
                role = rng.choice(ROLES)
                counts[role] += 1
                fleet.kill(role)
            fleet.start()
            collector.until(before + 2, fleet)
        os.kill(driver, signal.SIGTERM)
        status = collector.drain(driver, fleet)
        assert status == 0, "a client failed"
        stored = [(id, seq) for kind, id, seq in lines if kind == "stored"]
        counts.update(kind for kind, *_ in lines)
        found = fleet.rankings(max(seq for _, seq in stored))
        assert len(found) >= len(ROLES) - 1, f"only {sorted(found)} rank"
        assert len({json.dumps(each) for each in found.values()}) == 1, "rankings differ"
        for role in ROLES:
            fleet.kill(role)
        assert os.waitpid(forked(lambda: verify(url, folder, stored)), 0)[1] == 0
        return counts
    finally:
        database.close()


class _Collector:
    """Reads what clients tell, without a thread: threads and forks do not go together."""

    def __init__(self, pipe, lines):
        self.pipe, self.lines = pipe, lines
        self._rest = b""
        os.set_blocking(pipe, False)

    def read(self):
        try:
            found = os.read(self.pipe, 1 << 20)
        except BlockingIOError:
            return
        *whole, self._rest = (self._rest + found).split(b"\n")
        self.lines += [json.loads(line) for line in whole]

    def sleep(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.read()
            time.sleep(0.01)

    def until(self, n, fleet=None):
        """Wait until so many lines are there: it goes on."""
        end = time.monotonic() + PATIENCE
        while sum(line[0] != "again" for line in self.lines) < 1 or len(self.lines) < n:
            assert time.monotonic() < end, "nothing goes on"
            self.sleep(0.05)
            if fleet is not None:
                fleet.start()

    def drain(self, driver, fleet):
        """Read on until the clients have ended; their status."""
        while True:
            pid, status = os.waitpid(driver, os.WNOHANG)
            self.sleep(0.05)
            if pid:
                return status
            fleet.start()


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    with tempfile.TemporaryDirectory() as folder:
        counts = rounds(Path(folder), n, seed)
    told = ", ".join(f"{counts[name]} of the {name}" for name in (*ROLES, "database"))
    sys.stdout.write(
        f"{n} kills ({told}): {counts['stored']} acknowledged, none lost or doubled; "
        f"{counts['ranked']} rankings, none older than asked; same bits; "
        f"{counts['again']} requests sent again\n"
    )


if __name__ == "__main__":
    main()
