"""Measures of one ranking, as functions of the ranks of its relevant items.

`ranks` is the increasing integer array of the ranks r_1 < ... < r_R (from 1) of the R relevant
items of a query. For a query without relevant items, every measure is NaN.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.linalg.compiled import compiled_in_order
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.ranks import all_finite, relevant_ranks
from similia.retrieval.relevance import Relevance, members

MEASURES = ("precision", "recall", "ndcg", "map", "mrr", "r_precision")
AT_K = ("precision", "recall", "ndcg")  # those that need a cut-off


@compiled_in_order
def _hits(ranks: Integers, k: int) -> np.intp:
    return np.searchsorted(ranks, k, side="right")


@compiled_in_order
def precision_at_k(ranks: Integers, k: int) -> float:
    """Share of the first k items that are relevant: #{i : r_i <= k} / k.

    The divisor is k even if fewer than k items are relevant, or exist.
    """
    return _hits(ranks, k) / k if len(ranks) else np.nan


@compiled_in_order
def recall_at_k(ranks: Integers, k: int) -> float:
    """Share of the relevant items that are among the first k: #{i : r_i <= k} / R."""
    return _hits(ranks, k) / len(ranks) if len(ranks) else np.nan


@compiled_in_order
def r_precision(ranks: Integers) -> float:
    """Precision at R, which equals recall at R: #{i : r_i <= R} / R."""
    return _hits(ranks, len(ranks)) / len(ranks) if len(ranks) else np.nan


@compiled_in_order
def reciprocal_rank(ranks: Integers, k: int = 0) -> float:
    """One over the rank of the first relevant item: 1 / r_1. Its mean over queries is MRR.

    With a cut-off k > 0 it is 0 if that rank is above k.
    """
    if len(ranks) == 0:
        return np.nan
    return 1.0 / ranks[0] if k == 0 or ranks[0] <= k else 0.0


@compiled_in_order
def average_precision(ranks: Integers, k: int = 0) -> float:
    """Mean over the relevant items of the precision at their ranks: (1/R) Σ_i i / r_i.

    Its mean over queries is mAP. With a cut-off k > 0, ranks above k add nothing.
    """
    if len(ranks) == 0:
        return np.nan
    total = 0.0
    for i in range(_hits(ranks, k) if k else len(ranks)):
        total += (i + 1.0) / ranks[i]
    return total / len(ranks)


@compiled_in_order
def ndcg_at_k(ranks: Integers, gains: Floats, k: int) -> float:
    """Discounted gain of the first k items over that of the best possible order: DCG / IDCG.

    DCG = Σ_{i : r_i <= k} g_i / log2(1 + r_i), and IDCG = Σ_{i <= k} g_(i) / log2(1 + i) with the
    gains in decreasing order. `gains` (R,) are positive and in the order of `ranks`: plain grades,
    or their `exponential_gain`.
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


class Wanted(NamedTuple):
    """Measures to compute, and arrays for their values."""

    relevant: Relevance
    own: Integers  # the item that is each query itself, or -1
    codes: Integers  # places in MEASURES and cut-offs
    values: NDArray[np.float64]  # a row for each query, a column for each measure
    n_relevant: NDArray[np.int64]


@compiled_in_order
def fill_values(wanted: Wanted, scores: Floats, queries: Integers) -> int:
    """Set the measures of `queries`; a `Fill` with its first argument."""
    relevant = wanted.relevant
    for place, query in enumerate(queries):
        if not all_finite(scores[place]):
            return place
        some = members(relevant, query)
        ranks, order = relevant_ranks(scores[place], relevant.items[some], wanted.own[query])
        fill_row(wanted, query, ranks, relevant.gains[some][order])
    return -1


@compiled_in_order
def fill_row(wanted: Wanted, query: int, ranks: Integers, gains: Floats) -> None:
    """Set the measures of one query."""
    wanted.n_relevant[query] = len(ranks)
    for column, (code, k) in enumerate(wanted.codes):
        wanted.values[query, column] = _measure(code, ranks, gains, k)


@compiled_in_order
def _measure(code: int, ranks: Integers, gains: Floats, k: int) -> float:
    """Measure at place `code` of MEASURES."""
    if code == 0:
        return precision_at_k(ranks, k)
    if code == 1:
        return recall_at_k(ranks, k)
    if code == 2:
        return ndcg_at_k(ranks, gains, k)
    if code == 3:
        return average_precision(ranks, k)
    if code == 4:
        return reciprocal_rank(ranks, k)
    return r_precision(ranks)
