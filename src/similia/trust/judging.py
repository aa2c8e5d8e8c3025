"""How well a similarity agrees with judgements, query by query, whatever the similarity is."""

from typing import Any

import numpy as np

from similia.contract import Array
from similia.linalg.blocks import dense, row_blocks
from similia.retrieval import Evaluation
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.retrieval.vectors import squared_lengths
from similia.sampling.classes import Indices
from similia.validation import check_tuples

#: the name of the measure of triplets: share of them in the right order, ties counting half
ACCURACY = "pairwise_accuracy"
#: judgements whose vectors are held at once
BLOCK = 1024


def scorer_of(owner: str, scorer: Any) -> Any:
    """Give the scorer, or the plain one of that name, if it ranks."""
    if isinstance(scorer, str):
        if scorer not in PLAIN_SCORERS:
            names = ", ".join(repr(name) for name in PLAIN_SCORERS)
            raise ValueError(f"{owner}: scorer must be one of {names}, got {scorer!r}.")
        return PLAIN_SCORERS[scorer]
    if not all(hasattr(scorer, name) for name in ("query_vectors", "item_vectors", "geometry")):
        raise ValueError(
            f"{owner}: scorer must rank items, by query_vectors, item_vectors and geometry, "
            f"got {type(scorer).__name__}."
        )
    return scorer


def triplet_margins(scorer: Any, X: Any, triplets: Any, *, items: Any = None) -> Array:
    """Give score(query, better) - score(query, worse) for each triplet.

    Parameters
    ----------
    scorer : learner or str
        Something with ``query_vectors``, ``item_vectors`` and ``geometry``, or the name of a plain
        similarity: "cosine", "inner_product" or "euclidean".
    X : array or CSR matrix of shape (n_queries, n_features)
        Queries; also the items, unless `items` is given.
    triplets : integer array of shape (n_triplets, 3)
        Rows (query, better, worse).
    items : array or CSR matrix of shape (n_items, n_item_features), optional

    Returns
    -------
    margins : array of shape (n_triplets,)
        Positive where the order is right.
    """
    scorer = scorer_of("triplet_margins", scorer)
    Z = X if items is None else items
    sizes = (X.shape[0], Z.shape[0], Z.shape[0])
    triplets = check_tuples("triplet_margins", "triplets", triplets, sizes)
    # Each row is mapped once: for a metric, a map costs a factorization.
    queries, q_place = np.unique(triplets[:, 0], return_inverse=True)
    used, place = np.unique(triplets[:, 1:], return_inverse=True)
    if len(triplets) == 0:
        return np.zeros(0)
    Q, V = dense(scorer.query_vectors(X[queries])), dense(scorer.item_vectors(Z[used]))
    place = place.reshape(-1, 2)
    margins = np.empty(len(triplets))
    for block in row_blocks(len(triplets), BLOCK):
        q, better, worse = Q[q_place[block]], V[place[block, 0]], V[place[block, 1]]
        if scorer.geometry == "inner_product":
            margins[block] = np.vecdot(q, better - worse)
        else:
            margins[block] = squared_lengths(q - worse) - squared_lengths(q - better)
    return margins


def triplet_evaluation(
    scorer: Any, X: Any, triplets: Any, *, items: Any = None, queries: Any = None
) -> Evaluation:
    """Measure for each query the share of its triplets that a scorer puts in the right order.

    Parameters
    ----------
    scorer : learner or str
        As in `triplet_margins`.
    X : array or CSR matrix of shape (n_queries, n_features)
    triplets : integer array of shape (n_triplets, 3)
    items : array or CSR matrix of shape (n_items, n_item_features), optional
    queries : array of shape (n_triplets,), optional
        Names of the queries, where several rows of X are one query; the rows themselves if None.

    Returns
    -------
    Evaluation
        Of the measure "pairwise_accuracy", for the queries that have triplets; ties count half.
    """
    margins = triplet_margins(scorer, X, triplets, items=items)
    if len(margins) == 0:
        raise ValueError("triplet_evaluation: triplets must be at least one, got none.")
    names = np.asarray(triplets)[:, 0] if queries is None else np.asarray(queries)
    _, group, counts = np.unique(names, return_inverse=True, return_counts=True)
    right = np.bincount(group, weights=np.where(margins == 0, 0.5, margins > 0))
    n_items = (X if items is None else items).shape[0]
    return Evaluation({ACCURACY: right / counts}, counts, n_items)


def pairs_as_triplets(pairs: Any, closeness: Any, most: int = 100) -> Indices:
    """Give triplets (first, closer, farther) of pairs that share their first point.

    Parameters
    ----------
    pairs : integer array of shape (n_pairs, 2)
    closeness : array of shape (n_pairs,)
        Larger is closer: signs, or negated distances.
    most : int
        At most so many triplets for each first point, spread evenly over all there are.

    Returns
    -------
    triplets : array of shape (n_triplets, 3)
        None of a point whose pairs are all equally close.
    """
    pairs, closeness = np.asarray(pairs), np.asarray(closeness, dtype=float)
    order = np.argsort(pairs[:, 0], kind="stable")
    starts = np.flatnonzero(np.diff(pairs[order, 0], prepend=-1))
    found = [np.empty((0, 3), np.intp)]
    for rows in np.split(order, starts[1:]):
        closer, farther = np.nonzero(closeness[rows][:, None] > closeness[rows])
        if len(closer) > most:
            kept = np.linspace(0, len(closer) - 1, most).astype(np.intp)
            closer, farther = closer[kept], farther[kept]
        first = np.full(len(closer), pairs[rows[0], 0])
        found.append(np.column_stack([first, pairs[rows[closer], 1], pairs[rows[farther], 1]]))
    return np.concatenate(found).astype(np.intp)
