"""Two linear maps, of queries and of items, and where they start."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg, sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from similia.contract import Array, Indices, Matrix
from similia.linalg.blas import products
from similia.linalg.blocks import dense
from similia.neighbors.search import share_of_errors
from similia.neighbors.sides import LEARNER_NAME, LabelledSides
from similia.safety.bounds import check_room

#: queries that determine the scale of distances and the better start
SAMPLED_QUERIES = 1000
#: items among which these look for neighbors, so that memory does not grow with the database
SAMPLED_ITEMS = 20_000
#: most dimensions of images where neither their number nor a start is named: a step against N items
#: costs N·d·p, and more of them gained nothing (docs/gerrymandering.md)
MAX_AUTO_COMPONENTS = 200
#: share of the mean variance mixed into variances before they are inverted
SHRINKAGE = 0.1

GivenMaps: TypeAlias = Array | tuple[Array, Array]  # one for both maps, or a pair


class Map(NamedTuple):
    """x ↦ M(x - center), with M of shape (p, d)."""

    M: Array
    center: Array

    def __call__(self, X: Matrix) -> Array:
        """Images of rows, dense, of shape (n, p)."""
        (moved,) = products((X, np.ascontiguousarray(self.M.T)))
        moved -= self.M @ self.center
        return moved

    def gradient(self, pull: Array, X: Matrix) -> Array:
        """Gradient by M of Σ_i pull_iᵀ M (x_i - center)."""
        if len(pull) == 0:
            return np.zeros_like(self.M)
        rows = np.ascontiguousarray(pull.T)
        summed = (X.T @ pull).T if sparse.issparse(X) else products((rows, X))[0]
        return summed - np.outer(pull.sum(axis=0), self.center)


class Maps(NamedTuple):
    """The map of queries and the map of items; tied if both are the same array."""

    query: Map
    item: Map

    @property
    def tied(self) -> bool:
        """Whether learning moves one array for both."""
        return self.query.M is self.item.M

    def scaled(self, factor: float = 1.0) -> "Maps":
        """A copy, multiplied by a number; tied if these are."""
        U, V = ((each.M * factor).astype(each.M.dtype) for each in self)
        return Maps(self.query._replace(M=U), self.item._replace(M=U if self.tied else V))


def largest_entry(dtype: DTypeLike) -> float:
    """Size at which entries of a map count as diverged: fourth powers still have room."""
    return float(np.finfo(dtype).max) ** 0.2


def squared_distances(queries: Array, items: Array) -> Array:
    """|q - z|² of all pairs of rows."""
    squares = np.vecdot(queries, queries)[:, None] + np.vecdot(items, items)
    squares -= 2.0 * (queries @ items.T)
    return np.maximum(squares, 0.0, out=squares)


def column_means(X: Matrix) -> Array:
    """Mean of each column, in the precision of X."""
    means = mean_variance_axis(X, axis=0)[0] if sparse.issparse(X) else X.mean(0, dtype=np.float64)
    return np.asarray(means, dtype=X.dtype)


def identity_map(X: Matrix, y: Indices, p: int) -> Array:
    """The first p coordinates as they are."""
    return np.eye(p, X.shape[1])


def principal_map(X: Matrix, y: Indices, p: int) -> Array:
    """The p directions of largest variance, as orthonormal rows."""
    _, vectors = linalg.eigh(_covariance(X))
    return vectors[:, ::-1][:, :p].T


def whitening_map(X: Matrix, y: Indices, p: int) -> Array:
    """The p most discriminant directions: T S^(-1/2), S the shrunken covariance within classes.

    Rows of T are the principal directions of the points after S^(-1/2): Fisher's first, in which
    class means differ, then all others, so that nothing is lost if p = d.
    """
    sizes = np.bincount(y)
    gaps = _class_sums(X, y, len(sizes)) / np.sqrt(np.maximum(sizes, 1) * len(y))[:, None]
    total = _covariance(X)
    within, d = total - gaps.T @ gaps, len(total)
    level = np.trace(within) / d
    if not level > 0.0:
        return principal_map(X, y, p)
    within = (1 - SHRINKAGE) * within + SHRINKAGE * level * np.eye(d)
    values, vectors = linalg.eigh(within)
    # Rounding may leave a direction without variance below zero.
    white = (vectors / np.sqrt(np.maximum(values, SHRINKAGE * level / 2))).T
    _, T = linalg.eigh(white @ total @ white.T)
    return T[:, ::-1][:, :p].T @ white


def class_map(X: Matrix, y: Indices, p: int) -> Array:
    """Ridge regression on the p classes, which sends them near the corners of a simplex.

    Both sides get the same corners, so this start serves queries and items of different kinds.
    """
    S, sums = _covariance(X), _class_sums(X, y, p)
    ridge = SHRINKAGE * np.trace(S) / len(S)
    return linalg.solve(S + (ridge or 1.0) * np.eye(len(S)), sums.T / len(y), assume_a="pos").T


def _class_sums(X: Matrix, y: Indices, n_classes: int) -> Array:
    """Σ (x - mean of all) over the rows of each class."""
    members = sparse.csr_array((np.ones(len(y)), (y, np.arange(len(y)))), (n_classes, len(y)))
    center = column_means(X).astype(np.float64)
    return dense(members @ X) - np.bincount(y, minlength=n_classes)[:, None] * center


def _covariance(X: Matrix) -> Array:
    center = column_means(X).astype(np.float64)
    if sparse.issparse(X):
        X = X.astype(np.float64)
        return dense(X.T @ X) / X.shape[0] - np.outer(center, center)
    gaps = X - center
    return gaps.T @ gaps / len(X)


STARTS: dict[str, Callable[[Matrix, Indices, int], Array]] = {
    "identity": identity_map, "pca": principal_map, "lda": whitening_map, "classes": class_map,
}  # fmt: skip


class MapStart(NamedTuple):
    """Where maps start: a name or arrays, p, the scale, and whether means are subtracted."""

    init: str | GivenMaps
    p: int | None
    scale: float | None
    center: bool
    tied: bool
    n_classes: int
    k: int

    def maps(self, sides: LabelledSides) -> Maps:
        """Maps scaled so that queries have the mean squared distance `scale` to their k-th item."""
        centers = self._centers(sides)
        if isinstance(self.init, str):
            pair = self._named(sides, centers, self.init)
        else:
            pair = self._given(self.init, (sides.X.shape[1], sides.Z.shape[1]))
        U, V = (np.array(M, dtype=sides.X.dtype, order="C") for M in pair)
        maps = Maps(Map(U, centers[0]), Map(U if self.tied else V, centers[1]))
        if self.scale is not None:
            maps = maps.scaled(np.sqrt(self.scale / self._typical_square(sides, maps)))
        if not max(np.abs(each.M).max() for each in maps) < largest_entry(U.dtype):
            rule = f"X must have points far enough apart for maps to be finite in {U.dtype}"
            raise ValueError(f"{LEARNER_NAME}: {rule}; scale it up.")
        return maps

    def _centers(self, sides: LabelledSides) -> tuple[Array, Array]:
        """Means of queries and of items; of both together for tied maps."""
        of_queries, of_items = column_means(sides.X), column_means(sides.Z)
        if not self.center:
            return np.zeros_like(of_queries), np.zeros_like(of_items)
        if self.tied and not sides.shared:
            n, m = len(sides.y), len(sides.labels)
            of_queries = of_items = (n * of_queries + m * of_items) / (n + m)
        return of_queries.astype(sides.X.dtype), of_items.astype(sides.X.dtype)

    def _named(
        self, sides: LabelledSides, centers: tuple[Array, Array], init: str
    ) -> tuple[Array, Array]:
        d, width, n_classes = sides.X.shape[1], sides.Z.shape[1], self.n_classes
        if init == "auto" and d != width:
            init = "classes"
        largest = n_classes if init == "classes" else min(d, width)
        p = (
            min(largest, MAX_AUTO_COMPONENTS if init == "auto" else largest)
            if self.p is None
            else self.p
        )
        if p > largest:
            most = f"at most {largest} for init={init!r}"
            raise ValueError(f"{LEARNER_NAME}: n_components must be {most}, got {p}.")
        if init == "classes" and p < n_classes:
            rule = f"None or {n_classes}, the number of classes, for init='classes'"
            raise ValueError(f"{LEARNER_NAME}: n_components must be {rule}, got {p}.")
        if init == "classes" and not self.tied:
            check_room(LEARNER_NAME, max(d, width), np.float64, (d, d), (width, width))
            return class_map(sides.X, sides.y, p), class_map(sides.Z, sides.labels, p)
        if d != width:
            rule = f"'classes' or a pair of arrays if queries have {d} and items {width} features"
            raise ValueError(f"{LEARNER_NAME}: init must be {rule}, got {init!r}.")
        X, y = sides.X, sides.y
        if not sides.shared:  # two sets of points, each about its own center
            both = zip((X, sides.Z), centers, strict=True)
            X = np.vstack([dense(rows) - center for rows, center in both])
            y = np.concatenate([y, sides.labels])
        check_room(LEARNER_NAME, d, np.float64, (p, d) if init == "identity" else (d, d))
        names = ("identity" if p == d else "pca", "lda") if init == "auto" else (init,)
        starts = [STARTS[name](X, y, p).astype(sides.X.dtype) for name in names]
        if len(starts) > 1:
            starts.sort(key=lambda M: self._error(sides, Maps(*(Map(M, c) for c in centers))))
        return starts[0], starts[0]

    def _given(self, init: GivenMaps, widths: tuple[int, int]) -> tuple[Array, Array]:
        U, V = init if isinstance(init, tuple) else (init, init)
        rows = len(U) if self.p is None and U.ndim == 2 else self.p
        for M, width in zip((U, V), widths, strict=True):
            if M.shape != (rows, width) or M.dtype.kind not in "fiu" or not np.isfinite(M).all():
                rule, got = f"of shape ({rows}, {width})", f"shape {M.shape} and dtype {M.dtype}"
                raise ValueError(f"{LEARNER_NAME}: init must be finite arrays {rule}, got {got}.")
            if not M.any():
                raise ValueError(
                    f"{LEARNER_NAME}: init must be nonzero, as no gradient leaves zero."
                )
        if self.tied and not np.array_equal(U, V):
            raise ValueError(f"{LEARNER_NAME}: init must be one array unless asymmetric is True.")
        return U, V

    def _error(self, sides: LabelledSides, maps: Maps) -> float:
        """Share of sampled queries whose k nearest items vote wrongly."""
        some, squares = _sampled_squares(sides, maps)
        nearest = np.argpartition(squares, self.k - 1, axis=1)[:, : self.k]
        return share_of_errors(some.labels[nearest], some.y)

    def _typical_square(self, sides: LabelledSides, maps: Maps) -> float:
        """Mean squared distance of sampled queries to their k-th item; 1 if that is zero."""
        kth = np.partition(_sampled_squares(sides, maps)[1], self.k - 1, axis=1)[:, self.k - 1]
        kth = kth[np.isfinite(kth)]
        typical = float(kth.mean(dtype=np.float64)) if len(kth) else 0.0
        return typical if typical > 0.0 else 1.0


def _sampled_squares(sides: LabelledSides, maps: Maps) -> tuple[LabelledSides, Array]:
    """Some queries and items, and their squared distances, infinite from a query to itself."""
    rng = np.random.default_rng(0)
    some = sides.with_queries(rng.permutation(len(sides.y))[:SAMPLED_QUERIES])
    if len(sides.labels) > SAMPLED_ITEMS:
        some = some.with_items(rng.permutation(len(sides.labels))[:SAMPLED_ITEMS])
    squares = squared_distances(maps.query(some.X), maps.item(some.Z))
    has = some.own >= 0
    squares[has, some.own[has]] = np.inf
    return some, squares
