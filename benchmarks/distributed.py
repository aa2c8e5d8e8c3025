"""Many workers: speed-up, what the engine costs a small job, and the memory of the driver."""

import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from benchmarks.timing import table
from similia import OASIS, FactoredAROMA
from similia.distributed import evaluate_parts, learn_shares
from similia.files import read_vectors
from similia.linalg.threads import single_blas_thread
from similia.stream import learn_file


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


TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def used(pool):
    """CPU seconds of this process, and of the workers of a pool."""
    spent = 0
    for process in pool._processes:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        spent += int(fields[11]) + int(fields[12])
    return np.array([time.process_time(), spent / TICK])


def timed(call, folder, pool):
    """Seconds by the clock, CPU seconds of the driver, and of the workers."""
    work = folder / "work"
    before, begun = used(pool), time.perf_counter()
    call(executor=pool, work=work)
    found = time.perf_counter() - begun, *(used(pool) - before)
    shutil.rmtree(work)
    return found


def bare(rounds):
    """Products that need neither memory nor engine: what this machine has to give."""
    A = np.ones((512, 384), np.float32)
    with single_blas_thread():
        for _ in range(rounds):
            A @ A.T


def bare_products(*, executor, work):
    work.mkdir()
    wait([executor.submit(bare, 200) for _ in range(4)])


def graded(folder, n_items):
    """Two grades for each of 8,192 queries among the first items."""
    path, rng = folder / f"judged-{n_items}.csv", np.random.default_rng(1)
    some = np.column_stack([np.repeat(np.arange(8192), 2), rng.integers(n_items, size=16384)])
    path.write_text("query,item,relevance\n" + "".join(f"{q},{i},1\n" for q, i in some))
    np.save(folder / f"items-{n_items}.npy", np.load(folder / "vectors.npy")[:n_items])
    return path, folder / f"items-{n_items}.npy"


def jobs(folder):
    """Calls to be timed, by name: three sizes of learning and of evaluation."""
    vectors, learner = folder / "vectors.npy", FactoredAROMA(update_on="margin")
    yield "bare products, no engine", bare_products
    for n in map(int, map(float, os.environ.get("JUDGEMENTS", "2e5,4e5,8e5").split(","))):
        problem(folder, n)
        feedback = folder / f"feedback-{n}.npy"
        (folder / "feedback.npy").rename(feedback)
        call = partial(learn_shares, learner, vectors, feedback, shares=2)
        yield f"learning, 2 × {n // 2:,} triplets", call
    model = FactoredAROMA(update_on="margin").learn(np.load(vectors), np.load(feedback)[:2000])
    scorers = {"cosine": "cosine", "model": model}
    for n_items in map(int, os.environ.get("ITEMS", "5000,10000,20000").split(",")):
        judged, items = graded(folder, n_items)
        call = partial(evaluate_parts, scorers, vectors, judged, items=items, parts=16)
        yield f"evaluation, 2 × 8,192 queries × {n_items:,} items", call


def distributed():
    """One worker and two take turns; workers are warm, as on a cluster that is up."""
    rows, repeats = [], int(os.environ.get("REPEATS", "5"))
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory() as name,
        ProcessPoolExecutor(1, mp_context=context) as one,
        ProcessPoolExecutor(2, mp_context=context) as two,
    ):
        folder = Path(name)
        for what, call in jobs(folder):
            turns = {1: [], 2: []}
            for turn in range(repeats + 1):  # the first one compiles
                for workers, pool in ((1, one), (2, two)):
                    found = timed(call, folder, pool)
                    if turn:
                        turns[workers].append(found)
            first, second = (np.array(turns[workers]) for workers in (1, 2))
            best, median = first.min(axis=0), np.median(first, axis=0)
            best_2, median_2 = second.min(axis=0), np.median(second, axis=0)
            values = best[0], best_2[0], best[0] / best_2[0], median[0] / median_2[0]
            values += (*best[1:], best_2[2])
            rows.append([what, *(f"{value:.2f}" for value in values), f"{os.getloadavg()[0]:.0f}"])
            print(*rows[-1], flush=True)
    header = [
        "384 dimensions",
        "1 worker, s",
        "2 workers, s",
        "gain, best",
        "gain, medians",
        "CPU of the driver",
        "of 1 worker",
        "of 2 workers",
        "load",
    ]
    table(f"One worker and two, in turns, {repeats} times", header, rows)


def small_jobs():
    """What an engine costs a job of 2,000 judgements in 16 dimensions."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = problem(Path(name), 2000, 500, 16)
        given = (folder / "vectors.npy", folder / "feedback.npy")

        def once(call):
            begun = time.perf_counter()
            call()
            return time.perf_counter() - begun

        def in_shares(executor):
            learn_shares(OASIS(), *given, shares=2, executor=executor, work=folder / "work")
            shutil.rmtree(folder / "work")

        alone = partial(learn_file, OASIS(), read_vectors(given[0]), given[1])
        engines = {"one machine": alone, "processes:2": partial(in_shares, "processes:2")}
        with ExitStack() as stack:
            context = multiprocessing.get_context("spawn")
            pool = stack.enter_context(ProcessPoolExecutor(2, mp_context=context))
            engines["processes that are up"] = partial(in_shares, pool)
            if find_spec("distributed"):
                from distributed import LocalCluster

                options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": None}
                cluster = stack.enter_context(LocalCluster(**options, silence_logs=50))
                address = cluster.scheduler_address.replace("tcp://", "dask://")
                engines["Dask that is up"] = partial(in_shares, address)
            if find_spec("ray"):
                import ray

                ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
                stack.callback(ray.shutdown)
                engines["Ray that is up"] = partial(in_shares, "ray")
            for engine, call in engines.items():
                first, *others = [once(call) for _ in range(6)]
                rows.append([engine, f"{first:.2f}", f"{min(others):.2f}"])
    title = "A job of 2,000 judgements, 2 shares: seconds"
    table(title, ["engine", "first call", "best of five more"], rows)


DRIVER = """
import sys, time
from benchmarks.scale import Memory
from similia import OASIS
from similia.distributed import learn_shares
if __name__ == "__main__":
    started = time.perf_counter()
    vectors, feedback, work, workers = sys.argv[1:]
    with Memory() as memory:
        learn_shares(
            OASIS(), vectors, feedback, executor=f"processes:{workers}", shares=8, work=work
        )
    print(memory.driver, memory.worker, memory.mapped, f"{time.perf_counter() - started:.0f}")
"""


def driver_memory():
    rows = []
    for n in map(int, os.environ.get("SIZES", "100000,1000000,10000000").split(",")):
        with tempfile.TemporaryDirectory() as name:
            folder = problem(Path(name), n, 20_000, 32)
            (folder / "driver.py").write_text(DRIVER)
            call = [folder / "driver.py", folder / "vectors.npy", folder / "feedback.npy"]
            workers = os.environ.get("WORKERS", "2")
            command = [sys.executable, *map(str, call), str(folder / "work"), workers]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
            done = subprocess.run(
                command, env=environment, stdout=subprocess.PIPE, text=True, check=True
            )
            rows.append([f"{n:,}", *done.stdout.split()])
    header = ["judgements", "driver, MB", "worker, MB", "mapped files, MB", "seconds"]
    table("Memory, OASIS, 32 dimensions", header, rows)


ALL = [distributed, small_jobs, driver_memory]
