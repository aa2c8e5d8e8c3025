"""Vectors and their ids, from files of many formats."""

import json
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import compress
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import ArrayLike, NDArray
from safetensors import safe_open
from scipy import sparse

from similia.contract import Array, Matrix, Side
from similia.files import limits
from similia.files.ids import Ids, as_integers
from similia.files.lines import JSON_SUFFIXES, blocks, opened
from similia.files.locations import Location, local_path, url_of
from similia.files.rows import BadRows, RowError
from similia.safety.bounds import check_entries
from similia.stored import StoredRows
from similia.validation import check_parameters, none, positive_integer

if TYPE_CHECKING:
    from similia.files.vector_tables import VectorTable

PARQUET_SUFFIXES = (".parquet", ".pq")
TABLE_SUFFIXES = (*PARQUET_SUFFIXES, ".arrow", ".feather")
SVMLIGHT_SUFFIXES = (".svmlight", ".svm", ".libsvm")
_READ_RULES = {"max_bytes": none | positive_integer}
#: readers of the header of an array, by the version of its format
NPY_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}
#: ids as a file holds them: unchecked, or None
RawIds: TypeAlias = ArrayLike | None


class VectorFile(NamedTuple):
    """Vectors, one per row, or several views of the rows; and the ids of the rows."""

    X: Side
    ids: Ids
    #: how the rows of a table became views, if they did
    layout: Any = None

    def are_the_rows_of(self, items: "VectorFile | None") -> bool:
        """Whether these queries are the items."""
        return items is None or items.ids is self.ids


def read_vectors(
    path: Path | str,
    *,
    ids: Path | str | None = None,
    vector_column: str | None = None,
    id_column: str | None = None,
    bad_rows: BadRows | None = None,
    max_bytes: int | None = None,
) -> VectorFile:
    """Read vectors, and the ids of their rows if there are any.

    Parameters
    ----------
    path : path
        By its suffix: .npy (memory-mapped), .npz (dense, or from scipy.sparse.save_npz),
        .safetensors, .parquet or .arrow (a column of lists, or numeric columns), .jsonl (lines
        ``{"id": …, "vector": […]}``), .svmlight. ``-`` reads JSON lines from standard input.
    ids : path, optional
        Ids of the rows: a text file with one per line, or a .npy file. By default, ids from the
        file itself or from a file of the same name plus ``.ids``, else row numbers.
    vector_column, id_column : str, optional
        Names in Parquet, Arrow and JSON lines; ``vector`` and ``id`` by default.
    bad_rows : BadRows, optional
        What to do with rows of tables and JSON lines that are not vectors; "skip" needs ids.
    max_bytes : int, optional
        Memory that compressed files (.npz, .parquet) may take by their own account; by default 64
        times the size of the file plus 256 MB. Without it, sparse files may have 16 features per
        byte plus 4096.

    Returns
    -------
    VectorFile
        X of shape (n, d), dense or CSR, in single or double precision, and `Ids`.
    """
    path, bad_rows = Path(path), bad_rows or BadRows()
    if max_bytes is not None:
        check_parameters("read_vectors", _READ_RULES, {"max_bytes": max_bytes})
    if path.is_dir():
        raise ValueError(f"{path}: vectors must be in a file, got a folder.")
    X: Matrix
    names: RawIds = None
    if path.suffix == ".npy":
        X = mapped_array(path)
    elif path.suffix in READERS:
        if path.suffix == ".npz":
            limits.check_unpacked(
                path, "vectors", _unpacked_size(path), path.stat().st_size, max_bytes
            )
        X, names = READERS[path.suffix](path)
        if sparse.issparse(X) and max_bytes is None:
            _check_width(path, X.shape[1])
    elif path.suffix in TABLE_SUFFIXES:
        X, names = _read_table(path, vector_column, id_column, bad_rows, max_bytes)
    elif path.suffix in JSON_SUFFIXES or str(path) == "-":
        X, names = _read_lines(path, vector_column or "vector", id_column or "id", bad_rows)
    else:
        raise unknown_format(path)
    check_matrix(path, X)
    beside = Path(f"{path}.ids")
    if ids is not None:
        names = read_ids(Path(ids))
    elif names is None and str(path) != "-" and beside.exists():
        names = read_ids(beside)
    try:
        found = Ids(names, X.shape[0])
    except ValueError as error:
        raise ValueError(f"{ids or path}: {error}") from None
    # Learners use these two types without copying.
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return VectorFile(X, found)


