"""Feedback on pairs: checks, the squared distances that it asks for, agreement with scores.

Targets are two columns: the lowest and the highest squared distance that needs no step.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kendalltau

from similia.contract import Array
from similia.validation import one_of, pair_of_numbers

#: longest distance in feedback, with a finite fourth power
FARTHEST = 1e70
BOUNDS = one_of("auto") | pair_of_numbers


def checked_feedback(where: str, kind: str, y: ArrayLike) -> Array:
    """Feedback as signs ("labels") or as "distances", or the house error."""
    y = np.asarray(y)
    if kind == "labels":
        if y.ndim != 1 or not np.isin(y, (-1, 1)).all():
            raise ValueError(f"{where}: y must be an array of +1 (similar) and -1 (dissimilar).")
        return y.astype(np.int8)
    if y.ndim != 1 or y.dtype.kind not in "fiu" or not ((y >= 0) & (y <= FARTHEST)).all():
        raise ValueError(f"{where}: y must be an array of distances between 0 and {FARTHEST:.0e}.")
    return y.astype(np.float64)


def exact_targets(distances: Array) -> Array:
    """Targets that only these distances meet."""
    return np.column_stack([distances, distances]) ** 2


def bound_targets(signs: Array, bounds: Array) -> Array:
    """Targets that similar pairs within the first bound and others beyond the second meet."""
    near, far = bounds**2
    similar = signs > 0
    return np.column_stack([np.where(similar, 0.0, far), np.where(similar, near, np.inf)])


def chosen_bounds(bounds: str | Sequence[float], squares: Array) -> Array:
    """The given bounds; for "auto" the 5th and 95th percentile of distances, as in ITML."""
    if not isinstance(bounds, str):
        return np.asarray(bounds, dtype=np.float64)
    return np.percentile(np.sqrt(squares), [5, 95]) if len(squares) else np.ones(2)


def concordance(closeness: Array, scores: Array) -> float:
    """P(scores order two judgements as `closeness` does), over all pairs that differ in it.

    A tie of scores counts half; for two values of `closeness` this is the area under the ROC curve.
    Kendall's tau holds the same count in O(n log n): τ_b √(comparable · untied) = right - wrong.
    """

    def distinct(values: Array) -> int:
        counts = np.unique(values, return_counts=True)[1]
        return (len(values) ** 2 - int((counts**2).sum())) // 2

    comparable, untied = distinct(closeness), distinct(scores)
    if untied == 0:
        return 0.5
    tau = kendalltau(closeness, scores).statistic
    gain = round(tau * np.sqrt(comparable) * np.sqrt(untied))
    return 0.5 + 0.5 * gain / comparable
