"""How the views of queries and items compare: which there are, what is typical, scores of pairs."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import row_products
from similia.linalg.blocks import dense, rows_of
from similia.linalg.threads import single_blas_thread
from similia.views import Views

#: random triplets from which typical gaps are measured
SAMPLE = 4000

#: name, features of queries (0 for a field of items) and features of items, for each view
Widths: TypeAlias = list[list[Any]]


class Measures(NamedTuple):
    """What is typical of queries and items, from random ones."""

    #: difference between two items in each view, for a query
    gaps: NDArray[np.float64]
    #: length of a query, and of the difference between two items, in the base
    lengths: NDArray[np.float64]
    #: scores in typical gaps, and the row in the base, of an average item
    middle: NDArray[np.float64]
    mean: Array
    #: correlation of each further view with the base
    agreement: NDArray[np.float64]


def compared_widths(owner: str, X: Views, Z: Views) -> Widths:
    """Views that X and Z share, and fields of Z; refuse views that do not fit together."""
    base = next(iter(Z))
    if base not in X:
        raise ValueError(
            f"{owner}: the first view of the items must be one that queries have too, got {base!r}."
        )
    check_known(owner, "queries", X, list(Z))
    # A number times a number compares nothing: where queries are items it is a field.
    shared = [n for n in Z if n in X and (X is not Z or n == base or Z[n].shape[1] > 1)]
    widths = [[name, X[name].shape[1] if name in shared else 0, Z[name].shape[1]] for name in Z]
    for name, m, n in widths:
        if m not in (0, n):
            raise ValueError(
                f"{owner}: the view {name!r} must have as many features for queries as for items, "
                f"got {m} and {n}."
            )
    return widths


def check_known(owner: str, side: str, views: Views, known: list[str]) -> None:
    """Refuse views of other names."""
    for name in views:
        if name not in known:
            raise ValueError(
                f"{owner}: views of the {side} must be among {', '.join(known)}, got {name}."
            )


def check_widths(owner: str, side: str, views: Views, widths: Widths, column: int) -> None:
    """Refuse views of other names, or of other widths than in this column."""
    check_known(owner, side, views, [view[0] for view in widths])
    for known in widths:
        name, width = known[0], known[column]
        found = views[name].shape[1] if name in views else 0
        if width and found != width:
            raise ValueError(
                f"{owner}: {side} must have the view {name!r} with {width} features, "
                f"got {found or 'none'}."
            )


def names_of(widths: Widths) -> list[str]:
    """A name for each weight: a view that compares has one, a field one for each column."""
    return [
        name if m or n == 1 else f"{name}.{i}"
        for name, m, n in widths
        for i in range(1 if m else n)
    ]


def scores_of_pairs(widths: Widths, X: Views, Z: Views, queries: Indices, items: Indices) -> Array:
    """Scores of all views for these pairs of rows, a column for each weight."""
    columns = []
    for name, width, _ in widths:
        rows = rows_of(Z[name], items, np.float64)
        if width:
            asked = rows_of(X[name], queries, np.float64)
            if sparse.issparse(rows) != sparse.issparse(asked):
                rows, asked = dense(rows), dense(asked)
            if sparse.issparse(rows):
                columns.append(np.asarray(asked.multiply(rows).sum(axis=1)).reshape(-1, 1))
            else:
                columns.append(np.vecdot(asked, rows)[:, None])
        else:
            columns.append(dense(rows))
    return np.ascontiguousarray(np.hstack(columns))


def measured(widths: Widths, X: Views, Z: Views) -> Measures:
    """Measure what is typical, on triplets that depend on a fixed seed alone."""
    base = widths[0][0]
    sizes = (X.shape[0], Z.shape[0], Z.shape[0])
    triplets = np.random.default_rng(0).integers(sizes, size=(SAMPLE, 3))
    with np.errstate(over="ignore", invalid="ignore"), single_blas_thread():
        scores = scores_of_pairs(widths, X, Z, triplets[:, 0], triplets[:, 1])
        gaps = scores - scores_of_pairs(widths, X, Z, triplets[:, 0], triplets[:, 2])
        typical = np.sqrt(np.mean(gaps**2, axis=0))
        cosines = (gaps.T @ gaps[:, 0]) / np.maximum(len(gaps) * typical * typical[0], 1e-300)
        asked, better, worse = (
            rows_of(side[base], rows, np.float64)
            for side, rows in zip((X, Z, Z), triplets[:500].T, strict=True)
        )
        squares = [row_products(rows, rows) for rows in (asked, better - worse)]
        lengths = np.sqrt(np.mean(squares, axis=1))
    # What is so small that its inverse has no number in this precision counts as zero.
    least = float(np.finfo(Z[base].dtype).max) ** -0.25
    typical = np.where((typical > least**2) & np.isfinite(typical), typical, 1.0)
    lengths = np.where((lengths > least) & np.isfinite(lengths), lengths, 1.0)
    return Measures(
        typical,
        lengths,
        np.nan_to_num(scores.mean(axis=0) / typical),
        np.nan_to_num(better.mean(axis=0) / lengths[1]).astype(Z[base].dtype),
        np.clip(np.nan_to_num(cosines[1:]), -1, 1),
    )


def side_by_side(views: list[Matrix]) -> Matrix:
    """Several views as one matrix, sparse if any of them is."""
    if len(views) == 1:
        return views[0]
    if any(map(sparse.issparse, views)):
        return sparse.csr_array(sparse.hstack(views, format="csr"))
    return np.hstack(views)
