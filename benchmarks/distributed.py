"""Many workers: speed-up, what the engine costs a small job, and the memory of the driver."""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.timing import table
from similia import OASIS, FactoredAROMA
from similia.distributed import evaluate_parts, learn_shares
from similia.persistence import save


def problem(folder, n, n_vectors=20_000, d=384):
    """Vectors, and triplets whose better item is nearer in half of the directions."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_vectors, d)).astype(np.float32)
    np.save(folder / "vectors.npy", X / np.linalg.norm(X, axis=1, keepdims=True))
    stored = np.lib.format.open_memmap(folder / "feedback.npy", "w+", np.int64, (n, 3))
    for start in range(0, n, 2**16):
        rows = rng.integers(n_vectors, size=(min(2**16, n - start), 3))
        q, a, b = (X[rows[:, j], :16] for j in range(3))
        swap = np.vecdot(q, a) < np.vecdot(q, b)
        rows[swap, 1:] = rows[swap, :0:-1]
        stored[start : start + len(rows)] = rows
    return folder


def cpu_seconds(who):
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def spent(call, *args, **options):
    """CPU seconds of this process and of the workers that it started and ended."""
    sides = resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN
    before = [cpu_seconds(side) for side in sides]
    call(*args, **options)
    return [cpu_seconds(side) - start for side, start in zip(sides, before, strict=True)]


def distributed():
    """CPU time, so that other work does not matter; what two workers gain follows from it."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = problem(Path(name), 200_000)
        given = (folder / "vectors.npy", folder / "feedback.npy")
        model = FactoredAROMA(update_on="margin").learn(np.load(given[0]), np.load(given[1])[:2000])
        save(model, folder / "model.safetensors")
        scorers = {"cosine": "cosine", "model": folder / "model.safetensors"}
        judged, rng = folder / "judged.csv", np.random.default_rng(1)
        some = np.column_stack([np.repeat(np.arange(8192), 2), rng.integers(20_000, size=16384)])
        judged.write_text("query,item,relevance\n" + "".join(f"{q},{i},1\n" for q, i in some))
        small = folder / "small"
        small.mkdir()
        tiny = problem(small, 2000, 500, 16) / "vectors.npy", small / "feedback.npy"
        learner = FactoredAROMA(update_on="margin")
        calls = {
            "learning, 2 × 100,000 triplets": (learn_shares, learner, *given, {"shares": 2}),
            "evaluation, 2 × 8,192 queries × 20,000 items": (
                evaluate_parts, scorers, given[0], judged, {"parts": 16},
            ),
            "learning, 2 × 1,000 triplets in 16 dimensions": (
                learn_shares, OASIS(), *tiny, {"shares": 2},
            ),
        }  # fmt: skip
        for place, (what, (function, *args, options)) in enumerate(calls.items()):
            one, two = (
                spent(function, *args, **options, executor=f"processes:{workers}",
                      work=folder / f"work-{place}-{workers}")
                for workers in (1, 2)
            )  # fmt: skip
            gain = sum(one) / (two[0] + two[1] / 2)
            rows.append([what, *(f"{value:.1f}" for value in (*one, *two)), f"{gain:.2f}"])
    header = ["", "driver", "1 worker", "driver", "2 workers", "gain of two, if evenly loaded"]
    table("Shares on workers, 384 dimensions: CPU seconds", header, rows)


DRIVER = """
import resource, sys, time
from similia import OASIS
from similia.distributed import learn_shares
if __name__ == "__main__":
    started = time.perf_counter()
    vectors, feedback, work = sys.argv[1:]
    learn_shares(OASIS(), vectors, feedback, executor="processes:2", shares=8, work=work)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{peak:.0f} {time.perf_counter() - started:.0f}")
"""


def driver_memory():
    rows = []
    for n in map(int, os.environ.get("SIZES", "100000,1000000,10000000").split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = problem(Path(name), n, 20_000, 32)
            (folder / "driver.py").write_text(DRIVER)
            call = [folder / "driver.py", folder / "vectors.npy", folder / "feedback.npy"]
            command = [sys.executable, *map(str, call), str(folder / "work")]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
            rows.append([f"{n:,}", *out])
    table("Memory of the driver, OASIS, 32 dimensions", ["judgements", "MB", "seconds"], rows)


ALL = [distributed, driver_memory]
