"""Logs of OpenSearch's User Behavior Insights (UBI 1.0.0 to 1.3.0), as lists shown and clicked."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.files.columns import AT_LEAST_1, KEY, TIME, Columns, Reader, each
from similia.files.pieces import RawColumn, TextPiece, entry, json_object, opened, text_pieces
from similia.files.rows import BadRows, Encoded, Ids, Lists, RowError, Rows
from similia.files.source import Batch, FeedbackLike, Source
from similia.files.vectors import TABLES
from similia.impressions import Impressions
from similia.validation import check_parameters, none, positive_integer

#: gains of the actions that the specification names; a view may be of a page or of a result
GAINS = {"click": 1.0, "click_through": 1.0, "add_to_cart": 1.0, "purchase": 1.0, "watch": 1.0}
#: marks of an event that says what was shown, and of an id that is unknown or missing
SHOWN = -1.0
UNKNOWN, MISSING = -1, -2

OBJECT = "event_attributes.object.object_id"
#: an integer since 1.1.0, an object before
ORDINALS = ("event_attributes.position.ordinal.index", "event_attributes.position.ordinal")
HITS = "query_response_hit_ids"


class Events(NamedTuple):
    """Items shown or acted on, by search; each once, sorted by search."""

    search: NDArray[np.int64]
    item: Rows
    #: 0 for items that were shown and no more
    gain: NDArray[np.float64]
    shown: NDArray[np.bool_]
    #: NaN if not logged
    ordinal: NDArray[np.float64]
    time: NDArray[np.float64]


class UbiLog:
    """UBI queries and events that can be iterated over, in batches of `Impressions`.

    What was shown for a query are the objects of its "impression" events if it has some, else its
    `query_response_hit_ids`. A query with neither says nothing: no impression, no negative. Several
    actions on one object count as the one of highest gain, so events logged twice do no harm.
    Events that show an item or act on it are held in memory, 41 bytes each; queries stream by.

    Parameters
    ----------
    queries, events : path or table
        Documents of `ubi_queries` and `ubi_events`: JSON lines, also as elasticdump writes them
        (within `_source`), or tables with nested columns.
    ids, items : Ids
        Names of the rows of the query vectors, and of the items if they are separate vectors.
    query : {"user_query", "query_id"}
        What the ids of queries are.
    gains : dict of floats, optional
        Gain of each action; all others are ignored. By default 1 for click, click_through,
        add_to_cart, purchase and watch.
    depth : int, optional
        Count no more than so many hits of a query as shown.
    times : bool
        Read the times of actions.
    bad_rows : BadRows, optional
        What to do with unusable rows; by default they raise BadRowError. A hit without a vector is
        one, and then only the hit is left out.

    Attributes
    ----------
    counts : Counter
        After iteration: searches, lists, searches without a list, clicks on what was not shown.
    """

    def __init__(
        self,
        queries: FeedbackLike,
        events: FeedbackLike,
        ids: Ids,
        items: Ids | None = None,
        *,
        query: str = "user_query",
        gains: Mapping[str, float] | None = None,
        depth: int | None = None,
        times: bool = False,
        bad_rows: BadRows | None = None,
    ) -> None:
        check_parameters("UbiLog", {"depth": none | positive_integer}, {"depth": depth})
        self.queries = Source(queries)
        self.events = Source(events)
        self.ids = ids
        self.items = items or ids
        self.query = query
        self.gains = dict(GAINS if gains is None else gains)
        self.depth = depth
        self.times = times
        self.bad_rows = bad_rows or BadRows()
        self.counts: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Impressions]:
        self.counts = Counter()
        events = self._read_events()
        used = np.zeros(len(events.search), bool)
        for found, numbers in self._read(self.queries, self._query_columns()):
            self.counts["searches"] += len(numbers)
            lists = self._lists(events, used, found, numbers)
            self.counts["lists"] += len(lists)
            if len(lists):
                yield lists
        self.counts["clicks on what was not shown"] = int((~used & (events.gain > 0)).sum())

    # -- rows ----------------------------------------------------------------------------------

    def _read(self, source: Source, columns: dict[str, tuple[str, Reader]]) -> Iterator[Batch]:
        readers: Columns = {name: reader for name, (_, reader) in columns.items()}
        named = Source(source, {name: path for name, (path, _) in columns.items()})
        return named.batches(lambda names: readers, (), self.bad_rows)

    def _query_columns(self) -> dict[str, tuple[str, Reader]]:
        first = _first(self.queries, (self.query, HITS))
        columns = {
            "search": (first.prefix + "query_id", KEY),
            "query": (first.prefix + self.query, _rows_of(self.ids, "string")),
        }
        if HITS in first.types:
            columns["hits"] = (first.prefix + HITS, _hits_of(self.items))
        return columns

    def _event_columns(self) -> dict[str, tuple[str, Reader]]:
        first = _first(self.events, (OBJECT, *ORDINALS))
        items = _rows_of(self.items, "int64" if first.types.get(OBJECT) is int else "string")
        columns = {
            "search": (first.prefix + "query_id", KEY._replace(missing=0)),
            "gain": (first.prefix + "action_name", each(self._gain)._replace(missing=0)),
            "item": (first.prefix + OBJECT, items),
        }
        ordinal = next((path for path in ORDINALS if first.types.get(path) is int), None)
        if ordinal is not None:
            columns["ordinal"] = (first.prefix + ordinal, AT_LEAST_1._replace(missing=np.nan))
        if self.times:
            columns["time"] = (first.prefix + "timestamp", TIME._replace(missing=np.nan))
        return columns

    def _gain(self, action: object) -> float:
        return SHOWN if action == "impression" else self.gains.get(str(action), 0.0)

    def _read_events(self) -> Events:
        """Events that show an item or act on it."""
        names = ("search", "item", "gain", "ordinal", "time")
        parts: list[list[Array]] = []
        for found, numbers in self._read(self.events, self._event_columns()):
            unknown = (found["item"] == UNKNOWN) & (found["gain"] != 0)
            for number in numbers[unknown].tolist():
                error = RowError("unknown id", place=f" in column {OBJECT}")
                self.bad_rows.add(str(self.events), number, error)
            kept = (found["gain"] != 0) & (found["item"] >= 0)
            nothing = np.full(len(numbers), np.nan)
            parts.append([found.get(name, nothing)[kept] for name in names])
        columns = [np.concatenate(part) for part in zip(*parts, strict=True)]
        return _each_once(*(columns or [np.zeros(0)] * 5))

    # -- lists ---------------------------------------------------------------------------------

    def _lists(
        self, events: Events, used: NDArray[np.bool_], found: dict[str, Any], numbers: Rows
    ) -> Impressions:
        """Lists of some searches; marks the events that belong to them as used."""
        search, query = found["search"], found["query"].astype(np.intp)
        for number in numbers[query < 0].tolist():
            error = RowError("unknown id", place=f" in column {self.query}")
            self.bad_rows.add(str(self.queries), number, error)
        first = np.searchsorted(events.search, search)
        sizes = np.searchsorted(events.search, search, side="right") - first
        ends = np.cumsum(sizes)
        rank = np.arange(ends[-1]) - np.repeat(ends - sizes, sizes)
        which = rank + np.repeat(first, sizes)
        actor = np.repeat(np.arange(len(search)), sizes)  # the search of each of these events
        # Impression events say what was seen; hits are what could be.
        logged = np.bincount(actor, weights=events.shown[which], minlength=len(search)) > 0
        owner, item, place = self._hits(found, numbers)
        from_hits, from_events = (
            ~logged[owner] & (query >= 0)[owner],
            (logged & (query >= 0))[actor],
        )
        ordinal = events.ordinal[which]
        seen = np.where(np.isnan(ordinal), rank + 1.0, ordinal)
        owner = np.concatenate([owner[from_hits], actor[from_events]])
        item = np.concatenate([item[from_hits], events.item[which[from_events]]])
        place = np.concatenate([place[from_hits], seen[from_events]])
        order = np.lexsort((place, owner)) if logged.any() else slice(None)
        owner, item, place = owner[order], item[order], place[order]
        gain, time = np.zeros(len(item)), np.full(len(item), np.nan)
        if len(which):
            keys = actor * self.items.n + events.item[which]  # sorted, as events are
            wanted = owner * self.items.n + item
            met = np.flatnonzero(sizes[owner])
            places = np.minimum(np.searchsorted(keys, wanted[met]), len(keys) - 1)
            same = keys[places] == wanted[met]
            met, acted = met[same], which[places[same]]
            gain[met], time[met] = events.gain[acted], events.time[acted]
            used[acted] = True
        heads = np.flatnonzero(np.diff(owner, prepend=-1))
        self.counts["searches without a list"] += len(search) - len(heads)
        return Impressions(
            query[owner[heads]],
            np.append(heads, len(owner)),
            item.astype(np.intp),
            gain,
            {"position": np.log(place)},
            np.ones(len(heads)),
            np.zeros(len(heads), bool),
            time if self.times else np.zeros(0),
        )

    def _hits(self, found: dict[str, Any], numbers: Rows) -> tuple[Rows, Rows, Array]:
        """Search, item and place of each hit that has a vector."""
        if "hits" not in found:
            return np.zeros(0, np.intp), np.zeros(0, np.intp), np.zeros(0)
        lengths, item = found["hits"]
        owner = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(item)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1.0
        known = item >= 0
        if self.depth is not None:
            known &= place <= self.depth
        for number in numbers[owner[item < 0]].tolist():
            error = RowError("unknown id", place=f" in column {HITS}")
            self.bad_rows.add(str(self.queries), number, error)
        return owner[known], item[known], place[known]


def _each_once(search: Array, item: Array, gain: Array, ordinal: Array, time: Array) -> Events:
    """One event for each item of a search: the highest gain, the last time."""
    order = np.lexsort((time, item, search))
    search, item, gain, ordinal, time = (x[order] for x in (search, item, gain, ordinal, time))
    new = np.ones(len(search), bool)
    new[1:] = (search[1:] != search[:-1]) | (item[1:] != item[:-1])
    starts = np.flatnonzero(new)
    if not len(starts):
        nothing = np.zeros(0)
        whole = np.zeros(0, np.int64)
        return Events(whole, whole, nothing, np.zeros(0, bool), nothing, nothing)
    return Events(
        search[starts].astype(np.int64),
        item[starts].astype(np.int64),
        np.maximum(np.maximum.reduceat(gain, starts), 0.0),
        np.logical_or.reduceat(gain == SHOWN, starts),
        np.fmin.reduceat(ordinal, starts),
        np.fmax.reduceat(time, starts),
    )


# -- readers -----------------------------------------------------------------------------------


def _rows_of(ids: Ids, dtype: str) -> Reader:
    """Rows that ids name: UNKNOWN for ids without a row, MISSING where there is no id."""

    def column(raw: RawColumn) -> Rows | None:
        return None if isinstance(raw, Lists) else np.maximum(ids.known_rows(raw), UNKNOWN)

    def value(raw: Any) -> int:
        return int(ids.known_rows(Encoded(np.zeros(1, np.intp), [raw]))[0])

    return Reader(dtype, column, value, MISSING)


def _hits_of(items: Ids) -> Reader:
    """Rows of lists of ids: an array for each list."""

    def column(raw: RawColumn) -> Lists | None:
        if not isinstance(raw, Lists):
            return None
        return Lists(raw.lengths, items.known_rows(raw.values))

    def value(raw: Any) -> Array:
        if not isinstance(raw, list):
            raise RowError("not a list", f" {raw!r:.80}")
        return items.known_rows(Encoded(np.arange(len(raw)), raw))

    return Reader("list", column, value, np.zeros(0, np.int64))


class _First(NamedTuple):
    """What the first documents of a log look like."""

    #: types of entries by their path
    types: dict[str, type]
    #: what stands before every path
    prefix: str


def _first(source: Source, paths: tuple[str, ...]) -> _First:
    """Look for entries in the first documents."""
    if source.suffix in TABLES:
        names = source.table().names
        return _First(
            {path: int if path in ORDINALS else str for path in paths if path in names}, ""
        )
    types: dict[str, type] = {}
    prefix = ""
    with opened(source.path) as file:
        piece = next(text_pieces(file, str(source), 2**18), TextPiece(1, b""))
        for _, found in piece.parsed(json_object):
            if isinstance(found, RowError):
                continue
            if isinstance(found.get("_source"), dict):
                found, prefix = found["_source"], "_source."
            for path in paths:
                value = entry(found, path.split("."))
                if value is not None:
                    types.setdefault(path, type(value))
            if len(types) >= len(paths) - (OBJECT in paths):  # one form of the ordinal is enough
                break
    return _First(types, prefix)
