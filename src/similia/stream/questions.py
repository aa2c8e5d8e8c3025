"""Comparisons that a learner may want to ask about."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.retrieval import top_k


def candidate_questions(
    model: Any,
    X: Any,
    n: int,
    *,
    items: Any = None,
    queries: NDArray[np.int64] | None = None,
    depth: int = 20,
    random_state: int = 0,
) -> NDArray[np.int64]:
    """Draw comparisons of two items that the model ranks high for a query: their order matters.

    Parameters
    ----------
    model : learner
    X : array or CSR matrix
        Vectors (of queries).
    n : int
        How many to draw, at most; repeats are left out.
    items : array or CSR matrix, optional
    queries : integer array, optional
        Rows to ask about; any of X without it.
    depth : int
        Items are drawn from so many of the best.
    random_state : int

    Returns
    -------
    array of shape (m, 3), m <= n
        Rows (query, one item, another item).
    """
    rng = np.random.default_rng(random_state)
    pool = np.arange(X.shape[0]) if queries is None else np.unique(queries)
    chosen = rng.permutation(pool)[: max(1, n // 4)]
    Z = X if items is None else items
    depth = min(depth + 1, Z.shape[0])
    found = np.asarray(top_k(model, X[chosen], Z, depth)[0])
    if items is None:  # a query is not asked about itself
        own = found == chosen[:, None]
        own[~own.any(axis=1), -1] = True
        found = found[~own].reshape(len(chosen), depth - 1)
    if found.shape[1] < 2:
        raise ValueError(f"items must be at least two beside the query, got {found.shape[1]}.")
    which = rng.integers(len(chosen), size=n)
    first = rng.integers(found.shape[1], size=n)
    second = (first + 1 + rng.integers(found.shape[1] - 1, size=n)) % found.shape[1]
    a, b = found[which, np.minimum(first, second)], found[which, np.maximum(first, second)]
    return np.unique(np.column_stack([chosen[which], a, b]), axis=0).astype(np.int64)
