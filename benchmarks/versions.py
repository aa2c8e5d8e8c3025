"""This version beside another one: processor time of learning and searching, on one thread.

``python -m benchmarks.versions OTHER/bin/python [task ...]``: each task runs in both by turns, and
the least of several processor times counts, so that other work does little harm. Above 1 is faster
here than there. The other environment needs that version of similia alone.
"""

import copy
import math
import os
import subprocess
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.workloads import clustered, encoded, sparse_rows, triplets, unit_vectors

ROOT = Path(__file__).resolve().parents[1]
TURNS = 5
#: a turn repeats what is shorter
SECONDS = 0.15
PRECISIONS = ("float32", "float64")
PAPER = {"prior": "zero", "average": False}
AROMA = {**PAPER, "r": 1.0, "update_on": "margin"}


def by_triplets(name, d, n, dtype, nonzeros=None, **parameters):
    import similia

    X = sparse_rows(2000, d, nonzeros, dtype) if nonzeros else unit_vectors(2000, d, dtype)
    T, given = triplets(2000, 2000, n), {**(PAPER if name == "OASIS" else AROMA), **parameters}
    return lambda: getattr(similia, name)(**given).learn(X, T)


def by_pairs(name, d, dtype, **parameters):
    import similia

    (X, y), rng = clustered(3000, d, dtype), np.random.default_rng(1)
    pairs = rng.integers(len(y), size=(6000, 2))
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    pairs = np.concatenate([pairs[same][:300], pairs[~same][:300]])[rng.permutation(600)]
    signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    started = getattr(similia, name)(average=False, **parameters)
    started.learn(X, pairs[:300], signs[:300])
    return lambda: copy.deepcopy(started).learn(X, pairs[300:], signs[300:])


def meg(d, n):
    from similia import MEG

    rng = np.random.default_rng(0)
    points = rng.normal(size=(d, 8))
    pairs = rng.integers(d, size=(n, 2))
    pairs[:, 1] = (pairs[:, 0] + 1 + pairs[:, 1] % (d - 1)) % d
    y = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1) / d
    started = MEG(n_objects=d, trace=1.0, eta=0.5).learn(None, [], [])
    G = rng.normal(size=(d, d)) / np.sqrt(d)
    started.log_eigenvalues_, vectors = np.linalg.eigh(G + G.T)
    started.eigenvectors_ = np.ascontiguousarray(vectors.T)
    return lambda: copy.deepcopy(started).learn(None, pairs, y)


