"""A plain ranking beside other calls: what one caller feels while others ask for much.

A service in a process of its own has learnt many judgements. One client ranks, one request at a
time, alone and beside eight other callers by turns; these are another process, each has a key of
its own, and asks for one kind of thing as fast as it is answered. Some have no key at all. On a
machine with other work, latency says how busy that is; the processor time that the service takes
from a question to its answer, for whomever, does not depend on it.

``python -m benchmarks.beside [kind …]`` measures some kinds only.
"""

import contextlib
import json
import random
import re
import selectors
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.serving import Serving, Wire
from benchmarks.timing import table

JUDGEMENTS, ITEMS, QUERIES, WIDTH = 60_000, 5_000, 500, 64
CALLERS = 8
#: seconds of each turn, alone and beside, and turns of each kind
TURN, TURNS = 1.0, 6
#: callers of the kinds that are about connections
CONNECTIONS, SLOW_READERS = 500, 60


def request(method, path, key, body=None, length=None):
    content = (
        body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    )
    given = {"content-type": "application/json", "content-length": length or len(content)}
    given |= {"authorization": f"Bearer {key}"} if key else {}
    lines = [f"{method} {path} HTTP/1.1", "host: x", *(f"{k}: {v}" for k, v in given.items())]
    return "\r\n".join([*lines, "", ""]).encode() + content


def on(method, path, body=None):
    """Requests of one kind: `body` is made anew for each."""
    return lambda key, answer: request(
        method, f"/v1/default/{path}", key, body() if callable(body) else body
    )


def _query():
    return {"item": f"i{random.randrange(QUERIES)}"}


def _triplet():
    better, worse = random.sample(range(ITEMS), 2)
    names = {"better": f"i{better}", "worse": f"i{worse}"}
    return {"kind": "triplet", "id": f"{random.getrandbits(60):x}", "query": _query(), **names}


@cache
def _drafts(make):
    """Bodies that are written before they are needed, so that callers cost little."""
    return [json.dumps(make()).encode() for _ in range(8)]


def _batch():
    """1,000 judgements with new ids."""
    draft = random.choice(_drafts(_judgements))
    return draft.replace(b'"id": "', b'"id": "%x-' % random.getrandbits(60))


def _judgements():
    return {"judgements": [_triplet() for _ in range(1000)]}


def _items():
    rows = np.random.default_rng(random.getrandbits(60)).normal(size=(200, WIDTH)).round(4).tolist()
    return {"items": [{"id": f"new{i}", "vectors": {"vectors": r}} for i, r in enumerate(rows)]}


def _waiting(key, answer):
    """A judgement; after its answer, a ranking that waits until it is learnt."""
    seq = re.search(rb'"results":\[\{"id":"[^"]*","seq":(\d+)', answer)
    if seq is None:
        return KINDS["one judgement"](key, answer)
    return request("POST", "/v1/default/rank", key, {"query": _query(), "min_seq": int(seq[1])})


def _in_bytes(key):
    """A body in chunks of a byte."""
    head = request("POST", "/v1/default/rank", key).replace(
        b"content-length: 0", b"transfer-encoding: chunked"
    )
    body = json.dumps({"query": _query(), "k": 10}).encode().ljust(40_000)
    return head + b"".join(b"1\r\n%c\r\n" % each for each in body) + b"0\r\n\r\n"


