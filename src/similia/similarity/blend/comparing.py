"""How views compare queries and items: which there are, what is typical, scores of pairs."""

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import row_products, wide_row_products
from similia.linalg.blocks import dense, rows_of
from similia.linalg.threads import single_blas_thread
from similia.views import Views

#: random queries and items from which views are compared
COMPARED_QUERIES, COMPARED_ITEMS = 100, 4000
#: items that a search finds in each view: among these, together, deviations are measured
FOUND = 100
#: least variance of a view among the first items, in squares of its typical gap: a twentieth of
#: that among all
LEAST = 0.025
#: random pairs of items from which directions are measured, and how many are kept
SAMPLED_PAIRS, DIRECTIONS = 1000, 64
#: share of its own from which on a view is no copy of the base
OWN = 0.5

#: name, features of queries (0 for a field of items) and features of items, for each view
Widths: TypeAlias = list[list[Any]]


class Measures(NamedTuple):
    """What is typical of queries and items, from random ones."""

    #: deviation of each view among the items that a search in any of them finds
    units: NDArray[np.float64]
    #: length of a query, and of the difference between two items, in the base
    lengths: NDArray[np.float64]
    #: scores in these units, and the row in the base, of an average item
    middle: NDArray[np.float64]
    mean: Array
    #: weight with which each view starts, in its unit; that of the base is 1
    start: NDArray[np.float64]


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


def scores_of_pairs(widths: Widths, X: Views, Z: Views) -> Array:
    """Scores of corresponding rows in all views, a column for each weight."""
    columns = []
    for name, width, _ in widths:
        if not width:
            columns.append(dense(Z[name]))
        elif sparse.issparse(X[name]) and sparse.issparse(Z[name]):
            products = sparse.csr_array(X[name], dtype=np.float64).multiply(Z[name])
            columns.append(np.asarray(products.sum(axis=1)).reshape(-1, 1))
        else:
            columns.append(wide_row_products(dense(X[name]), dense(Z[name]))[:, None])
    return np.ascontiguousarray(np.hstack(columns), np.float64)


def start_shapes(widths: Widths, X: Views, Z: Views) -> list[tuple[int, ...]]:
    """Shapes of the arrays that grow with the numbers of features and of weights."""
    shapes: list[tuple[int, ...]] = []
    for name, m, n in widths:
        if not m or not (sparse.issparse(X[name]) and sparse.issparse(Z[name])):
            shapes += [(COMPARED_QUERIES, m), (COMPARED_ITEMS, n)]
    n_weights = sum(1 if m else n for _, m, n in widths)
    return [*shapes, (n_weights, n_weights)]


def measured(widths: Widths, X: Views, Z: Views) -> Measures:
    """Measure what is typical, on queries and items of a fixed seed."""
    base = widths[0][0]
    rng = np.random.default_rng(1)
    asked = np.sort(rng.permutation(X.shape[0])[:COMPARED_QUERIES])
    items = np.sort(rng.permutation(Z.shape[0])[:COMPARED_ITEMS])
    with np.errstate(over="ignore", invalid="ignore"), single_blas_thread():
        scores = _scores_of_all(widths, X, Z, asked, items)
        lengths = np.array([_length(X[base], asked), _length(Z[base], items, between=True)])
        rows = rows_of(Z[base], items, np.float64)
        mean = np.asarray(rows.mean(axis=0)).ravel()
        others = asked[:, None] != items if X is Z else np.ones((len(asked), len(items)), bool)
        comparing = [view for view, does in zip(scores, compares(widths), strict=True) if does]
        found, first = _found(comparing, others), _found(comparing[:1], others)
        among_found, _ = _spread(scores, found)
        among_first, _ = _spread(scores, first)
        among_all, common = _spread(scores, others)
        agreement = common / np.sqrt(np.maximum(among_all * among_all[0], 1e-300))
        averages = np.array([view.mean() for view in scores])
    agreement = np.clip(np.nan_to_num(agreement), 0.0, 1.0)
    # What is so small that its inverse has no number in this precision counts as zero.
    least = float(np.finfo(Z[base].dtype).max) ** -0.25
    units = np.sqrt(np.where(among_found > 0, among_found, among_all))
    units = np.where((units > least**2) & np.isfinite(units), units, 1.0)
    lengths = np.where((lengths > least) & np.isfinite(lengths), lengths, 1.0)
    gaps = np.maximum(2 * among_all, 1e-300)
    own = share_of_its_own(agreement[1:], among_first / gaps, among_all / gaps)
    own = np.minimum(own / OWN, 1.0) * compares(widths)[1:]
    return Measures(
        units,
        lengths,
        np.nan_to_num(averages / units),
        np.nan_to_num(mean / lengths[1]).astype(Z[base].dtype),
        np.append(1.0, np.nan_to_num(own * 2 * agreement[1:] / (1 + agreement[1:]))),
    )


