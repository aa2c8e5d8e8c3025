"""Vectors by path, and judgements sorted into shares on disk by a hash of their query."""

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Matrix
from similia.feedback import Judgements
from similia.files import VectorFile, read_vectors
from similia.files.ids import Ids, scattered
from similia.files.locations import Location, changed, fetched, url_of
from similia.files.vectors import is_ranged, open_rows, stored_vectors
from similia.stored import StoredRows, mapped

if TYPE_CHECKING:
    from similia.files.vector_tables import VectorTable

#: rows read or sorted at a time
ROWS_AT_ONCE = 2**16
#: share of a task's memory that a mapped file may take; rows of a larger one are read as asked for
MAPPED_SHARE = 0.25


@dataclass(frozen=True)
class VectorPath:
    r"""Vectors by a path or URL that all workers can read; parameters as for `read_vectors`.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> from similia.distributed import VectorPath
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.save(f"{folder}/x.npy", np.eye(2))
    ...     _ = pathlib.Path(f"{folder}/names.txt").write_text("a\nb\n")
    ...     VectorPath(f"{folder}/x.npy", ids=f"{folder}/names.txt").read().ids.names()
    ['a', 'b']
    """

    path: str
    ids: str | None = None
    vector_column: str | None = None
    id_column: str | None = None

    def read(self, memory: float = np.inf) -> VectorFile:
        """The vectors; a process reads a file once.

        A .npy file stays on disk: mapped, or, where it is large beside the memory of a task, such
        that its rows are read as they are asked for.
        """
        here = self._here()
        path = Path(here.path)
        stat = path.stat()
        large = path.suffix == ".npy" and stat.st_size > MAPPED_SHARE * memory
        stays = large and np.lib.format.open_memmap(path, mode="r").flags.c_contiguous
        return (_stored if stays else _read)(here, stat.st_mtime_ns)

    def _here(self) -> "VectorPath":
        """The same in local files; what a URL names is copied once by a process."""
        if url_of(self.path) is None and url_of(self.ids or "") is None:
            return self
        path = fetched(self.path, _copies(), beside=self.ids is None)
        ids = None if self.ids is None else str(fetched(self.ids, _copies()))
        return replace(self, path=str(path), ids=ids)

    @contextmanager
    def looked_at(self) -> Iterator[Any]:
        """The matrix, for a look at a sample of the rows."""
        X = self.read(memory=0).X
        path = self._here().path
        with mapped(path) if isinstance(X, StoredRows) else nullcontext(X) as found:
            yield found

    def mark(self) -> dict[str, Any]:
        """What must match for finished work to count."""
        url = url_of(self.path)
        if url is not None:
            return {**asdict(self), "path": "", **Location(url).mark()}
        stat = Path(self.path).stat()
        return {**asdict(self), "size": stat.st_size, "changed": stat.st_mtime_ns}


@cache
def _copies() -> Path:
    """Folder for what this process reads by URL; it ends with the process."""
    folder = tempfile.mkdtemp(prefix="similia-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


@lru_cache(maxsize=4)
def _read(where: VectorPath, changed: int) -> VectorFile:
    """The vectors of a file as of a modification time, which keys the cache."""
    named = asdict(where)
    return read_vectors(named.pop("path"), **named)


@lru_cache(maxsize=4)
def _stored(where: VectorPath, changed: int) -> VectorFile:
    """The same, where its rows stay in the file."""
    return stored_vectors(Path(where.path), where.ids)


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

    Of .npy files these rows are read, of tables the groups of rows that they are in; others whole,
    once by a process.
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
            if is_ranged(self.where.path):
                return open_table(self.where, self.width).read(self.start, self.stop)
            X: Any = self.where.read(memory=0).X
            return X[self.start : self.stop]

    def names(self) -> list[int | str]:
        """The ids."""
        with self._unchanged():
            if not is_ranged(self.where.path):
                return self.where.read().ids.names(range(self.start, self.stop))
            return open_table(self.where, self.width).names(self.start, self.stop)

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
    """Vectors that the driver samples and cuts into ranges for workers, which read them."""

    def __init__(self, where: VectorPath) -> None:
        self.where, self.mark = where, _version(where)
        if is_ranged(where.path):
            rows = open_table(where, None)
            self.shape, self.dtype = rows.shape, rows.dtype
        else:
            X: Any = where.read(memory=0).X
            self.shape, self.dtype = X.shape, X.dtype

    def ids(self) -> Ids:
        """The ids, checked once for all ranges; a search by rows needs none."""
        if is_ranged(self.where.path):
            return open_table(self.where, self.shape[1]).ids()
        return self.where.read(memory=0).ids

    @property
    def row_bytes(self) -> int:
        """Bytes of a vector as a task holds it."""
        return self.shape[1] * self.dtype.itemsize

    def take(self, rows: NDArray[np.intp]) -> Any:
        """Vectors of ascending rows."""
        if not is_ranged(self.where.path):
            X: Any = self.where.read(memory=0).X
            return X[rows]
        return open_table(self.where, self.shape[1]).take(rows)

    def ranges(self, size: int) -> list[VectorRange]:
        """All rows in ranges of at most `size`."""
        n, width = self.shape
        return [
            VectorRange(self.where, start, min(start + size, n), width, self.mark)
            for start in range(0, n, size)
        ]


def open_table(where: VectorPath, width: int | None) -> "VectorTable":
    """A table of vectors; `width`, if it is known, saves a look at the first one."""
    columns = {"vector_column": where.vector_column, "id_column": where.id_column}
    return open_rows(where.path, ids=where.ids, width=width, **columns)


def _version(where: VectorPath) -> str:
    """Version of a file; only the size of a local path, as machines may have their own copies."""
    mark = where.mark()
    mark.pop("changed", None)
    return json.dumps(mark, sort_keys=True)
