"""Whether a sparse matrix names only places inside of itself: the check before compiled code."""

from typing import Any

from numpy.typing import NDArray
from scipy import sparse


def check_sparse(owner: str, name: str, X: Any) -> None:
    """Refuse a sparse matrix that names places outside of itself; anything dense is right.

    Compiled code follows the indices of a matrix without looking, so every matrix of a caller or of
    a file passes here first: one pass over the indices, before any conversion.
    """
    if sparse.issparse(X) and (problem := _misplaced(X)):
        raise ValueError(
            f"{owner}: {name} must be a sparse matrix with all entries inside its shape "
            f"{X.shape}, got {problem}."
        )


def _misplaced(X: Any) -> str | None:
    """What is wrong with the places of a sparse matrix, in words."""
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
