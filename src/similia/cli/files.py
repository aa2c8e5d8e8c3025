"""Vectors and judgements from files."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

HEADER = "query,better,worse"


def read_vectors(path: Path) -> Any:
    """Give the matrix in a .npy file, mapped and not read, or in a scipy .npz file."""
    import numpy as np
    from scipy import sparse

    if path.suffix not in (".npy", ".npz"):
        raise ValueError(
            f"{path}: vectors must be in a .npy file (numpy.save) or a .npz file "
            f"(scipy.sparse.save_npz), got {path.suffix or 'no suffix'}."
        )
    try:
        if path.suffix == ".npz":
            vectors = sparse.load_npz(path).tocsr()
        else:
            vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, KeyError, BadZipFile) as error:
        raise ValueError(f"{path}: vectors could not be read ({error}).") from error
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise ValueError(
            f"{path}: vectors must be a matrix of numbers, "
            f"got shape {vectors.shape} and dtype {vectors.dtype}."
        )
    # Learners take these two as they are, and would copy any other anew for each chunk.
    known = vectors.dtype in (np.float32, np.float64)
    return vectors if known else vectors.astype(np.float64)


def read_triplets(path: Path) -> Any:
    """Give the judgements in a .npy file, or in a .csv file with columns query, better, worse."""
    import numpy as np

    if path.suffix not in (".npy", ".csv"):
        raise ValueError(
            f"{path}: feedback must be in a .npy file (numpy.save) or a .csv file with the columns "
            f"{HEADER}, got {path.suffix or 'no suffix'}."
        )
    try:
        triplets = _read_csv(path) if path.suffix == ".csv" else np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: feedback could not be read ({error}).") from error
    if triplets.ndim != 2 or triplets.shape[1] != 3 or triplets.dtype.kind not in "iu":
        raise ValueError(
            f"{path}: feedback must be an integer array of shape (n, 3), "
            f"got shape {triplets.shape} and dtype {triplets.dtype}."
        )
    if len(triplets) == 0:
        raise ValueError(f"{path}: feedback must be at least one judgement, got none.")
    return triplets


def _read_csv(path: Path) -> Any:
    import numpy as np

    with open(path, encoding="utf-8-sig") as file:
        header = file.readline().strip()
        if header.replace(" ", "").lower() != HEADER:
            raise ValueError(f"the first line must be {HEADER}, got {header!r:.80}")
        rows = file.readlines()
    if not any(row.strip() for row in rows):
        return np.empty((0, 3), dtype=np.intp)
    return np.loadtxt(rows, delimiter=",", dtype=np.int64, ndmin=2, comments=None)
