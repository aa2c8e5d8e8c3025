"""What a job on many workers should cost: the rates of this machine, measured now, times a count.

All rates are CPU seconds of one core, measured on the files of `benchmarks.scale`. The counts are
those of `docs/scale.md`.
"""

import hashlib
import os
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy import sparse
from threadpoolctl import threadpool_limits

from similia import FactoredAROMA
from similia.distributed import index_shards, search_ranges
from similia.distributed.exporting import RANGE as EXPORTED
from similia.distributed.exporting import open_target
from similia.distributed.indexing import SHARD_ROWS, TRAINING_ROWS
from similia.distributed.searching import SEARCH_RANGE, merged_best
from similia.distributed.shares import sort_into_shares
from similia.feedback import FeedbackFile, in_chunks
from similia.files import read_vectors
from similia.index import build_index, open_index
from similia.index.recall import RECALL_QUERIES
from similia.linalg.gaussian import mean_precision
from similia.linalg.threads import one_processor
from similia.retrieval import MEASURES, evaluate, top_k
from similia.retrieval.passing import QUERIES
from similia.retrieval.scorers import BLOCK_BYTES
from similia.stream.learning import Witness

#: items that rates are measured on, and judgements
SOME, FEW, SORTED = 2**16, 2**14, 2**17
#: bytes of a file that the system maps at a time
PIECE = 2**16
#: bytes that the driver writes a judgement of a triplet
KEPT = 40


@dataclass
class Rates:
    """CPU seconds of one core for one of each."""

    start: float  # search of a thousand items on one new worker
    index: float  # index of a thousand items on one new worker
    sort: float  # judgement, read and sorted by the driver
    seen: float  # judgement that needs no step, rows in memory
    step: float  # step, on top
    row: float  # row of a mapped file, anywhere, whose page is known
    page: float  # piece of a mapped file that a process touches first
    ranked: float  # score of an evaluation, in d dimensions
    best: float  # score of a search, in d dimensions
    assign: float  # item and list of an index
    scan: float  # item of a list that a query looks into
    listed: float  # byte put into a list, and read out again
    read: float  # byte of a mapped file, in order
    fresh: float  # byte of memory that a process touches first
    save: float  # byte of an array saved, with its checksums
    open: float  # byte of an array opened, with its checksums
    hash: float  # byte of a checksum
    invert: float  # d × d covariance
    merge: float  # entry of a list that the driver merges
    export: float = 0.0  # item written to a database


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


def measured(folder, n_lists, to=None):
    """Rates of this machine on the files of `benchmarks.scale`."""
    with one_processor(), threadpool_limits(1), tempfile.TemporaryDirectory(dir=folder) as name:
        found = {
            **_of_jobs(folder, Path(name)),
            **_of_learning(folder, Path(name)),
            **_of_searching(folder),
            **_of_lists(folder, Path(name), n_lists),
        }
        return Rates(**found, export=0.0 if to is None else _of_export(folder, to))


def _of_jobs(folder, scratch):
    """The smallest jobs: start of a worker, and what it imports."""
    few = scratch / "few.npy"
    np.save(few, np.load(folder / "items.npy", "r")[:1000])
    given = {"executor": "processes:1"}
    return {
        "start": job(
            lambda: search_ranges("inner_product", few, few, 10, work=scratch / "searched", **given)
        ),
        "index": job(lambda: index_shards(few, scratch / "indexed", factory="IVF16,Flat", **given)),
    }


