"""Speed of the learners: against the plain form, the in-place form and the machine's limits."""

import tracemalloc

import numpy as np
from scipy import sparse

from benchmarks import peers
from benchmarks.timing import seconds, table
from benchmarks.workloads import rows_of_triplets, sparse_rows, triplets, unit_vectors
from similia import OASIS, DiagonalAROMA, FactoredAROMA
from similia.registry import LEARNERS
from tests.checks import case_of

PAPER = {"prior": "zero", "average": False}
AROMA = {"r": 1.0, "update_on": "margin"}


def paper(cls, **parameters):
    """Give a learner as its paper has it."""
    return cls(**{**PAPER, **({} if cls is OASIS else AROMA), **parameters})


def learning(cls, X, rows, **parameters):
    return lambda: paper(cls, **parameters).learn(X, rows)


def factored_dense():
    rows = []
    for m in (384, 768, 1536):
        n = 4096 if m < 1000 else 2048
        few = 200 if m < 1000 else 60
        X, T = unit_vectors(2000, m), triplets(2000, 2000, n)
        Q, P = rows_of_triplets(X, T[:few])
        learner = paper(FactoredAROMA).learn(X, T)
        times = seconds(
            {
                "ours": learning(FactoredAROMA, X, T),
                "averaged": learning(FactoredAROMA, X, T, average=True),
                "gemm": lambda n=n, m=m: peers.gemms(n, m, "float32"),
                "blas1": lambda Q=Q, P=P: peers.blas_factored(Q, P, 1),
                "blas2": lambda Q=Q, P=P: peers.blas_factored(Q, P, 2),
                "plain": lambda Q=Q, P=P: peers.plain_factored(Q[:40], P[:40]),
            },
            repeats=3,
        )
        ours = times["ours"] / n
        in_place = min(times["blas1"], times["blas2"]) / few
        rows.append(
            [
                m,
                f"{learner.n_updates_ / n:.0%}",
                ours * 1e6,
                times["averaged"] / n * 1e6,
                times["plain"] / 40 / ours,
                in_place / ours,
                f"{times['gemm'] / n / ours:.0%}",
            ]
        )
    table(
        "f-AROMA, dense, float32, through `learn`",
        ["m = n", "updating", "µs", "µs averaged", "× plain NumPy", "× BLAS-2", "of GEMM's speed"],
        rows,
    )


def factored_sparse():
    rows = []
    for m in (500, 1000, 2000):
        X = sparse_rows(2000, m, 30)
        T = triplets(2000, 2000, 2048)
        Q, P = rows_of_triplets(X, T[:20])
        times = seconds(
            {
                "ours": learning(FactoredAROMA, X, T),
                "plain": lambda Q=Q, P=P: peers.plain_factored(Q, P),
            },
            repeats=3,
        )
        ours = times["ours"] / len(T)
        rows.append([m, ours * 1e6, times["plain"] / 20 / ours])
    table(
        "f-AROMA, sparse, float64, 30 / 60 non-zeros",
        ["m = n", "µs", "× plain NumPy"],
        rows,
    )


def entrywise_sparse():
    """d-AROMA and OASIS on sparse rows: cost follows the non-zeros, not the size of W."""
    rows = []
    for m, nonzeros in ((500, 30), (1000, 30), (2000, 30), (1000, 15), (1000, 60)):
        X = sparse_rows(4000, m, nonzeros)
        T = triplets(4000, 4000, 20_000)
        Q, P = rows_of_triplets(X, T[:40])
        times = seconds(
            {
                "ours": learning(DiagonalAROMA, X, T),
                "oasis": learning(OASIS, X, T),
                "plain": lambda Q=Q, P=P: peers.plain_diagonal(Q, P),
                "plain oasis": lambda Q=Q, P=P: peers.plain_oasis(Q, P),
            },
            repeats=3,
        )
        ours, oasis = times["ours"] / len(T), times["oasis"] / len(T)
        rows.append(
            [
                m,
                f"{nonzeros} / {2 * nonzeros}",
                ours * 1e6,
                times["plain"] / 40 / ours,
                oasis * 1e6,
                times["plain oasis"] / 40 / oasis,
            ]
        )
    table(
        "d-AROMA and OASIS, sparse, float64",
        ["m = n", "non-zeros", "d-AROMA µs", "× plain", "OASIS µs", "× plain"],
        rows,
    )


def entrywise_dense():
    """d-AROMA on dense rows against the memory traffic of one pass over W and Σ; OASIS beside."""
    rows = []
    for m in (384, 768, 1536):
        n = 1024 if m < 1000 else 256
        X, T = unit_vectors(2000, m), triplets(2000, 2000, n)
        Q, P = rows_of_triplets(X, T[:10])
        W, Sigma = np.zeros((2, m, m), np.float32)
        times = seconds(
            {
                "ours": learning(DiagonalAROMA, X, T),
                "analysed": learning(DiagonalAROMA, X, T, update="analysed"),
                "oasis": learning(OASIS, X, T),
                "limit": lambda n=n, W=W, S=Sigma: peers.stream_over(W, S, n),
                "plain": lambda Q=Q, P=P: peers.plain_diagonal(Q, P),
            },
            repeats=3,
        )
        ours = times["ours"] / n
        rows.append(
            [
                m,
                ours * 1e6,
                f"{times['limit'] / n / ours:.0%}",
                times["plain"] / 10 / ours,
                times["analysed"] / n * 1e6,
                times["oasis"] / n * 1e6,
            ]
        )
    table(
        "d-AROMA, dense, float32, every triplet updating; OASIS beside it",
        ["m = n", "µs", "of the memory limit", "× plain NumPy", "µs analysed", "OASIS µs"],
        rows,
    )


def memory():
    """Peak of what learning allocates beside X, as traced, against the state it leaves behind."""
    rows = []
    X, T = unit_vectors(100_000, 384), triplets(100_000, 100_000, 20_000)
    sparse_X = sparse_rows(20_000, 1000, 30)
    for cls in (FactoredAROMA, DiagonalAROMA, OASIS):
        for kind, data, rows_ in (("dense", X, T[:4096]), ("sparse", sparse_X, T % 20_000)):
            tracemalloc.start()
            learner = paper(cls).learn(data, rows_)
            _, peak = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            state = sum(a.nbytes for a in learner.get_state().values() if hasattr(a, "nbytes"))
            size = data.data.nbytes if sparse.issparse(data) else data.nbytes
            rows.append([cls.__name__, kind, size / 2**20, state / 2**20, peak / 2**20])
    table("Memory in MiB", ["learner", "X", "size of X", "state", "peak of learning"], rows)


def registry():
    """Every public learner on one small problem: judgements a second."""
    rows = []
    for name in LEARNERS:
        case = case_of(name, dtype=np.float32, n=4000)
        times = seconds({"learn": lambda case=case: case.learn(learner=case.fresh())}, repeats=3)
        rows.append([name, case.length / times["learn"]])
    table("Every learner, 6 features: judgements a second", ["learner", "rate"], rows)


ALL = [
    factored_dense,
    factored_sparse,
    entrywise_sparse,
    entrywise_dense,
    memory,
    registry,
]
