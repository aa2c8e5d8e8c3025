"""Matrices in .npy, .npz, .safetensors and svmlight files."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file
from scipy import sparse

Found = tuple[Any, Any]


def read_npy(path: Path) -> Found:
    """Give the matrix, mapped and not read."""
    return mapped_array(path), None


def mapped_array(path: Path, what: str = "vectors") -> Any:
    """Give the array of a .npy file, mapped and not read."""
    with _damage_explained(path, what):
        return np.lib.format.open_memmap(path, mode="r")


def read_npz(path: Path) -> Found:
    """Give the matrix of scipy.sparse.save_npz, or the one named vectors (or the only one)."""
    with (
        _damage_explained(path),
        open(path, "rb") as opened,
        NpzFile(opened, allow_pickle=False) as file,
    ):
        if "indptr" in file and "format" in file:
            return sparse.load_npz(path).tocsr(), file.get("ids")
        arrays = {name: file[name] for name in file.files}
    return _chosen(path, arrays), arrays.get("ids")


def read_safetensors(path: Path) -> Found:
    """Give the tensor named vectors (or the only matrix), and ids: a tensor, or in the header."""
    with _damage_explained(path), safe_open(path, framework="np") as file:
        matrices = [n for n in file.keys() if len(file.get_slice(n).get_shape()) == 2]  # noqa: SIM118
        wanted = ["vectors"] if "vectors" in matrices else matrices
        arrays = {name: file.get_tensor(name) for name in wanted}
        ids = file.get_tensor("ids") if "ids" in file.keys() else None  # noqa: SIM118
        noted = (file.metadata() or {}).get("ids")
        if ids is None and noted is not None:
            ids = np.array(json.loads(noted), dtype=object)
    return _chosen(path, arrays), ids


def read_svmlight(path: Path) -> Found:
    """Give the sparse matrix of lines ``label index:value …``; labels are not used."""
    from sklearn.datasets import load_svmlight_file

    with _damage_explained(path):
        return load_svmlight_file(str(path))[0].tocsr(), None


def write_npy(path: Path, X: Any, ids: NDArray[Any] | None) -> None:
    """Write the matrix, and the ids beside it."""
    with open(path, "wb") as file:
        np.save(file, _dense(X))
    _write_beside(path, ids)


def write_npz(path: Path, X: Any, ids: NDArray[Any] | None) -> None:
    """Write a dense matrix as vectors (and ids), a sparse one as scipy does."""
    if sparse.issparse(X):
        sparse.save_npz(path, X)
        _write_beside(path, ids)
        return
    extra: dict[str, Any] = (
        {} if ids is None else {"ids": ids.astype(str) if ids.dtype == object else ids}
    )
    with open(path, "wb") as file:
        np.savez(file, vectors=X, **extra)


def write_safetensors(path: Path, X: Any, ids: NDArray[Any] | None) -> None:
    """Write vectors, and ids as a tensor of integers or as JSON in the header."""
    tensors, metadata = {"vectors": np.ascontiguousarray(_dense(X))}, None
    if ids is not None and ids.dtype == object:
        metadata = {"ids": json.dumps(ids.tolist())}
    elif ids is not None:
        tensors["ids"] = ids
    save_file(tensors, path, metadata=metadata)


def write_svmlight(path: Path, X: Any, ids: NDArray[Any] | None) -> None:
    """Write lines ``0 index:value …``."""
    from sklearn.datasets import dump_svmlight_file

    dump_svmlight_file(X, np.zeros(X.shape[0]), str(path))
    _write_beside(path, ids)


def _write_beside(path: Path, ids: NDArray[Any] | None) -> None:
    """Write ids, one a line, in a file of the same name and .ids."""
    if ids is None:
        return
    names = [str(name) for name in ids.tolist()]
    broken = [name for name in names if name.splitlines() != [name]]
    if broken:
        raise ValueError(f"{path}: ids must be texts of one line, got {broken[0]!r:.80}.")
    Path(f"{path}.ids").write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


def _dense(X: Any) -> Any:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


def _chosen(path: Path, arrays: dict[str, Any]) -> Any:
    matrices = {name: array for name, array in arrays.items() if array.ndim == 2}
    if "vectors" in matrices:
        return matrices["vectors"]
    if len(matrices) != 1:
        raise ValueError(
            f"{path}: vectors must be the only matrix or be named vectors, "
            f"got {', '.join(arrays) or 'nothing'}."
        )
    return next(iter(matrices.values()))


@contextmanager
def _damage_explained(path: Path, what: str = "vectors") -> Iterator[None]:
    """Turn whatever the bytes of a file provoke in its parser into one sentence."""
    try:
        yield
    except (OSError, MemoryError):
        raise
    except Exception as error:
        raise ValueError(f"{path}: {what} could not be read ({str(error)[:200]}).") from error
