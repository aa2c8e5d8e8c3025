"""Ten million judgements about ten million items, from end to end, in flat memory.

``SCALE=1e7 FOLDER=somewhere python -m benchmarks scale`` needs 6 GB of disk per 1e7, and 6 more for
the shards of the index. What is finished in the folder is not repeated, and so not timed again.
``TO=postgresql://…`` or ``TO=qdrant:…`` exports the items, too; ``STAGES="index;export"`` does some
of it.
"""

import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np

from benchmarks import cost
from benchmarks.timing import table
from similia import FactoredAROMA
from similia.distributed import (
    evaluate_parts,
    export_items,
    index_shards,
    learn_shares,
    search_ranges,
    search_shards,
)
from similia.persistence import load

N_QUERIES, D, RELEVANT, N_PROBE = 100_000, 128, 16, 32
#: queries with grades; two blocks of an evaluation, so that two workers have some
JUDGED = int(os.environ.get("JUDGED", "1024"))
STEP = 2**18


class Memory:
    """Most memory that this process and its workers hold, and that of files that they map."""

    def __init__(self):
        self.driver = self.worker = self.mapped = 0
        self.done = threading.Event()
        self.thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()

    def _watch(self):
        me = os.getpid()
        while not self.done.wait(0.2):
            own, mapped = _held(me)
            self.driver, self.mapped = max(self.driver, own), max(self.mapped, mapped)
            for worker in _children(me):
                own, mapped = _held(worker)
                self.worker, self.mapped = max(self.worker, own), max(self.mapped, mapped)


