"""Exact search over ranges of items on many workers, merged into one list."""

from collections.abc import Sequence
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
    kept,
    open_job,
    write_arrays,
)
from similia.distributed.inputs import located
from similia.distributed.memory import Cut
from similia.distributed.shares import RangedVectors, VectorPath, VectorRange
from similia.distributed.tasks import DEFAULT_PATIENCE, Report, run_shown
from similia.persistence import load
from similia.retrieval import top_k
from similia.retrieval.scorers import BLOCK_BYTES
from similia.validation import check_parameters, none, positive, positive_integer

#: default items per range; rounding depends on the place in the range, not on the worker
SEARCH_RANGE = 2**18
#: copies of its items that a task holds: as read, as a scorer makes them, and longer by two numbers
SEARCH_COPIES = 3

_RULES = {"k": positive_integer, "range_size": none | positive_integer, "patience": positive}


@dataclass(frozen=True)
class SearchRange:
    """All queries against a range of the items."""

    name: str
    scorer: str
    queries: VectorPath
    items: VectorRange
    k: int
    needs: tuple[str, ...] = ()

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Search the range, and write rows and scores."""
        model = folder / self.scorer
        scorer = load(model) if model.is_file() else self.scorer
        some = self.items.read()
        rows, scores = top_k(scorer, self.queries.read().X, some, min(self.k, some.shape[0]))
        file = f"{self.name}.npz"
        write_arrays(folder / file, {"rows": rows + self.items.start, "scores": scores})
        return {"n": 1}, [file]


def search_ranges(
    scorer: Path | str,
    queries: VectorPath | Path | str,
    items: VectorPath | Path | str,
    k: int,
    *,
    work: Path | str,
    executor: Any = "processes",
    range_size: int | None = None,
    patience: float = DEFAULT_PATIENCE,
    verbose: bool = False,
) -> tuple[NDArray[np.int64], Array]:
    """Find the k items of highest score for each query, exactly, as `top_k` does.

    Parameters
    ----------
    scorer : path, URL or str
        File of a model, or the name of a plain similarity.
    queries, items : VectorPath, path, array, table or collection
        As for `learn_shares`. Of items in .npy, Parquet and Arrow files a task reads its own rows:
        never are they held whole.
    k : int
        Number of items for each query, at most as many as there are.
    work, executor, patience, verbose
        As for `evaluate_parts`.
    range_size : int, optional
        Items that one task searches; by default 262,144, or as many as fit into a worker's memory.
        The result depends on it by rounding alone, and not at all on the workers.

    Returns
    -------
    indices, scores : arrays of shape (n_queries, k)
        Best item first; among equal scores, the lower index first.

    Examples
    --------
    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from similia.distributed import search_ranges
    >>> items = np.arange(100.0).reshape(-1, 1)
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
    ...     rows, scores = search_ranges(
    ...         "euclidean", items[[7]] + 0.1, items, 2, work=f"{folder}/work", executor=pool
    ...     )
    >>> rows
    array([[7, 8]])
    """
    given = {"k": k, "range_size": range_size, "patience": patience}
    check_parameters("search_ranges", _RULES, given)
    engine, folder = engine_named(executor), WorkFolder(work)
    where = located(queries, folder), located(items, folder, ranged=True)
    ranged = RangedVectors(where[1])
    n = ranged.shape[0]
    if k > n:
        raise ValueError(f"search_ranges: k must be at most the {n} items, got {k}.")
    named = scorer_named(scorer, folder)
    row = SEARCH_COPIES * ranged.row_bytes
    cut = Cut("search_ranges", "range_size", SEARCH_RANGE, row, BLOCK_BYTES)
    size = cut.size(range_size or kept(folder, "range_size"), n, engine.memory())
    job = {
        "search": folder.mark(named),
        "queries": where[0].mark(),
        "items": where[1].mark(),
        "settings": [k],
        "range_size": size,
    }
    open_job(folder, job)
    tasks = [
        SearchRange(f"search-{number:05}", named, where[0], some, k, folder.needs(named))
        for number, some in enumerate(ranged.ranges(size))
    ]
    words = f"of {len(tasks)} ranges"
    run_shown(
        tasks, folder, engine, "search", len(tasks), words, patience=patience, verbose=verbose
    )
    return best_of_all([folder.get(f"{task.name}.npz") for task in tasks], k)


def scorer_named(scorer: Path | str, folder: WorkFolder) -> str:
    """What tasks call a scorer: a file, as in `WorkFolder.named`, or a plain similarity."""
    path = fetched_for_work(scorer, folder)
    return folder.named(path) if path.is_file() else str(scorer)


def best_of_all(
    files: Sequence[Path], k: int, rows: str = "rows", scores: str = "scores"
) -> tuple[Array, Array]:
    """Best k over files of results whose rows ascend from file to file."""
    best: tuple[Array, Array] | None = None
    for path in files:
        with np.load(path) as found:
            pair = found[rows], found[scores]
        best = pair if best is None else merged_best(best, pair, k)
    assert best is not None
    return best


def merged_best(
    first: tuple[Array, Array], second: tuple[Array, Array], k: int
) -> tuple[Array, Array]:
    """Best k of two lists for each query; rows of the first are lower than those of the second."""
    rows, scores = (np.concatenate(pair, axis=1) for pair in zip(first, second, strict=True))
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(rows, order, axis=1), np.take_along_axis(scores, order, axis=1)
