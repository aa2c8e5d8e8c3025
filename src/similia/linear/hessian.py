"""The Hessian of SLND: leading eigenpairs or the diagonal of a second moment.

At w = 0 the Hessian of the risk is F''(0)·(1/m')Σ xxᵀ, so the mean of xxᵀ is all that is kept of
it, together with its trace, the *energy*.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import DTypeLike
from scipy import linalg, sparse
from sklearn.utils.extmath import randomized_svd

from similia.contract import Array, Matrix
from similia.linalg.blocks import dense, squared
from similia.validation import positive_integer

#: k by default
DEFAULT_RANK = 500

#: share of non-zero entries below which rows resemble bags of words: many features, each rare, and
#: eigenvalues that fall so slowly that k of them leave most of the energy out
SPARSE_SHARE = 0.1

#: rows that a stream gathers before they enter the Hessian; fewer while it knows fewer
RECENT_ROWS = 256

#: smallest side of a matrix from which on few eigenpairs are worth an iterative solver
LARGE_SIDE = 2500

#: its power iterations. Two underestimate the last eigenvalues of a flat spectrum so much, and
#: lengthen the steps along them so much, that k = 512 lost twenty points to 200 on Caltech-101
POWER_ITERATIONS = 5


class Hessian(NamedTuple):
    """Mean of xxᵀ over some rows: its k largest eigenpairs, or its diagonal.

    `values` are the eigenvalues, largest first, and `vectors` (d, k) the eigenvectors as columns;
    a diagonal one has its d entries as values, and no columns.
    """

    values: Array
    vectors: Array
    energy: float

    @property
    def diagonal(self) -> bool:
        """Whether it is the diagonal of the second moment."""
        return len(self.values) > self.vectors.shape[1]

    def first(self, k: int) -> "Hessian":
        """The k largest eigenpairs."""
        return Hessian(self.values[:k], self.vectors[:, :k], self.energy)

    def level(self) -> "Hessian":
        """Diagonal Hessian of the same energy, equal for all features."""
        values = np.full(len(self.vectors), self.energy / max(len(self.vectors), 1))
        return Hessian(values.astype(self.values.dtype), self.vectors[:, :0], self.energy)

    def rank_of_energy(self, share: float) -> int:
        """Least k whose eigenvalues sum to that share of the trace, or all there are."""
        enough = np.cumsum(self.values) >= share * self.energy * (1 - 1e-6)
        return int(enough.argmax()) + 1 if enough.any() else len(self.values)

    def typical(self, intercept: bool) -> float:
        """Mean of the d eigenvalues or, where the last feature is always 1, mean variance.

        The last column of the second moment holds the means then, as far as the eigenpairs know it;
        weighted rows are centered in part. A diagonal has no such column, and keeps the mean.
        """
        d = len(self.vectors)
        if not intercept or self.diagonal or d < 2 or not len(self.values):
            return self.energy / max(d, 1)
        values, vectors = self.values.astype(np.float64), self.vectors.astype(np.float64)
        column = vectors @ (values * vectors[-1])
        rest = self.energy - 1.0 - float(column[:-1] @ column[:-1])
        return max(rest, float(np.finfo(self.values.dtype).eps) * self.energy) / (d - 1)

    def damped(self, damping: float, intercept: bool = False) -> Array:
        """Values plus `damping` times the typical one."""
        return self.values + self.values.dtype.type(damping * self.typical(intercept))

    def scale(self, steepest: float, damping: float, intercept: bool = False) -> Array:
        """P D^{-½}, of shape (d, k), or D^{-½} if diagonal, for D = F''(0)·(values + damping)."""
        roots = np.sqrt(self.values.dtype.type(steepest) * self.damped(damping, intercept))
        inverse = np.divide(1.0, roots, out=np.zeros_like(roots), where=roots > 0)
        return inverse if self.diagonal else np.ascontiguousarray(self.vectors * inverse)

    def dimension(self, damping: float, intercept: bool = False) -> float:
        """Mean of F''(0)|u|² for u = scaleᵀx: the rank without damping, else less."""
        damped = self.damped(damping, intercept)
        shares = np.divide(self.values, damped, out=np.zeros_like(damped), where=damped > 0)
        return float(shares.sum())


class HessianForm(NamedTuple):
    """The requested Hessian: "low-rank", "diagonal" or "auto", and its rank."""

    form: str
    rank: str | int | float

    def of(self, rows: Matrix, weights: Array | None, seed: int) -> Hessian:
        """Hessian of these rows."""
        if self._is_diagonal(rows):
            squares = squared(rows)
            sums = squares.sum(axis=0) if weights is None else squares.T @ weights
            return _diagonal(sums / rows.shape[0], rows.dtype)
        return self._cut(leading_eigenpairs(rows, weights, self._most(rows.shape[1]), seed))

    def grown(self, hessian: Hessian, n: int, rows: Array) -> Hessian:
        """Hessian of the n rows behind `hessian` and of the new ones."""
        if hessian.diagonal if n else self._is_diagonal(rows):
            sums = n * (hessian.values if n else 0.0) + squared(rows).sum(axis=0)
            return _diagonal(sums / (n + len(rows)), rows.dtype)
        return self._cut(with_rows(hessian, n, rows, self._most(RECENT_ROWS)))

    def _is_diagonal(self, rows: Matrix) -> bool:
        if self.form != "auto":
            return self.form == "diagonal"
        filled = np.count_nonzero(rows.data if sparse.issparse(rows) else rows)
        few = filled < SPARSE_SHARE * rows.shape[0] * rows.shape[1]
        return self.rank == "auto" and rows.shape[1] > DEFAULT_RANK and bool(few)

    def _most(self, otherwise: int) -> int:
        """Eigenpairs to compute."""
        if self.rank == "auto":
            return DEFAULT_RANK
        return int(self.rank) if positive_integer.holds(self.rank) else otherwise

    def _cut(self, hessian: Hessian) -> Hessian:
        """The leading eigenpairs that hold the requested share of the energy."""
        if isinstance(self.rank, str) or self.rank >= 1:
            return hessian
        return hessian.first(hessian.rank_of_energy(self.rank))


def leading_eigenpairs(rows: Matrix, weights: Array | None, k: int, seed: int) -> Hessian:
    """At most k eigenpairs of (1/m)Σ weight·xxᵀ over the m rows, without zero eigenvalues.

    The smaller side is diagonalised if it is small or k is a large part of it; otherwise a
    randomised iteration works on k + 10 vectors, so nothing costs the cube of d or m.
    """
    m, d = rows.shape
    if weights is not None:
        scale = np.sqrt(weights).astype(rows.dtype, copy=False)
        rows = sparse.diags_array(scale) @ rows if sparse.issparse(rows) else rows * scale[:, None]
    energy = float(squared(rows).sum(dtype=np.float64)) / m
    k = min(k, d, m)
    if min(m, d) <= max(LARGE_SIDE, 3 * k):
        values, vectors = _by_smaller_side(rows, k)
    else:
        _, lengths, Vt = randomized_svd(
            rows, k, n_iter=POWER_ITERATIONS, random_state=seed, flip_sign=False
        )
        values, vectors = lengths**2, Vt.T
    values, dtype = values / m, np.finfo(rows.dtype)
    # Rounding cannot tell smaller eigenvalues from zero.
    kept = values > 30 * dtype.eps * max(values.max(initial=0.0), dtype.tiny / 1e-8)
    vectors = np.ascontiguousarray(vectors[:, kept], dtype=rows.dtype)
    return Hessian(values[kept].astype(rows.dtype), vectors, energy)


def with_rows(hessian: Hessian, n: int, rows: Array, k: int) -> Hessian:
    """Eigenpairs of the mean over the n rows behind a low-rank `hessian` and the new ones.

    What was outside the span of the old ones is lost, but counts in the energy.
    """
    total = n + len(rows)
    known = (hessian.vectors * np.sqrt(n * hessian.values)).T
    found = leading_eigenpairs(np.vstack([known, rows]).astype(rows.dtype), None, k, 0)
    share = (len(known) + len(rows)) / total
    energy = (n * hessian.energy + float(squared(rows).sum(dtype=np.float64))) / total
    return Hessian(found.values * rows.dtype.type(share), found.vectors, energy)


def _diagonal(values: Array, dtype: DTypeLike) -> Hessian:
    values = values.astype(dtype)
    return Hessian(values, np.zeros((len(values), 0), dtype), float(values.sum()))


def _by_smaller_side(rows: Matrix, k: int) -> tuple[Array, Array]:
    m, d = rows.shape
    gram = dense(rows @ rows.T if m < d else rows.T @ rows)
    side = len(gram)
    values, vectors = linalg.eigh(gram, subset_by_index=[side - k, side - 1])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if m < d:
        vectors = rows.T @ vectors / np.sqrt(np.where(values > 0.0, values, 1.0)).astype(rows.dtype)
    return values, vectors
