"""Vectors and judgements in whatever form they come, as files that every worker finds."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from similia.distributed.folders import WorkFolder, fetched_for_work
from similia.distributed.shares import VectorPath, open_table
from similia.files import Source
from similia.files.locations import FETCHED, Location, local_path, parts_of, url_of
from similia.files.spooling import SPOOLED, is_spooled, spool, vectors_of_tables
from similia.files.vectors import TABLE_SUFFIXES, is_ranged

_PATHS = "a path, a URL, a folder, glob or list of Parquet files"


def located(given: Any, folder: WorkFolder, *, ranged: bool = False) -> VectorPath:
    """Vectors by a path that is valid for every worker.

    Of .npy files single rows can be read, of others not: so tables, collections of Dask or Ray and
    what is in memory are written to one in the folder, once and block by block. What a URL names is
    copied there, unless the folder is elsewhere, too. If `ranged`, a table stays where it is, and
    tasks read what they need of it.
    """
    if is_spooled(given):
        folder.make()
        given = spool(given, folder.path)
    if not isinstance(given, VectorPath | PathLike | str | list | tuple):
        raise TypeError(
            f"vectors must be {_PATHS}, a VectorPath, {SPOOLED}, got {type(given).__name__}."
        )
    where = given if isinstance(given, VectorPath) else VectorPath("")
    path, *others = parts_of(where.path or given)
    if path == "-":
        raise ValueError("vectors must be in a file that all workers find, got standard input.")
    ids = None if where.ids is None else str(fetched_for_work(where.ids, folder).absolute())
    if others:
        parts = [replace(where, path=one, ids=None) for one in (path, *others)]
        return _shared(_as_array(parts, folder, ids), folder)
    if local_path(path) is None:
        url = url_of(path) or ""
        stays = is_ranged(url) and (ids is not None or not Location(f"{url}.ids").exists())
        if stays and ranged:
            return _shared(replace(where, path=url, ids=ids), folder)
        if not stays and folder.remote is not None and Path(url).suffix not in TABLE_SUFFIXES:
            return replace(where, path=url)
        path = url if stays else str(fetched_for_work(url, folder, beside=ids is None))
    path = str(Path(local_path(path) or path).absolute()) if local_path(path) else path
    where = replace(where, path=path, ids=ids)
    if Path(path).suffix in TABLE_SUFFIXES and not ranged:
        where = _as_array([where], folder, ids)
    return _shared(where, folder)


def _shared(where: VectorPath, folder: WorkFolder) -> VectorPath:
    """The same where all workers find it: what was written to a folder elsewhere is put there."""
    if folder.remote is None:
        return where
    names = folder.names()

    def url(given: str) -> str:
        path = Path(given)
        if url_of(given) is not None or path.parent != folder.path:
            return given
        folder.put(*{path.name} - names)
        return f"{folder.address}/{path.name}"

    return replace(where, path=url(where.path), ids=where.ids and url(where.ids))


def _as_array(parts: Sequence[VectorPath], folder: WorkFolder, ids: str | None) -> VectorPath:
    """The vectors of tables in one .npy file in the folder, written once."""
    marks = json.dumps([part.mark() for part in parts], sort_keys=True)
    folder.make()
    target = folder.path / f"{FETCHED}{hashlib.sha256(marks.encode()).hexdigest()[:16]}.npy"
    if not target.exists():
        vectors_of_tables([open_table(part, None) for part in parts], target)
    names = (target.with_suffix(suffix) for suffix in (".ids.npy", ".ids.txt"))
    return VectorPath(str(target), ids or next((str(p) for p in names if p.exists()), None))


def located_source(given: Any, folder: WorkFolder) -> Source:
    """Judgements in a local file; all but paths are written to one in the folder, once."""
    columns = given.columns if isinstance(given, Source) else None
    given = given.given if isinstance(given, Source) else given
    if isinstance(given, PathLike | str | list | tuple):
        path, *others = parts_of(given)
        if not others:
            is_url = url_of(path) is not None
            return Source(fetched_for_work(path, folder) if is_url else Path(path), columns)
        from similia.files.tables import Table

        tables = map(Table, map(Path, (path, *others)))
        given = [batch for table in tables for batch in table.batches(table.schema.names)]
    elif not is_spooled(given):
        raise TypeError(
            f"judgements must be {_PATHS}, a Source of one, {SPOOLED}, got {type(given).__name__}."
        )
    folder.make()
    return Source(spool(given, folder.path), columns)
