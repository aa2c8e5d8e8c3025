"""Promotion from files: learn from some queries, challenge on the others."""

import copy
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.durable import replacing
from similia.files import BadRows, FeedbackFile, Judgements, VectorFile, copy_rows, joined, kind_of
from similia.stream.judged import graded
from similia.stream.lessons import learn_stream, lessons_for
from similia.trust import Outcome, Promotion, Split
from similia.trust.judging import Judged, RankingLearner


class _Sides:
    """The two sides of a feedback file, read once: one streams by, the other is kept."""

    def __init__(self, promotion: Promotion, file: FeedbackFile) -> None:
        self.file = file
        self.names: Array = np.array(file.ids.names(np.arange(file.ids.n)))
        self._out: NDArray[np.bool_] = promotion.split(self.names)
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

    def held(self, *, drawn: bool = False) -> Judged:
        """Held-out judgements, once all is read; with `drawn`, grades as triplets."""
        batches = iter(self._held)
        parts = [part for part in (self.file.drawn(batches) if drawn else batches) if len(part)]
        if not parts:
            return Judged(np.empty((0, 3), np.intp), None, self.names[:0])
        found = joined(parts)
        return Judged(found.tuples, found.values, self.names[found.tuples[:, 0]])


def promote_file(
    promotion: Promotion,
    learner: RankingLearner,
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    learnt: bool = False,
    measure: str | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Outcome:
    """Teach a copy of a learner the queries of a file that are not held out, and challenge.

    What is held out is decided by the ids of queries. The file is read once, so it may be standard
    input. With `learnt`, the learner is a model learnt elsewhere: nothing is learnt, and what is
    held out must be as recorded by `split_file`, since otherwise the model may have seen it.
    `measure`, such as "ndcg@10", is for grades of separate items; by default the share of held-out
    triplets in the right order decides.
    """
    kind, bad_rows = learner.learns_from, bad_rows or BadRows()
    if kind not in ("triplets", "pairs"):
        raise ValueError(
            "learner must be one of triplets or of pairs, "
            f"got {type(learner).__name__}, a classifier."
        )
    if measure is not None and (kind == "pairs" or items is None):
        raise ValueError(
            "measure must be left out unless feedback is query,item,relevance and items are "
            f"given, got {measure}."
        )
    X, Z = vectors.X, None if items is None else items.X
    ids, read = (vectors.ids, items and items.ids), kind if measure is None else "grades"
    file = FeedbackFile(path, read, *ids, bad_rows=bad_rows, unjudged=unjudged)
    sides = _Sides(promotion, file)
    if learnt:
        for _ in sides.learning():
            pass
        held = sides.held()
        promotion.check_split(held.tuples, held.y, queries=held.queries)
        challenger, n = learner, learner.n_seen_
    else:
        challenger = copy.deepcopy(learner)
        lessons, batches = lessons_for(challenger, X, Z), file.drawn(sides.learning())
        _, tally = learn_stream(challenger, lessons, batches, bad_rows=bad_rows, source=file.source)
        n = tally.n
        if not n:
            raise ValueError(f"{path}: some query must be left to learn from, got none.")
    if measure is None or Z is None:
        rows, names = sides.held(drawn=True).triplets(challenger)
        return promotion.challenge(challenger, X, rows, items=Z, queries=names, n_learnt=n)
    held = sides.held()
    queries, grades = graded(held.tuples, held.y, Z.shape[0])
    return promotion.challenge_by_relevance(
        challenger, X[queries], Z, grades, measure=measure, n_learnt=n
    )


def split_file(
    promotion: Promotion,
    vectors: VectorFile,
    path: Path | str,
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
    path, output = Path(path), Path(output)
    if output.suffix != path.suffix:
        raise ValueError(
            f"output must end in {path.suffix}, as the feedback does, got {output.name}."
        )
    kind = kind or kind_of(path)
    if kind == "labels":
        raise ValueError(f"{path}: feedback must be triplets, pairs or grades, got labels.")
    file = FeedbackFile(path, kind, vectors.ids, items and items.ids, bad_rows=bad_rows)
    sides = _Sides(promotion, file)
    numbers = np.concatenate([part.numbers for part in sides.learning()])
    if not len(numbers):
        raise ValueError(f"{path}: some query must be left to learn from, got none.")
    held = sides.held()
    with replacing(output) as temporary:
        copy_rows(path, numbers, temporary)
        split = promotion.record_split(held.tuples, held.y, queries=held.queries)
    return split, len(numbers)
