"""Labelled rows, and the target sign of each weight vector and row."""

from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import column_or_1d

from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import dense, row_blocks, rows_of
from similia.linalg.row_keys import row_keys
from similia.safety.bounds import memory

#: rows whose keys are computed at a time
KEY_ROWS = 4096
#: bytes that the passes keep for each row
BYTES_A_ROW = 32


class Examples:
    """Labelled rows, for one weight vector (two classes) or one per class or label.

    y is an array of shape (n,), one class per row, or zeros and ones of shape (n, n_labels), any
    number of labels per row. `classes` are all classes, by default those in y; `weights` factors
    of the steps, by default 1. X has no intercept; the rows that `at` returns have it.
    """

    #: row of X of each example; None if they are all of them, in order
    source: Indices | None = None

    def __init__(
        self,
        owner: str,
        X: Matrix,
        y: Matrix,
        weights: ArrayLike | None = None,
        classes: Array | None = None,
        *,
        intercept: bool,
    ) -> None:
        self.X, self.intercept, n = X, intercept, X.shape[0]
        self.weights = np.asarray(np.ones(n) if weights is None else weights, dtype=X.dtype)
        usable = (np.isfinite(self.weights) & (self.weights >= 0)).all() and self.weights.any()
        if self.weights.shape != (n,) or not usable:
            raise ValueError(
                f"{owner}: sample_weight must be {n} numbers of at least 0, not all of them zero, "
                f"got shape {self.weights.shape}."
            )
        y = np.asarray(dense(y))
        if classes is None:  # else only known classes are accepted, which says more
            check_classification_targets(y)
        self.multilabel = y.ndim == 2 and y.shape[1] > 1
        if self.multilabel:
            if not np.isin(y, (0, 1)).all():
                raise ValueError(
                    f"{owner}: y must be zeros and ones, a column for each label, "
                    f"got {np.setdiff1d(y, (0, 1))[0]!r}."
                )
            self.classes = np.arange(y.shape[1])
            self.member = y.astype(bool)
        else:
            y = column_or_1d(y, warn=True)
            self.classes = unique_labels(y) if classes is None else classes
            unknown = np.setdiff1d(y, self.classes)
            if len(unknown):
                raise ValueError(
                    f"{owner}: y must be among the classes {self.classes}, got {unknown[0]!r}."
                )
            self.codes = np.searchsorted(self.classes, y)
        self.n_vectors = n_weight_vectors(len(self.classes), self.multilabel)

    def __len__(self) -> int:
        return len(self.weights)

    def repeated(self, owner: str, *, in_order: bool) -> Self:
        """Each example as often as its weight says: 2.5 is two examples, and half a step.

        A weight and copies of a row are learnt alike wherever they stand, as those of `fit` are
        put in an order that follows from what they hold. Examples that are all different, with
        weights of 1 at most, and those of a stream (`in_order`) stay in their order.
        """
        copies = np.ceil(self.weights)
        if copies.sum(dtype=np.float64) * BYTES_A_ROW > (limit := memory()):
            raise ValueError(
                f"{owner}: sample_weight must be small enough for {limit / 1e9:.3g} GB of memory, "
                f"as a weight of 2 is two rows, got {self.weights.max():g}."
            )
        order = np.flatnonzero(copies)
        if not in_order:
            keys = self._keys()[order]
            if copies.max() > 1 or len(np.unique(keys)) < len(keys):
                order = order[np.lexsort((self.weights[order], keys))]
        if len(order) == len(copies) == copies.sum() and (order[1:] > order[:-1]).all():
            return self
        times = copies[order].astype(np.int64)
        found, source = copy(self), np.repeat(order, times)
        last = np.cumsum(times) - 1
        found.weights = np.ones(len(source), self.weights.dtype)
        found.weights[last] = self.weights[order] - (times - 1)
        found.source = source
        if self.multilabel:
            found.member = self.member[source]
        else:
            found.codes = self.codes[source]
        return found

    def _keys(self) -> NDArray[np.uint64]:
        """A number for each example; equal ones share it."""
        labels = self.member if self.multilabel else self.codes[:, None]
        keys = row_keys(labels)
        for block in row_blocks(self.X.shape[0], KEY_ROWS):
            rows = np.arange(block.start, block.stop)
            keys[block] += row_keys(rows_of(self.X, rows, np.float32))
        return keys

    def at(self, rows: Indices, dtype: DTypeLike | None = None) -> Matrix:
        """The named rows of X, with their intercept."""
        dtype = self.X.dtype if dtype is None else dtype
        rows = rows if self.source is None else self.source[rows]
        return with_intercept(rows_of(self.X, rows, dtype), self.intercept)

    def signs(self, rows: Indices, dtype: DTypeLike) -> Array:
        """+1 or -1 for each weight vector (first axis) and each of the rows."""
        if self.multilabel:
            positive = self.member[rows].T
        elif self.n_vectors == 1:
            positive = (self.codes[rows] == 1)[None]
        else:
            positive = self.codes[rows] == np.arange(self.n_vectors)[:, None]
        return np.where(positive, 1, -1).astype(dtype)


