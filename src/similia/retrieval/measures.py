"""Measures of one ranking, as functions of the ranks of its relevant items.

`ranks` are the ranks r_1 < ... < r_R (from 1) of the R relevant items of a query, as an integer
array in increasing order. A query without relevant items has no measure: the value is NaN.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.linalg.compiled import compiled_in_order
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.ranks import all_finite, relevant_ranks
from similia.retrieval.relevance import Relevance

MEASURES = ("precision", "recall", "ndcg", "map", "mrr", "r_precision")
AT_K = ("precision", "recall", "ndcg")  # those that look at the first k items only


@compiled_in_order
def _hits(ranks: Integers, k: int) -> Any:
    return np.searchsorted(ranks, k, side="right")


@compiled_in_order
def precision_at_k(ranks: Integers, k: int) -> float:
    """Part of the first k items that is relevant: #{i : r_i <= k} / k.

    The divisor is k even if fewer than k items are relevant, or exist.
    """
    return _hits(ranks, k) / k if len(ranks) else np.nan


@compiled_in_order
def recall_at_k(ranks: Integers, k: int) -> float:
    """Part of the relevant items that is among the first k: #{i : r_i <= k} / R."""
    return _hits(ranks, k) / len(ranks) if len(ranks) else np.nan


@compiled_in_order
def r_precision(ranks: Integers) -> float:
    """Precision at R, which is also the recall at R: #{i : r_i <= R} / R."""
    return _hits(ranks, len(ranks)) / len(ranks) if len(ranks) else np.nan


@compiled_in_order
def reciprocal_rank(ranks: Integers) -> float:
    """One over the rank of the first relevant item: 1 / r_1. Its mean over queries is MRR."""
    return 1.0 / ranks[0] if len(ranks) else np.nan


@compiled_in_order
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


@compiled_in_order
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


@compiled_in_order
def fill_values(
    values: NDArray[np.float64],
    n_relevant: Integers,
    scores: Floats,
    rows: Integers,
    relevant: Relevance,
    own: Integers,
    codes: Integers,
) -> int:
    """Set the measures of queries `rows`; give the first place with a bad score, or -1.

    A score that is not finite is bad. `scores` has a row for each of `rows`; `values`, `n_relevant`
    and `own` are of all queries.
    """
    for place, row in enumerate(rows):
        if not all_finite(scores[place]):
            return place
        group = relevant.group[row]
        members = slice(relevant.starts[group], relevant.starts[group + 1])
        ranks, order = relevant_ranks(scores[place], relevant.items[members], own[row])
        n_relevant[row] = len(ranks)
        fill_row(values[row], ranks, relevant.gains[members][order], codes)
    return -1


@compiled_in_order
def fill_row(values: NDArray[np.float64], ranks: Integers, gains: Floats, codes: Integers) -> None:
    """Set the measures of one query; `codes` are their places in MEASURES and their cut-offs."""
    for column in range(len(codes)):
        values[column] = _measure(codes[column, 0], ranks, gains, codes[column, 1])


@compiled_in_order
def _measure(code: int, ranks: Integers, gains: Floats, k: int) -> float:
    """Give the measure at place `code` of MEASURES."""
    if code == 0:
        return precision_at_k(ranks, k)
    if code == 1:
        return recall_at_k(ranks, k)
    if code == 2:
        return ndcg_at_k(ranks, gains, k)
    if code == 3:
        return average_precision(ranks)
    if code == 4:
        return reciprocal_rank(ranks)
    return r_precision(ranks)
