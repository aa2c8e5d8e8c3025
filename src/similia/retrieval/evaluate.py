"""Ranking quality of any scorer, in blocks of bounded memory."""

from collections.abc import Sequence
from functools import partial
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Matrix, Side
from similia.linalg.threads import single_blas_thread
from similia.progress import progress
from similia.retrieval import measures as m
from similia.retrieval.evaluation import Evaluation
from similia.retrieval.names import measure_named, with_cut_offs
from similia.retrieval.passing import blocks_to_measure, measured_in_passing
from similia.retrieval.relevance import checked_grades, checked_labels
from similia.retrieval.scorers import BLOCK_BYTES, AnyScorer, scores_of
from similia.safety.turns import of_one_state
from similia.validation import boolean, check_parameters, none, one_of, positive_integer

EVALUATE_RULES = {
    "exclude_self": boolean | none,
    "gain": one_of("linear", "exponential"),
    "block_bytes": positive_integer,
    "verbose": boolean,
}


@of_one_state
def evaluate(
    scorer: AnyScorer,
    Q: ArrayLike | Side,
    Z: ArrayLike | Side | None = None,
    *,
    labels: ArrayLike | None = None,
    relevance: ArrayLike | Matrix | None = None,
    k: int | Sequence[int] = (1, 5, 10),
    measures: Sequence[str] = m.MEASURES,
    exclude_self: bool | None = None,
    gain: Literal["linear", "exponential"] = "linear",
    block_bytes: int = BLOCK_BYTES,
    verbose: bool = False,
    part: tuple[int, int] = (0, 1),
) -> Evaluation:
    """Measure how well a scorer ranks the relevant items of each query above the others.

    Items are ranked by decreasing score, and by index among equal scores. Every measure is a
    function of the ranks of the relevant items (see `similia.retrieval.measures`), which take one
    pass over the scores of a query. Memory is one block of scores, one copy of the item vectors and
    the values per query; the full matrix of scores is never formed.

    Parameters
    ----------
    scorer : learner, function or str
        An object with ``query_vectors``, ``item_vectors`` and ``geometry``, or else with
        ``pairwise_score(Q, Z)``; a function ``(Q, Z) -> scores`` of shape (n_queries, n_items),
        where larger is closer; or "cosine", "inner_product" or "euclidean".
    Q : array or sparse matrix of shape (n_queries, n_features), or Views
        Queries.
    Z : array or sparse matrix of shape (n_items, n_features), or Views, optional
        Items. Without it, each query is ranked against all of Q but itself.
    labels : array, or pair of arrays
        Class of each row of Q, or (y_queries, y_items) if Z is given: items of the query's class
        are relevant. Pass either this or `relevance`.
    relevance : array or sparse matrix of shape (n_queries, n_items)
        Grades of at least 0; a positive grade is relevant.
    k : int or sequence of int
        Cut-offs of precision, recall and nDCG. They may exceed the number of items: precision@k
        still divides by k.
    measures : sequence of str
        Some of "precision", "recall", "ndcg" (each at every k), "map", "mrr", "r_precision"; also
        with a cut-off of their own, and by the names of ir-measures: "nDCG@10", "P@5", "R@100",
        "AP", "RR@10", "Rprec". The results have the former names.
    exclude_self : bool, optional
        Whether item i is query i and so not ranked; by default only if Z is None. There may be more
        items than queries: the items after the last query are ranked for every query.
    gain : {"linear", "exponential"}
        Gain of a grade in nDCG: the grade, or 2^grade - 1, which stresses high grades.
    block_bytes : int
        Memory for scores; at least one query's scores are held at a time.
    verbose : bool
        Whether to show progress on a terminal.
    part : (int, int)
        (i, k): measure only the i-th of k parts of the queries, from 0, and leave the others as if
        nothing were relevant to them. `Evaluation.joined` puts all k together; the result is the
        same as without parts, to the last bit.

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
    check_parameters("evaluate", EVALUATE_RULES, {"exclude_self": exclude_self, **given})
    if not 0 <= part[0] < part[1]:
        raise ValueError(f"evaluate: part must be (i, k) with 0 ≤ i < k, got {part}.")
    columns = _columns(k, measures)
    if (labels is None) == (relevance is None):
        got = "neither" if labels is None else "both"
        raise ValueError(f"evaluate: one of labels and relevance must be given, got {got}.")
    excluded = Z is None if exclude_self is None else exclude_self
    with single_blas_thread():  # parts may be measured elsewhere, and must round the same
        scores = scores_of("evaluate", scorer, Q, Z, excluded)
    n, shape = len(scores.own), (len(scores.own), scores.n_items)
    relevant = (
        checked_labels(labels, shape, pair=Z is not None)
        if labels is not None
        else checked_grades(relevance, shape, gain)
    )
    codes = np.array(list(columns.values()))
    values, n_relevant = np.full((n, len(codes)), np.nan), np.zeros(n, np.int64)
    wanted = m.Wanted(relevant, scores.own, codes, values, n_relevant)
    tiled, others = blocks_to_measure(scores, wanted, block_bytes)
    with progress("evaluate", n, enabled=verbose) as advance:
        for number, queries in enumerate([*tiled, *others]):
            if number % part[1] != part[0]:
                continue
            left = measured_in_passing(scores, wanted, queries) if number < len(tiled) else queries
            for some, block in scores.blocks(block_bytes, left):
                scores.share_out(partial(m.fill_values, wanted), block, some)
            advance(len(queries))
    if not n_relevant.any() and part == (0, 1):
        raise ValueError(f"evaluate: at least one of the {n} queries must have a relevant item.")
    per_query = {name: values[:, column].copy() for column, name in enumerate(columns)}
    return Evaluation(per_query, n_relevant, scores.n_items)


def _columns(k: int | Sequence[int], measures: str | Sequence[str]) -> dict[str, tuple[int, int]]:
    """Name of each value per query, with the place of its measure and its cut-off (0 for none)."""
    cuts: list[int] = [k] if np.ndim(k) == 0 else list(k)  # type: ignore[list-item, arg-type]
    names = [measures] if isinstance(measures, str) else list(measures)
    for cut in cuts:
        check_parameters("evaluate", {"k": positive_integer}, {"k": cut})
    found = [measure_named("evaluate", name) for name in names]
    if not names or not cuts:
        empty = "k" if names else "measures"
        raise ValueError(f"evaluate: {empty} must not be empty.")
    wanted = [one for measure in found for one in with_cut_offs(measure, cuts)]
    return {measure.name: measure.code for measure in wanted}
