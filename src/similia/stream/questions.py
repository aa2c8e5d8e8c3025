"""The most instructive comparisons to ask about."""

from typing import NamedTuple

import numpy as np

from similia.contract import Array, Indices, Posterior, Side
from similia.files import VectorFile
from similia.registry import LEARNERS, learner_class
from similia.retrieval import top_k


class Suggestions(NamedTuple):
    """Comparisons ordered as the model believes, most instructive first."""

    #: rows (query, better, worse), of shape (n, 3)
    tuples: Indices
    #: gap between the scores of the two items, and its posterior standard deviation, of shape (n,)
    scores: Array
    std: Array


def suggest_questions(
    model: object,
    vectors: VectorFile,
    n: int = 10,
    *,
    items: VectorFile | None = None,
    queries: Indices | None = None,
    candidates: int = 2000,
    depth: int = 20,
    random_state: int = 0,
) -> Suggestions:
    """Choose the comparisons whose answers would teach a model with a posterior most.

    They are the best `n` of `candidates` drawn by `candidate_questions`, which has the other
    parameters.
    """
    if not isinstance(model, Posterior):
        sure = [name for name in LEARNERS if isinstance(learner_class(name)(), Posterior)]
        raise ValueError(
            f"suggest_questions: model must know how sure it is, as {', '.join(sure)} do, "
            f"got {type(model).__name__}."
        )
    X, Z = vectors.X, items and items.X
    pool = candidate_questions(
        model,
        X,
        max(candidates, n),
        items=Z,
        queries=queries,
        depth=depth,
        random_state=random_state,
        exclude_self=vectors.are_the_rows_of(items),
    )
    chosen = pool[model.suggest(X, pool, min(n, len(pool)), items=Z)]
    scores, std = model.triplet_scores(X, chosen, items=Z, return_std=True)
    swapped = scores < 0
    chosen[swapped, 1:] = chosen[swapped, :0:-1]
    return Suggestions(chosen, np.abs(scores), std)


def candidate_questions(
    model: Posterior,
    X: Side,
    n: int,
    *,
    items: Side | None = None,
    queries: Indices | None = None,
    depth: int = 20,
    random_state: int = 0,
    exclude_self: bool | None = None,
) -> Indices:
    """Draw comparisons of two items that the model ranks high for a query, where order matters.

    At most n rows (query, one item, another item), without repeats, about the rows `queries` of X
    (by default any); items are among the `depth` best. With `exclude_self`, by default where there
    are no separate items, item i is query i.
    """
    rng = np.random.default_rng(random_state)
    pool = np.arange(X.shape[0]) if queries is None else np.unique(queries)
    chosen = rng.permutation(pool)[: max(1, n // 4)]
    Z = X if items is None else items
    depth = min(depth + 1, Z.shape[0])
    found = np.asarray(top_k(model, X[chosen], Z, depth)[0])
    if exclude_self or (exclude_self is None and items is None):
        own = found == chosen[:, None]
        own[~own.any(axis=1), -1] = True
        found = found[~own].reshape(len(chosen), depth - 1)
    if found.shape[1] < 2:
        raise ValueError(f"items must be at least two beside the query, got {found.shape[1]}.")
    which = rng.integers(len(chosen), size=n)
    first = rng.integers(found.shape[1], size=n)
    second = (first + 1 + rng.integers(found.shape[1] - 1, size=n)) % found.shape[1]
    a, b = found[which, np.minimum(first, second)], found[which, np.maximum(first, second)]
    return np.unique(np.column_stack([chosen[which], a, b]), axis=0).astype(np.intp)
