"""What each weight vector of a one-vs-rest classifier is to say of each row."""

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import column_or_1d

from similia.contract import Array


class Labels:
    """Labels of rows, for one weight vector (two classes) or one for each class or label.

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    y : array of shape (n,), or of zeros and ones of shape (n, n_labels)
        One class a row, or any number of labels a row.
    classes : array or None
        All classes; None finds them in y.
    """

    def __init__(self, owner: str, y: Any, classes: Array | None = None) -> None:
        y = y.toarray() if sparse.issparse(y) else np.asarray(y)
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
            self.n_rows = y.shape[1]
            return
        y = column_or_1d(y, warn=True)
        self.classes = unique_labels(y) if classes is None else classes
        unknown = np.setdiff1d(y, self.classes)
        if len(unknown):
            raise ValueError(
                f"{owner}: y must be among the classes {self.classes}, got {unknown[0]!r}."
            )
        self.codes = np.searchsorted(self.classes, y)
        self.n_rows = 1 if len(self.classes) == 2 else len(self.classes)

    def signs(self, rows: Array, dtype: Any) -> Array:
        """Give +1 or -1 for each weight vector (first axis) and each named row."""
        if self.multilabel:
            positive = self.member[rows].T
        elif self.n_rows == 1:
            positive = (self.codes[rows] == 1)[None]
        else:
            positive = self.codes[rows] == np.arange(self.n_rows)[:, None]
        return np.where(positive, 1, -1).astype(dtype)

    def sides(self, j: int, rows: Array) -> tuple[Array, Array]:
        """Give the positions among `rows` of weight vector j's positive and negative examples."""
        if self.multilabel:
            positive = self.member[rows, j]
        else:
            positive = self.codes[rows] == (1 if self.n_rows == 1 else j)
        return np.flatnonzero(positive), np.flatnonzero(~positive)

    def groups(self, rows: Array) -> "Groups":
        """Sort the places of `rows` by what they are to each weight vector."""
        return Groups(self, rows)

    def accuracy(self, scores: Array, rows: Array) -> float:
        """Give the share of right decisions of scores (weight vectors, rows)."""
        if self.multilabel or self.n_rows == 1:
            return float(np.mean((scores > 0) == (self.signs(rows, scores.dtype) > 0)))
        return float(np.mean(scores.argmax(axis=0) == self.codes[rows]))


class Groups:
    """Places of rows by class, so that one class's examples are a slice, for any number of them."""

    def __init__(self, labels: Labels, rows: Array) -> None:
        self.labels, self.rows = labels, rows
        self.counts = np.zeros(0, dtype=np.intp)
        if not labels.multilabel:
            self.codes = labels.codes[rows]
            self.order = np.argsort(self.codes, kind="stable")
            self.counts = np.bincount(self.codes, minlength=len(labels.classes))
            self.ends = np.cumsum(self.counts)

    def of(self, j: int) -> tuple[Array, Array, int]:
        """Give weight vector j's positive places, and (codes, code) that tell them from others."""
        if self.labels.multilabel:
            member = self.labels.member[self.rows, j].astype(np.int64)
            return np.flatnonzero(member), member, 1
        code = 1 if self.labels.n_rows == 1 else j
        start = self.ends[code - 1] if code else 0
        return self.order[start : self.ends[code]], self.codes, code
