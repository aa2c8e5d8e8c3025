"""Promotion from files: learn from some queries, challenge on the others."""

import copy
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.durable import replacing
from similia.files import BadRows, FeedbackFile, Judgements, VectorFile, copy_rows, kind_of
from similia.files.judgements import joined
from similia.stream.judged import graded
from similia.stream.lessons import lessons_for
from similia.stream.progressive import learn_stream
from similia.trust import Outcome, Promotion, Split
from similia.trust.judging import Judged, RankingLearner

NO_TRIPLETS = np.empty((0, 3), np.int64)


class SplitFile(NamedTuple):
    """A recorded split, and the file of judgements that it leaves to learn from."""

    split: Split
    output: Path
    n_learning: int


class _Sides:
    """Judgements of a file on the two sides of a promotion's split; see `promote_file`."""

    def __init__(
        self,
        promotion: Promotion,
        learner: RankingLearner,
        vectors: VectorFile,
        path: Path | str,
        items: VectorFile | None,
        measure: str | None,
        unjudged: str,
        bad_rows: BadRows | None,
    ) -> None:
        if learner.learns_from not in ("triplets", "pairs"):
            raise ValueError(
                "learner must be one of triplets or of pairs, "
                f"got {type(learner).__name__}, a classifier."
            )
        self.promotion = promotion
        self.X, self.Z = vectors.X, None if items is None else items.X
        self.names, self.out = _names_and_mask(promotion, vectors)
        self.measure = measure
        self.file = FeedbackFile(
            path,
            learner.learns_from,
            vectors.ids,
            items and items.ids,
            bad_rows=bad_rows,
            unjudged=unjudged,
        )
        self._held: list[Judgements] = []

    def learning(self) -> Iterator[Judgements]:
        """Yield what may be learnt from, and keep what is held out."""
        n = 0
        for part in self.file.raw():
            if self.measure is not None and ("relevance" not in self.columns or self.Z is None):
                raise ValueError(
                    "measure must be left out unless feedback is query,item,relevance and items "
                    f"are given, got {self.measure}."
                )
            out = self.out[part.tuples[:, 0]]
            self._held.append(part.part(out))
            n += len(part)
            yield part.part(~out)
        if not n:
            raise ValueError(
                f"{self.file.source}: feedback must be at least one judgement, got none."
            )

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns, once reading has begun."""
        return self.file.layout or ()

    @property
    def held(self) -> Judgements:
        """What is held out, once all is read."""
        return joined(self._held)

    def challenge(self, model: RankingLearner, n_learnt: int) -> Outcome:
        """Challenge with a model on what is held out."""
        held = self.held
        if self.measure is not None and self.Z is not None and len(held):
            rows, grades = graded(held, self.Z.shape[0])
            return self.promotion.challenge_by_relevance(
                model, self.X[rows], self.Z, grades, measure=self.measure, n_learnt=n_learnt
            )
        if "relevance" in self.columns:
            parts = [part.tuples for part in self.file.drawn(iter([held]))]
            held = Judgements(np.concatenate([NO_TRIPLETS, *parts]), None, NO_TRIPLETS[:, 0])
        given = Judged(held.tuples, held.values, self.names[held.tuples[:, 0]])
        triplets, names = given.triplets(model)
        return self.promotion.challenge(
            model, self.X, triplets, items=self.Z, queries=names, n_learnt=n_learnt
        )


def promote_file(
    promotion: Promotion,
    learner: RankingLearner,
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    measure: str | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Outcome:
    """Teach a copy of a learner the queries of a file that are not held out, and challenge.

    Parameters
    ----------
    promotion : Promotion
        Decides by the ids of queries what is held out.
    learner : learner
        Of triplets or of pairs; fresh, or fitted on queries that are not held out.
    vectors, items : VectorFile
        Queries, and items if they are separate vectors.
    path : path
        Triplets, grades, or pairs for a learner of pairs. It is read once, so ``-``, standard
        input, will do.
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
    sides = _Sides(promotion, learner, vectors, path, items, measure, unjudged, bad_rows)
    challenger = copy.deepcopy(learner)
    lessons = lessons_for(challenger, sides.X, sides.Z)
    challenger, tally = learn_stream(
        challenger,
        lessons,
        sides.file.drawn(sides.learning()),
        bad_rows=bad_rows,
        source=sides.file.source,
    )
    if not tally.n:
        raise ValueError(f"{path}: some query must be left to learn from, got none.")
    return sides.challenge(challenger, tally.n)


