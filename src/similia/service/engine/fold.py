"""From rows to states: state(n) is a function of rows 1 to n and of nothing else.

Judgements that can be learnt form a stream, in the order of the log and without those that were
retracted. The learner takes it in blocks of `LISTS_PER_BLOCK` lists; the rest, fewer than a block,
is learnt as one more block by a copy (before the first full block, by a new learner). So a state
depends on the log alone, not on when rows arrived, were committed together or were ranked by, and
live learning and replay cannot differ by a bit.

The copy is what ranks: nobody changes it, so searches never wait for learning.

A tenant that shares items learns from them as of the rows of their owner's log that its own log
names, so its state is a function of both logs up to there.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.service.catalogue.items import Items, ItemSnapshot, Layout, fed
from similia.service.catalogue.shared import SharedItems, SharedSource
from similia.service.engine.lessons import Lesson, impressions, lessons_of
from similia.service.errors import Damaged, ServiceError
from similia.service.log.provenance import is_held_out
from similia.service.log.records import (
    EXAM,
    JUDGEMENTS,
    UPLOADED,
    Configured,
    Follow,
    JudgedBody,
    Judgement,
    Pair,
    Retraction,
    SetAside,
    TenantSettings,
    decoded,
    encoded,
)
from similia.service.log.rows import Entry, LearnerRow, Row
from similia.similarity.blend import Blend

#: lists in a block; states depend on it
LISTS_PER_BLOCK = 128
#: full blocks learnt in one call
BLOCKS_TOGETHER = 16
#: items, and queries, on which a learner measures what is typical
MAX_MEASURED = 2000
#: distinct queries needed to measure; items stand in for missing ones
MIN_QUERIES = 8
#: pairs kept for a query, and queries with pairs; the oldest go first
MAX_PAIRS, MAX_PAIR_QUERIES = 32, 100_000

Rows: TypeAlias = NDArray[np.float32]
#: judged items of a query, and whether each was similar
Pairs: TypeAlias = dict[str, tuple[tuple[str, bool], ...]]


class Unlearnable(Exception):
    """A row of the log that cannot be learnt."""

    def __init__(self, seq: int, cause: Exception) -> None:
        super().__init__(f"row {seq} cannot be learnt: {type(cause).__name__}: {cause!s:.200}")
        self.seq = seq


def set_aside_entry(seq: int, reason: str) -> Entry:
    """Entry that sets a row aside; its reason is for people."""
    record = SetAside(seq=seq, reason=reason.encode("utf-8", "replace").decode()[:1000])
    return Entry("set_aside", encoded(record), target=seq)


class FrozenState(NamedTuple):
    """What ranks, and what it ranks; never changed."""

    #: last row of the log in it
    seq: int
    #: None until something was learnt
    learner: Blend | None
    #: None until there are items; those that are shared are their owner's
    layout: Layout | None
    snapshot: ItemSnapshot | None
    #: rows of the lists learnt, by number: those of full blocks, and those since
    lists: NDArray[np.int64]
    since: tuple[int, ...]

    def row_of(self, number: int) -> int:
        """Row of a list, by its number from 0."""
        n = len(self.lists)
        return int(self.lists[number]) if number < n else self.since[number - n]


class Fold:
    """The state after some row, fed one row after the other."""

    def __init__(
        self,
        retracted: dict[int, int] | None = None,
        source: SharedSource | None = None,
        *,
        careful: bool = False,
    ) -> None:
        #: whether to find the row when a block cannot be learnt, at the cost of copies
        self.careful = careful
        #: last row that was fed
        self.seq = 0
        self.settings = TenantSettings()
        self.items: Items | SharedItems | None = None
        #: where shared items are
        self._source = source
        #: rows retracted or set aside, with the row that says so; a new fold skips them
        self.retracted = dict(retracted or {})
        #: the learner after the last full block, and the row that completed it
        self.learner: Blend | None = None
        self.through = 0
        #: rows of the lists learnt by it
        self.lists: NDArray[np.int64] = np.zeros(0, np.int64)
        #: rows of exam judgements
        self.exams: list[int] = []
        #: pairs judged so far, by query
        self.pairs: Pairs = {}
        self._room: NDArray[np.int64] | None = None
        self._pending: list[Lesson] = []
        #: lessons of full blocks that wait to be learnt
        self._full: list[Lesson] = []
        #: pairs as they were after the last full block, and rows of pairs since
        self.pairs_then: Pairs = {}
        self._pairs_since: set[int] = set()

    def resume(
        self, seq: int, learner: Blend, lists: NDArray[np.int64], exams: list[int], pairs: Pairs
    ) -> None:
        """Continue after row `seq`, which completed a block; items must be as of then."""
        self.seq = self.through = seq
        self.learner, self.exams = learner, exams
        self.pairs, self.pairs_then = dict(pairs), dict(pairs)
        self._count(lists.tolist())

    # -- rows ----------------------------------------------------------------------------------

    def replay(self, rows: Iterable[Row | LearnerRow]) -> None:
        """Take rows of a log whose retractions are known, and learn blocks many at a time."""
        for row in rows:
            self.take(row)
        self.settle()

    def take(self, row: Row | LearnerRow) -> bool:
        """Take the next row; False if the log must be folded again. Raises Unlearnable.

        Full blocks may wait for `settle`.
        """
        self.seq = row.seq
        if row.seq in self.retracted:
            return True
        try:
            body = decoded(row.body)
        except Damaged as error:
            raise Unlearnable(row.seq, error) from error
        try:
            if isinstance(body.record, JUDGEMENTS):
                lessons = self._judged(row, body.record, body)
            else:
                return self._other(row, body)
        except ServiceError:  # of another log; this row is not at fault
            raise
        except Exception as error:
            raise Unlearnable(row.seq, error) from error
        self._pending += lessons
        if len(self._pending) >= LISTS_PER_BLOCK:
            self._complete(row.seq)
        return True

    def feed_other(self, row: Row) -> None:
        """Take a row other than a judgement, to restore items and settings for a snapshot."""
        if row.seq not in self.retracted and row.target is None:
            self.take(row)

    def _other(self, row: Row | LearnerRow, body: JudgedBody) -> bool:
        match body.record:
            case Retraction() | SetAside():
                return self._retract(row)
            case Follow(seq=mark):
                self._follow(mark)
            case Configured(settings=settings):
                self.settings = settings
            case _:
                pass
        if not isinstance(self.items, SharedItems):
            self.items = fed(self.items, row.seq, body)
            if not self._pending:
                self._tidy()
        return True

    def _follow(self, mark: int) -> None:
        assert self._source is not None
        assert not isinstance(self.items, Items)
        self.items = self._source.followed(mark, self.items)

    def _tidy(self) -> None:
        """Compact items if many are gone; no lesson may be pending."""
        if self.items is not None and self.items.wastes:
            self.settle()  # lessons hold row numbers, which change
            self.items.compact()

    def _retract(self, row: Row | LearnerRow) -> bool:
        if row.target is None or row.target in self.retracted:
            return True
        self.retracted[row.target] = row.seq
        if row.target <= self.through:
            return row.target in self.exams or not self._was_learnt(row.target)
        self.exams = [seq for seq in self.exams if seq != row.target]
        self._pending = [lesson for lesson in self._pending if lesson.seq != row.target]
        return row.target not in self._pairs_since  # pairs are in the lists of other pairs

    def _was_learnt(self, seq: int) -> bool:
        place = int(np.searchsorted(self.lists, seq))
        learnt = place < len(self.lists) and self.lists[place] == seq
        # A pair may be in the lists of other pairs.
        return learnt or any(self.pairs.values())

    # -- judgements ----------------------------------------------------------------------------

    def _judged(
        self, row: Row | LearnerRow, judgement: Judgement, body: JudgedBody
    ) -> list[Lesson]:
        """Lessons of a judgement; none for exams, or if its items are gone."""
        if self.items is None or judgement.weight <= 0:
            return []
        if self.is_exam(judgement, row.query or "", body.provenance):
            self.exams.append(row.seq)
            return []
        query: bytes | int | None = None
        if body.vectors:
            query = self.items.layout.query_bytes(body.vectors[0])
        elif judgement.query.item is not None:
            query = self.items.row(judgement.query.item)
        if query is None:
            return []
        if not isinstance(judgement, Pair):
            return lessons_of(row.seq, judgement, query, self.items.row)
        key = row.query or ""
        lessons = lessons_of(row.seq, judgement, query, self.items.row, self.pairs.get(key, ()))
        earlier = self.pairs.pop(key, ())
        self.pairs[key] = (*earlier, (judgement.item, judgement.similar))[-MAX_PAIRS:]
        if len(self.pairs) > MAX_PAIR_QUERIES:
            del self.pairs[next(iter(self.pairs))]
        self._pairs_since.add(row.seq)
        return lessons

    def is_exam(self, judgement: Judgement, key: str, provenance: str) -> bool:
        """Whether a judgement is an exam, by its source, provenance and query."""
        settings = self.settings
        if judgement.source == EXAM and provenance == UPLOADED:
            return True
        if judgement.source not in settings.exam_sources and "*" not in settings.exam_sources:
            return False
        if settings.secret and not provenance:
            return False
        return is_held_out(key, settings)

    def _complete(self, seq: int) -> None:
        """Queue the block that this row completes."""
        assert self.items is not None
        block = self._pending
        self._count([lesson.seq for lesson in block])
        self.through = seq
        self._pending, self._pairs_since, self.pairs_then = [], set(), dict(self.pairs)
        if self._full and self._widens(block):
            self.settle()
        self._full += block
        first = self.learner is None  # it must measure these items
        if (
            first
            or len(block) != LISTS_PER_BLOCK
            or len(self._full) >= BLOCKS_TOGETHER * LISTS_PER_BLOCK
        ):
            self.settle()
        self._tidy()

    def _widens(self, block: list[Lesson]) -> bool:
        """Whether a block is the first with positions, for which the learner makes room."""
        if all(lesson.positions is None for lesson in block):
            return False
        return self.learner is None or not self.learner.nuisances_

    def settle(self) -> None:
        """Learn all queued blocks."""
        full, self._full = self._full, []
        if full:
            self.learner = self._learnt(self.learner, full)

    def _count(self, rows: list[int]) -> None:
        """Append to the rows of learnt lists; states share this growing array."""
        n = len(self.lists)
        if self._room is None or n + len(rows) > len(self._room):
            self._room = np.zeros(2 * (n + len(rows)), np.int64)
            self._room[:n] = self.lists
        self._room[n : n + len(rows)] = rows
        self.lists = self._room[: n + len(rows)]

    def _learnt(self, learner: Blend | None, lessons: list[Lesson]) -> Blend:
        """Teach a learner lessons in blocks."""
        if not self.careful:
            return self._taught(learner, lessons)
        try:
            return self._taught(deepcopy(learner), lessons)
        except Exception as error:
            raise Unlearnable(self._culprit(learner, lessons), error) from error

    def _taught(self, learner: Blend | None, lessons: list[Lesson]) -> Blend:
        assert self.items is not None
        shown = self.items.matrix([row for lesson in lessons for row in lesson.rows])
        queries = self._queries(lessons)
        if learner is None:
            learner = self._begun(queries, shown)
        layout, lists = self.items.layout, impressions(lessons)
        learner.learn_checked(
            layout.queries(queries), layout.items(shown), lists, every=LISTS_PER_BLOCK
        )
        return learner

    def _culprit(self, learner: Blend | None, lessons: list[Lesson]) -> int:
        """Row of the first lesson that cannot be learnt, by bisection."""
        good, bad = 0, len(lessons)
        while bad - good > 1:
            middle = (good + bad) // 2
            try:
                self._taught(deepcopy(learner), lessons[:middle])
                good = middle
            except Exception:
                bad = middle
        return lessons[bad - 1].seq

    def _queries(self, lessons: list[Lesson]) -> Rows:
        """Rows of the queries of lessons."""
        assert self.items is not None
        given = [lesson.query for lesson in lessons]
        places = [query for query in given if isinstance(query, int)]
        if len(places) == len(given):
            return self.items.matrix(places)
        width = self.items.layout.width
        own = b"".join([query for query in given if isinstance(query, bytes)])
        rows = np.frombuffer(own, "<f4").reshape(-1, width)
        if not places:
            return rows
        found = np.empty((len(given), width), np.float32)
        of_items = np.array([isinstance(query, int) for query in given])
        found[of_items], found[~of_items] = self.items.matrix(places), rows
        return found

    def _begun(self, queries: NDArray[np.float32], shown: NDArray[np.float32]) -> Blend:
        """A new learner, fitted to what is typical of the items and these queries."""
        assert self.items is not None
        settings, layout, some = self.settings, self.items.layout, self.items.sample(MAX_MEASURED)
        if not len(some):
            some = shown
        asked = np.unique(queries, axis=0)
        if len(asked) < MIN_QUERIES:
            asked = np.vstack([asked, some])
        learner = Blend(memory=settings.memory, half_life=settings.half_life)
        learner.begin(layout.queries(asked), layout.items(some))
        return learner

    # -- state ---------------------------------------------------------------------------------

    def state(self) -> FrozenState:
        """The state after the last row fed; later rows do not change it."""
        self.settle()
        learner = deepcopy(self.learner)
        if self._pending:
            learner = self._learnt(learner, self._pending)
        snapshot = self.items.snapshot() if isinstance(self.items, Items) else None
        layout = None if self.items is None else self.items.layout
        if isinstance(self.items, SharedItems):
            self.items.rest()
        since = tuple(lesson.seq for lesson in self._pending)
        return FrozenState(self.seq, learner, layout, snapshot, self.lists, since)
