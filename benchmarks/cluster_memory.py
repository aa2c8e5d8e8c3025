"""Memory of driver and workers of 1 GB over time: ``python -m benchmarks.cluster_memory``.

ENGINE (dask or ray), TASK (learn, evaluate, search, index), FORMAT (npy or parquet), FOLDER and, if
one of the workers is to be killed, the second at which. Vectors are made once (ROWS, 128 numbers).
"""

import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import numpy as np

from similia import FactoredAROMA
from similia.distributed import evaluate_parts, index_shards, learn_shares, search_ranges
from similia.files.spooling import write_header

ROWS, WIDTH, BLOCK = int(float(os.environ.get("ROWS", "6e6"))), 128, 2**16
JUDGED, SEARCHED = 200_000, 64


def make(folder):
    """Vectors in both formats, triplets, grades and queries; blocks differ, but little."""
    import pyarrow as pa
    from pyarrow import parquet

    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    base = rng.standard_normal((BLOCK, WIDTH), dtype=np.float32)
    kind = pa.list_(pa.float32(), WIDTH)
    schema = pa.schema([("id", pa.int64()), ("vector", kind)])
    options = {"compression": "none", "use_dictionary": False}
    with (
        open(folder / "x.npy", "wb") as file,
        parquet.ParquetWriter(folder / "x.parquet", schema, **options) as table,
    ):
        write_header(file, (ROWS, WIDTH), np.float32)
        for start in range(0, ROWS, BLOCK):
            block = np.roll(base, start // BLOCK, axis=1)[: ROWS - start]
            file.write(np.ascontiguousarray(block).data.cast("B"))
            vectors = pa.FixedSizeListArray.from_arrays(pa.array(block.ravel()), WIDTH)
            table.write_table(pa.table([np.arange(start, start + len(block)), vectors], schema))
    np.save(folder / "t.npy", rng.integers(ROWS, size=(JUDGED, 3)))
    grades = np.column_stack([rng.integers(ROWS, size=(SEARCHED, 2)), np.ones(SEARCHED, int)])
    header = "query,item,relevance"
    np.savetxt(folder / "g.csv", grades, "%d", ",", header=header, comments="")
    np.save(folder / "q.npy", base[:SEARCHED])


def resident(pid):
    """Megabytes that a process holds, pages of files included, as Dask counts them."""
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    return int(text.partition("VmRSS:")[2].split()[0]) // 1000 if "VmRSS:" in text else 0


def of_dask():
    """A client, and the processes of its workers."""
    from distributed import Client, LocalCluster

    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": "1GB"}
    cluster = LocalCluster(**options, dashboard_address=None)
    return Client(cluster), lambda: [one.pid for one in cluster.workers.values() if one.pid]


def of_ray():
    """The name of a Ray of two processors and 2 GB, and its processes at work."""
    import ray

    sizes = {"_memory": 2_000_000_000, "object_store_memory": 100_000_000}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, **sizes)

    def processes():
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                if (folder / "cmdline").read_bytes().startswith(b"ray::perform"):
                    yield int(folder.name)
            except OSError:
                continue

    return "ray", lambda: list(processes())


def main(engine, task, form, where, kill=None):
    folder = Path(where)
    if not (folder / "q.npy").exists():
        make(folder)
    executor, workers = {"dask": of_dask, "ray": of_ray}[engine]()
    X, work = folder / f"x.{form}", folder / "work"
    shutil.rmtree(work, ignore_errors=True)
    given = {"executor": executor, "work": work}
    jobs = {
        "learn": lambda: learn_shares(FactoredAROMA(), X, folder / "t.npy", shares=4, **given),
        "evaluate": lambda: evaluate_parts({"": "inner_product"}, X, folder / "g.csv", **given),
        "search": lambda: search_ranges("inner_product", folder / "q.npy", X, 10, **given),
        "index": lambda: index_shards(X, work, executor=executor, factory="Flat"),
    }
    series, done, begun = [], threading.Event(), time.monotonic()

    def watch():
        killed = kill is None
        while not done.wait(0.1):
            own = workers()
            series.append((resident(os.getpid()), max(map(resident, own), default=0)))
            if not killed and own and time.monotonic() - begun > float(kill):
                killed = not os.kill(own[0], signal.SIGKILL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        jobs[task]()
    finally:
        done.set()
        thread.join()
    driver, worker = np.array(series).T
    quarters = [int(some.max()) for some in np.array_split(worker, 4)]
    sys.stdout.write(
        f"{engine} {task} {form}: driver {driver.max()} MB, worker {worker.max()} MB, by quarters "
        f"of the run {quarters}\n"
    )


if __name__ == "__main__":
    main(*sys.argv[1:])
