"""Vectors as JSON lines: {"id": …, "vector": [numbers]}."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from similia.files.bad_rows import BadRows, RowError
from similia.files.lines import LineBlock, line_blocks, opened
from similia.files.text import decoded, json_object

#: vectors written at a time
STEP = 1024


def read_json_vectors(
    path: Path, vector: str, identifier: str, bad_rows: BadRows
) -> tuple[NDArray[np.float32], list[Any] | None]:
    """Give the matrix in single precision, and the ids if lines have them.

    The first good line decides the length, and whether lines have ids. Without ids a bad line is
    fatal, as the numbers of the rows after it would change.
    """
    blocks, ids = [], []
    width, named = None, None
    with opened(path) as file:
        for block in line_blocks(file, str(path)):
            rows = []
            for number, found in _lines(block):
                try:
                    if isinstance(found, RowError):
                        raise found
                    row = _vector(found, vector, width)
                    name = found.get(identifier)
                    if named is None:
                        named = name is not None
                    elif named != (name is not None):
                        raise RowError(f"column {identifier} is missing" if named else "extra id")
                except RowError as error:
                    _check_may_skip(path, number, error, named, bad_rows)
                    bad_rows.add(str(path), number, error)
                    continue
                width = len(row)
                rows.append(row)
                ids.append(name)
            if rows:
                blocks.append(np.array(rows, dtype=np.float32))
    if not blocks:
        raise ValueError(f"{path}: vectors must be at least one, got none.")
    return np.concatenate(blocks), ids if named else None


def _lines(block: LineBlock) -> Iterator[tuple[int, Any]]:
    for number, line in block.lines():
        try:
            yield number, json_object(decoded(line))
        except RowError as error:
            yield number, error


def _vector(found: dict[str, Any], name: str, width: int | None) -> NDArray[np.float32]:
    values = found.get(name)
    if values is None:
        raise RowError(f"column {name} is missing")
    try:
        row = np.array(values, dtype=np.float32)
    except (ValueError, TypeError, OverflowError):
        raise RowError(f"column {name} is not a list of numbers") from None
    if row.ndim != 1 or len(row) == 0:
        raise RowError(f"column {name} is not a list of numbers")
    if width is not None and len(row) != width:
        raise RowError("wrong length", f": {len(row)} numbers where others have {width}")
    if not np.isfinite(row).all():
        raise RowError(f"column {name} is not finite")
    return row


def _check_may_skip(
    path: Path, number: int, error: RowError, named: bool | None, bad_rows: BadRows
) -> None:
    if bad_rows.action == "skip" and not named:
        raise ValueError(
            f"{path}: row {number}: {error}; vectors without ids cannot be skipped, "
            "as the numbers of the rows after them would change."
        )


def write_json_vectors(file: IO[str], X: Any, ids: NDArray[Any] | None, start: int = 0) -> None:
    """Write vectors one a line; without ids the row number is the id."""
    for begin in range(0, X.shape[0], STEP):
        rows = X[begin : begin + STEP]
        rows = rows.toarray() if hasattr(rows, "toarray") else np.asarray(rows)
        numbers = range(start + begin, start + begin + len(rows))
        names = list(numbers) if ids is None else ids[begin : begin + STEP].tolist()
        for name, row in zip(names, rows, strict=True):
            values = row.tolist() if row.dtype == np.float64 else _short(row)
            file.write(json.dumps({"id": name, "vector": values}) + "\n")


def _short(row: NDArray[Any]) -> list[float]:
    """Give single-precision numbers as the shortest doubles that round to them."""
    return [float(str(value)) for value in row]
