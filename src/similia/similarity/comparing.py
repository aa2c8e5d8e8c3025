"""How the views of queries and items compare: which there are, what is typical, scores of pairs."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import row_products, wide_row_products
from similia.linalg.blocks import dense, rows_of
from similia.linalg.threads import single_blas_thread
from similia.views import Views

#: random triplets from which typical gaps are measured
SAMPLE = 4000
#: random queries and items, and how many of the base's first items, from which views are compared
QUERIES, ITEMS, FIRST = 100, 4000, 100
#: deviation of a view's weight from its start, in units, if the start says all or nothing
KNOWN, UNKNOWN = 0.125, 0.5
#: least variance of a view among the first items, in squares of its typical gap: a twentieth of
#: that among all
LEAST = 0.025

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
    #: weight with which each further view starts, in units, how far it may be from that, and these
    #: units: deviation of the base in deviations of the view, among the base's first items
    start: NDArray[np.float64]
    doubt: NDArray[np.float64]
    units: NDArray[np.float64]


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
        if not width:
            columns.append(dense(rows_of(Z[name], items, np.float64)))
            continue
        pairs = (X[name], queries), (Z[name], items)
        if all(sparse.issparse(side) for side, _ in pairs):
            asked, rows = (rows_of(side, some, np.float64) for side, some in pairs)
            columns.append(np.asarray(asked.multiply(rows).sum(axis=1)).reshape(-1, 1))
        else:
            (asked, of_asked), (rows, of_rows) = (_in_place(side, some) for side, some in pairs)
            columns.append(wide_row_products(asked, of_asked, rows, of_rows)[:, None])
    return np.ascontiguousarray(np.hstack(columns))


def _in_place(side: Matrix, some: Indices) -> tuple[Array, Indices]:
    """Rows for a compiled loop, and their places: a copy only of what it could not read safely."""
    plain = type(side) is np.ndarray and side.flags.carray and len(some) > 0
    if plain and some.min() >= 0 and some.max() < len(side):
        return side, some.astype(np.intp, copy=False)
    return dense(rows_of(side, some, side.dtype)), np.arange(len(some))


def start_shapes(widths: Widths, X: Views, Z: Views) -> list[tuple[int, ...]]:
    """Shapes of the arrays that grow with the numbers of features and of weights."""
    shapes: list[tuple[int, ...]] = []
    for name, m, n in widths:
        if not m or not (sparse.issparse(X[name]) and sparse.issparse(Z[name])):
            shapes += [(SAMPLE, m), (SAMPLE, n)]
    n_weights = sum(1 if m else n for _, m, n in widths)
    return [*shapes, (n_weights, n_weights)]


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
    agreement = np.clip(np.nan_to_num(cosines[1:]), -1, 1)
    first, all_items = (variances / typical**2 for variances in variances_of_scores(widths, X, Z))
    own = share_of_its_own(agreement, first, all_items) * compares(widths)[1:]
    return Measures(
        typical,
        lengths,
        np.nan_to_num(scores.mean(axis=0) / typical),
        np.nan_to_num(better.mean(axis=0) / lengths[1]).astype(Z[base].dtype),
        own * 2 * agreement / (1 + np.abs(agreement)),
        np.sqrt(KNOWN**2 * own + UNKNOWN**2 * (1 - own)),
        np.sqrt((first[0] + LEAST) / (first[1:] + LEAST)),
    )


def share_of_its_own(agreement: Array, first: Array, all_items: Array) -> Array:
    """Share of each view's variance among the base's first items that is not from the base.

    Two similarities of correlation c that measure the same thing with errors of their own are best
    added with the weight 2c/(1 + |c|), says the Spearman-Brown formula; a noisy copy of the base is
    best left out. Among the base's first items a copy has the variance that regression on the base
    leaves, (1 - c²) of that among all, and c² of what the base has there.
    """
    c = agreement**2
    copied = all_items[1:] * (1 - c + c * first[0] / max(all_items[0], 1e-12))
    found: Array = np.maximum(1 - copied / np.maximum(first[1:], LEAST), 0)
    return found


def compares(widths: Widths) -> NDArray[np.bool_]:
    """For each weight, whether its view compares queries with items, or is a field of items."""
    return np.array([m > 0 for _, m, n in widths for _ in range(1 if m else n)])


def variances_of_scores(widths: Widths, X: Views, Z: Views) -> tuple[Array, Array]:
    """Mean variances of all views' scores among the base's first items, and among all items.

    On random queries and items of a fixed seed.
    """
    rng = np.random.default_rng(1)
    asked = np.sort(rng.permutation(X.shape[0])[:QUERIES])
    items = np.sort(rng.permutation(Z.shape[0])[:ITEMS])
    k, variances, first = min(FIRST, len(items)), [], None
    with np.errstate(over="ignore", invalid="ignore"), single_blas_thread():
        for name, width, _ in widths:
            rows = rows_of(Z[name], items, np.float64)
            if width:
                product = rows_of(X[name], asked, np.float64) @ rows.T
                columns = [np.nan_to_num(dense(product))]
            else:
                columns = [np.broadcast_to(x, (len(asked), len(x))) for x in dense(rows).T]
            if first is None:
                base = columns[0].copy()
                if X is Z:  # a query is no answer to itself
                    base[asked[:, None] == items] = -np.inf
                first = np.argpartition(-base, k - 1, axis=1)[:, :k]
            for scores in columns:
                best = np.take_along_axis(scores, first, axis=1)
                variances.append([best.var(axis=1).mean(), scores.var(axis=1).mean()])
    found = np.nan_to_num(np.array(variances).T)
    return found[0], found[1]


def side_by_side(views: list[Matrix]) -> Matrix:
    """Several views as one matrix, sparse if any of them is."""
    if len(views) == 1:
        return views[0]
    if any(map(sparse.issparse, views)):
        return sparse.csr_array(sparse.hstack(views, format="csr"))
    return np.hstack(views)
