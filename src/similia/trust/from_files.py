"""Promotion from files: learn from some queries, challenge on the others."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.feedback import FeedbackFile, Judgements, copy_rows, joined, kind_of
from similia.feedback.feedback_file import GRADED
from similia.files import BadRows, FeedbackLike, Source, VectorFile
from similia.safety.whole import replacing
from similia.stream import learn_stream, lessons_for
from similia.trust.agreement import ACCURACY, NamedJudgements, RankingLearner
from similia.trust.evaluation import highest_grades
from similia.trust.exam import RANKING_MEASURE, Split, queries_first
from similia.trust.outcome import Outcome
from similia.trust.promotion import Promotion


class _Sides:
    """Both sides of a feedback file, read once: one is streamed, the other kept."""

    def __init__(
        self, promotion: Promotion, file: FeedbackFile, *, everything: bool = False
    ) -> None:
        self.file = file
        self.names: Array = np.array(file.ids.names(np.arange(file.ids.n)))
        self._out: NDArray[np.bool_] = (
            np.ones(len(self.names), bool) if everything else promotion.split(self.names)
        )
        self._held: list[Judgements] = []

    def learning(self) -> Iterator[Judgements]:
        """Yield the judgements to learn from, and keep the others."""
        for part in self.file.raw():
            out = self._out[part.tuples[:, 0]]
            self._held.append(part.part(out))
            yield part.part(~out)
        if not self._held:
            raise ValueError(
                f"{self.file.source}: feedback must be at least one judgement, got none."
            )

    def held(self, *, drawn: bool = False) -> NamedJudgements:
        """Held-out judgements, once all is read: clicks and, with `drawn`, grades as triplets."""
        batches = iter(self._held)
        if drawn or self.file.is_clicks:
            batches = self.file.drawn(batches)
        parts = [part for part in batches if len(part)]
        if not parts:
            return NamedJudgements(np.empty((0, 3), np.intp), None, self.names[:0])
        found = joined(parts)
        return NamedJudgements(found.tuples, found.values, self.names[found.tuples[:, 0]])


def promote_file(
    promotion: Promotion,
    learner: RankingLearner,
    vectors: VectorFile,
    path: FeedbackLike,
    *,
    items: VectorFile | None = None,
    learnt: bool = False,
    unseen: bool = False,
    clicks: bool | None = None,
    measure: str | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Outcome:
    """Teach a copy of a learner the queries of a file that are not held out, and challenge.

    What is held out is decided by the ids of queries. The file is read once, so it may be standard
    input. With `learnt`, the learner is a model learnt elsewhere: nothing is learnt, and what is
    held out must be as recorded by `split_file`, since otherwise the model may have seen it; with
    `unseen` too, the caller vouches that it has seen none of these queries, and all of them judge.

    Grades decide by the ranking of all items, by `measure` or nDCG@10, and other judgements by the
    share of triplets in the right order. `clicks` says whether the judgements are mere clicks,
    which never promote; by default grades of 0 and 1 are, if an item has both for one query.
    """
    kind, bad_rows = learner.learns_from, bad_rows or BadRows()
    if kind not in ("triplets", "pairs"):
        raise ValueError(
            "learner must be one of triplets or of pairs, "
            f"got {type(learner).__name__}, a classifier."
        )
    X, Z = vectors.X, None if items is None else items.X
    file = FeedbackFile(
        path,
        kind,
        vectors.ids,
        items and items.ids,
        lists=learner.learns_lists,
        bad_rows=bad_rows,
        unjudged=unjudged,
    )
    sides = _Sides(promotion, file, everything=learnt and unseen)
    if learnt:
        for _ in sides.learning():
            pass
        held = sides.held()
        if not unseen:
            promotion.check_split(held.tuples, held.y, queries=held.queries)
        challenger, n = learner, learner.n_seen_
    else:
        challenger = copy.deepcopy(learner)
        batches = file.drawn(sides.learning(), file.kind)
        lessons = lessons_for(challenger, X, Z)
        _, tally = learn_stream(challenger, lessons, batches, bad_rows=bad_rows, source=file.source)
        taught: Any = challenger
        taught.layout_ = (items or vectors).layout or taught.layout_
        n = tally.n
        if not n:
            raise ValueError(f"{file.source}: some query must be left to learn from, got none.")
    graded = file.layout == GRADED
    if measure is not None and not graded:
        raise ValueError(
            f"measure must be left out unless feedback is query,item,relevance, got {measure}."
        )
    if clicks is None:
        clicks = file.is_clicks or (graded and _like_clicks(sides.held()))
    if not graded or measure == ACCURACY:
        rows, names = sides.held(drawn=True).triplets(challenger)
        options: dict[str, Any] = {"n_learnt": n, "clicks": clicks}
        return promotion.challenge(challenger, X, rows, items=Z, queries=names, **options)
    held = sides.held()
    queries, grades = highest_grades(held.tuples, held.y, (X if Z is None else Z).shape[0])
    same, searched = vectors.are_the_rows_of(items), X if Z is None else Z
    if same:
        searched, grades = queries_first(searched, queries, grades)
    return promotion.challenge_by_relevance(
        challenger,
        X[queries],
        searched,
        grades,
        measure=measure or RANKING_MEASURE,
        queries=sides.names[queries],
        exclude_self=same,
        n_learnt=n,
        clicks=clicks,
    )


def _like_clicks(held: NamedJudgements) -> bool:
    """Whether grades are 0 or 1 and some item has both for one query, as in a log."""
    rows = np.column_stack([held.tuples[:, :2], np.asarray(held.y)])
    n_graded = len(np.unique(rows, axis=0))
    binary = bool(np.isin(rows[:, 2], (0, 1)).all())
    return binary and len(np.unique(rows[:, :2], axis=0)) < n_graded


def _rows(part: Judgements) -> NDArray[np.int64]:
    """Rows of the file that judgements take up: a list takes successive ones."""
    if part.lists is None:
        return part.numbers
    starts = part.lists.starts
    return np.repeat(part.numbers - starts[:-1], np.diff(starts)) + np.arange(starts[-1])


def split_file(
    promotion: Promotion,
    vectors: VectorFile,
    path: FeedbackLike,
    output: Path | str,
    *,
    items: VectorFile | None = None,
    kind: str | None = None,
    bad_rows: BadRows | None = None,
) -> tuple[Split, int]:
    """Record which queries of a file are held out, and write the rest to learn from.

    The output has the rows of `path` that are not held out, unchanged and in the same format; their
    number is returned with the split. Only a .npy matrix needs its `kind` to be named ("triplets",
    by default, "pairs" or "grades"); other files tell by their columns.
    """
    source, output = Source(path), Path(output)
    path = source.path
    if output.suffix != path.suffix:
        raise ValueError(
            f"output must end in {path.suffix}, as the feedback does, got {output.name}."
        )
    kind = kind or kind_of(source)
    if kind == "labels":
        raise ValueError(f"{path}: feedback must be triplets, pairs or grades, got labels.")
    kind = "lists" if kind == "triplets" else kind
    file = FeedbackFile(source, kind, vectors.ids, items and items.ids, bad_rows=bad_rows)
    sides = _Sides(promotion, file)
    numbers = np.concatenate([_rows(part) for part in sides.learning()])
    if file.is_clicks and file.bad_rows.n:
        raise ValueError(f"{path}: a log to split must have no bad rows, got {file.bad_rows.n}.")
    if not len(numbers):
        raise ValueError(f"{path}: some query must be left to learn from, got none.")
    held = sides.held()
    with replacing(output) as temporary:
        copy_rows(path, numbers, temporary)
        split = promotion.record_split(held.tuples, held.y, queries=held.queries)
    return split, len(numbers)