def stored_vectors(path: Path, ids: str | None = None) -> VectorFile:
    """Vectors of a .npy file that stay there, to be read as they are asked for."""
    X = StoredRows.of(path)
    check_matrix(path, np.empty((0, 1)) if 0 in X.shape else X[:1])
    beside = Path(f"{path}.ids")
    names = (
        read_ids(Path(ids)) if ids is not None else read_ids(beside) if beside.exists() else None
    )
    try:
        return VectorFile(X, Ids(names, len(X)))
    except ValueError as error:
        raise ValueError(f"{ids or path}: {error}") from None


def read_ids(path: Path) -> Array:
    """Read ids from a .npy file or from the lines of a text: integers if all are."""
    if path.suffix == ".npy":
        return np.array(mapped_array(path, "ids"))
    try:
        texts = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: ids must be UTF-8 ({error}).") from error
    numbers = as_integers(texts)
    return np.array(texts, dtype=object) if numbers is None else numbers


def read_rows(path: Path, ids: Ids) -> NDArray[np.int64]:
    """Rows of the vectors whose ids a file lists."""
    try:
        rows = [ids.row(value) for value in read_ids(path).tolist()]
    except RowError as error:
        raise ValueError(f"{path}: {error}.") from None
    if not rows:
        raise ValueError(f"{path}: ids must be at least one, got none.")
    return np.array(rows)


def mapped_array(path: Path, what: str = "vectors") -> Array:
    """Array of a .npy file, memory-mapped."""
    with _damage_explained(path, what):
        return np.lib.format.open_memmap(path, mode="r")


def check_matrix(path: Path | str, X: Matrix) -> None:
    """Refuse what is not a matrix of numbers."""
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiu":
        raise ValueError(
            f"{path}: vectors must be a matrix of numbers, at least one row of at least one, "
            f"got shape {X.shape} and dtype {X.dtype}."
        )


def _check_width(path: Path, width: int) -> None:
    """Refuse too many features: learners keep a row and a column of a matrix for each."""
    limit = limits.FEATURES_PER_BYTE * path.stat().st_size + limits.FEATURES
    if width > limit:
        raise ValueError(
            f"{path}: vectors must have at most {limit} features in a sparse file of this size, "
            f"got {width}; if the file is trusted, read it with max_bytes."
        )


def _unpacked_size(path: Path) -> int:
    """Bytes of the arrays in a .npz file: as declared or as stored, whichever is more."""
    total = 0
    with _damage_explained(path), zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            with archive.open(member) as file:
                read = NPY_HEADERS[np.lib.format.read_magic(file)]
                shape, _, dtype = read(file)
            total += max(member.file_size, prod(shape) * dtype.itemsize)
    return total


def unknown_format(path: Path) -> ValueError:
    """Error for a file of no known suffix."""
    return ValueError(
        f"{path}: vectors must be in a file that ends in one of {', '.join(FORMATS)}, "
        f"got {path.suffix or 'no suffix'}."
    )


# -- formats -----------------------------------------------------------------------------------


