"""Speed of Blend: judgements a second by part, memory look-up, and a search against a plain one."""

from copy import deepcopy
from itertools import cycle

import numpy as np
from scipy import sparse

from benchmarks.timing import seconds, table
from benchmarks.workloads import encoded, triplets, unit_vectors
from similia import Blend, FactoredAROMA, Impressions, Views
from similia.index import build_index

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
        log = click_log(5000, 5000, 1000)
        times = seconds(
            {
                "learn": lambda Q=Q, T=T, Z=Z: Blend().learn(Q, T, items=Z),
                "lists": lambda Q=Q, T=log, Z=Z: Blend().learn(Q, T, items=Z),
            },
            repeats=7,
        )
        rows.append([V, n / times["learn"], len(log) / times["lists"]])
    table(
        "Blend without W: judgements a second",
        ["views", "triplets, `learn`", "lists of 20, `learn`"],
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
    """A blend that remembers these queries, with a list of twenty for each."""
    return Blend(memory=len(X)).learn(X, full_log(len(X), len(X)), items=X)


def full_log(n_queries, n_items):
    """A list for each query."""
    log = click_log(n_queries, n_items, n_queries)
    return Impressions(**{**vars(log), "queries": np.arange(n_queries)})


def blend_memory():
    """Vector of one query, remembered or new, against a blend without memory."""
    rows = []
    for n in (1_000, 10_000):
        X = encoded(n + 100, FEATURES)
        plain, blend = Blend(memory=0).learn(X, [[0, 1, 2]]), remembering(X[:n])
        turns = cycle(range(100))
        times = seconds(
            {
                "plain": lambda p=plain, X=X: p.query_vectors(X[:1]),
                "own": lambda b=blend, X=X, n=n: b.query_vectors(X[n - 1 : n]),
                "new": lambda b=blend, X=X, n=n, t=turns: b.query_vectors(X[n + next(t) :][:1]),
                "boosts": lambda b=blend, X=X, n=n: b.boosts(X[n - 1 : n]),
            },
            repeats=30,
        )
        rows.append([n, *(1e3 * value for value in times.values())])
    table(
        "Blend's memory, 384 features: milliseconds for the vector of one query, and its boosts",
        ["remembered", "no memory", "known", "new", "boosts"],
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
