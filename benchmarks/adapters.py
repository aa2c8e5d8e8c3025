"""Size and speed of many small adapters, against the full learner."""

import gc
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np

from benchmarks.timing import seconds, table
from benchmarks.workloads import triplets, unit_vectors
from similia import OASIS
from similia.adapters import Adapters

FEATURES, ITEMS = 384, 20_000


def resident():
    """Resident memory of this process, in MiB."""
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 2**20


def sizes_of(rank):
    """Table row for 10,000 users with 20 judgements each."""
    X = unit_vectors(ITEMS, FEATURES)
    rng = np.random.default_rng(0)
    per_user, n_users = 20, 10_000
    rows = rng.integers(ITEMS, size=(n_users, per_user, 3))
    adapters = Adapters(rank=rank).learn(0, X, rows[0])  # compiles
    adapters.forget(0)
    before = resident()
    start = time.perf_counter()
    for user in range(n_users):
        adapters.learn(user, X, rows[user])
    elapsed = time.perf_counter() - start
    return [
        rank,
        adapters.nbytes / 2**20,
        resident() - before,
        adapters.nbytes / n_users / 2**10,
        2 * FEATURES**2 * 4 / 2**10,
        elapsed,
        1e6 * elapsed / (n_users * per_user),
    ]


def adapter_size():
    """Each rank in its own process: otherwise one would reuse the memory that another freed."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        result = list(pool.map(sizes_of, (8, 16)))
    table(
        "10,000 adapters of 384 features, float32, 20 judgements each",
        [
            "rank",
            "MiB in all",
            "MiB more in use by the process",
            "KiB a user",
            "KiB of a full learner",
            "seconds",
            "µs a judgement",
        ],
        result,
    )


def adapter_speed():
    """Learning and query vectors against the full learner with the same judgements."""
    X = unit_vectors(ITEMS, FEATURES)
    stream = triplets(ITEMS, ITEMS, 2000)
    one = X[:1]
    oasis = OASIS().learn(X, stream)
    result = []
    for rank in (4, 8, 16, 32):
        adapters = Adapters(rank=rank).learn(0, X, stream)
        times = seconds(
            {
                "adapter": lambda rank=rank: Adapters(rank=rank).learn(0, X, stream),
                "full": lambda: OASIS().learn(X, stream),
                "adapter, one": lambda a=adapters: a.learn(1, X, stream[:1]),
                "adapter query": lambda a=adapters: a.query_vectors(0, one),
                "full query": lambda: oasis.query_vectors(one),
            }
        )
        n = len(stream)
        result.append(
            [
                rank,
                1e6 * times["adapter"] / n,
                1e6 * times["full"] / n,
                1e6 * times["adapter, one"],
                1e6 * times["adapter query"],
                1e6 * times["full query"],
            ]
        )
    table(
        "One adapter against the full OASIS, 384 features, float32: microseconds",
        [
            "rank",
            "a judgement of 2,000",
            "the same, full",
            "a call with one judgement",
            "query vector",
            "query vector, full",
        ],
        result,
    )


ALL = [adapter_size, adapter_speed]
