"""Items that tenants share: as they were at a row of their owner's log, and what logs say of it.

A judgement is learnt with the items as they were when it was made. So the log of a tenant that
shares items says how far it follows their owner's log (`Follow`), and items are looked up as of
that row: among the owner's items in memory or, if these were compacted since, among items read from
the owner's log for as long as needed.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.service.catalogue.items import Items, ItemVersions, Layout, fed
from similia.service.errors import Damaged, Invalid
from similia.service.log.log import Log
from similia.service.log.records import Configured, Follow, decoded, encoded, readable
from similia.service.log.rows import Entry

#: copied rows above which full blocks are learnt and their copies dropped
MAX_COPIED = 1024


class SharedSource(NamedTuple):
    """Where shared items are: their owner's log, and what follows from it now, if it is known."""

    log: Log
    items: Callable[[], Items | None]
    #: waits until these know a row of the owner's log
    wait: Callable[[int], None] = lambda seq: None

    def followed(self, seq: int, before: "SharedItems | None") -> "SharedItems":
        """Items as of a row of the owner's log."""
        if before is None:
            items = self.items()
            before = SharedItems(self, self._layout() if items is None else items.layout)
        before.follow(seq)
        return before

    def _layout(self) -> Layout:
        """Views of the items, by the owner's log."""
        aside = self.log.set_aside()
        for row in self.log.rows(others=True):
            if row.seq in aside:
                continue
            found = fed(None, row.seq, decoded(row.body))
            if found is not None:
                return found.layout
        raise Damaged(
            f"log: {self.log.name!r}, whose items are shared, has none; restore it from a backup."
        )


class SharedItems:
    """Items as of a row of their owner's log; only rows that wait to be learnt are copied."""

    def __init__(self, source: SharedSource, layout: Layout) -> None:
        self.layout = layout
        #: row of the owner's log that items are looked up at
        self.mark = 0
        self._source = source
        #: items as of there, while they are looked up, and the places of those found
        self._versions: ItemVersions | None = None
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
        return len(self._copied) + len(self._found) >= MAX_COPIED

    def compact(self) -> None:
        """Drop all copies; none may be in use."""
        self._place.clear()
        self._found.clear()
        self._copied = self._copied[:0].copy()

    def rest(self) -> None:
        """Release all but the copies: the owner may compact its items."""
        self._copy()
        self._versions = self._past = None
        self._read = 0

    def _copy(self) -> None:
        if self._found:
            assert self._versions is not None
            new = self._versions.rows.matrix[self._found]
            self._copied = np.concatenate([self._copied, new])
            self._found.clear()

    def _then(self) -> ItemVersions:
        """Items as they were: the owner's, or else read from its log."""
        if self._versions is None:
            self._source.wait(self.mark)
            items = self._source.items()
            found = None if items is None else items.as_of(self.mark)
            if found is not None:
                self._past, self._read = None, 0
            self._versions = found or self._from_log()
        return self._versions

    def _from_log(self) -> ItemVersions:
        aside = self._source.log.set_aside()
        for row in self._source.log.rows(self._read, self.mark, others=True):
            if row.seq in aside:
                continue
            self._past = fed(self._past, row.seq, decoded(row.body))
            if self._past is not None and self._past.wastes:
                self._past.compact()
        self._read = self.mark
        found = None if self._past is None else self._past.as_of(self.mark)
        assert found is not None
        return found


# -- what logs say of sharing ----------------------------------------------------------------------


def shares(log: Log) -> str | None:
    """Tenant whose items are shared, by the first row of a log."""
    first = log.row(1)
    record = None if first is None else decoded(first.body).record
    return record.settings.shares if isinstance(record, Configured) else None


def unfindable(owner: str) -> Any:
    """Refuse to open a tenant alone that shares the items of another."""
    raise Invalid(f"tenant: it shares the items of {owner!r}; open both through Tenants.")


def missing(name: str, owner: str) -> str:
    """Message for a missing owner of shared items."""
    return (
        f"log: {name} shares the items of {owner!r}, which is missing; restore the log of "
        f"{owner!r} from a backup that is as new."
    )


def check_followed(log: Log, owner: Log) -> None:
    """Refuse an owner's log without the rows that another one follows; raises Damaged.

    The hash of the last of these rows covers all before it.
    """
    found = (readable(row.body) for row in log.rows(others=True) if row.kind == "follow")
    follows = [record for record in found if isinstance(record, Follow)]
    last = max(follows, key=lambda follow: follow.seq, default=None)
    if last is None:
        return
    row = owner.row(last.seq)
    if row is None or row.hash != last.hash:
        what = "which is not there" if row is None else "where another one is now"
        raise Damaged(
            f"log: {log.name} shares the items of {owner.name!r} up to row {last.seq} of its log, "
            f"{what}; restore a backup of {owner.name!r} that is as new, or one of {log.name} that "
            "is as old."
        )


class Follower:
    """Writes how far a log follows the owner of its items."""

    def __init__(self, log: Log, owner: Log, mark: int) -> None:
        self._log, self._owner = log, owner
        self._following = threading.Lock()
        #: last row of the owner's log that this log follows
        self.mark = mark

    def follow(self, seq: int) -> None:
        """Follow the owner up to a row; returns once that is on the disk."""
        if seq <= self.mark:
            return
        with self._following:
            if seq > self.mark:
                row = self._owner.row(seq)
                assert row is not None
                self._log.append([Entry("follow", encoded(Follow(seq=seq, hash=row.hash)))])
                self.mark = seq