def _of_learning(folder, scratch):
    Z, Q, T = (np.load(folder / f"{n}.npy", "r") for n in ("items", "queries", "feedback"))
    np.save(scratch / "some.npy", np.array(T[:SORTED]))
    ids = [read_vectors(folder / f"{name}.npy").ids for name in ("queries", "items")]
    (scratch / "shares").mkdir()

    def sort():
        witness = Witness()

        def noted():
            file = FeedbackFile(scratch / "some.npy", "triplets", *ids)
            for part in in_chunks(iter(file), 2**16):
                witness.add(part)
                yield part

        sort_into_shares(noted(), scratch / "shares", 8)

    triplets = np.array(T[:FEW])
    used, place = np.unique(triplets[:, 1:], return_inverse=True)
    own, local = np.array(Z[used]), np.column_stack([triplets[:, 0], place.reshape(-1, 2)])
    square = np.cov(own[:1000].T) + np.eye(Z.shape[1])
    known = FactoredAROMA().learn(Q, local, items=own)
    easy = local[known.triplet_scores(Q, local, items=own) > 0]
    calm = FactoredAROMA(average=known.average).learn(Q, local, items=own)
    seen = spent(lambda: calm.learn(Q, easy, items=own)) / len(easy)
    taught = FactoredAROMA(update_on="margin")
    all_ = spent(lambda: FactoredAROMA(update_on="margin").learn(Q, local, items=own), 2)
    steps = taught.learn(Q, local, items=own).n_updates_
    return {
        "sort": spent(sort) / min(SORTED, len(T)),
        "seen": seen,
        "step": (all_ - FEW * seen) / steps,
        "invert": spent(lambda: mean_precision([square])) / 2,
        **_of_rows(folder),
    }


def _of_rows(folder):
    mapped = np.load(folder / "items.npy", "r")
    rng = np.random.default_rng(0)
    rows = rng.integers(len(mapped), size=2**17)
    raw = np.memmap(folder / "items.npy", np.uint8, "r")
    pieces = -(-len(raw) // PIECE)
    begun = time.process_time()
    raw[::PIECE].sum()
    page = (time.process_time() - begun) / pieces
    mapped[::8, 0].sum()
    return {"row": spent(lambda: mapped[rows]) / len(rows), "page": page}


def _of_searching(folder):
    Z, Q = (np.load(folder / f"{n}.npy", "r") for n in ("items", "queries"))
    items, queries = np.array(Z[:SOME]), np.array(Q[:QUERIES])
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(items), size=QUERIES)
    relevance = sparse.csr_array(
        (np.ones(QUERIES), (np.arange(QUERIES), chosen)), (QUERIES, len(items))
    )
    ranked = spent(lambda: evaluate("inner_product", queries, items, relevance=relevance))
    best = spent(lambda: top_k("inner_product", queries[:256], items, 10))
    read = spent(lambda: np.isfinite(np.load(folder / "items.npy", "r")[: 2 * SOME].sum()))
    lists = [(np.zeros((256, 10), np.int64), np.zeros((256, 10)))] * 2
    return {
        "merge": spent(lambda: merged_best(*lists, 10)) / 2560,
        "ranked": ranked / (QUERIES * len(items)),
        "best": best / (256 * len(items)),
        "read": read / Z[: 2 * SOME].nbytes,
    }


def _of_lists(folder, scratch, n_lists):
    import faiss

    items = np.array(np.load(folder / "items.npy", "r")[:SOME])
    n, d = items.shape
    faiss.omp_set_num_threads(1)
    centers = faiss.IndexFlatIP(d)
    centers.add(items[:n_lists])
    one = faiss.index_factory(d, "IVF1,Flat", faiss.METRIC_INNER_PRODUCT)
    one.make_direct_map()
    one.train(items)
    queries = items[:64]

    def listed():
        one.reset()
        one.add(items)
        return one.reconstruct_n(0, n)

    plain = build_index(items)
    path = scratch / "plain.safetensors"
    return {
        "assign": spent(lambda: centers.search(items, 1)) / (n * n_lists),
        "listed": spent(listed) / items.nbytes,
        "scan": spent(lambda: one.search(queries, 10)) / (n * len(queries)),
        "save": spent(lambda: plain.save(path)) / items.nbytes,
        "open": spent(lambda: open_index(path)) / items.nbytes,
        "hash": spent(lambda: hashlib.sha256(items).digest()) / items.nbytes,
        "fresh": _of_memory(),
    }


def _of_memory():
    """Once and all of it held: what was touched before would be far cheaper."""
    begun = time.process_time()
    held = [np.full(BLOCK_BYTES, 1, np.uint8) for _ in range(4)]
    return (time.process_time() - begun) / sum(array.nbytes for array in held)


