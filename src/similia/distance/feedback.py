"""Feedback on pairs: what a user may hand in, and how well scores agree with it."""

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import kendalltau

from similia.contract import Array

#: numbers whose fourth powers stay finite
LARGEST_NUMBER = 1e70


def checked_feedback(where: str, kind: str, y: ArrayLike) -> Array:
    """Feedback as signs ("labels") or as "distances", or the house error."""
    y = np.asarray(y)
    if kind == "labels":
        if y.ndim != 1 or not np.isin(y, (-1, 1)).all():
            raise ValueError(f"{where}: y must be an array of +1 (similar) and -1 (dissimilar).")
        return y.astype(np.int8)
    if y.ndim != 1 or y.dtype.kind not in "fiu" or not ((y >= 0) & (y <= LARGEST_NUMBER)).all():
        raise ValueError(
            f"{where}: y must be an array of distances between 0 and {LARGEST_NUMBER:.0e}."
        )
    return y.astype(np.float64)


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
