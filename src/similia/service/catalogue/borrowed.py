"""Items of another tenant, as they were at a row of its log: what a tenant that shares them learns.

A judgement is learnt with the items as they were when it was made. So the log of a tenant that
shares items says how far it follows the log of their owner (`Follow`), and items are looked up as
of that row: among the owner's items, which stay in memory once, or, if those were compacted since,
among items that are read from the owner's log for as long as they are needed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.service.catalogue.items import Items, Versions, fed
from similia.service.engine.layout import Layout
from similia.service.log.log import Log
from similia.service.log.records import decoded

#: rows that are kept for lessons to come; beyond it, those of full blocks are learnt and dropped
MANY = 1024


class Source(NamedTuple):
    """Where shared items are: their owner's log, and what follows from it now."""

    log: Log
    items: Callable[[], Items | None]

    def followed(self, seq: int, before: "Borrowed | None") -> "Borrowed":
        """Items as of a row of the owner's log."""
        if before is None:
            items = self.items()
            assert items is not None
            before = Borrowed(self, items.layout)
        before.follow(seq)
        return before


class Borrowed:
    """Items as of a row of their owner's log; only rows that wait to be learnt are copied."""

    def __init__(self, source: Source, layout: Layout) -> None:
        self.layout = layout
        #: row of the owner's log that items are looked up at
        self.mark = 0
        self._source = source
        #: items as of there, while they are looked up, and the places of those found
        self._versions: Versions | None = None
        self._place: dict[str, int] = {}
        #: rows copied for lessons, and those of `_versions` to be copied behind them
        self._copied: NDArray[np.float32] = np.zeros((0, layout.width), np.float32)
        self._found: list[int] = []
        #: items read from the owner's log, and the last row of it in them
        self._past: Items | None = None
        self._read = 0

    def follow(self, seq: int) -> None:
        """Look items up as of another row."""
        self._copy()
        self.mark, self._versions = seq, None
        self._place.clear()  # versions may be others; those copied stay

    def row(self, id: str) -> int | None:
        """Number of a copy of an item's row."""
        place = self._place.get(id)
        if place is None:
            there = self._then().row(id)
            if there is None:
                return None
            place = self._place[id] = len(self._copied) + len(self._found)
            self._found.append(there)
        return place

    def matrix(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Copied rows."""
        self._copy()
        found: NDArray[np.float32] = self._copied[np.asarray(rows, np.intp)]
        return found

    def sample(self, most: int) -> NDArray[np.float32]:
        """Rows of the items there were, in order, evenly thinned out to at most so many."""
        return self._then().sample(most)

    @property
    def wastes(self) -> bool:
        """Whether many copies are there."""
        return len(self._copied) + len(self._found) >= MANY

    def compact(self) -> None:
        """Drop all copies; nobody may need them any more."""
        self._place.clear()
        self._found.clear()
        self._copied = self._copied[:0].copy()

    def rest(self) -> None:
        """Hold nothing but copies: the owner may move its items meanwhile."""
        self._copy()
        self._versions = self._past = None
        self._read = 0

    def _copy(self) -> None:
        if self._found:
            assert self._versions is not None
            new = self._versions.rows.matrix[self._found]
            self._copied = np.concatenate([self._copied, new])
            self._found.clear()

    def _then(self) -> Versions:
        """Items as they were: the owner's, or else read from its log."""
        if self._versions is None:
            items = self._source.items()
            found = None if items is None else items.as_of(self.mark)
            if found is not None:
                self._past, self._read = None, 0
            self._versions = found or self._from_log()
        return self._versions

    def _from_log(self) -> Versions:
        for row in self._source.log.rows(self._read, self.mark, others=True):
            self._past = fed(self._past, row.seq, *decoded(row.body))
            if self._past is not None and self._past.wastes:
                self._past.compact()
        self._read = self.mark
        found = None if self._past is None else self._past.as_of(self.mark)
        assert found is not None
        return found