def _of_export(folder, to):
    items = np.array(np.load(folder / "items.npy", "r")[:4000])
    target = open_target(to, "rates")
    try:
        target.create(items.shape[1], "inner_product", numbered=True)

        def write():
            for start in range(0, len(items), 1000):
                target.write(range(start, start + 1000), items[start : start + 1000])

        return spent(write) / len(items)
    finally:
        target.close()


@dataclass
class Stage:
    """CPU seconds of a stage, and bytes that it moves."""

    start: float  # of each worker
    driver: float
    work: float  # of all tasks together
    tasks: int
    read: float  # bytes, by all workers
    brought: float  # bytes, to the driver

    def spent(self, workers):
        """CPU seconds of all processes."""
        return workers * self.start + self.driver + self.work

    def clock(self, workers):
        """Seconds, if nobody waits for files or for each other."""
        in_turn = -(-self.tasks // workers)
        return self.start + self.driver + in_turn * self.work / self.tasks


def model(r, n, n_items, d, u, judged, asked, n_lists, n_probe, *, shares=8, parts=2, mappers=1):
    """Stages of `benchmarks.scale`.

    Of n judgements, a share u needs a step; `mappers` are processes that map all items.
    """
    items, part = 4 * d * n_items, 4 * 3 * d * d
    ranges, shards, blocks = (
        -(-n_items // SEARCH_RANGE),
        -(-n_items // SHARD_ROWS),
        -(-judged // QUERIES),
    )
    touched = items / PIECE * r.page
    block = mappers * min(BLOCK_BYTES, 4 * asked * n_items / ranges)
    lists = n_items * n_lists * r.assign + items * r.listed
    found = n_items * n_probe / n_lists * r.scan
    trained = min(n_items, TRAINING_ROWS) * (n_lists * r.assign + 4 * d * (r.open + r.listed))
    learnt = r.seen + u * r.step + 2 * r.row + KEPT * (r.hash + r.read)
    return {
        "learn": Stage(
            r.start,
            n * (r.sort + KEPT * r.hash) + (shares + 1) * (2 * r.invert + part * r.open),
            n * learnt + min(mappers * items / PIECE, 2 * n) * r.page,
            shares,
            n * (KEPT + 3 * 4 * d),
            shares * part,
        ),
        # Each part looks at all items for each of two scorers, before it measures its blocks.
        "evaluate": Stage(
            r.start,
            0.0,
            2 * judged * n_items * r.ranked + 2 * parts * items * r.read + mappers * touched,
            min(parts, blocks),
            2 * (parts + blocks) * items,
            2 * parts * judged * len(MEASURES) * 8,
        ),
        "search": Stage(
            r.start,
            ranges * asked * 10 * r.merge,
            asked * n_items * r.best + items * r.read + touched + block * r.fresh,
            ranges,
            items,
            ranges * asked * 10 * 16,
        ),
        # Lists are trained in ten rounds. Each shard opens what was trained, and at most holds its
        # items four times, in lists, read out, as bytes of a file and for the exact search, and the
        # scores of that.
        "index": Stage(
            r.index,
            10 * trained + shards * RECALL_QUERIES * 22 * r.merge,
            shards * trained + lists + items * (r.read + r.listed / 2 + r.save + r.hash)
            + RECALL_QUERIES * (n_items * r.best + found) + touched
            + 4 * items * r.fresh
            + shards * min(BLOCK_BYTES, 4 * RECALL_QUERIES * n_items / shards) * r.fresh,
            shards,
            items,
            shards * RECALL_QUERIES * 22 * 16,
        ),
        "search the shards": Stage(
            r.start,
            shards * asked * 10 * r.merge,
            lists + items * (r.open + 2 * r.fresh) + asked * found,
            shards,
            items,
            shards * asked * 10 * 16,
        ),
        "export": Stage(
            r.start, 0.0, n_items * r.export, -(-n_items // EXPORTED), items, 0.0
        ),
    }  # fmt: skip


def shown(rates):
    """The rates in seconds, microseconds or nanoseconds, for a reader."""
    units = ((0.01, 1, "s"), (1e-7, 1e6, "µs"), (0.0, 1e9, "ns"))
    return ", ".join(
        f"{name} {value * factor:.3g} {unit}"
        for name, value in asdict(rates).items()
        for factor, unit in [next(u[1:] for u in units if value >= u[0])]
    )