def _held(process):
    """MB of its own, and of mapped files, that a process holds in memory."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0, 0
    found = dict(line.split(":", 1) for line in lines)
    return tuple(
        int(found.get(f"Rss{kind}", "0 kB").split()[0]) // 1024 for kind in ("Anon", "File")
    )


def _children(process):
    try:
        return Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return []


def make(folder, n, n_items):
    """Items, queries, judgements by a hidden similarity of some directions, and grades."""
    rng = np.random.default_rng(0)
    if (folder / "grades.csv").exists():
        return
    Q = rng.normal(size=(N_QUERIES, D)).astype(np.float32)
    np.save(folder / "queries.npy", Q)
    np.save(folder / "asked.npy", Q[:256])
    Z = np.lib.format.open_memmap(folder / "items.npy", "w+", np.float32, (n_items, D))
    topics = rng.standard_normal((1024, D), np.float32)
    for start in range(0, n_items, STEP):
        size = min(STEP, n_items - start)
        Z[start : start + size] = topics[rng.integers(len(topics), size=size)]
        Z[start : start + size] += rng.standard_normal((size, D), np.float32)
    Z.flush()
    triplets = np.lib.format.open_memmap(folder / "feedback.npy", "w+", np.int64, (n, 3))
    for start in range(0, n, STEP):
        size = min(STEP, n - start)
        rows = np.column_stack(
            [rng.integers(N_QUERIES, size=size), rng.integers(n_items, size=(size, 2))]
        )
        q, a, b = (X[rows[:, j], :RELEVANT] for j, X in enumerate((Q, Z, Z)))
        swap = np.vecdot(q, a) < np.vecdot(q, b)
        rows[swap, 1:] = rows[swap, :0:-1]
        triplets[start : start + size] = rows
    triplets.flush()
    # The best of some random items, by the hidden similarity, is relevant.
    judged = rng.integers(n_items, size=(JUDGED, 64))
    best = [judged[i, np.argmax(Z[judged[i], :RELEVANT] @ Q[i, :RELEVANT])] for i in range(JUDGED)]
    text = "".join(f"{i},{row},1\n" for i, row in enumerate(best))
    (folder / "grades.csv").write_text("query,item,relevance\n" + text)


def scale():
    size = int(float(os.environ.get("SCALE", "1e6")))
    workers = os.environ.get("WORKERS", "2")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.environ.get("FOLDER", name))
        make(folder, size, size)
        items, asked, model = (folder / n for n in ("items.npy", "asked.npy", "model.safetensors"))
        given = {"executor": f"processes:{workers}", "patience": 7200.0}
        lists, quality = os.environ.get("LISTS", "IVF512,Flat"), {}

        def learn():
            return learn_shares(
                FactoredAROMA(), folder / "queries.npy", folder / "feedback.npy",
                items=items, shares=8, output=model, **given,
            )  # fmt: skip

        def measure():
            quality["mrr"] = evaluate_parts(
                {"before": "inner_product", "after": model}, folder / "queries.npy",
                folder / "grades.csv", items=items, work=folder / "evaluation", parts=2, **given,
            )  # fmt: skip

        def search():
            work = folder / "search"
            quality["exact"] = search_ranges(model, asked, items, 10, work=work, **given)[0]

        def build():
            options = {"factory": lists, "n_probe": N_PROBE}
            quality["report"] = index_shards(items, folder / "shards", **given, **options)

        def search_together():
            quality["shards"] = search_shards(
                folder / "shards", asked, 10, model=model, work=folder / "together", **given
            )[0]

        def export():
            export_items(items, to, "items", work=folder / "export", **given)

        stages = {
            f"learn, {size:,} judgements in 8 shares": learn,
            f"evaluate, 2 × {JUDGED:,} queries × {size:,} items": measure,
            f"search, 256 queries × {size:,} items": search,
            f"index, {size:,} items in shards": build,
            "search the shards, 256 queries": search_together,
        }
        if to := os.environ.get("TO"):
            stages[f"export, {size:,} items"] = export
        rates = cost.measured(folder, n_lists := int(lists[3:].partition(",")[0]), to)
        print(cost.shown(rates), flush=True)
        only, rows = os.environ.get("STAGES", ""), []
        for what, stage in stages.items():
            name = what.split(",")[0]
            if only and name not in only.split(";"):
                continue
            busy, begun, used = os.getloadavg()[0], time.perf_counter(), os.times()
            with Memory() as memory:
                stage()
            after = os.times()
            cpu = sum(after[:4]) - sum(used[:4])
            seconds = time.perf_counter() - begun
            held = [memory.driver, memory.worker, memory.mapped]
            learnt = load(model)
            u = learnt.n_updates_ / learnt.n_seen_
            sizes = size, size, D, u, JUDGED, 256, n_lists, N_PROBE
            stages_ = cost.model(rates, *sizes, mappers=int(workers))
            expected = stages_[name].spent(int(workers))
            by_model = [f"{expected:.1f}", f"{cpu / expected:.2f}"]
            rows.append([what, f"{seconds:.0f}", f"{cpu:.1f}", *by_model, *held, f"{busy:.0f}"])
            print(*rows[-1], flush=True)
        header = [
            "",
            "seconds",
            "CPU seconds",
            "by the model",
            "ratio",
            "driver MB",
            "worker MB",
            "mapped MB",
            "load",
        ]
        table(f"{size:,} judgements about {size:,} × {D} items, {workers} workers", header, rows)
        for name, found in quality.get("mrr", {}).items():
            print(f"mean reciprocal rank {name} learning: {found.means['mrr']:.6f}")
        if "report" in quality:
            print(quality["report"])
        if "shards" in quality and "exact" in quality:
            pairs = zip(quality["exact"], quality["shards"], strict=True)
            recall = np.mean([np.isin(right, found).mean() for right, found in pairs])
            print(f"recall@10 of the shards by what was learnt: {recall:.4f}")


def on_paper():
    """The model carried to 1e9 judgements about 1e9 items, with the rates of this machine."""
    size, workers = int(float(os.environ.get("SCALE", "1e6"))), 1000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(os.environ.get("FOLDER", name))
        make(folder, size, size)
        rates = cost.measured(folder, 512, os.environ.get("TO"))
    print(cost.shown(rates))
    sizes = 10**9, 10**9, D, 0.05, 512_000, 256, 512, N_PROBE
    stages = cost.model(rates, *sizes, shares=workers, parts=workers, mappers=workers)
    rows = [
        [
            name,
            f"{stage.work:,.0f}",
            f"{stage.tasks:,}",
            f"{stage.work / stage.tasks:,.1f}",
            f"{stage.driver:,.1f}",
            f"{stage.clock(workers):,.0f}",
            f"{stage.read / 1e9:,.0f}",
            f"{stage.brought / 1e9:,.2f}",
        ]
        for name, stage in stages.items()
    ]
    header = [
        "",
        "CPU seconds of all tasks",
        "tasks",
        "of one",
        "of the driver",
        "clock",
        "GB read by workers",
        "GB to the driver",
    ]
    table(f"On paper: 1e9 judgements, 1e9 × {D} items, {workers:,} workers", header, rows)


ALL = [scale, on_paper]
