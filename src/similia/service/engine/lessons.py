"""Judgements of the log as lessons: lists of shown items with their gains."""

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from similia.feedback.impressions import TIE_WEIGHT, Impressions
from similia.service.log.records import (
    Clicks,
    Grades,
    Judgement,
    NoneOfThese,
    Pair,
    Tie,
    Triplet,
)

#: opposite items that a judged pair is compared with
OPPOSITES = 4
BETTER_WORSE = (1.0, 0.0)

#: number of an item's row, by its id
RowOfItem = Callable[[str], int | None]


class Lesson(Struct, frozen=True, gc=False):
    """One list: rows of the items shown, their gains and places, and how much it counts."""

    seq: int
    #: the query: the row number of an item, or the bytes of its own row
    query: int | bytes
    rows: Sequence[int]
    gains: Sequence[float]
    #: log positions; clicks only
    positions: list[float] | None
    weight: float
    trusted: bool


def lessons_of(
    seq: int,
    judgement: Judgement,
    query: int | bytes,
    row: RowOfItem,
    pairs: Sequence[tuple[str, bool]] = (),
) -> list[Lesson]:
    """Lists to learn from; none if the items are gone, or nothing was said.

    `pairs` are earlier items of this query and whether each was similar.
    """
    weight, trusted = judgement.weight, judgement.trusted is not False
    if isinstance(judgement, Triplet):  # the most frequent kind
        better, worse = row(judgement.better), row(judgement.worse)
        if better is None or worse is None:
            return []
        return [Lesson(seq, query, (better, worse), BETTER_WORSE, None, weight, trusted)]

    def lesson(
        gains: Sequence[tuple[str, float]],
        *,
        weight: float = weight,
        trusted: bool = trusted,
        positions: Sequence[float] | None = None,
        least: int = 2,
    ) -> list[Lesson]:
        rows = [row(id) for id, _ in gains]
        kept = [i for i, place in enumerate(rows) if place is not None]
        if len(kept) < least:
            return []
        places = None if positions is None else [float(np.log(positions[i])) for i in kept]
        found = [place for place in rows if place is not None]
        values = [gains[i][1] for i in kept]
        return [Lesson(seq, query, found, values, places, weight, trusted)]

    match judgement:
        case Tie(items=(one, other)):
            # half of the weight in each direction, and nothing to obey
            both = [(one, 1.0), (other, 0.0)], [(one, 0.0), (other, 1.0)]
            part = weight * TIE_WEIGHT / 2
            return [found for gains in both for found in lesson(gains, weight=part, trusted=False)]
        case NoneOfThese(shown=shown):
            return lesson([(id, 0.0) for id in shown], least=1)
        case Grades(grades=grades):
            return lesson(list(grades.items()))
        case Clicks(shown=shown, clicked=clicked):
            chosen = set(clicked)
            positions = judgement.positions or range(1, len(shown) + 1)
            return lesson(
                [(id, float(id in chosen)) for id in shown],
                positions=list(positions),
                trusted=judgement.trusted is True,
            )
        case Pair(item=item, similar=similar):
            others = [(id, float(kind)) for id, kind in pairs if kind != similar and id != item]
            if others:
                return lesson([(item, float(similar)), *others[-OPPOSITES:]])
            return [] if similar else lesson([(item, 0.0)], least=1)
        case _:
            return []


def impressions(lessons: Sequence[Lesson]) -> Impressions:
    """Lessons as one batch: list i is about query i, items numbered in order."""
    sizes = [len(lesson.rows) for lesson in lessons]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    nuisance = {}
    if any(lesson.positions is not None for lesson in lessons):
        places = [lesson.positions or [0.0] * len(lesson.rows) for lesson in lessons]
        nuisance["position"] = np.array([place for own in places for place in own])
    return Impressions(
        np.arange(len(lessons)),
        starts,
        np.arange(starts[-1]),
        np.array([gain for lesson in lessons for gain in lesson.gains]),
        nuisance,
        np.array([lesson.weight for lesson in lessons]),
        np.array([lesson.trusted for lesson in lessons]),
    )
