"""Vectors and judgements from files."""

from pathlib import Path
from typing import Any
from zipfile import BadZipFile

#: columns of a file of judgements, for each kind of learner
COLUMNS = {
    "triplets": ("query", "better", "worse"),
    "pairs": ("a", "b", "y"),
    "labels": ("row", "label"),
}
#: those that are numbers of rows
ROWS = {"query", "better", "worse", "a", "b", "row"}


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


def read_feedback(path: Path, kind: str) -> tuple[Any, ...]:
    """Give the judgements in a .npy or .csv file, as a learner of that kind takes them.

    Triplets are one array of shape (n, 3); pairs are an array of shape (n, 2) and what is known of
    each; labels are row numbers and the label of each.
    """
    import numpy as np

    names = COLUMNS[kind]
    if path.suffix not in (".npy", ".csv"):
        raise ValueError(
            f"{path}: feedback must be in a .npy file (numpy.save) or a .csv file with the columns "
            f"{','.join(names)}, got {path.suffix or 'no suffix'}."
        )
    try:
        if path.suffix == ".csv":
            columns = _read_csv(path, names)
        else:
            columns = _columns(np.load(path, allow_pickle=False), names)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path}: feedback could not be read ({error}).") from error
    if len(columns[0]) == 0:
        raise ValueError(f"{path}: feedback must be at least one judgement, got none.")
    if kind == "triplets":
        return (np.column_stack(columns),)
    if kind == "pairs":
        return np.column_stack(columns[:2]), columns[2]
    return tuple(columns)


def _columns(given: Any, names: tuple[str, ...]) -> list[Any]:
    import numpy as np

    if given.ndim != 2 or given.shape[1] != len(names) or given.dtype.kind not in "fiu":
        raise ValueError(
            f"an array of numbers of shape (n, {len(names)}) is needed, for {','.join(names)}, "
            f"got shape {given.shape} and dtype {given.dtype}"
        )
    columns = list(given.T)
    for place, name in enumerate(names):
        if name in ROWS:
            whole = columns[place].astype(np.int64)
            if not np.array_equal(whole, columns[place]):
                raise ValueError(f"column {name} must be row numbers, got {given.dtype} values")
            columns[place] = whole
    return columns


def _read_csv(path: Path, names: tuple[str, ...]) -> list[Any]:
    import csv

    with open(path, encoding="utf-8-sig", newline="") as file:
        rows = [row for row in csv.reader(file) if row]
    header = ",".join(rows[0]) if rows else ""
    if header.replace(" ", "").lower() != ",".join(names):
        raise ValueError(f"the first line must be {','.join(names)}, got {header!r:.80}")
    for number, row in enumerate(rows[1:], start=2):
        if len(row) != len(names):
            raise ValueError(f"line {number} must have {len(names)} entries, got {len(row)}")
    texts = list(zip(*rows[1:], strict=True)) or [()] * len(names)
    return [_parsed(name, column) for name, column in zip(names, texts, strict=True)]


def _parsed(name: str, texts: tuple[str, ...]) -> Any:
    """Give row numbers as integers, distances as numbers, and labels as integers if all are."""
    import numpy as np

    if name == "label" and not all(text.strip().lstrip("+-").isdigit() for text in texts):
        return np.array(texts, dtype=object)
    return np.array(texts, dtype=np.float64 if name == "y" else np.int64)
