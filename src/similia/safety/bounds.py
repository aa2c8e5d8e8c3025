"""Arrays that compiled code cannot take, NumPy would misread, or memory cannot hold."""

import datetime as dt
import math
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

#: limits of a container: cgroups of version 2 and 1
CONTAINER = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
#: kinds of dtypes that hold numbers
NUMERIC_KINDS = "biufc"
#: entries that NumPy would convert, and what they are called
NOT_NUMBERS: Sequence[tuple[Any, str]] = (
    ((str, bytes), "text"),
    ((dt.date, dt.time, np.datetime64), "dates"),
    ((dt.timedelta, np.timedelta64), "durations"),
)

# -- entries -------------------------------------------------------------------------------------


def check_numeric(owner: str, name: str, X: Any) -> None:
    """Refuse text (even if it spells numbers), dates, durations, and what `check_entries` does."""
    check_entries(owner, name, X)
    dtypes = [X.dtype] if hasattr(X, "dtype") else list(getattr(X, "dtypes", []))
    known = dtypes and all(getattr(one, "kind", "O") in NUMERIC_KINDS for one in dtypes)
    if known or sparse.issparse(X):
        return
    values = np.asarray(X)
    if values.dtype.kind in NUMERIC_KINDS:
        return
    for kinds, found in NOT_NUMBERS:
        example = _first_of(kinds, values)
        if example is not None:
            raise ValueError(f"{owner}: {name} must be numbers, got {found}: {str(example)!r:.40}.")


def check_entries(owner: str, name: str, X: Any) -> None:
    """Refuse a sparse matrix with indices out of range, and an array with masked entries.

    Compiled code follows the indices of a matrix without looking, and NumPy would use the values
    under a mask. So every array of a caller or of a file passes here first: one pass over the
    indices or the mask, before any conversion.
    """
    if sparse.issparse(X) and (problem := _misplaced(X)):
        raise ValueError(
            f"{owner}: {name} must be a sparse matrix with all entries inside its shape "
            f"{X.shape}, got {problem}."
        )
    if isinstance(X, np.ma.MaskedArray) and (n := int(np.ma.count_masked(X))):
        raise ValueError(
            f"{owner}: {name} must have no masked entries, got {n}; fill them or leave them out."
        )


def _first_of(kinds: Any, values: NDArray[Any]) -> Any:
    """First entry of one of these kinds, or None."""
    if values.dtype.kind == "O":
        return next((one for one in values.ravel() if isinstance(one, kinds)), None)
    return values.ravel()[0] if values.size and issubclass(values.dtype.type, kinds) else None


def _misplaced(X: Any) -> str | None:
    """What is wrong with the indices of a sparse matrix, in words; None if nothing is."""
    if X.format == "coo":
        if any(len(places) != len(X.data) for places in X.coords):
            return "coordinates and entries of different lengths"
        inside = all(map(_within, X.coords, X.shape))
        return None if inside else "coordinates outside of it"
    if X.format in ("csr", "csc", "bsr"):
        return _misplaced_in_lines(X)
    if X.format == "dia":
        fits = X.data.ndim == 2 and X.offsets.shape == X.data.shape[:1]
        return None if fits and X.offsets.dtype.kind == "i" else "offsets that are not one a row"
    if X.format == "lil":
        same = all(map(lambda row, data: len(row) == len(data), X.rows, X.data))
        if not same or len(X.rows) != X.shape[0]:
            return "rows and entries of different lengths"
    try:
        return _misplaced(X.tocsr())
    except (ValueError, TypeError, OverflowError):
        return "places that are no indices"


def _misplaced_in_lines(X: Any) -> str | None:
    """The same for a matrix of compressed rows, columns or blocks."""
    block = X.data.shape[1:]
    sizes = [n // max(step, 1) for n, step in zip(X.shape, block or (1, 1), strict=False)]
    n_lines, n_places = (1, *sizes)[-2:] if X.format != "csc" else sizes[::-1]
    starts = X.indptr
    fits = len(X.data) == len(X.indices) and len(block) == 2 * (X.format == "bsr")
    if not fits or starts.shape != (n_lines + 1,) or starts.dtype.kind != "i":
        return "arrays of other lengths or types"
    if starts[0] != 0 or starts[-1] > len(X.indices) or (starts[1:] < starts[:-1]).any():
        return "an indptr that does not increase from 0 to the number of entries"
    return None if _within(X.indices, n_places) else "indices outside of it"


def _within(places: NDArray[Any], size: int) -> bool:
    """Whether all places are integers from 0 to size - 1."""
    if places.ndim != 1 or places.dtype.kind != "i":
        return False
    # As unsigned numbers, negative ones are the largest.
    return places.size == 0 or int(places.view(f"u{places.itemsize}").max()) < size


# -- room ----------------------------------------------------------------------------------------


def check_room(owner: str, width: int, dtype: DTypeLike, *shapes: tuple[int, ...]) -> None:
    """Refuse vectors whose arrays, of these shapes, exceed the memory.

    A failed allocation would be the good case: systems promise more memory than they have, and kill
    the process that uses it.
    """
    wanted = sum(map(math.prod, shapes)) * np.dtype(dtype).itemsize
    if wanted > (limit := memory()):
        raise ValueError(
            f"{owner}: X must have few enough features for {limit / 1e9:.3g} GB of memory, got "
            f"{width}, which take {wanted / 1e9:.3g} GB; reduce them first, as with "
            "sklearn.decomposition.TruncatedSVD."
        )


def memory() -> int:
    """Bytes that this process may hold: the memory of the machine, or a lower limit."""
    limits = [sys.maxsize]
    with suppress(AttributeError, ValueError, OSError):  # not a Unix, where allocations fail
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in CONTAINER:
        with suppress(ValueError, OSError):  # "max", or no such container
            limits.append(int(Path(path).read_text()))
    with suppress(ImportError):
        import resource

        soft = resource.getrlimit(resource.RLIMIT_AS)[0]
        limits.append(sys.maxsize if soft == resource.RLIM_INFINITY else soft)
    return min(limits)
