"""Ranking quality of any scorer, in blocks of bounded memory."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.progress import progress
from similia.retrieval import measures as m
from similia.retrieval.evaluation import Evaluation
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.passing import Wanted, measured_in_passing
from similia.retrieval.relevance import Relevance, checked_grades, checked_labels
from similia.retrieval.scorers import (
    BLOCK_BYTES,
    own_items,
    refuse_scores,
    rows_of,
    scores_of,
)
from similia.retrieval.threads import over_rows
from similia.validation import boolean, check_parameters, none, one_of, positive_integer

_RULES = {
    "exclude_self": boolean | none,
    "gain": one_of("linear", "exponential"),
    "block_bytes": positive_integer,
    "verbose": boolean,
}


def evaluate(
    scorer: Any,
    Q: Any,
    Z: Any = None,
    *,
    labels: Any = None,
    relevance: Any = None,
    k: int | Sequence[int] = (1, 5, 10),
    measures: Sequence[str] = m.MEASURES,
    exclude_self: bool | None = None,
    gain: str = "linear",
    block_bytes: int = BLOCK_BYTES,
    verbose: bool = False,
) -> Evaluation:
    """Measure how well a scorer ranks the relevant items of each query before the others.

    Items are ranked by decreasing score, and by index among equal scores. Every measure is a
    function of the ranks of the relevant items (see `similia.retrieval.measures`), which one pass
    over the scores of a query gives. Memory is a block of scores, one copy of the item vectors and
    the values per query; the full matrix of scores is never formed.

    Parameters
    ----------
    scorer : learner, function or str
        Something with ``query_vectors``, ``item_vectors`` and ``geometry``, or else with
        ``pairwise_score(Q, Z)``, or a function ``(Q, Z) -> scores`` of shape (n_queries, n_items),
        larger being closer; or "cosine", "inner_product" or "euclidean".
    Q : array or sparse matrix of shape (n_queries, n_features)
        Queries.
    Z : array or sparse matrix of shape (n_items, n_features), optional
        Items. Without it, each query is ranked against all of Q but itself.
    labels : array, or pair of arrays
        Class of each row of Q, or (y_queries, y_items) if Z is given: items of the query's class
        are relevant. Give either this or `relevance`.
    relevance : array or sparse matrix of shape (n_queries, n_items)
        Grades of at least 0; a positive grade is relevant.
    k : int or sequence of int
        Cut-offs of precision, recall and nDCG. One that exceeds the number of items is allowed:
        precision@k still divides by k.
    measures : sequence of str
        Some of "precision", "recall", "ndcg" (each at every k), "map", "mrr", "r_precision".
    exclude_self : bool, optional
        Whether item i is query i and so not ranked; by default only if Z is None. Items may
        outnumber queries: those after the last query are nobody's self.
    gain : {"linear", "exponential"}
        Gain of a grade in nDCG: the grade, or 2^grade - 1, which stresses high grades.
    block_bytes : int
        Memory for scores; at least one query's scores are held at a time.
    verbose : bool
        Whether to show progress on a terminal.

    Returns
    -------
    Evaluation
        Values per query, their means and intervals.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.8, 0.9]])
    >>> result = evaluate("cosine", X, labels=[0, 0, 1, 1], k=1)
    >>> result.means["precision@1"], result.per_query["mrr"]
    (1.0, array([1., 1., 1., 1.]))
    """
    given = {"gain": gain, "block_bytes": block_bytes, "verbose": verbose}
    check_parameters("evaluate", _RULES, {"exclude_self": exclude_self, **given})
    columns = _columns(k, measures)
    Q = rows_of("evaluate", "Q", Q)
    items = Q if Z is None else rows_of("evaluate", "Z", Z)
    shape = (Q.shape[0], items.shape[0])
    relevant = _relevance(labels, relevance, shape, Z is not None, gain)
    own = own_items("evaluate", shape, Z is None if exclude_self is None else exclude_self)
    codes = np.array([(m.MEASURES.index(name), cut) for name, cut in columns.values()])
    wanted = Wanted.of(relevant, own, codes)
    values, n_relevant = wanted.values, wanted.n_relevant
    scores = scores_of("evaluate", scorer, Q, items)
    with progress("evaluate", shape[0], enabled=verbose) as advance:
        left = measured_in_passing(scores, wanted, block_bytes, advance)
        for start, block in scores.blocks(block_bytes, left):
            _measure_block(block, left[start : start + len(block)], wanted)
            advance(len(block))
    if not n_relevant.any():
        raise ValueError(
            f"evaluate: at least one query must have a relevant item, got none of {shape[0]}."
        )
    per_query = {name: values[:, column].copy() for column, name in enumerate(columns)}
    return Evaluation(per_query, n_relevant, shape[1])


def _columns(k: Any, names: Any) -> dict[str, tuple[str, int]]:
    """Give the name of each value per query, with its measure and cut-off (0 for none)."""
    cuts = [k] if np.ndim(k) == 0 else list(k)
    names = [names] if isinstance(names, str) else list(names)
    for cut in cuts:
        check_parameters("evaluate", {"k": positive_integer}, {"k": cut})
    for name in names:
        check_parameters("evaluate", {"measures": one_of(*m.MEASURES)}, {"measures": name})
    if not names or not cuts:
        empty = "k" if names else "measures"
        raise ValueError(f"evaluate: {empty} must be at least one, got none.")
    columns: dict[str, tuple[str, int]] = {}
    for name in names:
        if name in m.AT_K:
            columns.update({f"{name}@{cut}": (name, int(cut)) for cut in cuts})
        else:
            columns[name] = (name, 0)
    return columns


def _relevance(
    labels: Any, grades: Any, shape: tuple[int, int], has_items: bool, gain: str
) -> Relevance:
    if (labels is None) == (grades is None):
        got = "neither" if labels is None else "both"
        raise ValueError(f"evaluate: one of labels and relevance must be given, got {got}.")
    if labels is not None:
        return checked_labels("evaluate", labels, *shape, pair=has_items)
    return checked_grades("evaluate", grades, shape, gain)


def _measure_block(scores: Floats, queries: Integers, wanted: Wanted) -> None:
    """Set the values of the queries whose scores these are, on all cores."""

    def share(a: int, b: int) -> int:
        bad = m.fill_values(
            wanted.values,
            wanted.n_relevant,
            scores[a:b],
            queries[a:b],
            wanted.relevant,
            wanted.own,
            wanted.codes,
        )
        return a + bad if bad >= 0 else -1

    for place in over_rows(share, len(scores)):
        if place >= 0:
            refuse_scores("evaluate", scores[place], queries[place])
