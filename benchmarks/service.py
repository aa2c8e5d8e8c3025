"""The service below HTTP: acknowledged feedback, ranking under load, replay."""

import queue
import tempfile
import threading
import time
from pathlib import Path

import apsw
import numpy as np

from benchmarks.timing import seconds, table
from similia import Blend, Impressions, Views
from similia.index import build_index
from similia.service.engine.fold import Fold
from similia.service.engine.learner import lower_switch_interval
from similia.service.log.records import (
    Configured,
    Grades,
    Item,
    Put,
    Query,
    TenantSettings,
    Triplet,
    View,
    encoded,
)
from similia.service.log.rows import Entry
from similia.service.log.sqlite import sqlite_log
from similia.service.tenants.checks import judged_entry
from similia.service.tenants.tenant import Tenant

CLIENTS = 16
#: seconds of each turn, and turns
TURN, TURNS = 0.5, 7


def triplets(n, width, n_items, n_queries, seed=0):
    rng = np.random.default_rng(seed)
    queries = rng.normal(size=(n_queries, width)).astype(np.float32)
    asked = rng.integers(n_queries, size=n)
    for i in range(n):
        better, worse = rng.choice(n_items, 2, replace=False)
        query = Query(vectors={"vectors": queries[asked[i]]})
        yield Triplet(query=query, better=f"i{better}", worse=f"i{worse}", id=f"{seed}-{i}")


def put(tenant, n, width):
    vectors = np.random.default_rng(9).normal(size=(n, width)).astype(np.float32)
    for start in range(0, n, 1000):
        part = [
            Item(id=f"i{i}", vectors={"vectors": vectors[i]})
            for i in range(start, min(n, start + 1000))
        ]
        last = tenant.put_items(part).seq
    tenant.learner.wait(last, 600)
    return vectors


# -- acknowledged feedback -------------------------------------------------------------------------


class Bare:
    """The least that commits in groups: a queue, a thread, one table."""

    def __init__(self, folder):
        self.connection = apsw.Connection(str(folder / "bare.sqlite"))
        self.connection.pragma("journal_mode", "wal")
        self.connection.pragma("synchronous", "full")
        self.connection.execute("CREATE TABLE rows (seq INTEGER PRIMARY KEY, id UNIQUE, body BLOB)")
        self.waiting = queue.SimpleQueue()
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def append(self, id, body):
        done = threading.Lock()
        done.acquire()
        self.waiting.put((id, body, done))
        done.acquire()

    def run(self):
        while True:
            group = [self.waiting.get()]
            while not self.waiting.empty():
                group.append(self.waiting.get())
            with self.connection:
                self.connection.executemany(
                    "INSERT INTO rows (id, body) VALUES (?, ?)", [g[:2] for g in group]
                )
            for _, _, done in group:
                done.release()


def rate(send, supply, seconds=TURN):
    """Acknowledgements a second with so many clients."""
    stop, counts = time.perf_counter() + seconds, [0] * CLIENTS

    def client(own):
        while time.perf_counter() < stop:
            send(next(supply[own]))
            counts[own] += 1

    threads = [threading.Thread(target=client, args=(own,)) for own in range(CLIENTS)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - start)


def acknowledged_feedback():
    """Feedback of 16 clients, each waiting for the disk, against bare group commit."""
    lower_switch_interval()
    rows = []
    for width in (16, 384):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            tenant = Tenant.create(folder, "acme")
            put(tenant, 1000, width)
            bare, log = Bare(folder), sqlite_log(folder / "log")
            given = [list(triplets(6000, width, 1000, 500, seed)) for seed in range(CLIENTS)]
            senders = senders_of(tenant, log, bare, given)
            found = {kind: [] for kind in senders}
            for _ in range(TURNS):
                for kind, (send, supply) in senders.items():
                    found[kind].append(rate(send, supply))
                    tenant.learner.wait(tenant.log.last, 600)
            medians = {kind: float(np.median(values)) for kind, values in found.items()}
            rows.append(
                [
                    width,
                    medians["bare"],
                    medians["log"],
                    medians["service"],
                    medians["log"] / medians["bare"],
                    medians["service"] / medians["bare"],
                ]
            )
            log.close()
            tenant.close()
    header = ["features", "bare /s", "log /s", "service /s", "log / bare", "service / bare"]
    table(f"Acknowledged feedback, {CLIENTS} clients, one judgement at a time", header, rows)


def senders_of(tenant, log, bare, given):
    """How each contender is sent a judgement, and what each client sends it."""
    ready = [[judged_entry(told) for told in own] for own in given]
    return {
        "service": (lambda told: tenant.feedback([told]), [iter(own) for own in given]),
        "log": (lambda entry: log.append([entry]), [iter(own) for own in ready]),
        "bare": (lambda entry: bare.append(entry.id, entry.body), [iter(own) for own in ready]),
    }


# -- ranking while judgements arrive ---------------------------------------------------------------


def latencies(search, n):
    found = []
    for i in range(n):
        start = time.perf_counter()
        search(i)
        found.append(time.perf_counter() - start)
    return 1e3 * np.percentile(found, [50, 99])


