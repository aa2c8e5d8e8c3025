"""Speed of Blend: judgements a second by part, memory look-up, and a search against a plain one."""

import numpy as np
from scipy import sparse

from benchmarks.timing import seconds, table
from benchmarks.workloads import triplets, unit_vectors
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
    Z, n = wide_views(5000), 20_000
    Q = Views(words=Z["words"])
    T = Impressions.from_triplets(triplets(5000, 5000, n))
    X = unit_vectors(5000, FEATURES)
    X_views = Views(vectors=X)
    items, log = Views(vectors=X, price=X[:, 0]), click_log(5000, 5000, 2000)
    part = Blend().learn(Q, T.part(slice(0, 2)), items=Z).weights_part_
    features = np.random.default_rng(0).normal(size=(2 * n, 3))
    keys = np.arange(n, dtype=np.uint64)
    given = (T.starts, features, np.zeros((2 * n, 0)), T.gains, T.weights, keys)
    times = seconds(
        {
            "weights": lambda: part.learn(*given),
            "wide": lambda: Blend().learn(Q, T, items=Z),
            "lists": lambda: Blend(memory=0).learn(X_views, log, items=items),
            "remembered": lambda: Blend().learn(X_views, log, items=items),
        },
        repeats=3,
    )
    table(
        "Blend, views without W: judgements a second",
        ["what", "rate"],
        [
            ["weights of 3 views alone, triplets", n / times["weights"]],
            ["through `learn`, sparse base of 8 words and 2 fields, triplets", n / times["wide"]],
            ["lists of 20, 384 features and a field, no memory", len(log) / times["lists"]],
            ["the same, with memory", len(log) / times["remembered"]],
        ],
    )


def blend_matrix():
    """All parts against f-AROMA, which learns from each triplet too."""
    rows = []
    for d in (64, FEATURES):
        X, T = unit_vectors(2000, d), triplets(2000, 2000, 4096)
        times = seconds(
            {
                "aroma": lambda X=X, T=T: FactoredAROMA(update_on="margin", average=False).learn(
                    X, T
                ),
                "defaults": lambda X=X, T=T: FactoredAROMA().learn(X, T),
                "W": lambda X=X, T=T: Blend(memory=0).learn(X, T),
                "all": lambda X=X, T=T: Blend().learn(X, T),
            },
            repeats=3,
        )
        micro = {name: 1e6 * value / len(T) for name, value in times.items()}
        rows.append(
            [d, *micro.values(), micro["W"] / micro["aroma"], micro["all"] / micro["aroma"]]
        )
    table(
        "Blend with W against f-AROMA, dense, float32: µs a triplet",
        ["features", "f-AROMA", "its defaults", "no memory", "all", "no memory ×", "all ×"],
        rows,
    )


def remembering(n):
    """A blend that remembers so many queries, the first of them the first of the vectors."""
    X, rng = unit_vectors(2000, FEATURES), np.random.default_rng(0)
    lists = Impressions.from_triplets(triplets(1, 2000, 1), trusted=False)
    blend = Blend(memory=n).learn(X, lists)
    state = dict(blend.get_state())
    state["memory_keys_"] = np.concatenate(
        [state["memory_keys_"], rng.integers(2**63, size=n - 1, dtype=np.uint64)]
    )
    state["memory_queries_"] = unit_vectors(n, FEATURES, seed=1).copy()
    state["memory_vectors_"] = np.full((3, n, FEATURES), 0.01, np.float32)
    state["memory_variances_"] = np.ones((3, n))
    state["memory_met_"] = state["memory_times_"] = np.arange(n)
    state["memory_evidence_"] = np.full((2, 3), 100.0)
    return blend.set_state(state)


def blend_memory():
    """Vector of one query, remembered or new, against a blend without memory."""
    X, rows = unit_vectors(2000, FEATURES), []
    plain = Blend(memory=0).learn(X, triplets(1, 2000, 1))
    for n in (1_000, 10_000, 100_000):
        blend = remembering(n)
        times = seconds(
            {
                "plain": lambda: plain.query_vectors(X[:1]),
                "own": lambda b=blend: b.query_vectors(X[:1]),
                "new": lambda b=blend: b.query_vectors(X[1:2]),
            },
            repeats=5 if n > 10_000 else 20,
        )
        milli = {name: 1e3 * value for name, value in times.items()}
        rows.append(
            [n, *milli.values(), milli["own"] - milli["plain"], milli["new"] - milli["plain"]]
        )
    table(
        "Blend's memory: milliseconds for the vector of one query",
        ["remembered", "no memory", "known", "new", "look-up, known", "look-up, new"],
        rows,
    )


def blend_search():
    """First ten of a search through `Index`, with the blend and without."""
    rows = []
    for n in (20_000, 100_000):
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
