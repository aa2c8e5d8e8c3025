"""Quality of similarities on judgements in a file, of whatever kind they are."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.files import BadRows, FeedbackFile, Judgements, VectorFile, classes_in, joined, kind_of
from similia.retrieval import MEASURES, Evaluation, evaluate
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.stream.order import order_evaluations
from similia.trust import pairs_as_triplets

Keep = Callable[[Any], Any]


def evaluate_file(
    scorers: dict[str, Any],
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    k: Sequence[int] = (1, 5, 10),
    bad_rows: BadRows | None = None,
    keep: Keep | None = None,
    verbose: bool = False,
) -> dict[str, Evaluation]:
    """Evaluate scorers on the same judgements.

    What is measured depends on the columns of the file:

    - query,item,relevance: every retrieval measure, over the judged queries and all items;
    - row,label: the same, items of the query's label being relevant, among the labelled rows;
    - query,better,worse: "pairwise_accuracy", the share of triplets in the right order;
    - a,b,label: the same of the triplets that `pairs_as_triplets` makes of pairs with one a. Labels
      other than +1 and -1 are distances: what should be nearer is better.

    Parameters
    ----------
    scorers : dict from name to scorer
        Learners with vectors, or the name of a plain similarity.
    vectors, items : VectorFile
        Queries, and items if they are others.
    path : path
        Judgements.
    k : sequence of int
        Cut-offs of retrieval measures.
    bad_rows : BadRows, optional
    keep : function of an array of rows, optional
        Which queries to take.
    verbose : bool
        Show progress on a terminal.
    """
    kind = kind_of(path)
    X, Z = vectors.X, None if items is None else items.X
    named = {
        name: PLAIN_SCORERS.get(s, s) if isinstance(s, str) else s for name, s in scorers.items()
    }
    classes = classes_in(path, vectors.ids) if kind == "labels" else None
    file = FeedbackFile(
        path,
        kind,
        vectors.ids,
        items and items.ids,
        classes=classes,
        bad_rows=bad_rows,
        keep=keep,
    )
    if kind == "triplets":
        return order_evaluations(named, X, Z, file)
    if kind == "pairs":
        return order_evaluations(named, X, None, _triplets_of_pairs(file))
    options: dict[str, Any] = {"k": k, "measures": MEASURES, "verbose": verbose}
    if kind == "labels":
        rows, labels = _labels(file)
        return {n: evaluate(s, X[rows], labels=labels, **options) for n, s in named.items()}
    shape = (X.shape[0], (X if Z is None else Z).shape[0])
    queries, grades = grades_in(file, shape)
    Q = X[queries]
    if Z is None:  # a query is not found for itself: its own row comes first, in its place
        others = np.setdiff1d(np.arange(shape[1]), queries)
        order = np.concatenate([queries, others])
        Z, grades = X[order], grades[:, order]
    return {
        name: evaluate(s, Q, Z, relevance=grades, exclude_self=items is None, **options)
        for name, s in named.items()
    }


def _triplets_of_pairs(file: FeedbackFile) -> list[Judgements]:
    """Give triplets of pairs with one first point; labels other than +1 and -1 are distances."""
    parts = [part for part in file if len(part)]
    if not parts:
        return []
    pairs = joined(parts)
    values = np.asarray(pairs.values)
    signs = np.isin(values, (-1, 1)).all()
    triplets = pairs_as_triplets(pairs.tuples, values if signs else -values)
    return [Judgements(triplets.astype(np.int64), None, np.zeros(len(triplets), np.int64))]


def _labels(file: FeedbackFile) -> tuple[NDArray[Any], NDArray[Any]]:
    """Give the labelled rows and the label of each: the last one that was given."""
    found: dict[int, int] = {}
    for part in file:
        found.update(zip(part.tuples[:, 0].tolist(), np.asarray(part.values).tolist(), strict=True))
    if not found:
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    return np.array(list(found)), np.array(list(found.values()))


def grades_in(file: FeedbackFile, shape: tuple[int, int]) -> tuple[NDArray[Any], Any]:
    """Give the judged queries and their grades of items: the highest of each."""
    parts = list(file)
    if not sum(map(len, parts)):
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    query, item = np.concatenate([part.tuples for part in parts]).T
    grades = np.concatenate([np.asarray(part.values) for part in parts])
    order = np.lexsort((grades, item, query))
    last = np.ones(len(order), dtype=bool)
    last[:-1] = (np.diff(query[order]) != 0) | (np.diff(item[order]) != 0)
    chosen = order[last]
    queries, places = np.unique(query[chosen], return_inverse=True)
    matrix = sparse.csr_array(
        (grades[chosen], (places, item[chosen])), shape=(len(queries), shape[1])
    )
    return queries, matrix
