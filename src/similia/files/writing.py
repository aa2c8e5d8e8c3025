"""Vectors and their ids, to files of many formats."""

import json
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike
from safetensors import SafetensorError
from safetensors.numpy import save_file
from scipy import sparse

from similia.contract import Array, Matrix
from similia.files import limits
from similia.files.ids import Ids
from similia.files.lines import JSON_SUFFIXES
from similia.files.vectors import (
    FORMATS,
    SVMLIGHT_SUFFIXES,
    RawIds,
    check_matrix,
    unknown_format,
)
from similia.safety.bounds import check_entries
from similia.safety.whole import replace_text, replacing

#: formats without room for ids
NO_ID_SUFFIXES = (".npy", *SVMLIGHT_SUFFIXES)


def write_vectors(path: Path | str, X: ArrayLike | Matrix, ids: RawIds = None) -> None:
    """Write vectors in the format of the path's suffix; the file is replaced whole or not at all.

    Parameters
    ----------
    path : path
        As for `read_vectors`; ``-`` writes JSON lines to standard output.
    X : array or sparse matrix of shape (n, d)
        Tables, safetensors and JSON lines hold dense vectors only.
    ids : array of n integers or strings, optional
        Kept in the file, or in one of the same name plus ``.ids``.
    """
    check_entries(str(path), "vectors", X)
    matrix = sparse.csr_array(X) if sparse.issparse(X) else np.asarray(X)
    check_matrix(path, matrix)
    names = Ids(ids, matrix.shape[0]).values
    if str(path) == "-":
        _write_lines(sys.stdout, matrix, names)
        return
    path = Path(path)
    if path.suffix not in FORMATS:
        raise unknown_format(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; make it first.")
    if path.is_dir():
        raise ValueError(f"{path}: vectors must be written to a file, got a folder.")
    beside = None
    has_room = path.suffix not in NO_ID_SUFFIXES and not (
        path.suffix == ".npz" and sparse.issparse(X)
    )
    if names is not None and not has_room:
        texts = [str(name) for name in names.tolist()]
        broken = [text for text in texts if text.splitlines() != [text]]
        if broken:
            raise ValueError(f"{path}: ids must be texts of one line, got {broken[0]!r:.80}.")
        beside = "".join(f"{text}\n" for text in texts)
    try:
        with replacing(path) as temporary:
            _write(temporary, matrix, names)
            if beside is None:  # ids of a replaced file would be taken for those of the new one
                Path(f"{path}.ids").unlink(missing_ok=True)
            else:
                replace_text(f"{path}.ids", beside)
    except (OSError, SafetensorError) as error:  # such as a full disk
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        raise OSError(f"{path} could not be written: {reason}.") from error


def _write(path: Path, X: Matrix, ids: Array | None) -> None:
    """Write vectors, with their ids if the format has room for them."""
    if path.suffix == ".npz" and sparse.issparse(X):
        sparse.save_npz(path, X)
    elif path.suffix in (".npy", ".npz"):
        arrays: dict[str, Any] = {"vectors": _dense(X)}
        if ids is not None:
            arrays["ids"] = ids.astype(str) if ids.dtype == object else ids
        with open(path, "wb") as file:
            if path.suffix == ".npy":
                np.save(file, arrays["vectors"])
            else:
                np.savez(file, **arrays)
    elif path.suffix == ".safetensors":  # texts have no tensors: JSON in the header
        tensors, metadata = {"vectors": np.ascontiguousarray(_dense(X))}, None
        if ids is not None and ids.dtype == object:
            metadata = {"ids": json.dumps(ids.tolist())}
        elif ids is not None:
            tensors["ids"] = ids
        save_file(tensors, path, metadata=metadata)
    elif path.suffix in SVMLIGHT_SUFFIXES:
        from sklearn.datasets import dump_svmlight_file

        dump_svmlight_file(X, np.zeros(X.shape[0]), str(path))
    elif path.suffix in JSON_SUFFIXES:
        with open(path, "w", encoding="utf-8") as lines:
            _write_lines(lines, X, ids)
    else:
        from similia.files.vector_tables import write_table

        write_table(path, _dense(X), ids)


def _write_lines(file: IO[str], X: Matrix, ids: Array | None) -> None:
    """Write one vector per line; without ids, row numbers take their place."""
    for start in range(0, X.shape[0], limits.JSON_VECTORS):
        rows = _dense(X[start : start + limits.JSON_VECTORS])
        names = (
            range(start, start + len(rows))
            if ids is None
            else ids[start : start + limits.JSON_VECTORS]
        )
        for name, row in zip(np.asarray(names).tolist(), rows, strict=True):
            # The shortest double that rounds to a single-precision number.
            values = row.tolist() if row.dtype == np.float64 else [float(str(v)) for v in row]
            file.write(json.dumps({"id": name, "vector": values}) + "\n")


def _dense(X: Matrix) -> Array:
    return X if isinstance(X, np.ndarray) else X.toarray()