def ranking_under_load(n_searches=400, per_second=500):
    """p99 of `rank` while judgements arrive, against an idle library call."""
    lower_switch_interval()
    rows, width = [], 384
    for n in (10_000, 30_000, 100_000):
        with tempfile.TemporaryDirectory() as name:
            tenant = Tenant.create(name, "acme")
            vectors = put(tenant, n, width)
            told = list(triplets(60_000, width, n, 2000))
            tenant.feedback(told[:200])
            tenant.learner.wait(tenant.log.last, 600)
            model = tenant.learner.live.learner
            index = build_index(Views(vectors=vectors), model)
            queries = np.random.default_rng(5).normal(size=(n_searches, width)).astype(np.float32)
            asked = [Query(vectors={"vectors": q}) for q in queries]

            def library(i):
                index.search(queries[i : i + 1], 10, model=model)  # noqa: B023

            def service(i):
                tenant.rank(asked[i], 10)  # noqa: B023

            latencies(library, 20), latencies(service, 20)
            idle = latencies(library, n_searches)
            quiet = latencies(service, n_searches)
            stop, sent = threading.Event(), [0]

            def feed(own, told=told, stop=stop, sent=sent, tenant=tenant):
                start, i = time.perf_counter(), 200 + own
                while not stop.is_set() and i < len(told):
                    tenant.feedback([told[i]])
                    i += 8
                    sent[0] += 1
                    due = start + (i - 200 - own) / per_second
                    time.sleep(max(0.0, due - time.perf_counter()))

            feeders = [threading.Thread(target=feed, args=(own,)) for own in range(8)]
            begin = time.perf_counter()
            for thread in feeders:
                thread.start()
            loaded = latencies(service, n_searches)
            arrived = sent[0] / (time.perf_counter() - begin)
            behind = tenant.log.last - tenant.learner.live.seq
            stop.set()
            for thread in feeders:
                thread.join()
            ratio = loaded[1] / idle[1]
            rows.append([n, *idle, *quiet, *loaded, f"{arrived:.0f}", behind, ratio])
            tenant.close()
    header = ["items", "library p50 ms", "p99", "rank p50 ms", "p99", "under load p50 ms", "p99"]
    header += ["judgements /s", "rows behind", "p99 / library's"]
    table(f"rank of {width} features while judgements arrive", header, rows)


# -- replay ----------------------------------------------------------------------------------------


def judged(n, width, n_items, n_queries, shown):
    """Judgements as structs, and the same as lists for the library; the first item is best."""
    rng = np.random.default_rng(0)
    queries = rng.normal(size=(n_queries, width)).astype(np.float32)
    asked = rng.integers(n_queries, size=n)
    items = np.array([rng.choice(n_items, shown, replace=False) for _ in range(n)])
    told = []
    for i, row in enumerate(items.tolist()):
        query = Query(vectors={"vectors": queries[asked[i]]})
        if shown == 2:
            told.append(Triplet(query=query, better=f"i{row[0]}", worse=f"i{row[1]}", id=str(i)))
        else:
            grades = {f"i{item}": float(place == 0) for place, item in enumerate(row)}
            told.append(Grades(query=query, grades=grades, id=str(i)))
    rows, gains = np.repeat(np.arange(n), shown), np.zeros((n, shown))
    gains[:, 0] = 1
    options = {"impression": rows, "trusted": True}
    return (
        told,
        queries[asked],
        Impressions.from_rows(rows, items.ravel(), gains.ravel(), **options),
    )


def replay(n=20_000):
    """Replay of a log against the same judgements through `Blend.learn_checked`.

    By the clock, as a replay reads while it learns: run it on a machine that does nothing else,
    with two processors. From lists of three or more only the weights of
    views (and the memory) learn; from pairs W does, too.
    """
    rows = []
    shapes = ((3, 8, 0), (3, 16, 0), (3, 64, 0), (2, 8, 0), (2, 16, 0), (2, 64, 0), (2, 384, 0))
    for shown, width, memory in (*shapes, (2, 384, 10_000)):
        with tempfile.TemporaryDirectory() as name:
            log = sqlite_log(Path(name))
            settings = TenantSettings(views=[View("vectors", width)], memory=memory)
            vectors = np.random.default_rng(9).normal(size=(2000, width)).astype(np.float32)
            items = [Item(id=f"i{i}", vectors={"vectors": v}) for i, v in enumerate(vectors)]
            log.append([Entry("settings", encoded(Configured(settings=settings)))])
            log.append([Entry("put", encoded(Put(items=items)))])
            told, X, lists = judged(n, width, 2000, 1000, shown)
            for start in range(0, n, 2000):
                log.append([judged_entry(t) for t in told[start : start + 2000]])

            def read(log=log):
                for _ in log.learner_rows():
                    pass

            def replayed(log=log):
                fold = Fold()
                fold.replay(log.learner_rows())

            def library(X=X, lists=lists, vectors=vectors, memory=memory):
                blend, asked, Z = Blend(memory=memory), Views(vectors=X), Views(vectors=vectors)
                blend.begin(asked, Z)
                blend.learn_checked(asked, Z, lists)

            contenders = {"read": read, "replay": replayed, "library": library}
            found = seconds(contenders, 5, time.perf_counter)
            speeds = [n / found[kind] for kind in ("read", "library", "replay")]
            rows.append([shown, width, memory, *speeds, speeds[2] / speeds[1]])
            log.close()
    header = ["items a list", "features", "memory", "read /s", "library /s", "replay /s"]
    table("Replay", [*header, "replay / library"], rows)


ALL = (acknowledged_feedback, ranking_under_load, replay)
