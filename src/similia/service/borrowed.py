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

from similia.service.items import Items, Rows, Versions, fed
from similia.service.layout import Layout
from similia.service.log import Log
from similia.service.records import decoded

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
        self._own = Rows(layout.width)
        #: items read from the owner's log, and the last row of it in them
        self._past: Items | None = None
        self._read = 0

    def follow(self, seq: int) -> None:
        """Look items up as of another row."""
        self.mark = seq
        self._own.place.clear()  # versions may be others; those copied stay

    def row(self, id: str) -> int | None:
        """Number of a copy of an item's row."""
        place = self._own.place.get(id)
        if place is not None:
            return place
        versions = self._versions()
        there = versions.row(id)
        if there is None:
            return None
        self._own.append(id, versions.rows.matrix[there])
        return self._own.place[id]

    def matrix(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Copied rows."""
        found: NDArray[np.float32] = self._own.matrix[np.asarray(rows, np.intp)]
        return found

    def sample(self, most: int) -> NDArray[np.float32]:
        """Rows of the items there were, in order, evenly thinned out to at most so many."""
        return self._versions().sample(most)

    @property
    def wastes(self) -> bool:
        """Whether many copies are there."""
        return len(self._own.ids) >= MANY

    def compact(self) -> None:
        """Drop all copies; nobody may need them any more."""
        self._own = Rows(self.layout.width)

    def rest(self) -> None:
        """Forget what was read from the owner's log."""
        self._past, self._read = None, 0

    def _versions(self) -> Versions:
        items = self._source.items()
        found = None if items is None else items.as_of(self.mark)
        if found is not None:
            self.rest()
            return found
        for row in self._source.log.rows(self._read, self.mark, others=True):
            self._past = fed(self._past, row.seq, *decoded(row.body))
            if self._past is not None and self._past.wastes:
                self._past.compact()
        self._read = self.mark
        found = None if self._past is None else self._past.as_of(self.mark)
        assert found is not None
        return found
