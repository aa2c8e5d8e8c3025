"""Scores of vectors: every geometry as an inner product, dense or sparse."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Geometry, Matrix, Searchable, Side
from similia.linalg.blas import sparse_rows
from similia.linalg.threads import SMALL, processors, side_by_side, single_blas_thread
from similia.retrieval.selection import fill_products
from similia.stored import UNITS, StoredRows
from similia.validation import check_parameters, one_of

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]
ResultT = TypeVar("ResultT")

geometry = one_of(*get_args(Geometry))

SHARES_PER_PROCESSOR = 4  # per processor, so that uneven shares balance out
SMALL_SIZE = 4096  # numbers up to which testing each is faster than silencing warnings


def is_sparse(X: object) -> TypeGuard[sparse.csr_array]:
    """`scipy.sparse.issparse`, known to the type checker."""
    return bool(sparse.issparse(X))


def floating(X: Matrix) -> Matrix:
    """X, or the values of a table, as float32 if floating of 32 bits or less, else float64."""
    X = X if is_sparse(X) else np.asarray(X)
    single = X.dtype.kind == "f" and X.dtype.itemsize <= 4
    return X.astype(np.float32 if single else np.float64, copy=False)


def is_finite(X: Matrix) -> bool:
    """Whether no entry is infinite or NaN."""
    if isinstance(X, StoredRows):
        return all(is_finite(block) for block in X.blocks())
    numbers = X.data if is_sparse(X) else X
    if numbers.size > SMALL_SIZE:
        # Short of overflow, finite numbers have a finite sum, which is faster than testing each.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(numbers.sum()):
                return True
    return bool(np.isfinite(numbers).all())


def squared_lengths(X: Matrix) -> Floats:
    """Squared Euclidean length of each row, in double precision so that no square underflows."""
    if is_sparse(X):
        return np.asarray(X.astype(np.float64).power(2).sum(axis=1)).ravel()
    return np.einsum("ij,ij->i", X, X, dtype=np.float64)


class Products:
    """Vectors whose inner products are the scores, whatever the geometry, in one precision.

    `queries` maps rows of queries to vectors, which are dense if the items are.
    """

    def __init__(self, items: Matrix, queries: Callable[[Any], Matrix] | None = None) -> None:
        self.items = items
        self.queries = queries or (lambda rows: rows)
        #: sparse items, by feature
        self._postings = items.tocsc() if is_sparse(items) else None

    def __call__(self, rows: Side, out: Floats) -> Floats:
        """Fill `out` with the scores of these queries, which may be infinite or NaN.

        They round the same whether or not this process may use more than one processor.
        """
        with single_blas_thread():
            q = self.queries(rows)
            if self._postings is None:
                return self._dense(q, out)
        starts, features, values = sparse_rows(sparse.csr_array(q))
        postings = (self._postings.indptr, self._postings.indices, self._postings.data)

        def share(start: int, stop: int) -> None:
            fill_products(out[start:stop], starts[start : stop + 1], features, values, *postings)

        over_rows(share, len(out))
        return out

    def _dense(self, q: Matrix, out: Floats) -> Floats:
        def share(start: int, stop: int) -> None:
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(q[start:stop], items.T, out=some[start:stop])

        size = UNITS if isinstance(self.items, StoredRows) else max(1, self.items.shape[0])
        for first in range(0, self.items.shape[0], size):
            items, some = self.items[first : first + size], out[:, first : first + size]
            over_rows(share, len(out), 1, some.size * q.shape[1])
        return out


def products_of(owner: str, scorer: Searchable, Q: Side, Z: Side) -> Products:
    """Vectors with the scores of `scorer` as inner products.

    A squared distance is an inner product of vectors longer by two, so it needs no extra pass.
    """
    name = "scorer.geometry"
    check_parameters(owner, {name: geometry}, {name: scorer.geometry})
    l2 = scorer.geometry == "l2"
    given = Z[:1] if isinstance(Z, StoredRows) else Z
    items, first = floating(scorer.item_vectors(given)), floating(scorer.query_vectors(Q[:1]))
    dtype = np.result_type(first.dtype, items.dtype)

    def final(made: Matrix) -> Matrix:
        made = floating(made).astype(dtype, copy=False)
        return longer_items(made) if l2 else made

    if not isinstance(Z, StoredRows):
        items = final(items)
    elif not l2 and np.shares_memory(given, items) and is_finite(Z):
        items = Z  # as they are
    else:
        with single_blas_thread():
            items = Z.made(lambda rows: final(scorer.item_vectors(rows)))

    def queries(rows: Side) -> Matrix:
        only = rows.shape[0] == Q.shape[0] == 1
        q = first if only else floating(scorer.query_vectors(rows))
        q = q.astype(dtype, copy=False)
        q = longer_queries(q) if l2 else q
        return q.toarray() if is_sparse(q) and not is_sparse(items) else q

    return Products(items, queries)


def longer_items(Z: Matrix) -> Matrix:
    """(z, 1, -|z|²) for each item, as -|q - z|² = (2q, -|q|², 1) · (z, 1, -|z|²)."""
    return _extended(Z, 1, np.ones(Z.shape[0]), -squared_lengths(Z))


def longer_queries(Q: Matrix) -> Matrix:
    """(2q, -|q|², 1) for each query; see `longer_items`."""
    return _extended(Q, 2, -squared_lengths(Q), np.ones(Q.shape[0]))


def _extended(X: Matrix, factor: int, *columns: Floats) -> Matrix:
    """`factor` times X, with further columns."""
    tail = np.column_stack(columns).astype(X.dtype, copy=False)
    if is_sparse(X):
        return sparse.hstack([factor * X, sparse.csr_array(tail)], format="csr")
    wider = np.empty((X.shape[0], X.shape[1] + len(columns)), X.dtype)
    np.multiply(X, factor, out=wider[:, : X.shape[1]])
    wider[:, X.shape[1] :] = tail
    return wider


def over_rows(
    task: Callable[[int, int], ResultT],
    n_rows: int,
    shares: int = SHARES_PER_PROCESSOR,
    work: int = SMALL,
) -> list[ResultT]:
    """Call task(start, stop) on shares of the rows in threads; return the results in order.

    There are so many shares for each processor. Pays off for tasks that release the interpreter
    lock; `work` is that of `side_by_side`.
    """
    size = max(1, -(-n_rows // (processors() * shares)))
    results: dict[int, ResultT] = {}

    def keep(start: int) -> None:
        results[start] = task(start, min(start + size, n_rows))

    starts = range(0, n_rows, size)
    side_by_side([partial(keep, start) for start in starts], work)
    return [results[start] for start in starts]
