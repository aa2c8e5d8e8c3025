"""What a job on many workers should cost: the rates of this machine, measured now, times a count.

All rates are CPU seconds of one core. The counts are those of `docs/scale.md`.
"""

import hashlib
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from similia import FactoredAROMA
from similia.distributed import index_shards, search_ranges
from similia.distributed.shares import sort_into_shares
from similia.files import FeedbackFile, in_chunks, read_vectors
from similia.linalg.threads import one_processor
from similia.retrieval import evaluate, top_k
from similia.retrieval.scorers import BLOCK_BYTES
from similia.stream.learning import Witness

#: items that rates are measured on, and judgements
SOME, FEW, SORTED = 2**15, 2**14, 2**17


def spent(call, times=3):
    """Least CPU seconds of a call, after one that compiles."""
    call()
    found = []
    for _ in range(times):
        begun = time.process_time()
        call()
        found.append(time.process_time() - begun)
    return min(found)


def job(call):
    """CPU seconds of a job, with those of its workers, which have ended."""
    before = os.times()
    call()
    return sum(os.times()[:4]) - sum(before[:4])


@dataclass
class Rates:
    """CPU seconds of one core for one of each."""

    start: float  # search of a thousand items on one new worker
    index: float  # index of a thousand items on one new worker
    sort: float  # judgement, read and sorted by the driver
    step: float  # judgement, rows in memory
    row: float  # row of a mapped file, anywhere
    ranked: float  # score of an evaluation, in d dimensions
    best: float  # score of a search, in d dimensions
    assign: float  # item and list of an index
    read: float  # byte of a mapped file, in order
    copy: float
    hash: float
    write: float


def measured(folder, n_lists):
    """Rates of this machine on the files of `benchmarks.scale`."""
    with one_processor(), threadpool_limits(1), tempfile.TemporaryDirectory(dir=folder) as name:
        return _measured(folder, Path(name) / "some", n_lists)


def _measured(folder, scratch, n_lists):
    import faiss

    Z, Q, T = (np.load(folder / f"{n}.npy", "r") for n in ("items", "queries", "feedback"))
    items, d = np.array(Z[:SOME]), Z.shape[1]
    queries, triplets = np.array(Q[:512]), np.array(T[:FEW])
    flat = triplets[:, 1:].ravel()
    used, place = np.unique(flat, return_inverse=True)
    own, local = np.array(Z[used]), np.column_stack([triplets[:, 0], place.reshape(-1, 2)])
    np.save(scratch.with_suffix(".npy"), np.array(T[:SORTED]))
    rng, n_best = np.random.default_rng(0), max(1, BLOCK_BYTES // (4 * 2**18))
    relevance = np.zeros((512, SOME), np.int8)
    relevance[np.arange(512), rng.integers(SOME, size=512)] = 1
    centers = faiss.IndexFlatIP(d)
    centers.add(items[:n_lists])
    byte = items.nbytes
    whole = np.array(Z[: 4 * SOME]).tobytes()
    file = scratch.with_suffix(".bin")

    ids = [read_vectors(folder / f"{name}.npy").ids for name in ("queries", "items")]

    def sort():
        witness = Witness()
        file = FeedbackFile(scratch.with_suffix(".npy"), "triplets", *ids)

        def noted():
            for part in in_chunks(iter(file), 2**16):
                witness.add(part)
                yield part

        (scratch.parent / "shares").mkdir(exist_ok=True)
        sort_into_shares(noted(), scratch.parent / "shares", 8)

    def gather():
        # Opened anew, so that each page is found anew, as by a new worker.
        mapped = np.load(folder / "items.npy", "r")
        return mapped[rng.integers(len(mapped), size=FEW)]

    def write():
        with open(file, "wb") as opened:
            opened.write(whole)
            os.fsync(opened.fileno())

    few = scratch.with_name("few.npy")
    np.save(few, items[:1000])
    given = {"executor": "processes:1"}

    def search():
        search_ranges("inner_product", few, few, 10, work=scratch.with_name("search"), **given)

    def index():
        index_shards(few, scratch.with_name("index"), factory="IVF16,Flat", **given)

    measures = ["map", "mrr"]
    return Rates(
        start=job(search),
        index=job(index),
        sort=spent(sort) / min(SORTED, len(T)),
        step=spent(lambda: FactoredAROMA().learn(Q, local, items=own), 2) / FEW,
        row=spent(gather) / FEW,
        ranked=spent(
            lambda: evaluate(
                "inner_product", queries, items, relevance=relevance, measures=measures
            )
        )
        / (512 * SOME),
        best=spent(lambda: top_k("inner_product", queries[:n_best], items, 10))
        / (min(512, n_best) * SOME),
        assign=spent(lambda: centers.search(items, 1)) / (SOME * n_lists),
        read=spent(lambda: np.load(folder / "items.npy", "r")[: 4 * SOME].sum()) / len(whole),
        copy=spent(lambda: np.array(items)) / byte,
        hash=spent(lambda: hashlib.sha256(whole).digest()) / len(whole),
        write=spent(write) / len(whole),
    )


def model(r, n, n_items, d, judged, asked, n_lists, n_probe, workers):
    """CPU seconds of each stage of `benchmarks.scale`."""
    bytes_ = 4 * d * n_items
    built = n_items * n_lists * r.assign + bytes_ * 2 * r.copy
    trained = 10 * min(n_items, 2**16, 256 * n_lists) * n_lists * r.assign
    return {
        "learn": workers * r.start + n * (r.sort + r.step + 2 * r.row + 40 * (r.hash + r.read)),
        # Each part looks at all items once for each scorer.
        "evaluate": workers * r.start + 2 * judged * n_items * r.ranked + 4 * bytes_ * r.read,
        "search": workers * r.start + asked * n_items * r.best + 2 * bytes_ * r.read,
        # Read, put into lists, read out twice, written, checked twice; 200 of the items searched.
        "index": workers * r.index + trained + built
        + bytes_ * (2 * r.read + 4 * r.copy + r.write + 2 * r.hash)
        + 200 * n_items * r.best * (1 + n_probe / n_lists),
        "search the shards": workers * r.index + built
        + bytes_ * (r.read + r.copy + r.hash)
        + asked * n_items * r.best * n_probe / n_lists,
    }  # fmt: skip