def common_directions(items: Matrix) -> tuple[float, Array]:
    """Return a and A of S = a(I - AAᵀ), how a vector for one query varies before any feedback.

    A vector changes the scores of all items, most of them by mistake. The one that does least for
    what it says about a few is small where items differ most: with the covariance C of differences
    between two random items, of length 1, S is that of the precision I + nC. C is measured on N
    items, so it counts as if there were n more that differ in all n directions alike. Of S only the
    leading directions are kept, and a leaves the mean of uᵀSu over the differences u at 1.
    """
    n, N = items.shape[1], min(items.shape[0], SAMPLED_PAIRS)
    A = np.zeros((n, min(n, DIRECTIONS)), items.dtype)
    one, other = np.random.default_rng(2).integers(items.shape[0], size=(2, SAMPLED_PAIRS))
    rows = [dense(rows_of(items, chosen, np.float64)) for chosen in (one, other)]
    with np.errstate(over="ignore", invalid="ignore"), single_blas_thread():
        apart = rows[0] - rows[1]
        apart /= np.maximum(np.abs(apart).max(axis=1, keepdims=True), 1e-300)
        apart /= np.linalg.norm(apart, axis=1, keepdims=True)
        apart = apart[np.isfinite(apart).all(axis=1)]
        if not len(apart):
            return 1.0, A
        narrow = apart if len(apart) < n else apart.T
        values, vectors = np.linalg.eigh(narrow @ narrow.T / len(apart))
        first = np.argsort(-values, kind="stable")[: A.shape[1]]
        values, vectors = values[first], vectors[:, first]
        if len(apart) < n:
            vectors = apart.T @ vectors / np.sqrt(len(apart) * np.maximum(values, 1e-12))
        # precision along each direction, relative to one in which items do not differ
        even = n / (N + n)
        precision = (1 + even + (1 - even) * n * np.maximum(values, 0.0)) / (1 + even)
        left = 1 - 1 / precision
        A[:, : len(first)] = vectors * np.sqrt(left)
    return float(1 / (1 - left @ values)), A


def _scores_of_all(
    widths: Widths, X: Views, Z: Views, asked: Indices, items: Indices
) -> list[Array]:
    """Scores of all pairs of some queries and items, in each view; a field has several."""
    found: list[Array] = []
    for name, width, _ in widths:
        rows = rows_of(Z[name], items, np.float64)
        if width:
            product = rows_of(X[name], asked, np.float64) @ rows.T
            found.append(np.nan_to_num(dense(product)))
        else:
            found += [np.broadcast_to(x, (len(asked), len(x))) for x in dense(rows).T]
    return found


def _length(side: Matrix, some: Indices, *, between: bool = False) -> float:
    """Root mean square of the lengths of rows, or of differences between them."""
    rows = rows_of(side, some[:500], np.float64)
    if between:
        rows = rows - rows[np.random.default_rng(0).permutation(rows.shape[0])]
    return float(np.sqrt(np.mean(row_products(rows, rows))))


def _found(scores: list[Array], others: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which items are among the first of any view, for each query; it is no answer itself."""
    found = np.zeros(others.shape, bool)
    for view in scores:
        k = min(FOUND, view.shape[1])
        first = np.argpartition(-np.where(others, view, -np.inf), k - 1, axis=1)[:, :k]
        np.put_along_axis(found, first, True, axis=1)
    return found & others


def _spread(scores: list[Array], which: NDArray[np.bool_]) -> tuple[Array, Array]:
    """Variance of each view among these items, and covariance with the base: means over queries."""
    counts = np.maximum(which.sum(axis=1, keepdims=True), 1)
    found, base = [], None
    for view in scores:
        apart = (view - (view * which).sum(axis=1, keepdims=True) / counts) * which
        base = apart if base is None else base
        products = (apart * other for other in (apart, base))
        found.append([(product.sum(axis=1) / counts[:, 0]).mean() for product in products])
    variances, common = np.nan_to_num(found).T
    return variances, common


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


def side_by_side(views: list[Matrix]) -> Matrix:
    """Several views as one matrix, sparse if any of them is."""
    if len(views) == 1:
        return views[0]
    if any(map(sparse.issparse, views)):
        return sparse.csr_array(sparse.hstack(views, format="csr"))
    return np.hstack(views)