def n_weight_vectors(n_classes: int, multilabel: bool) -> int:
    """One weight vector for two classes, else one per class or label."""
    return 1 if n_classes == 2 and not multilabel else n_classes


def with_intercept(X: Matrix, intercept: bool = True) -> Matrix:
    """Rows with a last entry 1 if there is an intercept; dense rows C-ordered."""
    if not intercept:
        return X
    ones = np.ones((X.shape[0], 1), dtype=X.dtype)
    if sparse.issparse(X):
        return sparse.csr_array(sparse.hstack([X, sparse.csr_array(ones)], format="csr"))
    return np.ascontiguousarray(np.hstack([X, ones]))


@dataclass(frozen=True)
class TrainingSplit:
    """Examples, the rows of them to learn from, and the rows held out to judge by.

    Below, a *place* is an index into `rows`.
    """

    examples: Examples
    rows: Indices
    held_out: Indices

    @cached_property
    def weights(self) -> Array:
        """Step factor of each row; empty if all are 1."""
        weights = self.examples.weights[self.rows]
        return weights if (weights != 1).any() else weights[:0]

    @cached_property
    def codes(self) -> Array:
        """Class number of each row."""
        return self.examples.codes[self.rows]

    @cached_property
    def _by_class(self) -> list[Indices]:
        """Places of each class."""
        order = np.argsort(self.codes, kind="stable")
        starts = np.searchsorted(self.codes[order], np.arange(1, len(self.examples.classes)))
        return np.split(order, starts)

    def sides(self, j: int) -> tuple[Indices, Array, int]:
        """Positive places of weight vector j, and (codes, code): positive is where they agree."""
        if self.examples.multilabel:
            member = self.examples.member[self.rows, j].astype(np.int64)
            return np.flatnonzero(member), member, 1
        code = 1 if self.examples.n_vectors == 1 else j
        return self._by_class[code], self.codes, code

    @cached_property
    def counts(self) -> Array:
        """Number of positive rows of each weight vector."""
        return np.array([len(self.sides(j)[0]) for j in range(self.examples.n_vectors)])

    def accuracy(self, w: Array) -> float:
        """Share of correct decisions on the held-out rows."""
        return float(self.right(w).mean())

    def right(self, w: Array) -> Array:
        """Share of correct decisions on each held-out row: of one class, or of all its labels."""
        right, examples = [], self.examples
        for block in row_blocks(len(self.held_out), 1024):
            rows = self.held_out[block]
            scores = np.asarray(examples.at(rows, w.dtype) @ w.T)
            if examples.multilabel or examples.n_vectors == 1:
                alike = (scores > 0) == (examples.signs(rows, w.dtype).T > 0)
                right.append(alike.mean(axis=1))
            else:
                right.append((scores.argmax(axis=1) == examples.codes[rows]).astype(np.float64))
        return np.concatenate(right)


def balanced_kept(counts: Array, signs: Array, seed: int, t: int) -> Array:
    """Which examples of a stream each weight vector keeps: all positives, about as many negatives.

    `counts` (vectors, 2) are the positive and negative examples so far, `signs` (vectors, n) the
    new ones. A negative is kept with probability (positives)/(negatives) so far. The draw depends
    only on seed, time and weight vector, so a stream in pieces keeps what the whole stream keeps.
    """
    positive = signs > 0
    ours = counts[:, :1] + np.cumsum(positive, axis=1)
    others = counts[:, 1:] + np.cumsum(~positive, axis=1)
    draws = np.random.Generator(np.random.PCG64(seed).advance(t * len(signs)))
    return positive | (draws.random(signs.T.shape).T * others < ours)
