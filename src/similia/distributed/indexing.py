"""Approximate indexes in shards: trained once, kept apart, searched together."""

import json
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.distributed.engines import engine_named
from similia.distributed.folders import (
    Record,
    WorkFolder,
    fetched_for_work,
    finish,
    finished,
    kept,
    open_job,
    write_arrays,
)
from similia.distributed.inputs import located
from similia.distributed.memory import Cut
from similia.distributed.searching import best_of_all
from similia.distributed.shares import RangedVectors, VectorPath, VectorRange
from similia.distributed.tasks import DEFAULT_PATIENCE, Report, run_shown
from similia.files import read_vectors
from similia.files.locations import fetched
from similia.index import BuildReport, build_index, index_like, open_index
from similia.index.backends import Space
from similia.index.exact import exact_search
from similia.index.recall import sampled_rows, share_found
from similia.persistence import load
from similia.retrieval.vectors import is_sparse
from similia.safety.whole import replace_text, replacing
from similia.validation import check_parameters, none, positive, positive_integer

#: default items per shard
SHARD_ROWS = 2**19
#: copies of its items that a task takes, and bytes beside them
SHARD_COPIES, INDEX_BYTES = 4, 2**26
#: items for training inverted lists, evenly spread, once for all shards
TRAINING_ROWS = 2**16
#: the trained index, the sample for recall, and the list of shards
TRAINED, RECALL_SAMPLE, SHARDS = "trained", "sample", "shards.json"
SHARD_NAME = re.compile(r"shard-\d{5,}")

_RULES = {
    "recall_at": positive_integer,
    "shard_size": none | positive_integer,
    "patience": positive,
}


