"""Exams: judgements of held-out queries, and how models do on them.

A judgement is an exam question if its source says so (`Settings.exam_sources`, by default "random",
a question about a random pair), if the service asked that judge or an administrator uploaded it,
and if its query is held out. Nothing is learnt from it. If something else was learnt about its
query, a decision that a person had to see obeyed, the query is left out of exams from then on.

Exams weigh people, not rows: a judge's answer to a comparison counts once, only so many a day
count, each query of a judge is one unit, and a promotion must hold without the judges who speak
most for it (`without_favourers`). A key that names judges as it likes is one judge.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

from similia.contract import Indices, Searchable
from similia.retrieval import Evaluation
from similia.service.answers import Figures
from similia.service.engine.fold import FrozenState
from similia.service.engine.lessons import Lesson, lessons_of
from similia.service.engine.ranking import query_row
from similia.service.log.log import Log
from similia.service.log.provenance import asking_key
from similia.service.log.records import UPLOADED, Grades, Triplet, decoded, named_items
from similia.trust.agreement import ACCURACY, triplet_evaluation
from similia.trust.evidence import anytime_comparison
from similia.views import Views

#: triplets taken from one judgement
MAX_EXAM_TRIPLETS = 100
#: answers that count for each judge and day (UTC); the unnamed count as one judge
MAX_ANSWERS_A_DAY = 100
#: share of judges left out, those most in favour, and the least number of judges for it
FAVOURERS_ONE_IN, MIN_JUDGES = 10, 3
#: level of intervals; largest difference of a query, which cuts nothing off
LEVEL, CUT = 0.95, 1.0


class HeldOutExam(NamedTuple):
    """Triplets (query, better, worse) of queries that were kept apart."""

    queries: Views
    items: Views
    triplets: Indices
    #: name of each triplet's unit: its query, as one judge sees it
    names: NDArray[np.str_]
    #: key of the query, and judge, by the name of a unit; what administrators uploaded has no judge
    units: dict[str, tuple[str, str | None]]
    n_judgements: int

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return len({query for query, _ in self.units.values()})

    def only(self, names: set[str]) -> "HeldOutExam":
        """The exam on some of its units, at least one."""
        kept = np.isin(self.names, sorted(names))
        units = {name: unit for name, unit in self.units.items() if name in names}
        n = len(np.unique(self.triplets[kept, 0]))
        return self._replace(
            triplets=self.triplets[kept], names=self.names[kept], units=units, n_judgements=n
        )


def exam_of(rows: Sequence[int], state: FrozenState, log: Log) -> HeldOutExam | None:
    """The exam of these rows of the log; None if there is nothing to judge by."""
    if state.snapshot is None or state.layout is None:
        return None
    snapshot, exams = state.snapshot, set(rows)
    queries: list[NDArray[np.float32]] = []
    triplets: list[tuple[int, int, int]] = []
    names: list[str] = []
    units: dict[str, tuple[str, str | None]] = {}
    learnt_from: dict[str, bool] = {}
    days: Counter[tuple[str | None, int]] = Counter()
    answered: set[tuple[str | None, str, tuple[str, ...]]] = set()
    for seq in rows:
        row = log.row(seq)
        if row is None or row.query is None:
            continue
        body = decoded(row.body)
        record = body.record
        if not isinstance(record, Triplet | Grades):
            continue
        judge: str | None = None
        if body.provenance != UPLOADED:
            key = asking_key(record)
            judge = f"key {key}" if key else row.judge or ""
            comparison = (judge, row.query, tuple(sorted(named_items(record))))
            day = (judge, row.moment.toordinal())
            if comparison in answered or days[day] >= MAX_ANSWERS_A_DAY:
                continue
            answered.add(comparison)
            days[day] += 1
        if row.query not in learnt_from:
            learnt_from[row.query] = _has_training_feedback(log, row.query, exams)
        asked = query_row(state, record.query, body.vectors[0] if body.vectors else {})
        if learnt_from[row.query] or asked is None:
            continue
        found = _triplets(lessons_of(seq, record, b"", snapshot.row), len(queries))
        if found:
            name = row.query if not judge else f"{row.query}\0{judge}"
            units[name] = row.query, judge
            queries.append(asked)
            triplets += found
            names += [name] * len(found)
    if not triplets:
        return None
    alive = snapshot.some(len(snapshot.matrix))
    tuples = np.array(triplets, np.intp)
    tuples[:, 1:] = np.searchsorted(alive, tuples[:, 1:])
    asked_views = state.layout.queries(np.stack(queries))
    shown = state.layout.items(snapshot.matrix[alive])
    return HeldOutExam(asked_views, shown, tuples, np.array(names), units, len(queries))


def _triplets(lessons: list[Lesson], query: int) -> list[tuple[int, int, int]]:
    return [
        (query, above, below)
        for lesson in lessons
        for above, gain in zip(lesson.rows, lesson.gains, strict=True)
        for below, less in zip(lesson.rows, lesson.gains, strict=True)
        if gain > less
    ][:MAX_EXAM_TRIPLETS]


def _has_training_feedback(log: Log, query: str, exams: set[int]) -> bool:
    """Whether a query has feedback other than exams."""
    after = 0
    while found := log.search(after, 1000, query=query):
        for row, retracted in found:
            if row.seq not in exams and not retracted and row.kind != "skip":
                return True
        after = found[-1][0].seq
    return False


def mark(exam: HeldOutExam, ranker: Searchable) -> Evaluation:
    """Share of each query's triplets that a ranker puts in the right order."""
    return triplet_evaluation(
        ranker, exam.queries, exam.triplets, items=exam.items, queries=exam.names
    )


