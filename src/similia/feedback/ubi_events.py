"""Events of a UBI log by search: in memory if they are few, else joined to searches on disk."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.files.rows import Rows
from similia.files.spill import BUCKETS, Spill

#: mark of an event that says what was shown
SHOWN = -1.0
#: events that are held in memory before all of them go to disk
HELD = 2**18
#: searches that are held at a time if the events are on disk
CUT = 2**13
EVENT = np.dtype(
    [("search", "<i8"), ("item", "<i8"), ("gain", "<f8"), ("ordinal", "<f8"), ("time", "<f8")]
)
#: an event of the search with this number
FOUND = np.dtype([("number", "<i8"), *EVENT.descr[1:], ("shown", "?")])
SEARCH = np.dtype([("search", "<i8"), ("number", "<i8")])


class Events(NamedTuple):
    """Items shown or acted on, by search; each once, sorted by search and item."""

    search: NDArray[np.int64]
    item: Rows
    #: 0 for items that were shown and no more
    gain: NDArray[np.float64]
    shown: NDArray[np.bool_]
    #: NaN if not logged
    ordinal: NDArray[np.float64]
    time: NDArray[np.float64]


class Spans(NamedTuple):
    """Where the events of each search are: their first place and their number."""

    first: Rows
    sizes: Rows

    def places(self) -> Rows:
        """Places of all of them, one search after another."""
        starts = np.repeat(self.first - np.cumsum(self.sizes) + self.sizes, self.sizes)
        return starts + np.arange(len(starts))


class Searches(NamedTuple):
    """Some searches in a row: their keys, rows of query vectors, and hits."""

    search: NDArray[np.int64]
    query: Rows
    #: search (by its place here), item and place of each hit
    owner: Rows
    item: Rows
    place: Array

    def cut(self, size: int) -> "Iterator[Searches]":
        """The same in parts of at most so many searches."""
        for start in range(0, len(self.search), size):
            rows = slice(start, start + size)
            hits = slice(*np.searchsorted(self.owner, [start, start + size]).tolist())
            owner = self.owner[hits] - start
            yield Searches(
                self.search[rows], self.query[rows], owner, self.item[hits], self.place[hits]
            )


def each_once(records: Array) -> Events:
    """One event for each item of a search: the highest gain, the first place, the last time."""
    order = np.lexsort((records["time"], records["item"], records["search"]))
    search, item, gain, ordinal, time = (records[name][order] for name in EVENT.names or ())
    starts = np.flatnonzero(_changes(search) | _changes(item))
    if not len(starts):
        return Events(search, item, gain, np.zeros(0, bool), ordinal, time)
    return Events(
        search[starts],
        item[starts],
        np.maximum(np.maximum.reduceat(gain, starts), 0.0),
        np.logical_or.reduceat(gain == SHOWN, starts),
        np.fmin.reduceat(ordinal, starts),
        np.fmax.reduceat(time, starts),
    )


def _changes(values: Array) -> NDArray[np.bool_]:
    """Whether each value differs from the one before."""
    changed = np.ones(len(values), bool)
    changed[1:] = values[1:] != values[:-1]
    return changed


class _Heads:
    """Sorted keys, and where each of them begins."""

    def __init__(self, keys: Rows) -> None:
        heads = np.flatnonzero(_changes(keys))
        self.keys, self.ends = keys[heads], np.append(heads, len(keys))

    def spans(self, wanted: Rows) -> Spans:
        """Places of wanted keys."""
        if not len(self.keys):
            return Spans(np.zeros(len(wanted), np.int64), np.zeros(len(wanted), np.int64))
        places = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        first = self.ends[places]
        return Spans(first, np.where(self.keys[places] == wanted, self.ends[places + 1] - first, 0))


class EventStore:
    """Events as they are read, and then the searches with the events of each.

    Memory is flat: more than `HELD` events go to a temporary file, by key of their search. Then the
    searches go to disk, too, once as they are and once as keys, by which they meet their events.
    """

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._held: list[Array] = []
        self._n_held = 0
        self._spill: Spill | None = None
        #: clicks whose search is not in the log
        self.n_strays = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def add(self, records: Array) -> None:
        """Keep some events."""
        self._held.append(records)
        self._n_held += len(records)
        if self._spill is None and self._n_held > HELD:
            self._spill = self._stack.enter_context(Spill(EVENT))
        if self._spill is not None:
            for part in self._held:
                self._spill.add(_bucket_of(part["search"]), part)
            self._held = []

    def joined(self, batches: Iterator[Searches]) -> Iterator[tuple[Searches, Events, Spans]]:
        """Yield searches in their order with some events, and where theirs are among these."""
        if self._spill is not None:
            yield from self._joined_on_disk(self._spill, batches)
            return
        events = each_once(np.concatenate([np.empty(0, EVENT), *self._held]))
        heads, met = _Heads(events.search), np.zeros(len(events.search), bool)
        for batch in batches:
            found = heads.spans(batch.search)
            met[found.places()] = True
            yield batch, events, found
        self.n_strays = int(np.count_nonzero(~met & (events.gain > 0)))

    def _joined_on_disk(
        self, events: Spill, batches: Iterator[Searches]
    ) -> Iterator[tuple[Searches, Events, Spans]]:
        file = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        searches = self._stack.enter_context(Spill(SEARCH))
        starts = [0]
        for batch in (part for whole in batches for part in whole.cut(CUT)):
            for column in batch[1:]:
                np.save(file, column.astype(np.int32) if column.max(initial=0) < 2**31 else column)
            records = np.empty(len(batch.search), SEARCH)
            records["search"] = batch.search
            records["number"] = starts[-1] + np.arange(len(batch.search))
            searches.add(_bucket_of(batch.search), records)
            starts.append(int(starts[-1]) + len(batch.search))
        n_batches = len(starts) - 1
        n_groups = min(BUCKETS, n_batches)
        group = np.arange(n_batches) * n_groups // max(n_batches, 1)
        found = self._stack.enter_context(Spill(FOUND, max(n_groups, 1)))
        for number in range(BUCKETS):
            theirs = self._matched(events.bucket(number), searches.bucket(number))
            found.add(group[np.searchsorted(starts, theirs["number"], side="right") - 1], theirs)
        file.seek(0)
        known = -1
        for place in range(n_batches):
            if group[place] != known:
                known = group[place]
                near = _by_number(found.bucket(known))
                heads = _Heads(near.search)
            columns = [np.load(file).astype(np.int64) for _ in Searches._fields[1:]]
            numbers = np.arange(starts[place], starts[place + 1])
            yield Searches(numbers, *columns), near, heads.spans(numbers)

    def _matched(self, records: Array, searches: Array) -> Array:
        """Events of searches, by the numbers of these."""
        events = each_once(records)
        searches = np.sort(searches, order="search")
        theirs = _Heads(searches["search"]).spans(events.search)
        which = np.repeat(np.arange(len(theirs.sizes)), theirs.sizes)
        found = np.empty(len(which), FOUND)
        found["number"] = searches["number"][theirs.places()]
        for name in FOUND.names[1:]:  # type: ignore[index]
            found[name] = getattr(events, name)[which]
        self.n_strays += int(np.count_nonzero((theirs.sizes == 0) & (events.gain > 0)))
        return found


def _by_number(found: Array) -> Events:
    """Events sorted by the number of their search, which takes the place of its key."""
    found = found[np.lexsort((found["item"], found["number"]))]
    return Events(*(found[name] for name in ("number", "item", "gain", "shown", "ordinal", "time")))


def _bucket_of(search: Rows) -> Rows:
    """Bucket by the key of a search, which may be an integer in a row of such."""
    return (search.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(56)).astype(np.intp)
