"""Logs of OpenSearch's User Behavior Insights (UBI 1.0.0 to 1.3.0), as lists shown and clicked."""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from similia.contract import Array
from similia.feedback.impressions import Impressions
from similia.feedback.ubi_events import EVENT, SHOWN, Events, EventStore, Searches, Spans
from similia.files.columns import AT_LEAST_1, KEY, TIME, Columns, Reader, each
from similia.files.pieces import TextPiece, entry, json_object, opened, text_pieces
from similia.files.rows import BadRows, Encoded, Ids, Lists, RawColumn, RowError, Rows
from similia.files.source import Batch, FeedbackLike, Source
from similia.files.vectors import TABLES
from similia.validation import check_parameters, none, positive_integer

#: gains of the actions that the specification names; a view may be of a page or of a result
GAINS = {"click": 1.0, "click_through": 1.0, "add_to_cart": 1.0, "purchase": 1.0, "watch": 1.0}
#: marks of an id that is unknown or missing
UNKNOWN, MISSING = -1, -2

OBJECT = "event_attributes.object.object_id"
#: an integer since 1.1.0, an object before
ORDINALS = ("event_attributes.position.ordinal.index", "event_attributes.position.ordinal")
HITS = "query_response_hit_ids"


class UbiLog:
    """UBI queries and events that can be iterated over, in batches of `Impressions`.

    What was shown for a query are the objects of its "impression" events if it has some, else its
    `query_response_hit_ids`. A query with neither says nothing: no impression, no negative. Several
    actions on one object count as the one of highest gain, so events logged twice do no harm.
    Memory is flat: queries stream by, and if more than 262,144 events show an item or act on
    it, both files are joined in temporary ones, of 90 bytes for an event and 12 for a hit.

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
        After iteration: searches, lists, searches without a list, clicks on what was not shown, be
        it by their search or by any.
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
        with EventStore() as store:
            for records in self._read_events():
                store.add(records)
            for searches, events, spans in store.joined(self._read_searches()):
                self.counts["searches"] += len(searches.search)
                lists = self._lists(searches, events, spans)
                self.counts["lists"] += len(lists)
                if len(lists):
                    yield lists
            self.counts["clicks on what was not shown"] += store.n_strays

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

    def _read_events(self) -> Iterator[Array]:
        """Events that show an item or act on it."""
        for found, numbers in self._read(self.events, self._event_columns()):
            self._tell(
                self.events, numbers[(found["item"] == UNKNOWN) & (found["gain"] != 0)], OBJECT
            )
            kept = (found["gain"] != 0) & (found["item"] >= 0)
            records = np.empty(np.count_nonzero(kept), EVENT)
            for name in EVENT.names or ():
                records[name] = found[name][kept] if name in found else np.nan
            yield records

    def _read_searches(self) -> Iterator[Searches]:
        """Searches, with the hits that have a vector."""
        for found, numbers in self._read(self.queries, self._query_columns()):
            query = found["query"].astype(np.int64)
            self._tell(self.queries, numbers[query < 0], self.query)
            if "hits" not in found:
                nothing = np.zeros(0, np.int64)
                yield Searches(found["search"], query, nothing, nothing, nothing)
                continue
            lengths, item = found["hits"]
            owner = np.repeat(np.arange(len(lengths)), lengths)
            place = np.arange(len(item)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
            known = item >= 0
            self._tell(self.queries, numbers[owner[~known]], HITS)
            if self.depth is not None:
                known &= place <= self.depth
            if not known.all():
                owner, item, place = owner[known], item[known], place[known]
            yield Searches(found["search"], query, owner, item, place)

    def _tell(self, source: Source, numbers: Rows, column: str) -> None:
        """Report rows with an id that has no vector."""
        for number in numbers.tolist():
            self.bad_rows.add(
                str(source), number, RowError("unknown id", place=f" in column {column}")
            )

    # -- lists ---------------------------------------------------------------------------------

    def _lists(self, searches: Searches, events: Events, spans: Spans) -> Impressions:
        """Lists of some searches, with the events of these."""
        search, query, owner, item, place = searches
        sizes, which = spans.sizes, spans.places()
        actor = np.repeat(np.arange(len(search)), sizes)  # the search of each of these events
        # Impression events say what was seen; hits are what could be.
        logged = np.bincount(actor, weights=events.shown[which], minlength=len(search)) > 0
        usable = query >= 0
        if logged.any() or not usable.all():
            from_hits, from_events = (~logged & usable)[owner], (logged & usable)[actor]
            ordinal = events.ordinal[which]
            rank = which - np.repeat(spans.first, sizes) + 1.0
            seen = np.where(np.isnan(ordinal), rank, ordinal)
            owner = np.concatenate([owner[from_hits], actor[from_events]])
            item = np.concatenate([item[from_hits], events.item[which[from_events]]])
            place = np.concatenate([place[from_hits], seen[from_events]])
            order = np.lexsort((place, owner))
            owner, item, place = owner[order], item[order], place[order]
        gain, time = np.zeros(len(item)), np.full(len(item), np.nan)
        if len(which):
            keys = actor * self.items.n + events.item[which]  # sorted, as events are
            met = np.flatnonzero(sizes[owner])
            wanted = owner[met] * self.items.n + item[met]
            # Most searches have one event, which needs no search.
            places = (np.cumsum(sizes) - sizes)[owner[met]]
            several = np.flatnonzero(sizes[owner[met]] > 1)
            found = np.searchsorted(keys, wanted[several])
            places[several] = np.minimum(found, len(keys) - 1)
            same = keys[places] == wanted
            met, acted = met[same], which[places[same]]
            gain[met], time[met] = events.gain[acted], events.time[acted]
            missed = events.gain[which] > 0
            missed[places[same]] = False
            self.counts["clicks on what was not shown"] += int(np.count_nonzero(missed))
        heads = np.flatnonzero(np.diff(owner, prepend=-1))
        self.counts["searches without a list"] += len(search) - len(heads)
        return Impressions(
            query[owner[heads]].astype(np.intp),
            np.append(heads, len(owner)),
            item.astype(np.intp),
            gain,
            {"position": np.log(place)},
            np.ones(len(heads)),
            np.zeros(len(heads), bool),
            time if self.times else np.zeros(0),
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