#: what the callers send, by kind: a request, from a key and the answer before
KINDS = {
    "1,000 vectors": on(
        "POST", "query-vectors", lambda: {"queries": [_query() for _ in range(1000)]}
    ),
    "rank 1,000, explained": on(
        "POST", "rank", lambda: {"query": _query(), "k": 1000, "explain": True}
    ),
    "questions": on("GET", "judging/questions"),
    "next": on("GET", "next?n=100"),
    "list of 1,000": on("GET", "feedback?limit=1000"),
    "list of a judge": on("GET", "feedback?limit=1000&judge=nobody"),
    "status": on("GET", "status"),
    "history": on("GET", "history?at=2100-01-01T00:00:00Z"),
    "evaluate": on("GET", "evaluate"),
    "progress": on("GET", "judging/progress"),
    "promote": on("POST", "promote"),
    "metrics": lambda key, answer: request("GET", "/metrics", key),
    "pages, no key": lambda key, answer: 32 * request("GET", "/", None),
    "signs of life, no key": lambda key, answer: 32 * request("GET", "/livez", None),
    "wrong method, no key": lambda key, answer: 32 * request("PATCH", "/livez", None),
    "body in bytes, no key": lambda key, answer: _in_bytes(None),
    "body in bytes": lambda key, answer: _in_bytes(key),
    "no key": lambda key, answer: request("POST", "/v1/default/feedback", None, _triplet()),
    "wrong key": lambda key, answer: request("POST", "/v1/default/feedback", key + "x", _triplet()),
    "one judgement": on("POST", "feedback", _triplet),
    "judgement, then rank that waits for it": _waiting,
    "1,000 judgements": on("POST", "feedback", _batch),
    "200 items": on("POST", "items", lambda: random.choice(_drafts(_items))),
}
#: callers that only hold connections: how many there are, and what each sends
HOLDERS = {
    f"{CONNECTIONS} connections, no key": (
        CONNECTIONS,
        lambda key, answer: request("POST", "/v1/default/feedback", None, length=9000) + b"{",
    ),
    f"{SLOW_READERS} slow readers": (SLOW_READERS, KINDS["list of 1,000"]),
    "half-sent bodies": (
        CALLERS,
        lambda key, answer: (
            request("POST", "/v1/default/feedback", key, length=8_000_000) + 7_999_999 * b" "
        ),
    ),
}
ANSWER = re.compile(rb"HTTP/1\.1 (\d+)")


def prepare(folder):
    """Write a log of judgements, and keys: of all tenants, one more than there are callers."""
    from similia.service.http.keys import Keys
    from similia.service.log.records import Item, Query, Triplet
    from similia.service.tenants.tenants import Tenants

    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(ITEMS, WIDTH)).astype(np.float32)
    tenants = Tenants(folder)
    tenant = tenants.get_or_create("default")
    for start in range(0, ITEMS, 1000):
        rows = enumerate(vectors[start : start + 1000].tolist(), start)
        tenant.put_items([Item(id=f"i{i}", vectors={"vectors": v}) for i, v in rows])
    for start in range(0, JUDGEMENTS, 1000):
        pairs = rng.permuted(np.tile(np.arange(ITEMS), (1000, 1)), axis=1)[:, :2].tolist()
        tenant.feedback(
            [
                Triplet(
                    id=f"{start + n}",
                    judge=f"judge{n % 20}",
                    query=Query(item=f"i{rng.integers(QUERIES)}"),
                    better=f"i{better}",
                    worse=f"i{worse}",
                )
                for n, (better, worse) in enumerate(pairs)
            ]
        )
    tenants.close()
    keys = Keys(Path(folder) / "keys.json")
    return [keys.add("*", ("admin",))[1] for _ in range(CALLERS + 1)]


def rankings(served, wire, key, seconds):
    """Milliseconds, and those of the service's processor time, of plain rankings; and statuses."""
    found, end = [], time.perf_counter() + seconds
    while (start := time.perf_counter()) < end:
        asked = request("POST", "/v1/default/rank", key, {"query": _query(), "k": 10})
        used = served.used
        start = time.perf_counter()
        status, _ = wire.ask(asked)
        took = time.perf_counter() - start
        found.append((1000 * took, 1000 * (served.used - used), status))
    return found


