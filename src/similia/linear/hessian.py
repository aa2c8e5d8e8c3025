"""The Hessian of SLND: leading eigenpairs of a second moment, from rows at once or as they come.

At w = 0 the Hessian of the risk is F''(0)·(1/m')Σ xxᵀ, so what is kept are eigenpairs of the mean
of xxᵀ and its trace, the *energy*. Rows of X get a last entry 1 if there is an intercept.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy import linalg, sparse
from sklearn.utils.extmath import randomized_svd

from similia.contract import Array
from similia.linalg.blas import products
from similia.linalg.blocks import row_blocks, rows_of, squared
from similia.linalg.memory import aligned_empty

#: smallest side of a matrix from which on few eigenpairs are worth an iteration of their own
LARGE = 2500
#: its power steps: with two, the last eigenvalues of a flat spectrum are so far too small, and the
#: steps along them so far too long, that k = 512 was twenty points worse on Caltech-101 than 200
POWERS = 5


class Eigenpairs(NamedTuple):
    """Largest eigenvalues of a mean of xxᵀ, falling, their vectors as columns, and its trace."""

    values: Array
    vectors: Array
    energy: float

    def first(self, k: int) -> "Eigenpairs":
        """Keep the k largest."""
        return Eigenpairs(self.values[:k], self.vectors[:, :k], self.energy)

    def rank_of_energy(self, share: float) -> int:
        """Give the least k whose eigenvalues sum to that share of the trace, or all there are."""
        enough = np.cumsum(self.values) >= share * self.energy * (1 - 1e-6)
        return int(enough.argmax()) + 1 if enough.any() else len(self.values)

    def damped(self, damping: float) -> Array:
        """Give the eigenvalues plus `damping` times the mean one of all d."""
        return self.values + self.values.dtype.type(
            damping * self.energy / max(len(self.vectors), 1)
        )

    def basis(self, steepest: float, damping: float) -> Array:
        """Give P D^{-½}, of shape (d, k), for D = F''(0)·(eigenvalues + damping)."""
        return np.ascontiguousarray(self.vectors / np.sqrt(steepest * self.damped(damping)))

    def dimension(self, damping: float) -> float:
        """Give the mean of F''(0)|u|² for u = D^{-½}Pᵀx: k without damping, else less."""
        return float(np.sum(self.values / self.damped(damping))) if len(self.values) else 0.0


def augmented(X: Any, intercept: bool) -> Any:
    """Give rows with a last entry 1, if there is an intercept; dense rows are C-ordered."""
    if not intercept:
        return X
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
    return np.hstack([X, ones])


def leading_eigenpairs(rows: Any, weights: Array | None, k: int, seed: int) -> Eigenpairs:
    """Give at most k eigenpairs of (1/m)Σ weight·xxᵀ over the m rows, without those that are zero.

    The smaller side is diagonalised if it is small or k is a large part of it; otherwise a
    randomised iteration works on k + 10 vectors, so that nothing costs the cube of d or m.
    """
    m, d = rows.shape
    if weights is not None:
        scale = np.sqrt(weights).astype(rows.dtype, copy=False)
        rows = sparse.diags_array(scale) @ rows if sparse.issparse(rows) else rows * scale[:, None]
    energy = float(squared(rows).sum(dtype=np.float64)) / m
    k = min(k, d, m)
    if min(m, d) <= max(LARGE, 3 * k):
        values, vectors = _by_smaller_side(rows, k)
    else:
        _, lengths, Vt = randomized_svd(rows, k, n_iter=POWERS, random_state=seed, flip_sign=False)
        values, vectors = lengths**2, Vt.T
    return _significant(values / m, vectors, energy, rows.dtype)


def _by_smaller_side(rows: Any, k: int) -> tuple[Array, Array]:
    m, d = rows.shape
    gram = rows @ rows.T if m < d else rows.T @ rows
    gram = gram.toarray() if sparse.issparse(gram) else gram
    side = len(gram)
    values, vectors = linalg.eigh(gram, subset_by_index=[side - k, side - 1])
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    if m < d:
        vectors = rows.T @ vectors / np.sqrt(np.where(values > 0.0, values, 1.0)).astype(rows.dtype)
    return values, vectors


def _significant(values: Array, vectors: Array, energy: float, dtype: Any) -> Eigenpairs:
    """Leave out what rounding cannot tell from zero."""
    largest = values[0] if len(values) else 0.0
    kept = values > 30 * np.finfo(dtype).eps * max(largest, np.finfo(dtype).tiny / 1e-8)
    return Eigenpairs(
        values[kept].astype(dtype), np.ascontiguousarray(vectors[:, kept], dtype=dtype), energy
    )


def with_rows(pairs: Eigenpairs, n: int, rows: Array, k: int) -> Eigenpairs:
    """Give eigenpairs of the mean over the n rows behind `pairs` and the new ones.

    What was outside of the old ones' span is lost, but counts in the energy.
    """
    total = n + len(rows)
    known = (pairs.vectors * np.sqrt(n * pairs.values)).T
    found = leading_eigenpairs(np.vstack([known, rows]).astype(rows.dtype), None, k, 0)
    share = (len(known) + len(rows)) / total
    energy = (n * pairs.energy + float(squared(rows).sum(dtype=np.float64))) / total
    return Eigenpairs(found.values * rows.dtype.type(share), found.vectors, energy)


def sampled_rows(X: Any, indices: Array, intercept: bool) -> Any:
    """Give the named rows of X, with their last entry 1, in order of memory."""
    return augmented(rows_of(X, np.sort(indices), X.dtype), intercept)


def projected(X: Any, indices: Array, basis: Array, intercept: bool) -> Array:
    """Give u = basisᵀx for the named rows, in blocks, so that no more of X is held.

    X is read in the order of memory, in whichever order the rows are named.
    """
    U = aligned_empty((len(indices), basis.shape[1]), basis.dtype)
    linear = np.ascontiguousarray(basis[:-1] if intercept else basis)
    places = np.argsort(indices, kind="stable")
    for block in row_blocks(len(indices), 1024):
        some = places[block]
        (scores,) = products((rows_of(X, indices[some], basis.dtype), linear))
        U[some] = scores + basis[-1] if intercept else scores
    return U
