"""Exact best items of each query, in blocks of bounded memory."""

from functools import partial

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Side
from similia.retrieval.scorers import BLOCK_BYTES, AnyScorer, Scores, scores_of
from similia.retrieval.selection import fill_best
from similia.retrieval.vectors import Floats
from similia.safety.turns import of_one_state
from similia.validation import boolean, check_parameters, positive_integer

_RULES = {"k": positive_integer, "exclude_self": boolean, "block_bytes": positive_integer}


@of_one_state
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
        scores.share_out(partial(fill_best, indices, best, scores.own), block, queries)
    return indices, best
