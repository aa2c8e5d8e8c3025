"""Vectors by path, and judgements sorted into shares on disk by a hash of their query."""

import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Matrix
from similia.distributed.tasks import fetched_for_work
from similia.feedback import Judgements
from similia.files import FeedbackLike, Source, VectorFile, read_vectors
from similia.files.ids import scattered
from similia.files.locations import Location, changed, local_path, url_of
from similia.files.vectors import is_ranged, open_rows

#: rows read or sorted at a time
ROWS_AT_ONCE = 2**16


@dataclass(frozen=True)
class VectorPath:
    """Vectors by a path or URL that all workers can read; parameters as for `read_vectors`."""

    path: str
    ids: str | None = None
    vector_column: str | None = None
    id_column: str | None = None

    def read(self) -> VectorFile:
        """The vectors; .npy files stay on disk, and a process reads a file once."""
        return _read(self, Path(self.path).stat().st_mtime_ns)

    def mark(self) -> dict[str, Any]:
        """What must match for finished work to count."""
        url = url_of(self.path)
        if url is not None:
            return {**asdict(self), "path": "", **Location(url).mark()}
        stat = Path(self.path).stat()
        return {**asdict(self), "size": stat.st_size, "changed": stat.st_mtime_ns}


def file_mark(path: str) -> list[int | str]:
    """Path, size and time of a file, to recognize finished work; other names as they are."""
    if not Path(path).is_file():
        return [path]
    stat = Path(path).stat()
    return [path, stat.st_size, stat.st_mtime_ns]


def located(given: "VectorPath | Path | str", folder: Path, *, ranged: bool = False) -> VectorPath:
    """Vectors by a path that is valid for every worker.

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
    """Judgements in a local file; those at a URL are copied into the folder."""
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
    """The vectors of a file as of a modification time, which keys the cache."""
    named = asdict(where)
    return read_vectors(named.pop("path"), **named)


def share_of(query: NDArray[np.int64], n_shares: int) -> NDArray[np.int64]:
    """Share that each query belongs to."""
    return (scattered(query) % np.uint64(n_shares)).astype(np.int64)


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


@dataclass(frozen=True)
class VectorRange:
    """A range of rows of a vector file that every worker can read.

    Of tables, the groups of rows that these are in are read; .npy files are mapped, others read
    whole, once by a process.
    """

    where: VectorPath
    start: int
    stop: int
    #: numbers of a vector, and the version of the file
    width: int
    mark: str

    def read(self) -> Matrix:
        """The vectors."""
        with self._unchanged():
            if not is_ranged(self.where.path):
                return self.where.read().X[self.start : self.stop]
            return _open(self.where, self.width).read(self.start, self.stop)

    def names(self) -> list[int | str]:
        """The ids."""
        with self._unchanged():
            if not is_ranged(self.where.path):
                return self.where.read().ids.names(range(self.start, self.stop))
            return _open(self.where, self.width).names(self.start, self.stop)

    @contextmanager
    def _unchanged(self) -> Iterator[None]:
        """Raise if the file has changed."""
        self._check()
        yield
        self._check()

    def _check(self) -> None:
        found = _version(self.where)
        if found != self.mark:
            raise changed(json.loads(found).get("url") or self.where.path)


class RangedVectors:
    """Vectors that the driver samples and cuts into ranges for workers.

    Ids are read and checked here, once; the vectors themselves where they are read.
    """

    def __init__(self, where: VectorPath) -> None:
        self.where, self.mark = where, _version(where)
        if is_ranged(where.path):
            rows = _open(where, None)
            self.shape, self.ids = rows.shape, rows.ids()
        else:
            file = where.read()
            self.shape, self.ids = file.X.shape, file.ids

    def take(self, rows: NDArray[np.intp]) -> Any:
        """Vectors of ascending rows."""
        if not is_ranged(self.where.path):
            return self.where.read().X[rows]
        return _open(self.where, self.shape[1]).take(rows)

    def ranges(self, size: int) -> list[VectorRange]:
        """All rows in ranges of at most `size`."""
        n, width = self.shape
        return [
            VectorRange(self.where, start, min(start + size, n), width, self.mark)
            for start in range(0, n, size)
        ]


def _open(where: VectorPath, width: int | None) -> Any:
    columns = {"vector_column": where.vector_column, "id_column": where.id_column}
    return open_rows(where.path, ids=where.ids, width=width, **columns)


def _version(where: VectorPath) -> str:
    """Version of a file; only the size of a local path, as machines may have their own copies."""
    mark = where.mark()
    mark.pop("changed", None)
    return json.dumps(mark, sort_keys=True)
