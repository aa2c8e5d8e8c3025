"""Scores of vectors: every geometry as an inner product, dense or sparse."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from similia.linalg.compiled import compiled_in_order
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.threads import over_rows


class Vectors(NamedTuple):
    """Vectors whose inner product, or negated squared distance for "l2", is the score."""

    queries: Callable[[Any], Any]
    items: Any
    geometry: str


def floating(X: Any) -> Any:
    """Give X in single precision if it has no more, else in double."""
    single = X.dtype.kind == "f" and X.dtype.itemsize <= 4
    return X.astype(np.float32 if single else np.float64, copy=False)


def squared_lengths(X: Any) -> Floats:
    """Squared Euclidean length of each row, in double precision lest a square vanish."""
    if sparse.issparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


class Products(NamedTuple):
    """Vectors whose inner product is the score, whatever the geometry, in one precision."""

    queries: Callable[[Any], Any]  # from rows of Q; dense if the items are
    items: Any


def products_of(vectors: Vectors, Q: Any) -> Products:
    """Give vectors with the same scores as inner products.

    The squared distance is an inner product of longer vectors, so it costs no pass of its own.
    """
    dtype = np.result_type(floating(vectors.queries(Q[:1])), floating(vectors.items))
    l2 = vectors.geometry == "l2"
    items = floating(vectors.items).astype(dtype, copy=False)
    items = longer_items(items) if l2 else items

    def queries(rows: Any) -> Any:
        q = floating(vectors.queries(rows)).astype(dtype, copy=False)
        q = longer_queries(q) if l2 else q
        return q.toarray() if sparse.issparse(q) and not sparse.issparse(items) else q

    return Products(queries, items)


def vector_scores(products: Products, n_rows: int) -> Callable[[Any], Floats]:
    """Give the function from at most `n_rows` queries to their scores, in memory it uses again."""
    items = products.items
    fill = sparse_products(items) if sparse.issparse(items) else _dense_products(items)
    block = np.empty((n_rows, items.shape[0]), items.dtype)

    def scores(rows: Any) -> Floats:
        q = products.queries(rows)
        out = block[: q.shape[0]]
        fill(out, q)
        return out

    return scores


def longer_items(Z: Any) -> Any:
    """Give (z, 1, -|z|²) for each item, as -|q - z|² = (2q, -|q|², 1) · (z, 1, -|z|²)."""
    return _extended(Z, 1, np.ones(Z.shape[0]), -squared_lengths(Z))


def longer_queries(Q: Any) -> Any:
    """Give (2q, -|q|², 1) for each query; see `longer_items`."""
    return _extended(Q, 2, -squared_lengths(Q), np.ones(Q.shape[0]))


def _extended(X: Any, factor: int, *columns: Floats) -> Any:
    """Give factor times X with further columns."""
    tail = np.column_stack(columns).astype(X.dtype, copy=False)
    if sparse.issparse(X):
        return sparse.hstack([factor * X, sparse.csr_array(tail)], format="csr")
    wider = np.empty((X.shape[0], X.shape[1] + len(columns)), X.dtype)
    np.multiply(X, factor, out=wider[:, : X.shape[1]])
    wider[:, X.shape[1] :] = tail
    return wider


def _dense_products(items: Floats) -> Callable[[Floats, Any], None]:
    def fill(out: Floats, q: Any) -> None:
        # Whoever takes the scores refuses non-finite ones and names the query.
        with np.errstate(over="ignore", invalid="ignore"):
            np.matmul(q, items.T, out=out)

    return fill


def sparse_products(items: Any) -> Callable[[Floats, Any], None]:
    """Give the function that sets its first argument to the inner products of queries and items."""
    postings = items.tocsc()  # for each feature, the items that have it

    def fill(out: Floats, q: Any) -> None:
        rows = sparse.csr_array(q)
        posted = (postings.indptr, postings.indices, postings.data)

        def share(start: int, stop: int) -> None:
            starts = rows.indptr[start : stop + 1]
            fill_products(out[start:stop], starts, rows.indices, rows.data, *posted)

        over_rows(share, len(out))

    return fill


@compiled_in_order
def fill_products(
    out: Floats,
    q_starts: Integers,
    q_features: Integers,
    q_values: Floats,
    starts: Integers,
    items: Integers,
    values: Floats,
) -> None:
    """Set out[i, j] to the inner product of sparse query i and sparse item j.

    Queries are given by row, items by feature; the cost is one operation for each feature that a
    query and an item share.
    """
    out[:] = 0
    for i in range(len(out)):
        for p in range(q_starts[i], q_starts[i + 1]):
            feature, weight = q_features[p], q_values[p]
            for e in range(starts[feature], starts[feature + 1]):
                out[i, items[e]] += weight * values[e]
