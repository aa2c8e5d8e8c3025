"""Speed of evaluation, against the bare matrix product that computes the scores."""

import time

import numpy as np
from scipy import sparse

from benchmarks.timing import seconds, table
from benchmarks.workloads import unit_vectors
from similia.retrieval import evaluate


def gemm(Q, Z, block=256):
    """The product in blocks of 256 queries, in warm memory that is reused."""
    out = np.empty((min(block, len(Q)), len(Z)), Q.dtype)
    for start in range(0, len(Q), block):
        rows = Q[start : start + block]
        np.matmul(rows, Z.T, out=out[: len(rows)])


def relevant(n_queries, n_items, per_query):
    """Grades of 1 for random items of each query."""
    rng = np.random.default_rng(0)
    items = rng.integers(n_items, size=(n_queries, per_query))
    rows = np.repeat(np.arange(n_queries), per_query)
    grades = sparse.coo_array((np.ones(items.size), (rows, items.ravel())), (n_queries, n_items))
    grades = grades.tocsr()
    grades.data[:] = 1.0
    return grades


def evaluation():
    rows = []
    for n_items in (10_000, 30_000, 100_000, 1_000_000):
        Q, Z = unit_vectors(1000, 384, seed=1), unit_vectors(n_items, 384, seed=2)
        cells = [n_items]
        for per_query in (10, 1000):
            if n_items * per_query > 100_000_000:
                cells.append("not tried")
                continue
            grades = relevant(1000, n_items, per_query)
            times = seconds(
                {
                    "ours": lambda Q=Q, Z=Z, y=grades: evaluate("inner_product", Q, Z, relevance=y),
                    "gemm": lambda Q=Q, Z=Z: gemm(Q, Z),
                },
                repeats=3,
            )
            cells += [times["ours"] / times["gemm"]]
        rows.append(cells)
    table(
        "All retrieval measures, 1,000 queries, 384 features, float32: time over that of the GEMM",
        ["items", "10 relevant", "1,000 relevant"],
        rows,
    )


def evaluation_whole():
    """The largest case: once, after the GEMM of a tenth of the queries."""
    Q, Z = unit_vectors(10_000, 384, seed=1), unit_vectors(1_000_000, 384, seed=2)
    grades = relevant(10_000, 1_000_000, 10)
    evaluate("inner_product", Q[:64], Z[:2000], relevance=relevant(64, 2000, 10))  # compiles
    product = seconds({"gemm": lambda: gemm(Q[:1000], Z)}, repeats=1)["gemm"]
    start = time.perf_counter()
    evaluate("inner_product", Q, Z, relevance=grades)
    took = time.perf_counter() - start
    product = (product + seconds({"gemm": lambda: gemm(Q[-1000:], Z)}, repeats=1)["gemm"]) / 2
    table(
        "10,000 queries, 1,000,000 items, 384 features, float32, 10 relevant each",
        ["seconds", "of the GEMM (10 × that of 1,000 queries)", "ratio"],
        [[took, 10 * product, took / (10 * product)]],
    )


ALL = [evaluation, evaluation_whole]