def beside(names=()):
    """p99 of a plain ranking beside callers of each kind, divided by that alone."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        key, *others = prepare(folder)
        with Serving(folder) as served:
            _learnt(served, key)
            for name in names or (*HOLDERS, *KINDS):
                rows.append([name, *_compared(served, key, others, name)])
                print(*rows[-1], sep=" | ", file=sys.stderr, flush=True)
    header = ["beside", "ms alone: median, p99", "beside", "p99 / alone"]
    header += ["processor ms alone: median, p99", "beside", "p99 / alone"]
    table(
        f"A plain ranking, {JUDGEMENTS:,} judgements, {CALLERS} other callers",
        [*header, "refused", "answers to the others"],
        rows,
    )


def _compared(served, key, others, name):
    alone, together, told = [], [], Counter()
    wire = Wire(served.address)
    words = [*map(str, served.address), name, *others]
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.beside", "--call", *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as callers:
        for _ in range(TURNS):
            alone += rankings(served, wire, key, TURN)
            print("go", file=callers.stdin, flush=True)
            time.sleep(0.1)
            together += rankings(served, wire, key, TURN)
            print("stop", file=callers.stdin, flush=True)
            told.update(json.loads(callers.stdout.readline()))
            _learnt(served, key)
        callers.stdin.close()
    wire.close()
    row = []
    for which in (0, 1):  # by the clock, then by the processor
        before, after = ([each[which] for each in found] for found in (alone, together))
        row += [
            _middle(before),
            _middle(after),
            np.quantile(after, 0.99) / np.quantile(before, 0.99),
        ]
    refused = sum(status != 200 for *_, status in together)
    return *row, refused, " ".join(f"{n} x {status}" for status, n in sorted(told.items()))


def _middle(times):
    return "{:.2f}, {:.2f}".format(*np.quantile(times, [0.5, 0.99]))


def _learnt(served, key):
    """Wait until nothing is left to learn or to do, so that turns do not disturb each other."""
    wire = Wire(served.address)
    while True:
        status = json.loads(wire.ask(request("GET", "/v1/default/status", key))[1])
        before = served.processor
        time.sleep(0.3)
        if not status.get("replaying") and served.processor - before < 0.05:
            break
    wire.close()


# -- the callers, in a process of their own --------------------------------------------------------


class Callers:
    """Callers of one kind, all in this thread."""

    def __init__(self, address, name, keys):
        self.address, self.keys = address, keys
        self.holds = name in HOLDERS
        self.number, self.make = HOLDERS[name] if self.holds else (CALLERS, KINDS[name])
        self.waiting = selectors.DefaultSelector()
        self.told = Counter()
        self.make(keys[0], b"")  # whatever is drafted is drafted now

    def go(self):
        """Connect, and ask for the first time."""
        self.wires = [self.connected(self.keys[n % len(self.keys)]) for n in range(self.number)]

    def connected(self, key, data=None):
        wire = socket.socket()
        if self.holds:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.settimeout(60)
        wire.connect(self.address)
        if not self.holds:
            self.waiting.register(wire, selectors.EVENT_READ, [key, b""])
        self.ask(wire, key, b"")
        return wire

    def ask(self, wire, key, answer):
        with contextlib.suppress(OSError):  # closed: that is seen when it is read
            wire.sendall(self.make(key, answer))

    def answered(self, ready):
        """Take what has come; once an answer is whole, or the connection is closed, ask again."""
        wire, (key, before) = ready.fileobj, ready.data
        try:
            part = wire.recv(1 << 20)
        except OSError:
            part = b""
        found = ready.data[1] = before + part
        if part and not _is_whole(found):
            return
        self.told.update(status.decode() for status in ANSWER.findall(found))
        ready.data[1] = b""
        if part and b"connection: close" not in found:
            self.ask(wire, key, found)
            return
        self.told["closed"] += 1
        self.waiting.unregister(wire)
        wire.close()
        self.wires.append(self.connected(key))

    def stop(self):
        """Close all connections; how often each status was answered."""
        for wire in self.wires:
            wire.close()
        told, self.told = dict(self.told), Counter()
        self.waiting.close()
        self.waiting = selectors.DefaultSelector()
        return told


def call(host, port, name, *keys):
    """Ask from a line that says "go" to one that says "stop", then print what was answered."""
    callers = Callers((host, int(port)), name, keys)
    for line in sys.stdin:
        assert line == "go\n"
        callers.go()
        callers.waiting.register(sys.stdin, selectors.EVENT_READ)
        while True:
            found = [key for key, _ in callers.waiting.select()]
            if any(key.fileobj is sys.stdin for key in found):
                break
            for key in found:
                callers.answered(key)
        assert sys.stdin.readline() == "stop\n"
        print(json.dumps(callers.stop()), flush=True)


def _is_whole(answers):
    """Whether the last of some answers has come to its end."""
    head, _, body = answers[answers.rfind(b"HTTP/1.1 ") :].partition(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head)
    if length is None:
        return answers.endswith(b"0\r\n\r\n")
    return len(body) >= int(length[1])


ALL = (beside,)

if __name__ == "__main__":
    if sys.argv[1:2] == ["--call"]:
        call(*sys.argv[2:])
    else:
        beside(sys.argv[1:])
