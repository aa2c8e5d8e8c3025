"""Share of triplets in the right order, query by query."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from similia.contract import Matrix
from similia.files import Judgements, in_chunks
from similia.retrieval import Evaluation
from similia.trust import triplet_margins
from similia.trust.judging import ACCURACY

#: triplets whose vectors are held at a time
CHUNK = 2**14


def order_evaluations(
    scorers: Mapping[str, Any],
    X: Matrix,
    items: Matrix | None,
    batches: Iterable[Judgements],
) -> dict[str, Evaluation]:
    """Evaluate scorers on a stream of triplets in flat memory, as `triplet_evaluation` does.

    Parameters
    ----------
    scorers : dict from name to scorer
        Learners with vectors, or names of plain similarities.
    X, items : arrays or CSR matrices
        Vectors of queries, and of items if they are separate (else None).
    batches : iterable of Judgements
        Triplets; read once.

    Returns
    -------
    dict from name to Evaluation
        `n_relevant` is the number of triplets per query.
    """
    counts = np.zeros(X.shape[0])
    right = {name: np.zeros(X.shape[0]) for name in scorers}
    for part in in_chunks(iter(batches), CHUNK):
        query = part.tuples[:, 0]
        counts += np.bincount(query, minlength=X.shape[0])
        for name, scorer in scorers.items():
            margins = triplet_margins(scorer, X, part.tuples, items=items)
            marks = np.where(margins == 0, 0.5, margins > 0)
            right[name] += np.bincount(query, weights=marks, minlength=X.shape[0])
    judged = counts > 0
    if not judged.any():
        raise ValueError("feedback must put at least one item above another, got none that does.")
    n, n_items = counts[judged].astype(np.int64), (X if items is None else items).shape[0]
    return {
        name: Evaluation({ACCURACY: marks[judged] / n}, n, n_items) for name, marks in right.items()
    }
