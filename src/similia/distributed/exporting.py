"""Export items to vector databases in batches, on many workers; repeated writes change nothing."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np

from similia.contract import Array
from similia.distributed.engines import engine_named
from similia.distributed.folders import Record, WorkFolder, fetched_for_work, open_job
from similia.distributed.inputs import located
from similia.distributed.shares import RangedVectors, VectorPath, VectorRange
from similia.distributed.tasks import DEFAULT_PATIENCE, Report, run_shown
from similia.persistence import load
from similia.retrieval.vectors import is_sparse
from similia.stores import QDRANT_SCHEME, Store, is_store, open_store
from similia.validation import check_parameters, positive, positive_integer

#: items of a task, and of a request
RANGE, BATCH = 2**16, 1000

_RULES = {"batch": positive_integer, "range_size": positive_integer, "patience": positive}


def open_target(to: str, table: str, key: str | None = None) -> Store:
    """Open the store at an address."""
    if not is_store(to):
        raise ValueError(
            f"export_items: to must be a postgresql:// URL or {QDRANT_SCHEME} and an address or a "
            f"folder, got {to.partition('://')[0]!r:.40}."
        )
    return open_store(to, table, key=key, timeout=60)


@dataclass(frozen=True)
class ExportRange:
    """A range of the items, written over one connection."""

    name: str
    items: VectorRange
    #: whether all ids are numbers, which a range alone cannot tell
    numbered: bool
    model: str | None
    to: str
    table: str
    key: str | None
    batch: int
    needs: tuple[str, ...] = ()

    def run(self, folder: Path, report: Report) -> tuple[Record, list[str]]:
        """Write the range in batches."""
        X, names = self.items.read(), self.items.names()
        ids = names if self.numbered else [str(name) for name in names]
        model = None if self.model is None else load(folder / self.model)
        target = open_target(self.to, self.table, self.key)
        try:
            for start in range(0, len(ids), self.batch):
                some = slice(start, start + self.batch)
                target.write(ids[some], _moved(X[some], model))
                report(min(some.stop, len(ids)))
        finally:
            target.close()
        return {"n": len(ids)}, []


def export_items(
    items: VectorPath | Path | str,
    to: str,
    table: str,
    model: Path | str | None = None,
    *,
    work: Path | str,
    key: str | None = None,
    executor: Any = "processes",
    batch: int = BATCH,
    range_size: int = RANGE,
    patience: float = DEFAULT_PATIENCE,
    verbose: bool = False,
) -> int:
    """Write items to a table of Postgres with pgvector, or to a collection of Qdrant.

    A batch is written whole or not at all, and items with the same ids are replaced; so the same
    call, made again after a failure, goes on from the ranges that are finished.

    Parameters
    ----------
    items : VectorPath, path, array, table or collection
        As for `learn_shares`; of .npy, Parquet and Arrow files a task reads its own rows.
    to : str
        ``postgresql://…``, or ``qdrant:`` and the address of a server or a folder.
    table : str
        Table (columns id and embedding) or collection; made if it is not there. Texts that Qdrant
        does not take as ids become UUIDs, with the text in the field ``id``.
    model : path, optional
        File of a metric, which moves the items. A bilinear similarity leaves them as they are.
    work : path
        New folder for what is finished, shared by all workers; it is kept. No password is in it.
    key : str, optional
        Key of Qdrant's server.
    executor, patience, verbose
        As for `learn_shares`. A folder of Qdrant takes one worker.
    batch : int
        Items that are written at a time.
    range_size : int
        Items of one task.

    Returns
    -------
    int
        Number of items written.

    Examples
    --------
    Needs Qdrant's client (extra ``qdrant``); here items go to a folder, which takes one worker.

    >>> import tempfile
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> from similia.distributed import export_items
    >>> with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(1) as pool:
    ...     export_items(
    ...         np.eye(3), f"qdrant:{folder}/db", "items", work=f"{folder}/work", executor=pool
    ...     )
    3
    """
    given = {"batch": batch, "range_size": range_size, "patience": patience}
    check_parameters("export_items", _RULES, given)
    engine, folder = engine_named(executor), WorkFolder(work)
    where = located(items, folder, ranged=True)
    named = None if model is None else folder.named(fetched_for_work(model, folder))
    learner = None if named is None else load(folder.path / named)
    ranged = RangedVectors(where)
    first = ranged.take(np.zeros(1, np.intp))
    if is_sparse(first):
        raise ValueError("export_items: items must be dense vectors, got a sparse matrix.")
    n, names = ranged.shape[0], ranged.ids().values
    job = {
        "export": [_without_password(to), table],
        "items": where.mark(),
        "model": named and folder.mark(named),
        "settings": [range_size],
    }
    target = open_target(to, table, key)
    try:
        open_job(folder, job)
        geometry = "inner_product" if learner is None else learner.geometry
        width = _moved(first, learner).shape[1]
        numbered = names is None or names.dtype.kind in "iu"
        try:
            target.create(width, geometry, numbered=numbered)
        except ValueError as error:
            raise ValueError(f"export_items: {error}") from error
    finally:
        target.close()
    tasks = [
        ExportRange(
            f"export-{number:05}", some, numbered, named, to, table, key, batch, folder.needs(named)
        )
        for number, some in enumerate(ranged.ranges(range_size))
    ]
    records = run_shown(
        tasks, folder, engine, "export", n, "items", patience=patience, verbose=verbose
    )
    return sum(record["n"] for record in records)


def _moved(vectors: Any, model: Any) -> Array:
    moved: Array = vectors if model is None else model.item_vectors(vectors)
    return moved


def _without_password(to: str) -> str:
    parts = urlsplit(to.removeprefix(QDRANT_SCHEME))
    kept = parts._replace(netloc=parts.netloc.rpartition("@")[2], query="", fragment="")
    return kept.geturl()