@dataclass(frozen=True)
class BuildShard:
    """An index of a range of items, and its results for the sample beside the exact ones."""

    name: str
    items: VectorRange
    model: str | None
    k: int
    needs: tuple[str, ...]

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Build the shard, search it for the sample, and save both."""
        X, first = self.items.read(), self.items.start
        model = _loaded(self.model, folder)
        trained = open_index(folder / f"{TRAINED}.safetensors")
        index = index_like(trained, X, np.arange(first, self.items.stop), model=model)
        index.save(folder / f"{self.name}.safetensors")
        # Items serve as queries, untransformed if queries have other features.
        wide = model is None or model.get_state().get("n_features_in_") == X.shape[1]
        sample, by = read_vectors(folder / f"{RECALL_SAMPLE}.npy").X, model if wide else None
        k, vectors = min(self.k + 1, len(index)), index.backend.vectors()
        space = Space(vectors.shape[1], index.geometry, vectors.dtype)
        exact = exact_search(vectors, space).search(index.query_vectors(sample, model=by), k)
        found = index.search(sample, k, model=by)
        arrays = {"best": exact[0] + first, "best_scores": exact[1]}
        arrays |= {"found": found.ids, "found_scores": found.scores}
        write_arrays(folder / f"{self.name}.npz", arrays)
        size = {"n": X.shape[0], "n_features": index.n_features}
        record = {**size, "geometry": index.geometry, "seconds": index.report.seconds}
        return record, [f"{self.name}.safetensors", f"{self.name}.npz"]


@dataclass(frozen=True)
class SearchShard:
    """All queries against one shard."""

    shard: str
    queries: VectorPath
    model: str | None
    k: int
    needs: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name of the task."""
        return f"search-{Path(self.shard).stem}"

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Open the shard, and write the rows and scores of what it finds."""
        model, X = _loaded(self.model, folder), self.queries.read().X
        with tempfile.TemporaryDirectory() as here:
            index = open_index(fetched(self.shard, Path(here)))
            found = index.search(X, min(self.k, len(index)), model=model)
        write_arrays(folder / f"{self.name}.npz", {"rows": found.ids, "scores": found.scores})
        return {"n": 1}, [f"{self.name}.npz"]


def index_shards(
    items: VectorPath | Path | str,
    folder: Path | str,
    model: Path | str | None = None,
    *,
    backend: str = "faiss",
    executor: Any = "processes",
    shard_size: int | None = None,
    recall_at: int = 10,
    patience: float = DEFAULT_PATIENCE,
    verbose: bool = False,
    **options: Any,
) -> BuildReport:
    """Build an index of items in shards, on many workers, and measure the recall of all together.

    What a library has to train, such as the lists of ``factory="IVF1024,Flat"``, is trained once,
    on items from everywhere, and is the same in all shards.

    Parameters
    ----------
    items : VectorPath, path, array, table or collection
        As for `learn_shares`; of .npy, Parquet and Arrow files a task reads its own rows.
    folder : path or URL
        New folder for the shards, shared by all workers, or one such as ``s3://…`` (extra
        ``remote``). The same call goes on from what is finished.
    model : path, optional
        File of a model; required for a metric, which moves the items.
    backend, **options
        As for `build_index`.
    executor, patience, verbose
        As for `learn_shares`; a shard must be built within the patience.
    shard_size : int, optional
        Items of a shard; by default 524,288, or as many as fit into a worker's memory.
    recall_at : int
        Number of best items that recall is measured on, with up to 200 of the items as queries.

    Returns
    -------
    BuildReport
        Recall is that of the merged lists against exact search over all items.

    Examples
    --------
    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from similia.distributed import index_shards
    >>> items = np.random.default_rng(0).normal(size=(100, 4))
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
    ...     report = index_shards(
    ...         items, f"{folder}/shards", backend="exact", shard_size=50, executor=pool
    ...     )
    >>> report.n_items, report.recall
    (100, 1.0)
    """
    given = {"recall_at": recall_at, "shard_size": shard_size, "patience": patience}
    check_parameters("index_shards", _RULES, given)
    engine, place = engine_named(executor), WorkFolder(folder)
    where = located(items, place, ranged=True)
    named = None if model is None else place.named(fetched_for_work(model, place))
    ranged = RangedVectors(where)
    n, row = ranged.shape[0], SHARD_COPIES * ranged.row_bytes
    cut = Cut("index_shards", "shard_size", SHARD_ROWS, row, INDEX_BYTES)
    size = cut.size(shard_size or kept(place, "shard_size"), n, engine.memory())
    job = {
        "index": [backend, {name: str(value) for name, value in options.items()}],
        "model": named and place.mark(named),
        "items": where.mark(),
        "settings": [recall_at],
        "shard_size": size,
    }
    open_job(place, job)
    if finished(place, RECALL_SAMPLE) is None:
        _write_sample(ranged, place)
    if finished(place, TRAINED) is None:
        lists = str(options.get("factory", "")).startswith("IVF")
        rows = np.unique(
            np.linspace(0, n - 1, min(n, TRAINING_ROWS if lists else 1)).astype(np.intp)
        )
        learner = _loaded(named, place.path)
        trained = build_index(ranged.take(rows), learner, backend=backend, **options)
        trained.save(place.path / f"{TRAINED}.safetensors")
        finish(place, TRAINED, {}, [f"{TRAINED}.safetensors"])
    needs = f"{TRAINED}.safetensors", f"{RECALL_SAMPLE}.npy", *place.needs(named)
    tasks = [
        BuildShard(f"shard-{number:05}", some, named, recall_at, needs)
        for number, some in enumerate(ranged.ranges(size))
    ]
    words = f"items in {len(tasks)} shards"
    records = run_shown(tasks, place, engine, "index", n, words, patience=patience, verbose=verbose)
    files = [place.get(f"{task.name}.npz") for task in tasks]
    depth = min(recall_at + 1, n)
    best, found = (best_of_all(files, depth, side, f"{side}_scores") for side in ("best", "found"))
    own = sampled_rows(n)
    recall = share_found(best[0], found[0], own, recall_at)
    shape = (n, records[0]["n_features"])
    seconds = sum(record["seconds"] for record in records)
    report = BuildReport(
        backend, records[0]["geometry"], *shape, min(recall_at, n), recall, len(own), seconds
    )
    listed = {"shards": [task.name for task in tasks], "report": report.to_dict()}
    replace_text(place.path / SHARDS, json.dumps(listed))
    place.put(SHARDS)
    return report


def search_shards(
    folder: Path | str,
    queries: VectorPath | Path | str,
    k: int,
    *,
    work: Path | str,
    model: Path | str | None = None,
    executor: Any = "processes",
    patience: float = DEFAULT_PATIENCE,
    verbose: bool = False,
) -> tuple[NDArray[np.int64], Array]:
    """Find the k best items of each query among all shards of an index.

    Parameters
    ----------
    folder : path
        Shards of `index_shards`.
    queries : VectorPath, path, array, table or collection
        Queries, not yet transformed.
    k : int
        Number of items for each query, at most as many as there are.
    model : path, optional
        File of a model to search by, as for `Index.search`.
    work, executor, patience, verbose
        As for `evaluate_parts`; a shard must be opened and searched within the patience.

    Returns
    -------
    indices, scores : arrays of shape (n_queries, k)
        Rows of the items, best first; among equal scores, the lower row first.

    Examples
    --------
    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from similia.distributed import index_shards, search_shards
    >>> items = np.eye(6)
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
    ...     shards = f"{folder}/shards"
    ...     _ = index_shards(items, shards, backend="exact", shard_size=3, executor=pool)
    ...     rows, _ = search_shards(shards, items[4:], 1, work=f"{folder}/work", executor=pool)
    >>> rows.ravel()
    array([4, 5])
    """
    check_parameters("search_shards", {"k": positive_integer}, {"k": k})
    engine, place = engine_named(executor), WorkFolder(work)
    built = WorkFolder(folder)
    listed = _listed(built)
    n = listed["report"]["n_items"]
    if k > n:
        raise ValueError(f"search_shards: k must be at most the {n} items, got {k}.")
    where = located(queries, place)
    named = None if model is None else place.named(fetched_for_work(model, place))
    shards = [f"{built.address}/{name}.safetensors" for name in listed["shards"]]
    job = {
        "search": [VectorPath(shard).mark() for shard in shards],
        "model": named and place.mark(named),
        "queries": where.mark(),
        "settings": [k],
    }
    open_job(place, job)
    tasks = [SearchShard(shard, where, named, k, place.needs(named)) for shard in shards]
    words = f"of {len(tasks)} shards"
    run_shown(tasks, place, engine, "search", len(tasks), words, patience=patience, verbose=verbose)
    return best_of_all([place.get(f"{task.name}.npz") for task in tasks], k)


def _loaded(name: str | None, folder: Path) -> Any:
    return None if name is None else load(folder / name)


def _write_sample(items: RangedVectors, folder: WorkFolder) -> None:
    """Write the items that serve as queries once, for all shards."""
    X = items.take(sampled_rows(items.shape[0]))
    if is_sparse(X):
        raise ValueError("index_shards: items must be dense vectors, got a sparse matrix.")
    with replacing(folder.path / f"{RECALL_SAMPLE}.npy") as temporary:
        np.save(temporary, X)
    finish(folder, RECALL_SAMPLE, {}, [f"{RECALL_SAMPLE}.npy"])


def _listed(folder: WorkFolder) -> dict[str, Any]:
    try:
        listed = dict(json.loads(folder.get(SHARDS).read_text(encoding="utf-8")))
        names, n = listed["shards"], listed["report"]["n_items"]
        if names and all(map(SHARD_NAME.fullmatch, names)) and positive_integer.holds(n):
            return listed
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        pass
    raise ValueError(
        f"search_shards: folder must hold a finished index of index_shards, got {folder}."
    )