def boost(d, steps):
    from similia import DefiniteBoost, DistanceConstraints

    rng = np.random.default_rng(0)
    X = rng.normal(size=(d, 10))
    X /= np.linalg.norm(X)
    pairs = rng.integers(d, size=(4 * d, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    distances = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    sense = np.repeat(["<=", ">="], len(pairs))
    bounds = np.concatenate([1.01 * distances, 0.99 * distances])
    given = DistanceConstraints(np.tile(pairs, (2, 1)), bounds, sense, n_objects=d)
    return lambda: DefiniteBoost(nearest=False, max_iter=steps, tol=1e-12).fit(given)


def by_labels(name, dtype, n=4000, d=256, classes=20, predict=False, nonzeros=None, **parameters):
    import similia

    rng, y = np.random.default_rng(0), np.arange(n) % classes
    X = (rng.normal(size=(classes, d))[y] + 2 * rng.normal(size=(n, d))).astype(dtype)
    X = sparse_rows(n, d, nonzeros, dtype) if nonzeros else X
    learner = getattr(similia, name)(random_state=0, **parameters)
    if predict:
        learner.fit(X, y)
        return lambda: learner.predict(X)
    return lambda: copy.deepcopy(learner).fit(X, y)


def gerrymandering(dtype, predict=False):
    few = {"n_components": 32, "max_iter": 2}
    return by_labels("NeighborhoodGerrymandering", dtype, 2000, 64, 10, predict, **few)


def adapters(rank, dtype):
    from similia.adapters import Adapters

    X, T = unit_vectors(2000, 384, dtype), triplets(2000, 2000, 2000)
    return lambda: Adapters(rank=rank).learn(0, X, T)


def click_log(n_queries, n_items, n, shown=20):
    from similia import Impressions

    rng = np.random.default_rng(0)
    gains = np.zeros((n, shown))
    np.put_along_axis(gains, rng.integers(shown, size=(n, 3)), 1.0, axis=1)
    return Impressions.from_rows(
        np.repeat(rng.integers(n_queries, size=n), shown),
        rng.integers(n_items, size=n * shown),
        gains.ravel(),
        impression=np.repeat(np.arange(n), shown),
        position=np.tile(np.arange(1, shown + 1), n),
    )


def blend(d, dtype, lists=False, **parameters):
    from similia import Blend

    X = unit_vectors(2000, d, dtype)
    T = click_log(2000, 2000, 400) if lists else triplets(2000, 2000, 1024)
    return lambda: Blend(**parameters).learn(X, T)


def blend_views(dtype, lists=False):
    from similia import Blend, Views

    Z = Views(
        words=sparse_rows(5000, 5000, 8, dtype),
        fields=np.random.default_rng(0).normal(size=(5000, 2)).astype(dtype),
    )
    Q = Views(words=Z["words"])
    T = click_log(5000, 5000, 1000) if lists else triplets(5000, 5000, 10_000)
    return lambda: Blend().learn(Q, T, items=Z)


def blend_queries(n, dtype):
    """Vectors of queries that a blend does not know, with as many remembered."""
    from similia import Blend

    X = encoded(n + 100, 384).astype(dtype)
    learnt = Blend(memory=n).learn(X, click_log(n, n, n), items=X)
    return lambda: [learnt.query_vectors(X[n + i : n + i + 1]) for i in range(100)]


def measuring(n_items, relevant, dtype):
    from scipy import sparse

    from similia.retrieval import evaluate

    rng, n = np.random.default_rng(0), 500
    Q, Z = unit_vectors(n, 64, dtype, seed=1), unit_vectors(n_items, 64, dtype, seed=2)
    items = rng.integers(n_items, size=(n, relevant))
    rows = np.repeat(np.arange(n), relevant)
    grades = sparse.coo_array((np.ones(items.size), (rows, items.ravel())), (n, n_items)).tocsr()
    grades.data[:] = 1.0
    return lambda: evaluate("inner_product", Q, Z, relevance=grades)


def best(n_items, dtype, nonzeros=None):
    from similia.retrieval import top_k

    make = (
        partial(sparse_rows, d=1000, nonzeros=nonzeros) if nonzeros else partial(unit_vectors, d=64)
    )
    Q, Z = make(200, dtype=dtype, seed=1), make(n_items, dtype=dtype, seed=2)
    return lambda: top_k("inner_product", Q, Z, 10)


def search(n_items, dtype):
    from similia import Blend
    from similia.index import build_index

    Z = unit_vectors(n_items, 384, dtype)
    learnt, index, q = Blend().learn(Z, triplets(2000, n_items, 500)), build_index(Z), Z[:1] + 0
    return lambda: [index.search(q, 10, model=learnt) for _ in range(20)]


def tasks():
    """A function of no arguments that makes each task, by name."""
    made = {}
    for dtype in PRECISIONS:

        def add(name, make, *args, dtype=dtype, **given):
            made[f"{name}, {dtype}"] = partial(make, *args, dtype=dtype, **given)

        for d, n in ((64, 4096), (384, 2048), (768, 1024), (1536, 512)):
            add(f"f-AROMA {d}", by_triplets, "FactoredAROMA", d, n)
        add("f-AROMA 384, averaged", by_triplets, "FactoredAROMA", 384, 2048, average=True)
        add("f-AROMA sparse", by_triplets, "FactoredAROMA", 1000, 1024, nonzeros=30)
        for d, n in ((64, 4096), (384, 1024), (768, 256)):
            add(f"d-AROMA {d}", by_triplets, "DiagonalAROMA", d, n)
        add("d-AROMA 384, analysed", by_triplets, "DiagonalAROMA", 384, 1024, update="analysed")
        add("d-AROMA 384, averaged", by_triplets, "DiagonalAROMA", 384, 1024, average=True)
        add("d-AROMA sparse", by_triplets, "DiagonalAROMA", 1000, 8192, nonzeros=30)
        for d in (64, 384, 768):
            add(f"OASIS {d}", by_triplets, "OASIS", d, 2048)
        add("OASIS sparse", by_triplets, "OASIS", 1000, 8192, nonzeros=30)
        add("Adapters, rank 8", adapters, 8)
        add("Adapters, rank 32", adapters, 32)
        for d in (64, 200, 400):
            add(f"POLA {d}", by_pairs, "POLA", d)
        add("KernelPOLA", by_pairs, "KernelPOLA", 100)
        add("LEGO 200", by_pairs, "LEGO", 200)
        add("AROW", by_labels, "AROW")
        add("SLND", by_labels, "SLNDClassifier", classes=100)
        add("SGD", by_labels, "SGDOneVsRest", classes=100)
        add("gerrymandering, fit", gerrymandering)
        add("gerrymandering, predict", gerrymandering, predict=True)
        add("Blend 64", blend, 64)
        add("Blend 384", blend, 384)
        add("Blend 384, lists", blend, 384, lists=True)
        add("Blend, views", blend_views)
        add("Blend, views, lists", blend_views, lists=True)
        add("Blend, new queries", blend_queries, 5000)
        for n, relevant in ((1000, 5), (10_000, 10), (10_000, 1000)):
            add(f"evaluate {n:,} items, {relevant} relevant", measuring, n, relevant)
        add("top_k 10,000", best, 10_000)
        add("top_k 100,000", best, 100_000)
        add("top_k sparse", best, 20_000, nonzeros=30)
        add("Index with Blend 20,000", search, 20_000)
    for d, n in ((52, 500), (200, 100), (500, 20)):
        made[f"MEG {d}, float64"] = partial(meg, d, n)
    for d, n in ((52, 300), (200, 60)):
        made[f"DefiniteBoost {d}, float64"] = partial(boost, d, n)
    return made


def work():
    """Make the task that a line names, or take a turn at it and print its least processor time."""
    warnings.simplefilter("ignore")
    made = tasks()
    for line in map(str.strip, sys.stdin):
        if line:
            try:
                run = made[line]()
                run()
            except Exception as error:
                print(f"{type(error).__name__}: {error}", flush=True)
                continue
            print("ready", flush=True)
        else:
            print(turn(run), flush=True)


def turn(run):
    """Least processor time of the runs of a turn."""
    times, end = [], time.perf_counter() + SECONDS
    while not times or time.perf_counter() < end:
        begun = time.process_time()
        run()
        times.append(time.process_time() - begun)
    return min(times)


class Version:
    """An interpreter that does tasks."""

    def __init__(self, interpreter):
        threads = dict.fromkeys(
            ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "NUMBA_NUM_THREADS"), "1"
        )
        words = [interpreter, "-m", "benchmarks.versions", "--work"]
        self.process = subprocess.Popen(
            words, cwd=ROOT, env={**os.environ, **threads}, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def ask(self, line=""):
        print(line, file=self.process.stdin, flush=True)
        return self.process.stdout.readline().strip()


def compare(both, name, turns):
    """Least processor times there and here, or what one of them cannot do."""
    answers = [version.ask(name) for version in both]
    if answers != ["ready", "ready"]:
        return " ".join(answer for answer in answers if answer != "ready")
    times = [[float(version.ask()) for version in both] for _ in range(turns)]
    return [min(column) for column in zip(*times, strict=True)]


def main(other, *names):
    both = Version(other), Version(sys.executable)
    chosen = [t for t in tasks() if not names or any(t.startswith(name) for name in names)]
    print("| task | there, ms | here, ms | there ÷ here |\n| --- | --- | --- | --- |")
    ratios = []
    for name in chosen:
        found = compare(both, name, TURNS)
        if isinstance(found, str):
            print(f"| {name} | {found} | | |", flush=True)
            continue
        ratios.append(found[0] / found[1])
        shown = " | ".join(f"{1e3 * value:.3g}" for value in found)
        print(f"| {name} | {shown} | {ratios[-1]:.2f} |", flush=True)
    mean = math.exp(np.mean(np.log(ratios)))
    below = sum(ratio < 1.0 for ratio in ratios)
    print(f"\nGeometric mean {mean:.2f}; {below} of {len(ratios)} below 1.")


if __name__ == "__main__":
    if sys.argv[1] == "--work":
        work()
    else:
        main(*sys.argv[1:])