@contextmanager
def _damage_explained(path: Path, what: str = "vectors") -> Iterator[None]:
    """Turn any error of a parser into one sentence."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path}: {what} could not be read ({str(error)[:200]}).") from error


def _read_npz(path: Path) -> tuple[Matrix, RawIds]:
    """A matrix of scipy.sparse.save_npz, or the dense one named vectors (or the only one)."""
    with _damage_explained(path), open(path, "rb") as raw, NpzFile(raw) as file:
        if "indptr" in file and "format" in file:
            X = sparse.load_npz(path)
            check_entries(str(path), "vectors", X)
            return X.tocsr(), file.get("ids")
        arrays = {name: file[name] for name in file.files}
    return _chosen(path, arrays), arrays.get("ids")


def _read_safetensors(path: Path) -> tuple[Matrix, RawIds]:
    """The tensor named vectors (or the only matrix), and ids: a tensor, or JSON in the header."""
    with _damage_explained(path), safe_open(path, framework="np") as file:
        shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
        matrices = [name for name, shape in shapes.items() if len(shape) == 2]
        wanted = ["vectors"] if "vectors" in matrices else matrices
        arrays = {name: file.get_tensor(name) for name in wanted}
        ids = file.get_tensor("ids") if "ids" in shapes else None
        noted = (file.metadata() or {}).get("ids")
        if ids is None and noted is not None:
            ids = np.array(json.loads(noted), dtype=object)
    return _chosen(path, arrays), ids


def _read_svmlight(path: Path) -> tuple[Matrix, RawIds]:
    """Sparse matrix of lines ``label index:value …``; labels are ignored."""
    from sklearn.datasets import load_svmlight_file

    with _damage_explained(path):
        X = load_svmlight_file(str(path))[0].tocsr()
    check_entries(str(path), "vectors", X)
    return X, None


def _chosen(path: Path, arrays: dict[str, Array]) -> Array:
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if "vectors" in matrices:
        return matrices["vectors"]
    if len(matrices) != 1:
        raise ValueError(
            f"{path}: vectors must be the only matrix or be named vectors, "
            f"got {', '.join(arrays) or 'nothing'}."
        )
    return next(iter(matrices.values()))


READERS: dict[str, Callable[[Path], tuple[Matrix, RawIds]]] = {
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    **dict.fromkeys(SVMLIGHT_SUFFIXES, _read_svmlight),
}
#: suffixes of all formats
FORMATS = (".npy", *READERS, *TABLE_SUFFIXES, *JSON_SUFFIXES)


# -- tables and JSON lines ---------------------------------------------------------------------


def _read_table(
    path: Path, vector: str | None, name: str | None, bad_rows: BadRows, allowed: int | None
) -> tuple[Matrix, RawIds]:
    from similia.files.vector_tables import VectorTable

    table = VectorTable(path, vector, name, allowed=allowed)
    X, whole = table.read_all()
    ids = table.own_ids()
    if whole.all():
        return X, ids
    for row in np.flatnonzero(~whole).tolist():
        _leave_out(path, row + 1, table.no_vector(), ids is not None, bad_rows)
    return X[whole], None if ids is None else list(compress(ids, whole))


def is_ranged(path: Path | str) -> bool:
    """Whether ranges of rows can be read; other files are mapped, or read whole."""
    local = local_path(path)
    if local is not None:
        return local.suffix in TABLE_SUFFIXES
    return Location(url_of(path) or "").suffix in PARQUET_SUFFIXES


def open_rows(
    path: Path | str,
    *,
    ids: str | None = None,
    vector_column: str | None = None,
    id_column: str | None = None,
    width: int | None = None,
) -> "VectorTable":
    """Vectors in a table, by path or, for Parquet, by URL, read as they are asked for.

    Parameters are those of `read_vectors`; `width`, if it is known, saves a look at the first one.
    """
    from similia.files.vector_tables import VectorTable

    local = local_path(path)
    given = Location(url_of(path) or "") if local is None else local
    found = VectorTable(given, vector_column, id_column, width=width)
    beside = Path(f"{local}.ids")
    if ids is None and local is not None and found.id_column is None and beside.exists():
        ids = str(beside)
    found.other_ids = None if ids is None else read_ids(Path(ids))
    return found


def _read_lines(
    path: Path, vector: str, identifier: str, bad_rows: BadRows
) -> tuple[NDArray[np.float32], list[Any] | None]:
    """Matrix in single precision, and ids if the lines have them.

    The first good line decides the length, and whether lines have ids.
    """
    parts, ids = [], []
    width, named = None, None
    with opened(path) as file:
        for block in blocks(file, str(path)):
            found, numbers, wrong = block.objects()
            rows = dict(zip(numbers, found, strict=True)) | wrong
            vectors = []
            for number in sorted(rows):
                try:
                    given = rows[number]
                    if isinstance(given, RowError):
                        raise given
                    row, name = _vector(given, vector, width), given.get(identifier)
                    if named is not None and named != (name is not None):
                        raise RowError(f"column {identifier} is missing" if named else "extra id")
                except RowError as error:
                    _leave_out(path, number, error, bool(named), bad_rows)
                    continue
                width, named = len(row), name is not None
                vectors.append(row)
                ids.append(name)
            if vectors:
                parts.append(np.array(vectors, dtype=np.float32))
    if not parts:
        raise ValueError(f"{path}: vectors must be at least one, got none.")
    return np.concatenate(parts), ids if named else None


def _leave_out(path: Path, number: int, error: RowError, named: bool, bad_rows: BadRows) -> None:
    if bad_rows.action == "skip" and not named:
        raise ValueError(
            f"{path}: row {number}: {error}; vectors without ids cannot be skipped, "
            "as the numbers of the rows after them would change."
        )
    bad_rows.add(str(path), number, error)


def _vector(found: dict[str, Any], name: str, width: int | None) -> NDArray[np.float32]:
    values = found.get(name)
    if values is None:
        raise RowError(f"column {name} is missing")
    try:
        row = np.array(values, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        row = np.empty(0, np.float32)
    if row.ndim != 1 or len(row) == 0:
        raise RowError(f"column {name} is not a list of numbers")
    if width is not None and len(row) != width:
        raise RowError("wrong length", f": {len(row)} numbers where others have {width}")
    if not np.isfinite(row).all():
        raise RowError(f"column {name} is not finite")
    return row
