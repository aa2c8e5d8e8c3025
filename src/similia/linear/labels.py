"""Labels of one-vs-rest classifiers: the target sign of each weight vector and row."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike
from sklearn.utils.multiclass import check_classification_targets, unique_labels
from sklearn.utils.validation import column_or_1d

from similia.contract import Array, Indices, Matrix
from similia.linalg.blocks import dense


class Labels:
    """Labels of rows, for one weight vector (two classes) or one per class or label.

    y is an array of shape (n,), one class per row, or zeros and ones of shape (n, n_labels), any
    number of labels per row. `classes` are all classes, by default those in y.
    """

    def __init__(self, owner: str, y: Matrix, classes: Array | None = None) -> None:
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

    def signs(self, rows: Indices, dtype: DTypeLike) -> Array:
        """+1 or -1 for each weight vector (first axis) and each of the rows."""
        if self.multilabel:
            positive = self.member[rows].T
        elif self.n_vectors == 1:
            positive = (self.codes[rows] == 1)[None]
        else:
            positive = self.codes[rows] == np.arange(self.n_vectors)[:, None]
        return np.where(positive, 1, -1).astype(dtype)

    def accuracy(self, scores: Array, rows: Indices) -> float:
        """Share of right decisions by scores of shape (weight vectors, rows)."""
        if self.multilabel or self.n_vectors == 1:
            return float(np.mean((scores > 0) == (self.signs(rows, scores.dtype) > 0)))
        return float(np.mean(scores.argmax(axis=0) == self.codes[rows]))


class Examples(NamedTuple):
    """Labelled rows and the factors of their steps."""

    X: Matrix
    labels: Labels
    weights: Array


def n_weight_vectors(n_classes: int, multilabel: bool) -> int:
    """One weight vector for two classes, else one per class or label."""
    return 1 if n_classes == 2 and not multilabel else n_classes


def checked_weights(owner: str, weights: ArrayLike | None, n: int) -> Array:
    """Weights of n rows, all 1 by default; at least one must be positive."""
    if weights is None:
        return np.ones(n)
    given = np.asarray(weights, dtype=np.float64)
    if given.shape != (n,) or not np.isfinite(given).all() or (given < 0).any() or not given.any():
        raise ValueError(
            f"{owner}: sample_weight must be {n} numbers of at least 0, not all of them zero, "
            f"got shape {given.shape}."
        )
    return given


def balanced_kept(counts: Array, signs: Array, seed: int, t: int) -> Array:
    """Whether each weight vector keeps each example of a stream: all positives, as many negatives.

    `counts` (vectors, 2) are the positive and negative examples so far, `signs` (vectors, n) the
    new ones. A negative is kept with probability (positives)/(negatives) so far. The draw depends
    only on seed, time and weight vector, so a stream in pieces keeps what the whole stream keeps.
    """
    positive = signs > 0
    ours = counts[:, :1] + np.cumsum(positive, axis=1)
    others = counts[:, 1:] + np.cumsum(~positive, axis=1)
    n_vectors, n = signs.shape
    places = np.arange(t, t + n, dtype=np.uint64) * np.uint64(n_vectors)
    numbers = places + np.arange(n_vectors, dtype=np.uint64)[:, None]
    return positive | (_uniform(numbers, seed) * others < ours)


def _uniform(numbers: Array, seed: int) -> Array:
    """A number in [0, 1) for each integer, by the mixing function of SplitMix64."""
    x = (numbers + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    x ^= x >> np.uint64(31)
    return (x >> np.uint64(11)) * 2.0**-53
