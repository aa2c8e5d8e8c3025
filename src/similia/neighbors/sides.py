"""Labelled queries and labelled items, from which two maps are learnt."""

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, column_or_1d

from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import dense, rows_of
from similia.validation import check_magnitude, checked_matrix

LEARNER_NAME = "NeighborhoodGerrymandering"
#: held-out points below which their error says too little to stop by
MIN_HELD_OUT = 20

Labels: TypeAlias = ArrayLike | None


class LabelledSides(NamedTuple):
    """Queries X with classes y, items Z with labels, and the item that each query is, or -1."""

    X: Matrix
    y: Indices
    Z: Matrix
    labels: Indices
    own: Indices

    @property
    def shared(self) -> bool:
        """Whether queries are items."""
        return bool((self.own >= 0).any())

    def with_queries(self, rows: Indices) -> "LabelledSides":
        """The same with some queries only."""
        X = rows_of(self.X, rows, self.X.dtype)
        return self._replace(X=X, y=self.y[rows], own=self.own[rows])

    def with_items(self, items: Indices) -> "LabelledSides":
        """The same with some items only, in the given order."""
        place = np.full(len(self.labels), -1, np.int64)
        place[items] = np.arange(len(items))
        own = np.where(self.own >= 0, place[self.own], -1)
        Z = rows_of(self.Z, items, self.Z.dtype)
        return self._replace(Z=Z, labels=self.labels[items], own=own)

    def by_class(self) -> "LabelledSides":
        """The same with items sorted by class, as inference needs them."""
        return self.with_items(np.argsort(self.labels, kind="stable"))


def item_rows(where: str, items: Matrix, dtype: DTypeLike, width: int | None) -> Matrix:
    """Items of moderate size and of `width` features, if it is given; ValueError otherwise."""
    Z = checked_matrix(where, "items", items, input_name="items")
    if width not in (None, Z.shape[1]):
        raise ValueError(f"{where}: items must have {width} features, got {Z.shape[1]}.")
    check_magnitude(where, "items", Z, dtype=dtype)
    return Z


def labelled_items(
    where: str, items: Matrix, labels: Labels, like: Array, dtype: DTypeLike, width: int | None
) -> tuple[Matrix, Array]:
    """A copy of the items, and labels of the same kind as `like`; ValueError otherwise."""
    if labels is None:
        raise ValueError(f"{where}: item_labels must be given with items, got None.")
    Z = item_rows(where, items, dtype, width)
    given = column_or_1d(labels)
    check_classification_targets(given)
    check_consistent_length(Z, given)
    # NumPy would silently turn numbers beside words into words.
    kinds = {part.dtype.kind in "biuf" for part in (like, given) if part.dtype.kind != "O"}
    if len(kinds) > 1:
        kind = f"of the kind of y, {like.dtype}"
        raise ValueError(f"{where}: item_labels must be {kind}, got {given.dtype}.")
    return as_rows(Z, dtype), given


def labelled_sides(
    where: str, X: Matrix, y: Array, items: Matrix | None, item_labels: Labels, classes: Labels
) -> tuple[Array, LabelledSides]:
    """Classes and sides of a first call, in which X are the items unless some are given."""
    Z, labels, own = X, y, np.arange(len(y))
    if items is not None:
        Z, labels = labelled_items(where, items, item_labels, y, X.dtype, None)
        own = np.full(len(y), -1)
    elif item_labels is not None:
        raise ValueError(f"{where}: items must be given with item_labels, got None.")
    known = np.unique(np.concatenate([y, labels]) if classes is None else np.asarray(classes))
    codes = class_numbers(where, y, known), class_numbers(where, labels, known)
    return known, LabelledSides(X, codes[0], Z, codes[1], own)


def check_sizes(sides: LabelledSides, classes: Array, n_neighbors: int, tied: bool) -> None:
    """Refuse a single class, too few items for a vote, and tied maps of different features."""
    if len(classes) < 2:
        only = f"it has only one class: {classes[0]!r}"
        raise ValueError(f"{LEARNER_NAME}: y must have at least two classes, but {only}.")
    n_items = len(sides.labels) - sides.shared
    if n_neighbors > n_items:
        most = f"the {n_items} items that a query has"
        raise ValueError(f"{LEARNER_NAME}: n_neighbors must be at most {most}, got {n_neighbors}.")
    d, width = sides.X.shape[1], sides.Z.shape[1]
    if tied and d != width:
        rule = f"items must have the {d} features of X unless asymmetric is True"
        raise ValueError(f"{LEARNER_NAME}: {rule}, got {width}.")


def class_numbers(where: str, labels: Array, classes: Array) -> Indices:
    """Position of each label among the sorted classes; ValueError otherwise."""
    unknown = np.setdiff1d(labels, classes)
    if len(unknown):
        known = f"the classes {classes}"
        raise ValueError(f"{where}: labels must be among {known}, got {unknown[0]!r}.")
    return np.searchsorted(classes, labels)


def checked_cost(cost: Array | None, n_classes: int) -> Array:
    """Δ as an array of shape (n_classes, n_classes); 0/1 for None."""
    if cost is None:
        return 1.0 - np.eye(n_classes)
    square = cost.shape == (n_classes, n_classes) and cost.dtype.kind in "fiu"
    if square and np.isfinite(cost).all() and (cost >= 0).all() and not np.diagonal(cost).any():
        return cost.astype(np.float64)
    found = "other values" if square else f"shape {cost.shape} and dtype {cost.dtype}"
    rule = f"an array of shape ({n_classes}, {n_classes}), finite, at least 0, with a zero diagonal"
    raise ValueError(f"{LEARNER_NAME}: cost must be {rule}, got {found}.")


def as_rows(X: Matrix, dtype: DTypeLike) -> Matrix:
    """A copy of X, dense and C-ordered or CSR without duplicate entries."""
    if sparse.issparse(X):
        rows = sparse.csr_array(X, dtype=dtype, copy=True)
        rows.sum_duplicates()
        return rows
    return np.array(X, dtype=dtype, order="C", copy=True)


def joined(database: Matrix, more: Matrix) -> Matrix:
    """The rows of both; dense if the database is."""
    if sparse.issparse(database):
        return sparse.csr_array(sparse.vstack([database, sparse.csr_array(more)], format="csr"))
    return np.vstack([database, dense(more)])


def split(
    sides: LabelledSides, share: float, rng: np.random.Generator
) -> tuple[LabelledSides, LabelledSides | None]:
    """Sides to learn from, and held-out queries: a share of each class, never all; None if few."""
    order = rng.permutation(len(sides.y))
    rows = [order[sides.y[order] == c] for c in np.unique(sides.y)]
    out = np.concatenate([part[: min(round(share * len(part)), len(part) - 1)] for part in rows])
    if len(out) < MIN_HELD_OUT:
        return sides, None
    kept = sides.with_queries(np.setdiff1d(order, out))
    if sides.shared:
        kept = kept.with_items(np.setdiff1d(np.arange(len(sides.labels)), sides.own[out]))
    return kept, sides.with_queries(out)
