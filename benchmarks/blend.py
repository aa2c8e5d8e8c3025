"""Speed of Blend: judgements a second by part, memory look-up, and a search against a plain one."""

import os
from copy import deepcopy
from itertools import cycle

import numpy as np
from scipy import sparse

from benchmarks.timing import seconds, table
from benchmarks.workloads import encoded, triplets, unit_vectors
from experiments.datasets import load_newsgroups_embeddings
from similia import Blend, FactoredAROMA, Impressions, Views
from similia.index import build_index
from similia.linalg.near_rows import NearRows
from similia.similarity.memory import SCALES

FEATURES, SHOWN, K = 384, 20, 10


def wide_views(n, d=5000, nonzeros=8, fields=2, seed=0):
    """Items with a sparse base, too wide for W and memory, and a few fields."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(d, size=(n, nonzeros))
    places = np.arange(n + 1) * nonzeros
    base = sparse.csr_array((rng.random(n * nonzeros), columns.ravel(), places), shape=(n, d))
    return Views(words=base, fields=rng.normal(size=(n, fields)))


def click_log(n_queries, n_items, n):
    """Lists of twenty with three clicks each."""
    rng = np.random.default_rng(0)
    gains = np.zeros((n, SHOWN))
    np.put_along_axis(gains, rng.integers(SHOWN, size=(n, 3)), 1.0, axis=1)
    return Impressions.from_rows(
        np.repeat(rng.integers(n_queries, size=n), SHOWN),
        rng.integers(n_items, size=n * SHOWN),
        gains.ravel(),
        impression=np.repeat(np.arange(n), SHOWN),
        position=np.tile(np.arange(1, SHOWN + 1), n),
    )


def blend_views():
    """Weights alone: as computed features in one compiled call, and through `learn`."""
    rows, n = [], 20_000
    for V in (2, 4, 8):
        Z = wide_views(5000, fields=V - 1)
        Q = Views(words=Z["words"])
        T = Impressions.from_triplets(triplets(5000, 5000, n))
        part = Blend().learn(Q, T.part(slice(0, 2)), items=Z).weights_part_
        features = np.random.default_rng(0).normal(size=(2 * n, V))
        keys = np.arange(n, dtype=np.uint64)
        given = (T.starts, features, np.zeros((2 * n, 0)), T.gains, T.weights, keys)
        log = click_log(5000, 5000, 1000)
        times = seconds(
            {
                "weights": lambda p=part, g=given: p.learn(*g, alone=True),
                "learn": lambda Q=Q, T=T, Z=Z: Blend().learn(Q, T, items=Z),
                "lists": lambda Q=Q, T=log, Z=Z: Blend().learn(Q, T, items=Z),
            },
            repeats=7,
        )
        rows.append([V, n / times["weights"], n / times["learn"], len(log) / times["lists"]])
    table(
        "Blend, weights of views alone: judgements a second",
        ["views", "triplets, compiled pass", "triplets, `learn`", "lists of 20, `learn`"],
        rows,
    )


def blend_matrix():
    """All parts against f-AROMA, which learns from each triplet too."""
    rows = []
    for d, n in ((64, 2048), (FEATURES, 1024), (2 * FEATURES, 512)):
        X, T = unit_vectors(2000, d), triplets(2000, 2000, n)
        log = click_log(2000, 2000, n // 4)
        start = Blend(memory=0).learn(X, T[:1]), Blend().learn(X, T[:1])
        aroma = FactoredAROMA(update_on="margin", average=False).learn(X, T[:1])
        times = seconds(
            {
                "aroma": lambda X=X, T=T, a=aroma: deepcopy(a).learn(X, T),
                "W": lambda X=X, T=T, s=start: deepcopy(s[0]).learn(X, T),
                "all": lambda X=X, T=T, s=start: deepcopy(s[1]).learn(X, T),
                "lists": lambda X=X, T=log, s=start: deepcopy(s[1]).learn(X, T),
            },
            repeats=5,
        )
        micro = {name: 1e6 * value / n for name, value in times.items()}
        micro["lists"] *= n / len(log)
        ratios = [micro[name] / micro["aroma"] for name in ("W", "all")]
        rows.append([d, *micro.values(), *ratios])
    table(
        "Blend with W against f-AROMA, dense, float32: µs a triplet, or a list of 20 without W",
        [
            *("features", "f-AROMA", "no memory", "all", "lists", "no memory ×", "all ×"),
        ],
        rows,
    )


def remembering(X):
    """A blend that remembers these queries, the last of them being a known one."""
    n, K, rng = len(X), len(SCALES), np.random.default_rng(0)
    lists = Impressions.from_triplets(triplets(1, n - 1, 1), trusted=False)
    blend = Blend(memory=n).learn(X[-1:], lists, items=X)
    state = dict(blend.get_state())
    others = rng.integers(2**63, size=n - 1, dtype=np.uint64)
    state["memory_keys_"] = np.concatenate([others, state["memory_keys_"]])
    state["memory_queries_"] = X.copy()
    state["memory_vectors_"] = np.full((K, n, X.shape[1]), 0.01, np.float32)
    state["memory_variances_"] = np.ones((K, n))
    state["memory_weight_"] = np.ones(n)
    state["memory_met_"] = state["memory_times_"] = np.arange(n)
    state["memory_totals_"] = np.full_like(state["memory_totals_"], 100.0)
    state["published_shares_"] = np.full_like(state["published_shares_"], 1 / K)
    return blend.set_state(state)


def newsgroups(n, d):
    """Vectors of two messages of 20 Newsgroups added up, with some noise: as many as one wants."""
    X = load_newsgroups_embeddings().X
    rng = np.random.default_rng(0)
    some, others = rng.integers(len(X), size=(2, n))
    share = rng.random((n, 1))
    mixed = share * X[some] + (1 - share) * X[others] + 0.3 * d**-0.5 * rng.normal(size=(n, d))
    return (mixed / np.linalg.norm(mixed, axis=1, keepdims=True)).astype(np.float32)


def missed(rows, queries, limit=0.5):
    """Share of neighbours that are found, and the largest weight κ of one that is not."""
    near, found, kernel = NearRows(), 0, queries @ rows.T
    kernel = (kernel - limit) / (1 - limit)
    total = np.sum(kernel > 0)
    for q, weights in zip(queries, kernel, strict=True):
        places, _ = near.find(rows, q, limit)
        found += len(places)
        weights[places] = 0.0
    return found / max(total, 1), max(float(kernel.max()), 0.0), total / len(queries)


def blend_memory():
    """Vector of one query, remembered or new, against a blend without memory."""
    rows = []
    kinds = {"alike": unit_vectors, "as encoded": encoded, "20 Newsgroups": newsgroups}
    if "SIMILIA_DATA" not in os.environ:
        print("\n20 Newsgroups need the data that SIMILIA_DATA names; left out.")
        del kinds["20 Newsgroups"]
    for name, vectors in kinds.items():
        for n in (1_000, 10_000, 100_000):
            X = vectors(n + 100, FEATURES)
            plain, blend = Blend(memory=0).learn(X, [[0, 1, 2]]), remembering(X[:n])
            turns = cycle(range(100))
            times = seconds(
                {
                    "plain": lambda p=plain, X=X: p.query_vectors(X[:1]),
                    "own": lambda b=blend, X=X, n=n: b.query_vectors(X[n - 1 : n]),
                    "new": lambda b=blend, X=X, n=n, t=turns: b.query_vectors(X[n + next(t) :][:1]),
                    "product": lambda X=X, n=n: X[:n] @ X[n],
                },
                repeats=30,
            )
            milli = {name: 1e3 * value for name, value in times.items()}
            found = milli["new"] - milli["plain"]
            own = milli["own"] - milli["plain"]
            recall, largest, near = missed(X[:n], X[n:])
            shown = own, found, found / milli["product"], near, f"{recall:.4f}", f"{largest:.3f}"
            rows.append([name, n, *milli.values(), *shown])
    table(
        "Blend's memory, 384 features: milliseconds for the vector of one query",
        [
            *("directions", "remembered", "no memory", "known", "new", "full product"),
            *("look-up, known", "look-up, new", "new / product"),
            *("neighbours", "found", "largest weight missed"),
        ],
        rows,
    )


def blend_search():
    """First ten of a search through `Index`, with the blend and without."""
    rows = []
    for n in (5_000, 20_000, 100_000):
        Z = unit_vectors(n, FEATURES)
        blend, index = Blend().learn(Z, triplets(2000, n, 2000)), build_index(Z)
        once = Z[:1] + 0.0
        times = seconds(
            {
                "plain": lambda i=index, q=once: i.search(q, K),
                "blend": lambda i=index, q=once, b=blend: i.search(q, K, model=b),
                "vector": lambda q=once, b=blend: b.query_vectors(q),
            },
            repeats=30,
        )
        milli = {name: 1e3 * value for name, value in times.items()}
        rows.append([n, *milli.values(), milli["blend"] / milli["plain"]])
    table(
        "Exact search of one query, 384 features, 2,000 triplets learnt: milliseconds",
        ["items", "plain", "with Blend", "its query vector", "Blend / plain"],
        rows,
    )


ALL = [blend_views, blend_matrix, blend_memory, blend_search]
