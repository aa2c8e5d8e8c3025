"""Labelled queries and labelled items: what a learner of two maps is taught with."""

from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils import check_array
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from similia.contract import FLOATS, Array
from similia.linalg.blocks import rows_of
from similia.validation import check_magnitude


class Sides(NamedTuple):
    """Queries X with class numbers y, items Z with labels, and each query's own item or -1."""

    X: Any
    y: Array
    Z: Any
    labels: Array
    own: Array

    def by_class(self) -> "Sides":
        """Give the same with the items sorted by class, as inference wants them."""
        order = np.argsort(self.labels, kind="stable")
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        own = np.where(self.own >= 0, place[self.own], -1)
        Z = rows_of(self.Z, order, self.Z.dtype)
        return self._replace(Z=Z, labels=self.labels[order], own=own)

    def without(self, rows: Array) -> "Sides":
        """Give the same without these queries, and without their items if they have some."""
        kept = np.setdiff1d(np.arange(len(self.y)), rows)
        X, y, own = self.X[kept], self.y[kept], self.own[kept]
        if (self.own < 0).all():
            return self._replace(X=X, y=y, own=own)
        items = np.setdiff1d(np.arange(len(self.labels)), self.own[rows])
        own = np.searchsorted(items, own)
        return Sides(X, y, self.Z[items], self.labels[items], own)


def checked_items(where: str, items: Any, labels: Any, dtype: Any) -> tuple[Any, Array]:
    """Give items and their labels, or raise the house error."""
    if labels is None:
        raise ValueError(f"{where}: item_labels must be given with items, got None.")
    Z = check_array(items, accept_sparse="csr", dtype=FLOATS, input_name="items")
    labels = column_or_1d(labels)
    check_classification_targets(labels)
    check_consistent_length(Z, labels)
    check_magnitude(where, "items", Z, dtype=dtype)
    return as_rows(Z, dtype), labels


def as_rows(X: Any, dtype: Any) -> Any:
    """Give X dense and C-ordered or CSR without repeated entries, as a copy of our own."""
    if sparse.issparse(X):
        rows = sparse.csr_array(X, dtype=dtype, copy=True)
        rows.sum_duplicates()
        return rows
    return np.array(X, dtype=dtype, order="C", copy=True)


def joined(database: Any, more: Any) -> Any:
    """Give the rows of both; dense if the database is."""
    if sparse.issparse(database):
        return sparse.csr_array(sparse.vstack([database, sparse.csr_array(more)], format="csr"))
    return np.vstack([database, more.toarray() if sparse.issparse(more) else more])


def held_out(y: Array, share: float, rng: np.random.Generator) -> Array:
    """Draw that share of each class, but never all of it."""
    order = rng.permutation(len(y))
    rows = [order[y[order] == c] for c in np.unique(y)]
    return np.concatenate([part[: min(round(share * len(part)), len(part) - 1)] for part in rows])
