"""Seeded, read-only problems for timing."""

from functools import cache

import numpy as np
from scipy import sparse


@cache
def unit_vectors(n, d, dtype="float32", seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d)).astype(dtype)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    X.flags.writeable = False
    return X


@cache
def encoded(n, d, seed=0):
    """Rows of length 1 whose directions matter less and less, as those of sentence encoders do."""
    X = np.random.default_rng(seed).normal(size=(n, d)) / np.sqrt(np.arange(d) + d / 8)
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    X.flags.writeable = False
    return X


@cache
def clustered(n, d, dtype="float64", seed=0):
    """Ten classes in a tenth of the directions, noise in all; mean squared distance about two."""
    rng = np.random.default_rng(seed)
    y = rng.integers(10, size=n)
    centers = np.zeros((10, d))
    centers[:, : d // 10] = rng.normal(size=(10, d // 10)) * 2.0
    X = (centers[y] + rng.normal(size=(n, d))).astype(dtype) / np.dtype(dtype).type(
        np.sqrt(1.4 * d)
    )
    X.flags.writeable = False
    return X, y


@cache
def sparse_rows(n, d, nonzeros, dtype="float64", seed=0):
    """Rows of unit length with exactly so many non-zeros."""
    rng = np.random.default_rng(seed)
    columns = np.argsort(rng.random((n, d)), axis=1)[:, :nonzeros]
    values = rng.random((n, nonzeros)).astype(dtype)
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    return sparse.csr_array(
        (values.ravel(), columns.ravel(), np.arange(n + 1) * nonzeros), shape=(n, d)
    )


@cache
def triplets(n_queries, n_items, n, seed=0):
    rng = np.random.default_rng(seed)
    rows = np.column_stack([rng.integers(n_queries, size=n), rng.integers(n_items, size=(n, 2))])
    rows.flags.writeable = False
    return rows


def rows_of_triplets(X, triplets):
    """The query and difference vectors of triplets, dense."""
    query, better, worse = triplets.T
    X = X.toarray() if sparse.issparse(X) else X
    return X[query], X[better] - X[worse]
