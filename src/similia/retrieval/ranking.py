"""Exact best items of each query, in blocks of bounded memory."""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Side
from similia.linalg.compiled import compiled_in_order
from similia.retrieval.grid import Floats, Integers, best_first
from similia.retrieval.ranks import all_finite
from similia.retrieval.scorers import BLOCK_BYTES, AnyScorer, Scores, scores_of
from similia.validation import boolean, check_parameters, positive_integer

_RULES = {"k": positive_integer, "exclude_self": boolean, "block_bytes": positive_integer}


def top_k(
    scorer: AnyScorer,
    Q: ArrayLike | Side,
    Z: ArrayLike | Side,
    k: int,
    exclude_self: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[NDArray[np.int64], Floats]:
    """Find the k items of highest score for each query, exactly.

    Parameters
    ----------
    scorer : learner, function or str
        As in `evaluate`.
    Q : array or sparse matrix of shape (n_queries, n_features), or Views
        Queries.
    Z : array or sparse matrix of shape (n_items, n_features), or Views
        Items.
    k : int
        Number of items for each query; at most the number of items.
    exclude_self : bool
        Whether item i is query i and so left out.
    block_bytes : int
        Memory for scores; at least one query's scores are held at a time.

    Returns
    -------
    indices : array of shape (n_queries, k)
        Best item first; among equal scores, the lower index first.
    scores : array of shape (n_queries, k)
        Their scores; for "l2" and "euclidean", negated squared distances.

    Examples
    --------
    >>> import numpy as np
    >>> Z = np.array([[0.0], [3.0], [1.0]])
    >>> indices, scores = top_k("euclidean", np.array([[1.0]]), Z, k=2)
    >>> indices, scores
    (array([[2, 0]]), array([[ 0., -1.]]))
    """
    given = {"k": k, "exclude_self": exclude_self, "block_bytes": block_bytes}
    check_parameters("top_k", _RULES, given)
    scores = scores_of("top_k", scorer, Q, Z, exclude_self)
    n_ranked = scores.n_items - bool(exclude_self)
    if k > n_ranked:
        raise ValueError(f"top_k: k must be at most the {n_ranked} items to rank, got {k}.")
    return best_of(scores, k, block_bytes)


def best_of(scores: Scores, k: int, block_bytes: int) -> tuple[NDArray[np.int64], Floats]:
    """Return rows and scores of the k best items of each query, other than its own item."""
    indices = np.empty((len(scores.own), k), np.int64)
    best = np.empty((0, k))
    for queries, block in scores.blocks(block_bytes):
        if len(best) == 0:
            best = np.empty(indices.shape, block.dtype)
        scores.share_out(partial(_fill_best, indices, best, scores.own), block, queries)
    return indices, best


@compiled_in_order
def _fill_best(
    indices: Integers, best: Floats, own: Integers, scores: Floats, queries: Integers
) -> int:
    """Set the best items of `queries` and their scores; a `Fill` with its first three arguments."""
    k = indices.shape[1]
    pool, pool_scores = np.empty(2 * k, np.int64), np.empty(2 * k, scores.dtype)
    for place, query in enumerate(queries):
        if not all_finite(scores[place]):
            return place
        _select_best(pool, pool_scores, scores[place], own[query])
        indices[query], best[query] = pool[:k], pool_scores[:k]
    return -1


@compiled_in_order
def _select_best(pool: Integers, pool_scores: Floats, scores: Floats, excluded: int) -> None:
    """Collect candidates for the best k in a pool of 2k, cut back to the best k when full.

    A later score that only equals the k-th is no candidate, because lower indices go first.
    """
    size, bound = 0, -np.inf
    for i in range(len(scores)):
        if scores[i] > bound and i != excluded:
            pool[size], pool_scores[size] = i, scores[i]
            size += 1
            if size == len(pool):
                size = len(pool) // 2
                _cut(pool, pool_scores, size)
                bound = pool_scores[size - 1]
    _cut(pool[:size], pool_scores[:size], len(pool) // 2)


@compiled_in_order
def _cut(pool: Integers, pool_scores: Floats, k: int) -> None:
    """Move the best k to the front, best first; equal scores stay in order of index."""
    order = best_first(pool_scores)[:k]
    pool[:k], pool_scores[:k] = pool[order], pool_scores[order]
