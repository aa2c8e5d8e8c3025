"""Vectors and their ids, from and to files of many formats."""

import os
import secrets
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from scipy import sparse

from similia.files.arrays import (
    mapped_array,
    read_npy,
    read_npz,
    read_safetensors,
    read_svmlight,
    write_npy,
    write_npz,
    write_safetensors,
    write_svmlight,
)
from similia.files.bad_rows import BadRows, RowError
from similia.files.ids import Ids, as_integers
from similia.files.json_vectors import read_json_vectors, write_json_vectors

ARRAYS = {
    ".npy": (read_npy, write_npy),
    ".npz": (read_npz, write_npz),
    ".safetensors": (read_safetensors, write_safetensors),
    ".svmlight": (read_svmlight, write_svmlight),
    ".svm": (read_svmlight, write_svmlight),
    ".libsvm": (read_svmlight, write_svmlight),
}
TABLES = (".parquet", ".pq", ".arrow", ".feather")
LINES = (".jsonl", ".ndjson")


class VectorFile(NamedTuple):
    """A matrix of vectors, one a row, and how its rows are called."""

    X: Any
    ids: Ids


def read_vectors(
    path: Path | str,
    *,
    ids: Path | str | None = None,
    vector_column: str | None = None,
    id_column: str | None = None,
    bad_rows: BadRows | None = None,
) -> VectorFile:
    """Read vectors, and the ids of their rows if there are any.

    Parameters
    ----------
    path : path
        By its suffix: .npy (mapped, not read), .npz (dense, or of scipy.sparse.save_npz),
        .safetensors, .parquet or .arrow (a column of lists, or columns of numbers), .jsonl (lines
        ``{"id": …, "vector": […]}``), .svmlight. ``-`` reads JSON lines from standard input.
    ids : path, optional
        Ids of the rows: a text file, one a line, or a .npy file. Without it, those in the file
        itself, those in a file of the same name and ``.ids``, or else the row numbers.
    vector_column, id_column : str, optional
        Names in Parquet, Arrow and JSON lines; ``vector`` and ``id`` if not given.
    bad_rows : BadRows, optional
        What to do with rows of tables and JSON lines that are no vectors; "skip" needs ids.

    Returns
    -------
    VectorFile
        X of shape (n, d), dense or CSR, in single or double precision, and `Ids`.
    """
    path, bad_rows = Path(path), bad_rows or BadRows()
    if path.is_dir():
        raise ValueError(f"{path}: vectors must be in a file, got a folder.")
    X, names = _read(path, vector_column, id_column, bad_rows)
    _check_matrix(path, X)
    beside = Path(f"{path}.ids")
    if ids is not None:
        names = read_ids(Path(ids))
    elif names is None and str(path) != "-" and beside.exists():
        names = read_ids(beside)
    try:
        found = Ids(names, X.shape[0])
    except ValueError as error:
        raise ValueError(f"{ids or path}: {error}") from None
    # Learners take these two as they are, and would copy any other anew for each chunk.
    if X.dtype not in (np.float32, np.float64):
        X = X.astype(np.float32 if X.dtype == np.float16 else np.float64)
    return VectorFile(X, found)


def _read(path: Path, vector: str | None, name: str | None, bad_rows: BadRows) -> tuple[Any, Any]:
    if path.suffix in ARRAYS:
        return ARRAYS[path.suffix][0](path)
    if path.suffix in LINES or str(path) == "-":
        return read_json_vectors(path, vector or "vector", name or "id", bad_rows)
    if path.suffix in TABLES:
        return _read_table(path, vector, name, bad_rows)
    raise _unknown(path)


def _check_matrix(path: Path | str, X: Any) -> None:
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "fiu":
        raise ValueError(
            f"{path}: vectors must be a matrix of numbers, at least one row of at least one, "
            f"got shape {X.shape} and dtype {X.dtype}."
        )


def _unknown(path: Path) -> ValueError:
    known = ", ".join((*ARRAYS, *TABLES, *LINES))
    return ValueError(
        f"{path}: vectors must be in a file that ends in one of {known}, "
        f"got {path.suffix or 'no suffix'}."
    )


def _read_table(
    path: Path, vector: str | None, name: str | None, bad_rows: BadRows
) -> tuple[Any, Any]:
    from similia.files import arrow

    X, ids, whole = arrow.read_vectors(path, vector, name)
    if whole.all():
        return X, ids
    error = RowError("not a vector of finite numbers", f" of length {X.shape[1]}")
    for row in np.flatnonzero(~whole).tolist():
        if bad_rows.action == "skip" and ids is None:
            raise ValueError(
                f"{path}: row {row + 1}: {error}; vectors without ids cannot be skipped, "
                "as the numbers of the rows after them would change."
            )
        bad_rows.add(str(path), row + 1, error)
    return X[whole], [value for value, good in zip(ids or [], whole, strict=True) if good]


def read_ids(path: Path) -> NDArray[Any]:
    """Give ids from a .npy file or from the lines of a text: integers if all are."""
    if path.suffix == ".npy":
        return np.array(mapped_array(path, "ids"))
    try:
        texts = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: ids must be UTF-8 ({error}).") from error
    numbers = as_integers(texts)
    return np.array(texts, dtype=object) if numbers is None else numbers


def write_vectors(path: Path | str, X: Any, ids: Any = None) -> None:
    """Write vectors in the format of the path's suffix; the file is complete or not there at all.

    Parameters
    ----------
    path : path
        As of `read_vectors`; ``-`` writes JSON lines to standard output.
    X : array or sparse matrix of shape (n, d)
        Tables, safetensors and JSON lines hold dense vectors only.
    ids : array of n integers or strings, optional
        Kept in the file, or in one of the same name and ``.ids``.
    """
    X = X if sparse.issparse(X) else np.asarray(X)
    _check_matrix(path, X)
    names = Ids(ids, X.shape[0]).values
    if str(path) == "-":
        write_json_vectors(sys.stdout, X, names)
        return
    path = Path(path)
    if path.suffix not in (*ARRAYS, *TABLES, *LINES):
        raise _unknown(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise ValueError(f"{path}: vectors must be written to a file, got a folder.")
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(8)}{path.suffix}")
    beside = Path(f"{temporary}.ids")
    try:
        _write(temporary, X, names)
        if beside.exists():
            os.replace(beside, f"{path}.ids")
        else:  # those of the file that is replaced would be taken for this one's
            Path(f"{path}.ids").unlink(missing_ok=True)
        os.replace(temporary, path)
    except (OSError, SafetensorError) as error:  # such as a disk that is full
        reason = getattr(error, "strerror", None) or error
        raise OSError(f"{path} could not be written: {reason}.") from error
    finally:
        temporary.unlink(missing_ok=True)
        beside.unlink(missing_ok=True)


def _write(path: Path, X: Any, ids: NDArray[Any] | None) -> None:
    if path.suffix in ARRAYS:
        ARRAYS[path.suffix][1](path, X, ids)
        return
    if path.suffix in LINES:
        with open(path, "w", encoding="utf-8") as file:
            write_json_vectors(file, X, ids)
        return
    from similia.files import arrow

    arrow.write_vectors(path, X.toarray() if hasattr(X, "toarray") else np.asarray(X), ids)
