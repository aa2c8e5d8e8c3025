"""Vectors by path, and judgements sorted into shares on disk by a hash of their query."""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.distributed.tasks import fetched_for_work
from similia.feedback import Judgements
from similia.files import FeedbackLike, Source, VectorFile, read_vectors
from similia.files.locations import Location, local_path, url_of
from similia.files.vectors import is_ranged

#: rows that are read at a time
ROWS_AT_ONCE = 2**16
#: Knuth's multiplicative hash
HASH_FACTOR, HASH_SHIFT = np.uint64(0x9E3779B97F4A7C15), np.uint64(33)


@dataclass(frozen=True)
class VectorPath:
    """Vectors as all workers find them: by path or URL. Parameters are those of `read_vectors`."""

    path: str
    ids: str | None = None
    vector_column: str | None = None
    id_column: str | None = None

    def read(self) -> VectorFile:
        """The vectors; .npy files stay on disk, and a process reads a file once."""
        return _read(self, Path(self.path).stat().st_mtime_ns)

    def mark(self) -> dict[str, Any]:
        """What must be the same for finished work to count."""
        url = url_of(self.path)
        if url is not None:
            return {**asdict(self), "path": "", **Location(url).mark()}
        stat = Path(self.path).stat()
        return {**asdict(self), "size": stat.st_size, "changed": stat.st_mtime_ns}


def file_mark(path: str) -> list[int | str]:
    """What must be the same of a file for finished work to count; a name that is none is itself."""
    if not Path(path).is_file():
        return [path]
    stat = Path(path).stat()
    return [path, stat.st_size, stat.st_mtime_ns]


def located(given: "VectorPath | Path | str", folder: Path, *, ranged: bool = False) -> VectorPath:
    """Vectors by a path that does not depend on where a worker runs.

    What a URL names is copied into the folder; of Parquet, if ranges are wanted, tasks themselves
    read what they need.
    """
    if not isinstance(given, VectorPath | PathLike | str):
        raise TypeError(
            "vectors must be a path, a URL or a VectorPath, which all workers find, got "
            f"{type(given).__name__}; save them first, such as by numpy.save."
        )
    where = given if isinstance(given, VectorPath) else VectorPath(str(given))
    if where.path == "-":
        raise ValueError("vectors must be in a file that all workers find, got standard input.")
    ids = None if where.ids is None else str(fetched_for_work(where.ids, folder).absolute())
    if ranged and local_path(where.path) is None and is_ranged(where.path):
        url = url_of(where.path) or ""
        if ids is not None or not Location(f"{url}.ids").exists():
            return replace(where, path=url, ids=ids)
    path = fetched_for_work(where.path, folder, beside=ids is None)
    return replace(where, path=str(path.absolute()), ids=ids)


def located_source(given: FeedbackLike, folder: Path) -> Source:
    """Judgements in a file of this machine; what a URL names is copied into the folder."""
    if not isinstance(given, Source | PathLike | str):
        raise TypeError(
            "judgements must be a path, a URL or a Source of one, which all workers find, got "
            f"{type(given).__name__}; save them first."
        )
    source = Source(given)
    if not isinstance(source.given, Path) or url_of(source.given) is None:
        return source
    return Source(fetched_for_work(source.given, folder), source.columns)


@lru_cache(maxsize=4)
def _read(where: VectorPath, changed: int) -> VectorFile:
    """The vectors of a file as it was at that time."""
    named = asdict(where)
    return read_vectors(named.pop("path"), **named)


def share_of(query: NDArray[np.int64], n_shares: int) -> NDArray[np.int64]:
    """Share that each query belongs to."""
    mixed = query.astype(np.uint64) * HASH_FACTOR >> HASH_SHIFT
    return (mixed % np.uint64(n_shares)).astype(np.int64)


def file_of(share: int) -> str:
    """Name of the file of a share."""
    return f"share-{share:04}.rows"


def sort_into_shares(batches: Iterable[Judgements], folder: Path, n_shares: int) -> list[int]:
    """Write each judgement to the file of its share, in order and in flat memory; return counts.

    A row holds the judgement, its value as the bits of a float64 (or 0), and its row number.
    """
    counts = [0] * n_shares
    with ExitStack() as stack:
        files = [
            stack.enter_context(open(folder / file_of(share), "wb")) for share in range(n_shares)
        ]
        for part in batches:
            values = np.zeros(len(part)) if part.values is None else np.asarray(part.values, float)
            rows = np.column_stack([part.tuples, values.view(np.int64), part.numbers])
            owner = share_of(part.tuples[:, 0], n_shares)
            for share in np.unique(owner):
                chosen = rows[owner == share]
                files[share].write(chosen.astype("<i8", copy=False).tobytes())
                counts[share] += len(chosen)
    return counts


def judgements_of(
    path: Path, width: int, *, valued: bool, start: int = 0, stop: int | None = None
) -> Iterator[Judgements]:
    """Judgements of `width` rows of vectors each in the file of a share, in batches."""
    if path.stat().st_size == 0:
        return
    rows = np.memmap(path, "<i8", "r").reshape(-1, width + 2)[start:stop]
    for first in range(0, len(rows), ROWS_AT_ONCE):
        some = np.array(rows[first : first + ROWS_AT_ONCE])
        values = np.ascontiguousarray(some[:, width]).view(np.float64) if valued else None
        yield Judgements(np.ascontiguousarray(some[:, :width]), values, some[:, width + 1])
