"""Whether items are in the right order: the share of right triplets, query by query."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.files import Judgements, in_chunks
from similia.retrieval import Evaluation

#: triplets whose vectors are held at a time
CHUNK = 2048

RowScores = Callable[[Any, Any], NDArray[Any]]


def order_evaluations(
    scorers: dict[str, Any], X: Any, items: Any, batches: Iterable[Judgements]
) -> dict[str, Evaluation]:
    """Give for each scorer the share of triplets in the right order, for each query.

    Parameters
    ----------
    scorers : dict from name to scorer
        With ``query_vectors``, ``item_vectors`` and ``geometry``.
    X, items : arrays or CSR matrices
        Vectors of queries, and of items if they are others (None otherwise).
    batches : iterable of Judgements
        Triplets; read once, in flat memory.

    Returns
    -------
    dict from name to Evaluation
        Of the measure "order"; `n_relevant` is the number of triplets of a query. A tie is half
        right.
    """
    Z = X if items is None else items
    counts = np.zeros(X.shape[0])
    right = {name: np.zeros(X.shape[0]) for name in scorers}
    for part in in_chunks(iter(batches), CHUNK):
        query, better, worse = part.tuples.T
        counts += np.bincount(query, minlength=X.shape[0])
        for name, scorer in scorers.items():
            score = _row_scores(scorer, X, Z, query)
            gaps = score(better) - score(worse)
            marks = (gaps > 0) + (gaps == 0) / 2
            right[name] += np.bincount(query, weights=marks, minlength=X.shape[0])
    judged = counts > 0
    if not judged.any():
        raise ValueError("feedback must put at least one item above another, got none that does.")
    n = counts[judged].astype(np.int64)
    return {
        name: Evaluation({"order": marks[judged] / n}, n, Z.shape[0])
        for name, marks in right.items()
    }


def _row_scores(scorer: Any, X: Any, Z: Any, query: NDArray[Any]) -> Callable[[Any], NDArray[Any]]:
    """Give the function from items, one for each query, to their scores."""
    rows, places = np.unique(query, return_inverse=True)
    Q = _dense(scorer.query_vectors(X[rows]))[places]

    def score(item: NDArray[Any]) -> NDArray[Any]:
        chosen, where = np.unique(item, return_inverse=True)
        P = _dense(scorer.item_vectors(Z[chosen]))[where]
        if scorer.geometry == "l2":
            return -((Q - P) ** 2).sum(axis=1)
        return np.einsum("ij,ij->i", Q, P)

    return score


def _dense(X: Any) -> NDArray[Any]:
    return X.toarray() if sparse.issparse(X) else np.asarray(X)
