"""Memory of driver and workers of 1 GB over time: ``python -m benchmarks.cluster_memory``.

ENGINE (dask or ray), TASK (learn, evaluate, search, index), FORMAT (npy or parquet), FOLDER and, to
kill one of them, ``worker:SECONDS`` or ``driver:SECONDS``; a killed driver is started again.
Vectors are made once (ROWS, 128 numbers), or, with SPARSE, as a file of zeros that takes no room.
``figure FOLDER FILE`` draws what the runs in a folder held.
"""

import hashlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

from similia import FactoredAROMA
from similia.distributed import evaluate_parts, index_shards, learn_shares, search_ranges
from similia.files.spooling import write_header

ROWS, WIDTH, BLOCK = int(float(os.environ.get("ROWS", "6e6"))), 128, 2**16
JUDGED, SEARCHED = 200_000, int(os.environ.get("QUERIES", "64"))
#: seconds between two looks
LOOK = 0.1
TASKS, FORMATS = ("learn", "evaluate", "search", "index"), ("npy", "parquet")


def make(folder):
    """Vectors, triplets, grades and queries."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    base = rng.standard_normal((BLOCK, WIDTH), dtype=np.float32)
    if "SPARSE" in os.environ:
        make_sparse(folder / "x.npy", base)
    else:
        make_vectors(folder, base)
    np.save(folder / "t.npy", rng.integers(ROWS, size=(JUDGED, 3)))
    grades = np.column_stack([rng.integers(ROWS, size=(SEARCHED, 2)), np.ones(SEARCHED, int)])
    header = "query,item,relevance"
    np.savetxt(folder / "g.csv", grades, "%d", ",", header=header, comments="")
    np.save(folder / "q.npy", base[:SEARCHED])


def make_sparse(path, base):
    """A .npy file of zeros but for its last rows, of which the others take no room on the disk."""
    with open(path, "wb") as file:
        write_header(file, (ROWS, WIDTH), np.float32)
        file.seek((ROWS - BLOCK) * WIDTH * base.itemsize, os.SEEK_CUR)
        file.write(base.data.cast("B"))


def make_vectors(folder, base):
    """The same vectors in both formats; blocks differ, but little."""
    import pyarrow as pa
    from pyarrow import parquet

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


def digest(found, work):
    """What a task has found, in a few letters."""
    arrays = found if isinstance(found, tuple) else []
    if isinstance(found, dict):
        arrays = [values for one in found.values() for _, values in sorted(one.per_query.items())]
    elif hasattr(found, "model"):
        arrays = [value for _, value in sorted(found.model.get_state().items())]
    elif not arrays:  # shards
        shards = map(load_file, sorted(work.glob("shard-*.safetensors")))
        arrays = (arrays[name] for arrays in shards for name in sorted(arrays))
    whole = hashlib.sha256()
    for array in arrays:
        whole.update(np.ascontiguousarray(array).data)
    return whole.hexdigest()[:12]


def main(engine, task, form, where, kill=""):
    folder, (victim, _, second) = Path(where), kill.partition(":")
    X, work = folder / f"x.{form}", folder / "work"
    if not (folder / "q.npy").exists():
        make(folder)
    if victim != "again":
        shutil.rmtree(work, ignore_errors=True)
    if victim == "driver":
        words = [sys.executable, "-m", "benchmarks.cluster_memory", engine, task, form, where]
        ended = subprocess.run([*words, f"itself:{second}"]).returncode
        kept = len(list(work.glob("*-[0-9]*.json")))
        sys.stdout.write(f"the driver ended with {ended}; {kept} tasks were finished\n")
        sys.stdout.flush()
        subprocess.run([*words, "again"], check=True)
        return
    executor, workers = {"dask": of_dask, "ray": of_ray}[engine]()
    given = {"executor": executor, "work": work}
    jobs = {
        "learn": lambda: learn_shares(FactoredAROMA(), X, folder / "t.npy", shares=4, **given),
        "evaluate": lambda: evaluate_parts({"": "inner_product"}, X, folder / "g.csv", **given),
        "search": lambda: search_ranges("inner_product", folder / "q.npy", X, 10, **given),
        "index": lambda: index_shards(X, work, executor=executor, factory="Flat"),
    }
    series = [(0.0, resident(os.getpid()), 0)]
    done, begun = threading.Event(), time.monotonic()

    def watch():
        waiting = bool(second)
        while not done.wait(LOOK):
            own, now = workers(), time.monotonic() - begun
            series.append((now, resident(os.getpid()), max(map(resident, own), default=0)))
            if waiting and own and now > float(second):
                waiting = False
                os.kill(os.getpid() if victim == "itself" else own[0], signal.SIGKILL)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        found = jobs[task]()
    finally:
        done.set()
        thread.join()
    _, driver, worker = np.array(series).T
    name = "-".join([engine, task, form, *kill.partition(":")[:1]]).rstrip("-")
    np.save(folder / f"series-{name}.npy", series)
    quarters = [int(some.max(initial=0)) for some in np.array_split(worker, 4)]
    sys.stdout.write(
        f"{name}: {series[-1][0]:.0f} s, driver {driver.max():.0f} MB, worker {worker.max():.0f} "
        f"MB, by quarters of the run {quarters}, found {digest(found, work)}\n"
    )


def figure(where, file):
    """Draw what driver and workers held over the time of each run in a folder."""
    from matplotlib.figure import Figure

    runs = sorted(
        (TASKS.index(words[1]), words, path)
        for path in Path(where).glob("series-*.npy")
        if (words := path.stem.split("-")[1:])[2:] in [[form] for form in FORMATS]
    )
    columns = sorted({(words[0], words[2]) for _, words, _ in runs})
    shape = {"nrows": len(TASKS), "ncols": len(columns), "squeeze": False}
    drawing = Figure(figsize=(2.4 * len(columns), 6.4), layout="constrained")
    axes = drawing.subplots(**shape, sharey=True)
    for row, task in enumerate(TASKS):
        for column, (engine, form) in enumerate(columns):
            axis = axes[row, column]
            axis.set(ylim=(0, 1050))
            axis.axhline(1000, color="0.6", linewidth=0.8)
            axis.tick_params(labelsize=7)
            axis.set_title(f"{task}: {engine.capitalize()}, .{form}", fontsize=8)
    for row, (engine, _, form), path in runs:
        seconds, driver, worker = np.load(path).T
        axis = axes[row, columns.index((engine, form))]
        axis.plot(seconds, worker, label="worker that holds most", linewidth=1)
        axis.plot(seconds, driver, label="driver", linewidth=1)
    for axis in axes.ravel():
        axis.set_visible(len(axis.lines) > 1)
        axis.tick_params(labelleft=True)
    drawing.supxlabel("seconds", fontsize=8)
    drawing.supylabel("MB", fontsize=8)
    lines, names = drawing.axes[0].get_legend_handles_labels()
    drawing.legend(lines, names, loc="outside upper center", ncols=2, fontsize=8)
    drawing.savefig(file, dpi=110)


if __name__ == "__main__":
    figure(*sys.argv[2:]) if sys.argv[1] == "figure" else main(*sys.argv[1:])
