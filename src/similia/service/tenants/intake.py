"""Judgements on their way into a log, checked against the items that they name."""

import threading
from collections.abc import Callable, Sequence
from typing import NamedTuple

from similia.service.catalogue.catalogue import Catalogue
from similia.service.engine.layout import Layout
from similia.service.log.log import Entry, Log
from similia.service.log.records import Follow, Judgement
from similia.service.tenants.entries import Behind, entry, judged_entries, plain_entries


class Follower:
    """How far a log follows the items that its tenant shares."""

    def __init__(self, log: Log, owner: Log, mark: int) -> None:
        self._log, self._owner = log, owner
        self._following = threading.Lock()
        #: row of the owner's log, as the last row on the disk that names one says
        self.mark = mark

    def follow(self, seq: int) -> None:
        """Let later judgements be about items as of a row; returns once that is on the disk."""
        if seq <= self.mark:
            return
        with self._following:
            if seq > self.mark:
                row = self._owner.row(seq)
                assert row is not None
                self._log.append([entry(Follow(seq=seq, hash=row.hash))])
                self.mark = seq


class _Sight(NamedTuple):
    """Items as a judgement is checked against them."""

    layout: Layout | None
    has: Callable[[str], bool]
    #: row of the log that changed them last
    seq: int


class Intake:
    """Makes entries of judgements. With a `follower`, the items are another tenant's."""

    def __init__(self, catalogue: Catalogue, follower: Follower | None = None) -> None:
        self._catalogue = catalogue
        self._follower = follower

    def entries(self, judgements: Sequence[Judgement]) -> list[Entry]:
        """Entries of judgements; waits for items that were put just now, and follows those shared.

        Raises Invalid with all that are wrong.
        """
        sight = self._sight()
        try:
            found = judged_entries(sight.layout, judgements, self._knowing(sight))
        except Behind:
            self._catalogue.catch_up()
            sight = self._sight()
            found = judged_entries(sight.layout, judgements, sight.has)
        if self._follower is not None:
            self._follower.follow(sight.seq)
        return found

    def at_once(self, judgements: Sequence[Judgement]) -> list[Entry] | None:
        """The same without waiting for anything; None if there is something to wait for."""
        sight = self._sight()
        if self._follower is not None and sight.seq > self._follower.mark:
            return None
        try:
            plain = plain_entries(judgements, sight.has)
            if plain is not None:
                return plain
            return judged_entries(sight.layout, judgements, self._knowing(sight))
        except Behind:
            return None

    def _knowing(self, sight: _Sight) -> Callable[[str], bool]:
        def knows(id: str) -> bool:
            if sight.has(id):
                return True
            if self._catalogue.is_behind:
                raise Behind
            return False

        return knows

    def _sight(self) -> _Sight:
        items = self._catalogue.items
        if items is None:
            return _Sight(None, lambda _: False, 0)
        if self._follower is None:
            return _Sight(items.layout, items.__contains__, 0)
        # Whatever is half done is left out: it would not be there as of the row that is followed.
        while (versions := items.as_of(items.changed)) is None:
            pass  # compacted in this very moment
        return _Sight(items.layout, lambda id: versions.row(id) is not None, versions.seq)
