"""Promotion from files: learn from some queries, challenge on the others."""

import copy
from pathlib import Path
from typing import Any

import numpy as np

from similia.files import BadRows, FeedbackFile, VectorFile, joined, kind_of
from similia.stream.judged import grades_in
from similia.stream.learning import learn_stream
from similia.stream.lessons import lessons_for
from similia.trust import Outcome, Promotion


def promote_file(
    promotion: Promotion,
    learner: Any,
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    measure: str | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Outcome:
    """Let a copy of a learner learn from a file, but for the held-out queries, and challenge.

    Parameters
    ----------
    promotion : Promotion
        Whose split by the ids of queries decides what is held out.
    learner : learner
        Of triplets or of pairs; fresh, or fitted on queries that are not held out.
    vectors, items : VectorFile
        Queries, and items if they are others.
    path : path
        Triplets, grades, or pairs for a learner of pairs.
    measure : str, optional
        Such as "ndcg@10", for grades of separate items; otherwise the share of held-out triplets in
        the right order decides.
    unjudged : {"ignore", "worse"}
        For learning from grades: see `triplets_of_grades`.
    bad_rows : BadRows, optional

    Returns
    -------
    Outcome
    """
    bad_rows = bad_rows or BadRows()
    if learner.learns_from == "labels":
        raise ValueError(
            f"learner must be one of triplets or of pairs, got {type(learner).__name__}, a "
            "classifier."
        )
    kind = kind_of(path)
    if measure is not None and (kind != "grades" or items is None):
        raise ValueError(
            "measure must be left out unless feedback is query,item,relevance and items are "
            f"given, got {measure}."
        )
    X, Z = vectors.X, None if items is None else items.X
    names = np.array(vectors.ids.names(np.arange(X.shape[0])))
    out = promotion.split(names)

    def read(kind: str, side: Any, bad_rows: BadRows) -> FeedbackFile:
        return FeedbackFile(
            path,
            kind,
            vectors.ids,
            items and items.ids,
            bad_rows=bad_rows,
            unjudged=unjudged,
            keep=lambda rows: side[rows],
        )

    if learner.learns_from == "pairs":
        parts = list(read("pairs", np.ones(len(out), bool), bad_rows))
        if not parts:
            raise ValueError(f"{path}: feedback must be at least one judgement, got none.")
        whole = joined(parts)
        queries = names[whole.tuples[:, 0]]
        return promotion.run(learner, X, whole.tuples, whole.values, queries=queries)
    challenger = copy.deepcopy(learner)
    lessons = lessons_for(challenger, X, Z)
    file = read(learner.learns_from, ~out, bad_rows)
    challenger, tally = learn_stream(challenger, lessons, file, bad_rows=bad_rows, source=str(path))
    if not tally.n:
        raise ValueError(f"{path}: some query must be left to learn from, got none.")
    # What is bad has been told of above.
    if measure is not None:
        shape = (X.shape[0], Z.shape[0] if Z is not None else 0)
        rows, grades = grades_in(read("grades", out, BadRows("skip")), shape)
        return promotion.challenge_by_relevance(
            challenger, X[rows], Z, grades, measure=measure, n_learnt=tally.n
        )
    parts = [part for part in read("triplets", out, BadRows("skip")) if len(part)]
    triplets = joined(parts).tuples if parts else np.empty((0, 3), np.int64)
    return promotion.challenge(
        challenger, X, triplets, items=Z, queries=names[triplets[:, 0]], n_learnt=tally.n
    )