def interval(marks: NDArray[np.float64]) -> tuple[float, float, float]:
    """Mean over queries, and the ends of its 95 % interval (Student's t), between 0 and 1."""
    mean, n = float(marks.mean()), len(marks)
    half = float(t.ppf(0.975, n - 1) * marks.std(ddof=1) / n**0.5) if n > 1 else 1.0
    return mean, max(0.0, mean - half), min(1.0, mean + half)


class JudgeVoice(NamedTuple):
    """A judge's verdict: number of queries, and mean difference in favour."""

    judge: str
    queries: int
    difference: float


def voices(exam: HeldOutExam, challenger: Searchable, champion: Searchable) -> list[JudgeVoice]:
    """Each judge's verdict on a challenger, the most favourable first."""
    gains = mark(exam, challenger).judged(ACCURACY) - mark(exam, champion).judged(ACCURACY)
    sums: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for name, gain in zip(np.unique(exam.names).tolist(), gains.tolist(), strict=True):
        judge = exam.units[name][1]
        if judge is not None:
            sums[judge] += gain
            counts[judge] += 1
    order = sorted(counts, key=lambda judge: (-sums[judge], judge))
    return [JudgeVoice(judge, counts[judge], sums[judge] / counts[judge]) for judge in order]


def without_favourers(exam: HeldOutExam, spoken: Sequence[JudgeVoice]) -> HeldOutExam:
    """The exam without the tenth of the judges who favour a challenger most."""
    if len(spoken) < MIN_JUDGES:
        return exam
    left_out = {voice.judge for voice in spoken[: -(-len(spoken) // FAVOURERS_ONE_IN)]}
    return exam.only({name for name, (_, judge) in exam.units.items() if judge not in left_out})


def spoke(spoken: Sequence[JudgeVoice]) -> list[dict[str, Any]]:
    """Judges as plain values, for the history of promotions."""
    return [voice._asdict() for voice in spoken]


def figures(exam: HeldOutExam | None, rankers: dict[str, Searchable]) -> Figures:
    """Marks of rankers, of which "base" and "live" are compared."""
    if exam is None:
        note = (
            "No judged queries yet that nothing was learnt from and whose items differ in grade: "
            "upload some, or answer questions."
        )
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
