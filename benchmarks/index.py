"""Speed of search by a learnt similarity, against plain search and a matrix-vector product.

The bound is (learnt search) <= 1.05 x (plain search + one product of the query with W). "Plain" is
the library's own call where it has one; "through Index" is ours without a model.
"""

import importlib.util
import time

import numpy as np

from benchmarks.timing import table
from benchmarks.workloads import triplets, unit_vectors
from similia import OASIS
from similia.index import build_index

SIZES = (5_000, 20_000, 60_000)
BACKENDS = ("exact", "faiss", "usearch", "hnswlib")
FEATURES, K, QUERIES = 384, 10, 20


def lumpy_vectors(n, d, seed=0):
    """Unit vectors around a hundred centers: neighbors exist, as in real embeddings."""
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(100, d))
    X = (centers[rng.integers(100, size=n)] + rng.normal(size=(n, d))).astype(np.float32)
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def in_turn(contenders, n_queries, repeats):
    """Call contenders in turn, each with another query; return the median microseconds per call.

    With the same query, all but the first would find its neighborhood in the cache.
    """
    times = {name: [] for name in contenders}
    for i in range(repeats + 5):
        for place, (name, run) in enumerate(contenders.items()):
            query = (i + 5 * place) % n_queries
            start = time.perf_counter()
            run(query)
            times[name].append(time.perf_counter() - start)
    return {name: 1e6 * float(np.median(values[5:])) for name, values in times.items()}


def plain_call(index):
    """The shortest way to the answer: the library's own function, or product and selection."""
    if index.name == "exact":
        return lambda q: index.backend.search(q, K)
    native = index.backend.native
    if index.name == "hnswlib":
        return lambda q: native.knn_query(q, K)
    return lambda q: native.search(q, K)


def row(index, model, batch, repeats):
    W = model.query_matrix()
    queries = [unit_vectors(batch, FEATURES, seed=100 + i) for i in range(QUERIES)]
    moved = [q @ W for q in queries]  # the same searches, with the product computed in advance
    plain = plain_call(index)
    times = in_turn(
        {
            "plain": lambda i: plain(moved[i]),
            "ours": lambda i: index.search(moved[i], K),
            "learnt": lambda i: index.search(queries[i], K, model=model),
            "product": lambda i: queries[i] @ W,
        },
        QUERIES,
        repeats,
    )
    ratio = times["learnt"] / (times["plain"] + times["product"])
    through = times["learnt"] / (times["ours"] + times["product"])
    return [times["plain"], times["ours"], times["product"], times["learnt"], through, ratio]


def index_search():
    rows, recalls = [], []
    installed = [b for b in BACKENDS if b == "exact" or importlib.util.find_spec(b)]
    for n in SIZES:
        Z = lumpy_vectors(n, FEATURES)
        model = OASIS().learn(Z, triplets(n, n, 2000))
        for backend in installed:
            index = build_index(Z, model, backend=backend)
            recalls.append([n, backend, index.report.seconds, f"{index.report.recall:.3f}"])
            for batch, repeats in ((1, 300), (100, 8)):
                rows.append([n, backend, batch, *row(index, model, batch, repeats)])
    table(
        "Search with a learnt similarity, 384 features, float32, 10 best: microseconds a call",
        [
            "items",
            "backend",
            "queries",
            "plain",
            "through Index",
            "product",
            "learnt",
            "learnt / (through Index + product)",
            "learnt / (plain + product)",
        ],
        rows,
    )
    table("Building", ["items", "backend", "seconds", "recall@10"], recalls)


ALL = [index_search]
