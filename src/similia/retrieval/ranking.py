"""Exact best items of each query, in blocks of bounded memory."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.linalg.compiled import compiled_in_order
from similia.retrieval.grid import Floats, Integers, best_first
from similia.retrieval.ranks import all_finite
from similia.retrieval.scorers import (
    BLOCK_BYTES,
    own_items,
    refuse_scores,
    rows_of,
    scores_of,
)
from similia.retrieval.threads import over_rows
from similia.validation import boolean, check_parameters, positive_integer

_RULES = {"k": positive_integer, "exclude_self": boolean, "block_bytes": positive_integer}


def top_k(
    scorer: Any,
    Q: Any,
    Z: Any,
    k: int,
    exclude_self: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> tuple[NDArray[np.int64], Floats]:
    """Give the k items of highest score for each query, exactly.

    Parameters
    ----------
    scorer : learner, function or str
        As in `evaluate`.
    Q : array or sparse matrix of shape (n_queries, n_features)
        Queries.
    Z : array or sparse matrix of shape (n_items, n_features)
        Items.
    k : int
        Number of items for each query; at most the number of items there are.
    exclude_self : bool
        Whether item i is query i and so left out.
    block_bytes : int
        Memory for scores; at least one query's scores are held at a time.

    Returns
    -------
    indices : array of shape (n_queries, k)
        Best item first; of equal scores, the lower index first.
    scores : array of shape (n_queries, k)
        Their scores; "l2" and "euclidean" give the negated squared distance.

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
    Q, Z = rows_of("top_k", "Q", Q), rows_of("top_k", "Z", Z)
    own = own_items("top_k", (Q.shape[0], Z.shape[0]), exclude_self)
    n_ranked = Z.shape[0] - bool(exclude_self)
    if k > n_ranked:
        raise ValueError(f"top_k: k must be at most the {n_ranked} items to rank, got {k}.")
    indices = np.empty((Q.shape[0], k), np.int64)
    best = []
    for start, scores in scores_of("top_k", scorer, Q, Z).blocks(block_bytes):
        found = np.empty((len(scores), k), scores.dtype)
        _select_block(scores, start, own, indices, found)
        best.append(found)
    return indices, np.concatenate(best)


def _select_block(
    scores: Floats, start: int, own: Integers, indices: Integers, found: Floats
) -> None:
    def share(a: int, b: int) -> int:
        rows = slice(start + a, start + b)
        bad = _fill_best(indices[rows], found[a:b], scores[a:b], own[rows])
        return start + a + bad if bad >= 0 else -1

    for query in over_rows(share, len(scores)):
        if query >= 0:
            refuse_scores("top_k", scores[query - start], query)


@compiled_in_order
def _fill_best(indices: Integers, best: Floats, scores: Floats, own: Integers) -> int:
    """Set each row's best items; give the first row with a non-finite score, or -1."""
    k = indices.shape[1]
    pool, pool_scores = np.empty(2 * k, np.int64), np.empty(2 * k, scores.dtype)
    for row in range(len(scores)):
        if not all_finite(scores[row]):
            return row
        _select_best(pool, pool_scores, scores[row], own[row])
        indices[row], best[row] = pool[:k], pool_scores[:k]
    return -1


@compiled_in_order
def _select_best(pool: Integers, pool_scores: Floats, scores: Floats, excluded: int) -> None:
    """Gather candidates for the best k in a pool of 2k, cut back to the best k when full.

    A later score that only equals the k-th is not a candidate, because lower indices go first.
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
    """Bring the best k to the front, best first; equal scores stay in order of index."""
    order = best_first(pool_scores)[:k]
    pool[:k], pool_scores[:k] = pool[order], pool_scores[order]
