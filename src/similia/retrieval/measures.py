"""Measures of one ranking, as functions of the ranks of its relevant items.

`ranks` are the ranks r_1 < ... < r_R (from 1) of the R relevant items of a query, as an integer
array in increasing order. A query without relevant items has no measure: the value is NaN.
"""

import numpy as np
from numba import njit

from similia.retrieval.grid import Floats, Integers

MEASURES = ("precision", "recall", "ndcg", "map", "mrr", "r_precision")
AT_K = ("precision", "recall", "ndcg")  # those that look at the first k items only


@njit(cache=True, nogil=True)
def _hits(ranks: Integers, k: int) -> int:
    return np.searchsorted(ranks, k, side="right")


@njit(cache=True, nogil=True)
def precision_at_k(ranks: Integers, k: int) -> float:
    """Part of the first k items that is relevant: #{i : r_i <= k} / k.

    The divisor is k even if fewer than k items are relevant, or exist.
    """
    return _hits(ranks, k) / k if len(ranks) else np.nan


@njit(cache=True, nogil=True)
def recall_at_k(ranks: Integers, k: int) -> float:
    """Part of the relevant items that is among the first k: #{i : r_i <= k} / R."""
    return _hits(ranks, k) / len(ranks) if len(ranks) else np.nan


@njit(cache=True, nogil=True)
def r_precision(ranks: Integers) -> float:
    """Precision at R, which is also the recall at R: #{i : r_i <= R} / R."""
    return _hits(ranks, len(ranks)) / len(ranks) if len(ranks) else np.nan


@njit(cache=True, nogil=True)
def reciprocal_rank(ranks: Integers) -> float:
    """One over the rank of the first relevant item: 1 / r_1. Its mean over queries is MRR."""
    return 1.0 / ranks[0] if len(ranks) else np.nan


@njit(cache=True, nogil=True)
def average_precision(ranks: Integers) -> float:
    """Mean over the relevant items of the precision where each is found: (1/R) Σ_i i / r_i.

    Its mean over queries is mAP.
    """
    if len(ranks) == 0:
        return np.nan
    total = 0.0
    for i in range(len(ranks)):
        total += (i + 1.0) / ranks[i]
    return total / len(ranks)


@njit(cache=True, nogil=True)
def ndcg_at_k(ranks: Integers, gains: Floats, k: int) -> float:
    """Discounted gain of the first k items, over that of the best possible order: DCG / IDCG.

    DCG = Σ_{i : r_i <= k} g_i / log2(1 + r_i), and IDCG = Σ_{i <= k} g_(i) / log2(1 + i) with the
    gains in decreasing order. `gains` (R,) are positive, in the order of `ranks`: grades as they
    are, or their `exponential_gain`.
    """
    if len(ranks) == 0:
        return np.nan
    best = gains if gains.min() == gains.max() else np.sort(gains)[::-1]
    found = ideal = 0.0
    for i in range(_hits(ranks, k)):
        found += gains[i] / np.log2(1.0 + ranks[i])
    for i in range(min(k, len(best))):
        ideal += best[i] / np.log2(2.0 + i)
    return found / ideal


def exponential_gain(grades: Floats) -> Floats:
    """Gain 2^grade - 1, which stresses the highest grades; a grade of 1 keeps its gain of 1."""
    return np.exp2(grades) - 1.0
