"""Two linear maps, of queries and of items, and where they start."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from similia.contract import Array
from similia.linalg.blas import products
from similia.linalg.blocks import dense
from similia.neighbors.neighbor_search import vote_shares
from similia.neighbors.sides import Sides

#: queries from which the scale of distances is taken, and the better start
SAMPLE = 1000
#: items among which they look for neighbors, so that memory does not grow with the database
POOL = 20_000
#: share of the mean variance that is mixed into variances before their inverse is taken
SHRINKAGE = 0.1


class Map(NamedTuple):
    """x ↦ M(x - center), with M of shape (p, d)."""

    M: Array
    center: Array

    def __call__(self, X: Any) -> Array:
        """Give the images of rows, dense or CSR, as a dense array of shape (n, p)."""
        (moved,) = products((X, np.ascontiguousarray(self.M.T)))
        moved -= self.M @ self.center
        return moved

    def gradient(self, pull: Array, X: Any) -> Array:
        """Give the gradient by M of Σ_i pull_iᵀ M (x_i - center)."""
        if len(pull) == 0:
            return np.zeros_like(self.M)
        if sparse.issparse(X):
            summed = (X.T @ pull).T
        else:
            (summed,) = products((np.ascontiguousarray(pull.T), X))
        return summed - np.outer(pull.sum(axis=0), self.center)


def column_means(X: Any) -> Array:
    """Give the mean of each column in the precision of X."""
    means = mean_variance_axis(X, axis=0)[0] if sparse.issparse(X) else X.mean(0, dtype=np.float64)
    return np.asarray(means, dtype=X.dtype)


def identity_map(X: Any, y: Array, p: int) -> Array:
    """The first p coordinates as they are."""
    return np.eye(p, X.shape[1])


def principal_map(X: Any, y: Array, p: int) -> Array:
    """The p directions of largest variance, as orthonormal rows."""
    _, vectors = linalg.eigh(_covariance(X))
    return vectors[:, ::-1][:, :p].T


def whitening_map(X: Any, y: Array, p: int) -> Array:
    """The p most discriminant directions in coordinates in which every class varies alike.

    With S the covariance within classes, shrunk, the map is T S^(-1/2), where rows of T are the
    principal directions of the points after S^(-1/2): those of Fisher first, in which class means
    differ, then all others, so that nothing is lost if p = d.
    """
    _, member = np.unique(y, return_inverse=True)
    sizes = np.bincount(member)
    gaps = _class_sums(X, member) / np.sqrt(sizes * len(y))[:, None]
    total = _covariance(X)
    within = total - gaps.T @ gaps
    d = len(within)
    level = np.trace(within) / d
    if not level > 0.0:
        return principal_map(X, y, p)
    within = (1 - SHRINKAGE) * within + SHRINKAGE * level * np.eye(d)
    values, vectors = linalg.eigh(within)
    # Rounding may leave a direction without variance below zero.
    white = (vectors / np.sqrt(np.maximum(values, SHRINKAGE * level / 2))).T
    _, T = linalg.eigh(white @ total @ white.T)
    return T[:, ::-1][:, :p].T @ white


def class_map(X: Any, y: Array, p: int) -> Array:
    """Ridge regression on the p classes: images gather about the corners of a simplex.

    Both sides get the same corners, so it is a start for queries and items of different kinds.
    """
    sizes = np.bincount(y, minlength=p)
    S = _covariance(X)
    ridge = SHRINKAGE * np.trace(S) / len(S)
    sums = np.zeros((p, len(S)))
    sums[sizes > 0] = _class_sums(X, np.unique(y, return_inverse=True)[1])
    return linalg.solve(S + (ridge or 1.0) * np.eye(len(S)), sums.T / len(y), assume_a="pos").T


def _class_sums(X: Any, member: Array) -> Array:
    """Give Σ (x - mean of all) over the rows of each class."""
    chosen = sparse.csr_array((np.ones(len(member)), (member, np.arange(len(member)))))
    sums = chosen @ X
    center = column_means(X).astype(np.float64)
    dense = sums.toarray() if sparse.issparse(sums) else sums
    return dense - np.bincount(member)[:, None] * center


def _covariance(X: Any) -> Array:
    center = column_means(X).astype(np.float64)
    if sparse.issparse(X):
        X = X.astype(np.float64)
        return (X.T @ X).toarray() / X.shape[0] - np.outer(center, center)
    gaps = X - center
    return gaps.T @ gaps / len(X)


STARTS: dict[str, Callable[[Any, Array, int], Array]] = {
    "identity": identity_map,
    "pca": principal_map,
    "lda": whitening_map,
    "classes": class_map,
}


def scaled_starts(
    owner: str,
    sides: Sides,
    centers: tuple[Array, Array],
    *,
    init: Any,
    p: int | None,
    n_classes: int,
    tied: bool,
    scale: float | None,
    k: int,
) -> tuple[Array, Array]:
    """Give the maps of queries and items to start from, the same array twice if they are tied.

    They are scaled so that the mean squared distance of queries to their k-th item is `scale`.
    """
    widths = sides.X.shape[1], sides.Z.shape[1]
    if isinstance(init, str):
        U, V = _named_starts(owner, sides, centers, init, p, n_classes, tied, k)
    else:
        U, V = _given_starts(owner, init, p, widths, tied)
    dtype = sides.X.dtype
    U, V = (np.array(M, dtype=dtype, order="C") for M in (U, V))
    if scale is not None:
        factor = np.sqrt(scale / _typical_square(sides, Map(U, centers[0]), Map(V, centers[1]), k))
        U, V = (np.array(M * factor, dtype=dtype) for M in (U, V))
    return U, U if tied else V


def _named_starts(
    owner: str,
    sides: Sides,
    centers: tuple[Array, Array],
    init: str,
    p: int | None,
    n_classes: int,
    tied: bool,
    k: int,
) -> tuple[Array, Array]:
    d, width = sides.X.shape[1], sides.Z.shape[1]
    if init == "auto" and d != width:
        init = "classes"
    largest = n_classes if init == "classes" else min(d, width)
    if p is not None and p > largest:
        raise ValueError(
            f"{owner}: n_components must be at most {largest} for init={init!r}, got {p}."
        )
    if init == "classes" and p is not None and p < n_classes:
        raise ValueError(
            f"{owner}: n_components must be None or {n_classes}, the number of classes, for "
            f"init='classes', got {p}."
        )
    if init == "classes" and not tied:
        return class_map(sides.X, sides.y, largest), class_map(sides.Z, sides.labels, largest)
    if d != width:
        raise ValueError(
            f"{owner}: init must be 'classes' or a pair of arrays where queries have {d} and items "
            f"{width} features, got {init!r}."
        )
    X, y = sides.X, sides.y
    if (sides.own < 0).all():  # two sets of points, each about its own center
        parts = [dense(rows) - center for rows, center in zip((X, sides.Z), centers, strict=True)]
        X, y = np.vstack(parts), np.concatenate([y, sides.labels])
    p = largest if p is None else p
    names = ("identity" if p == d else "pca", "lda") if init == "auto" else (init,)
    starts = [STARTS[name](X, y, p).astype(sides.X.dtype) for name in names]
    if len(starts) > 1:
        starts.sort(key=lambda M: _start_error(sides, centers, M, k))
    return starts[0], starts[0]


def _start_error(sides: Sides, centers: tuple[Array, Array], M: Array, k: int) -> float:
    """Give the share of some queries whose k nearest items, without themselves, vote wrongly."""
    some = _sample(sides)
    squares = _squares(some, Map(M, centers[0]), Map(M, centers[1]))
    nearest = np.argpartition(squares, k - 1, axis=1)[:, :k]
    shares = vote_shares(some.labels[nearest], int(some.labels.max()) + 1)
    return float((shares.argmax(axis=1) != some.y).mean())


def _given_starts(
    owner: str, init: Any, p: int | None, widths: tuple[int, int], tied: bool
) -> tuple[Array, Array]:
    U, V = init if isinstance(init, tuple) else (init, init)
    rows = len(U) if p is None and U.ndim == 2 else p
    for M, width in zip((U, V), widths, strict=True):
        if M.shape != (rows, width) or M.dtype.kind not in "fiu" or not np.isfinite(M).all():
            raise ValueError(
                f"{owner}: init must be finite arrays of shape ({rows}, {width}), "
                f"got shape {M.shape} and dtype {M.dtype}."
            )
        if not M.any():
            raise ValueError(f"{owner}: init must be other than zero, where no gradient leads on.")
    if tied and not np.array_equal(U, V):
        raise ValueError(f"{owner}: init must be one array unless asymmetric is True, got two.")
    return U, V


def _sample(sides: Sides) -> Sides:
    """Give some queries and, of a large database, some items."""
    rng = np.random.default_rng(0)
    rows = rng.permutation(len(sides.y))[:SAMPLE]
    X, y, own = sides.X[rows], sides.y[rows], sides.own[rows]
    if len(sides.labels) <= POOL:
        return sides._replace(X=X, y=y, own=own)
    items = rng.permutation(len(sides.labels))[:POOL]
    place = np.full(len(sides.labels), -1)
    place[items] = np.arange(POOL)
    own = np.where(own >= 0, place[own], -1)
    return Sides(X, y, sides.Z[items], sides.labels[items], own)


def _squares(sides: Sides, query_map: Map, item_map: Map) -> Array:
    """Give the squared distances of queries to items, infinite to themselves."""
    queries, items = query_map(sides.X), item_map(sides.Z)
    squares = np.vecdot(queries, queries)[:, None] + np.vecdot(items, items)
    squares -= 2 * queries @ items.T
    has = sides.own >= 0
    squares[has, sides.own[has]] = np.inf
    return squares


def _typical_square(sides: Sides, query_map: Map, item_map: Map, k: int) -> float:
    """Give the mean squared distance of some queries to their k-th item, not zero."""
    squares = _squares(_sample(sides), query_map, item_map)
    kth = np.partition(squares, k - 1, axis=1)[:, k - 1]
    kth = kth[np.isfinite(kth)]
    typical = float(kth.mean(dtype=np.float64)) if len(kth) else 0.0
    return typical if typical > 0.0 else 1.0
