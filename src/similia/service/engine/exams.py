"""Exams: judgements of queries that were kept apart, and how the models do on them.

A judgement is an exam question if its source says so (`Settings.exam_sources`, by default "random",
a question about a random pair) and the hash of its query falls below `Settings.held_out`. Nothing
is learnt from it. If something else was learnt about its query, a decision that a person had to see
obeyed, the query is left out of exams from then on.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from similia.contract import Indices, Searchable
from similia.retrieval import Evaluation
from similia.service.answers import Figures
from similia.service.engine.fold import State
from similia.service.engine.lessons import Lesson, lessons_of
from similia.service.engine.ranking import query_row
from similia.service.log.log import Log
from similia.service.log.records import Grades, Triplet, decoded
from similia.trust.agreement import ACCURACY, triplet_evaluation
from similia.trust.evidence import anytime_comparison
from similia.views import Views

#: triplets of one judgement
MOST = 100
#: level of intervals, and what one query counts for at most: nothing is cut off
LEVEL, CUT = 0.95, 1.0


class Exam(NamedTuple):
    """Triplets (query, better, worse) of queries that were kept apart."""

    queries: Views
    items: Views
    triplets: Indices
    #: name of each triplet's query
    names: NDArray[np.str_]
    n_judgements: int

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len(set(self.names.tolist()))


def exam_of(rows: Sequence[int], state: State, log: Log) -> Exam | None:
    """The exam of these rows of the log; None if there is nothing to judge by."""
    if state.shelf is None or state.layout is None:
        return None
    shelf, exams = state.shelf, set(rows)
    queries: list[NDArray[np.float32]] = []
    triplets: list[tuple[int, int, int]] = []
    names: list[str] = []
    spoilt: dict[str, bool] = {}
    for seq in rows:
        row = log.row(seq)
        if row is None or row.query is None:
            continue
        record, vectors = decoded(row.body)
        if not isinstance(record, Triplet | Grades):
            continue
        if row.query not in spoilt:
            spoilt[row.query] = _spoilt(log, row.query, exams)
        asked = query_row(state, record.query, vectors[0] if vectors else {})
        if spoilt[row.query] or asked is None:
            continue
        found = _triplets(lessons_of(seq, record, b"", shelf.row), len(queries))
        if found:
            queries.append(asked)
            triplets += found
            names += [row.query] * len(found)
    if not triplets:
        return None
    alive = shelf.some(len(shelf.matrix))
    tuples = np.array(triplets, np.intp)
    tuples[:, 1:] = np.searchsorted(alive, tuples[:, 1:])
    sides = state.layout.sides(np.stack(queries), shelf.matrix[alive])
    return Exam(*sides, tuples, np.array(names), len(queries))


def _triplets(lessons: list[Lesson], query: int) -> list[tuple[int, int, int]]:
    return [
        (query, above, below)
        for lesson in lessons
        for above, gain in zip(lesson.rows, lesson.gains, strict=True)
        for below, less in zip(lesson.rows, lesson.gains, strict=True)
        if gain > less
    ][:MOST]


def _spoilt(log: Log, query: str, exams: set[int]) -> bool:
    """Whether anything but exam questions was judged about a query."""
    after = 0
    while found := log.search(after, 1000, query=query):
        for row, retracted in found:
            if row.seq not in exams and not retracted and row.kind != "skip":
                return True
        after = found[-1][0].seq
    return False


def mark(exam: Exam, ranker: Searchable) -> Evaluation:
    """Share of each query's triplets that a ranker puts in the right order."""
    return triplet_evaluation(
        ranker, exam.queries, exam.triplets, items=exam.items, queries=exam.names
    )


def interval(marks: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean over queries, and the ends of its 95 % interval (Student's t), between 0 and 1."""
    mean, n = float(marks.mean()), len(marks)
    half = float(t.ppf(0.975, n - 1) * marks.std(ddof=1) / n**0.5) if n > 1 else 1.0
    return mean, max(0.0, mean - half), min(1.0, mean + half)


def figures(exam: Exam | None, rankers: dict[str, Searchable]) -> Figures:
    """Marks of rankers, of which "base" and "live" are compared."""
    if exam is None:
        note = "There are no judgements of held-out queries yet; ask some random questions."
        return Figures(measure=ACCURACY, note=note)
    marks = {name: mark(exam, ranker) for name, ranker in rankers.items()}
    means = {name: float(found.judged(ACCURACY).mean()) for name, found in marks.items()}
    against = anytime_comparison(marks["live"], marks["base"], ACCURACY, level=LEVEL, most=CUT)
    low, high = against.interval
    return Figures(
        measure=ACCURACY,
        n_queries=exam.n_queries,
        n_judgements=exam.n_judgements,
        means=means,
        difference=float(against.difference),
        interval=(float(low), float(high)),
    )