def judge_file(
    promotion: Promotion,
    model: RankingLearner,
    vectors: VectorFile,
    path: Path | str,
    *,
    items: VectorFile | None = None,
    measure: str | None = None,
    unjudged: str = "ignore",
    bad_rows: BadRows | None = None,
) -> Outcome:
    """Challenge with a model learnt elsewhere on what the recorded split of a file holds out.

    Raises ValueError where the model may have learnt from it: if no split is recorded, or the
    held-out judgements are not the recorded ones (`split_file`).

    Parameters
    ----------
    promotion : Promotion
    model : fitted learner
        Learnt from the judgements that the split leaves, and no others.
    vectors, path, items, measure, unjudged, bad_rows
        As in `promote_file`.

    Returns
    -------
    Outcome
    """
    sides = _Sides(promotion, model, vectors, path, items, measure, unjudged, bad_rows)
    for _ in sides.learning():
        pass
    held = sides.held
    promotion.check_split(held.tuples, held.values, queries=sides.names[held.tuples[:, 0]])
    return sides.challenge(model, model.n_seen_)


def split_file(
    promotion: Promotion,
    vectors: VectorFile,
    path: Path | str,
    output: Path | str,
    *,
    items: VectorFile | None = None,
    kind: str | None = None,
    bad_rows: BadRows | None = None,
) -> SplitFile:
    """Record which queries of a file are held out, and write the rest to learn from.

    Parameters
    ----------
    promotion : Promotion
        Decides by the ids of queries what is held out, and records it.
    vectors, items : VectorFile
    path : path
        Triplets, grades or pairs.
    output : path
        Rows of `path` that are not held out, unchanged and in the same format.
    kind : {"triplets", "pairs"}, optional
        Kind of judgement in a .npy matrix, triplets by default; other files tell by their columns.
    bad_rows : BadRows, optional

    Returns
    -------
    SplitFile
    """
    path, output = Path(path), Path(output)
    if output.suffix != path.suffix:
        raise ValueError(
            f"output must end in {path.suffix}, as the feedback does, got {output.name}."
        )
    kind = kind or kind_of(path)
    if kind == "labels":
        raise ValueError(f"{path}: feedback must be triplets, pairs or grades, got labels.")
    names, out = _names_and_mask(promotion, vectors)
    held, numbers = [], [np.empty(0, np.int64)]
    for part in FeedbackFile(path, kind, vectors.ids, items and items.ids, bad_rows=bad_rows).raw():
        mask = out[part.tuples[:, 0]]
        held.append(part.part(mask))
        numbers.append(part.numbers[~mask])
    learning = np.concatenate(numbers)
    if not len(learning):
        raise ValueError(f"{path}: some query must be left to learn from, got none.")
    kept = joined(held)
    with replacing(output) as temporary:
        copy_rows(path, learning, temporary)
        queries = names[kept.tuples[:, 0]]
        split = promotion.record_split(kept.tuples, kept.values, queries=queries)
    return SplitFile(split, output, len(learning))


def _names_and_mask(promotion: Promotion, vectors: VectorFile) -> tuple[Array, NDArray[np.bool_]]:
    """Name of each query vector, and whether it is held out."""
    names = np.array(vectors.ids.names(np.arange(vectors.X.shape[0])))
    return names, promotion.split(names)
