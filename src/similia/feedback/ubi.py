"""Logs of OpenSearch's User Behavior Insights (UBI 1.0.0 to 1.3.0), as lists shown and clicked."""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.feedback.impressions import Impressions
from similia.files import BadRows, FeedbackLike, Ids, RowError, Source
from similia.files.columns import AT_LEAST_1, KEY, TIME, Reader, WantedColumns, each
from similia.files.source import Batch
from similia.validation import check_parameters, none, positive_integer

#: gain that marks an event of something shown
SHOWN_GAIN = -1.0
#: cache of the temporary database, in KiB; the rest is on disk
CACHE_KIB = 2**15

_CREATE = """
    PRAGMA journal_mode = OFF;
    PRAGMA synchronous = OFF;
    CREATE TABLE event (search INTEGER, item INTEGER, gain REAL, ordinal REAL, time REAL);
    CREATE TABLE met (search INTEGER PRIMARY KEY);
    CREATE TABLE asked (owner INTEGER PRIMARY KEY, search INTEGER);
"""
#: one row for each item of a search: the highest gain, the first place, the last time
_OF_ASKED = f"""
    SELECT owner, item, max(max(gain), 0), max(gain = {SHOWN_GAIN}), min(ordinal), max(time)
    FROM asked JOIN event USING (search) GROUP BY owner, item ORDER BY owner, item
"""
_MARK_MET = "INSERT OR IGNORE INTO met SELECT search FROM asked JOIN event USING (search)"
_STRAY_CLICKS = """
    SELECT count(*) FROM (
        SELECT 1 FROM event WHERE gain > 0 AND search NOT IN met GROUP BY search, item
    )
"""


class Events(NamedTuple):
    """Items shown or acted on in some searches, without repeats, sorted by search and item."""

    #: index of the search among those asked for
    owner: Indices
    item: Indices
    #: 0 for items that were only shown
    gain: NDArray[np.float64]
    shown: NDArray[np.bool_]
    #: NaN if not logged
    ordinal: NDArray[np.float64]
    time: NDArray[np.float64]

    @property
    def place(self) -> Indices:
        """Place of each event among those of its search, from 1."""
        return np.arange(len(self.owner)) - np.searchsorted(self.owner, self.owner) + 1


class EventStore:
    """Events, kept as they are read and then found by search, in flat memory.

    A temporary SQLite database stays in its cache if it fits, and else is a file that nobody sees.
    """

    def __init__(self) -> None:
        # An abandoned iterator may be collected on any thread.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(f"PRAGMA cache_size = -{CACHE_KIB}; {_CREATE}")
        self._is_indexed = False

    def close(self) -> None:
        """Remove the database."""
        self._database.close()

    def add(self, *, search: Array, item: Array, gain: Array, ordinal: Array, time: Array) -> None:
        """Add events; all must be added before the first lookup."""
        columns = (search, item, gain, ordinal, time)
        rows = zip(*(column.tolist() for column in columns), strict=True)
        self._insert("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)

    def events_of(self, search: NDArray[np.int64]) -> Events:
        """Events of some searches."""
        database = self._database
        if not self._is_indexed:  # faster than indexing row by row
            database.execute("CREATE INDEX by_search ON event (search)")
            self._is_indexed = True
        database.execute("DELETE FROM asked")
        self._insert("INSERT INTO asked VALUES (?, ?)", enumerate(search.tolist()))
        found = database.execute(_OF_ASKED).fetchall()
        database.execute(_MARK_MET)
        columns = zip(*found, strict=True) if found else [()] * len(Events._fields)
        kinds = (np.intp, np.intp, float, bool, float, float)
        return Events(*(np.array(x, kind) for x, kind in zip(columns, kinds, strict=True)))

    def n_stray_clicks(self) -> int:
        """Number of items acted on in searches that were never looked up."""
        return int(self._database.execute(_STRAY_CLICKS).fetchone()[0])

    def _insert(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._database.execute("BEGIN")
        self._database.executemany(statement, rows)
        self._database.execute("COMMIT")


#: gains of standard actions; not of views, which may be of a page or of a result
GAINS = {"click": 1.0, "click_through": 1.0, "add_to_cart": 1.0, "purchase": 1.0, "watch": 1.0}
#: row numbers for an id without a vector, and for a missing id
UNKNOWN_ROW, MISSING_ROW = -1, -2

OBJECT = "event_attributes.object.object_id"
#: an integer since UBI 1.1.0, an object before
ORDINAL, ORDINAL_INDEX = "event_attributes.position.ordinal", "index"
HITS = "query_response_hit_ids"


class SearchBatch(NamedTuple):
    """A batch of searches: keys, rows of query vectors, and all hits."""

    search: NDArray[np.int64]
    query: Indices
    #: place of its search, row and rank of each hit
    owner: Indices
    item: Indices
    rank: Array


class UbiLog:
    """UBI queries and events that can be iterated over, in batches of `Impressions`.

    What was shown for a query are the objects of its "impression" events if it has some, else its
    `query_response_hit_ids`. A query with neither says nothing: no impression, no negative. Several
    actions on one object count as the one of highest gain, so events logged twice do no harm.
    Memory is flat: queries stream by, and events that show an item or act on it are kept in a
    temporary SQLite database.

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
        with closing(EventStore()) as store:
            for columns in self._read_events():
                store.add(**columns)
            for searches in self._read_searches():
                lists = self._lists(searches, store.events_of(searches.search))
                self.counts["searches"] += len(searches.search)
                self.counts["lists"] += len(lists)
                if len(lists):
                    yield lists
            self.counts["clicks on what was not shown"] += store.n_stray_clicks()

    # -- rows ----------------------------------------------------------------------------------

    def _read(self, source: Source, columns: dict[str, tuple[str, Reader]]) -> Iterator[Batch]:
        """Columns by our names, from their paths in documents; some may be absent."""
        paths = {name: path for name, (path, _) in columns.items()}
        readers = {name: reader for name, (_, reader) in columns.items()}
        required = {name: one for name, one in readers.items() if one.missing is None}
        optional = {name: one for name, one in readers.items() if one.missing is not None}
        documents = Source(source, paths, documents=True)
        return documents.batches([WantedColumns(required, optional)], self.bad_rows)

    def _read_events(self) -> Iterator[dict[str, Array]]:
        """Columns of the events that show an item or act on it."""
        columns = {
            "search": ("query_id", KEY._replace(missing=0)),
            "gain": ("action_name", each(self._gain, missing=0.0)),
            "item": (OBJECT, _rows_of(self.items)),
            "ordinal": (ORDINAL, each(_ordinal, missing=np.nan)),
        }
        if self.times:
            columns["time"] = ("timestamp", TIME._replace(missing=np.nan))
        for found, numbers in self._read(self.events, columns):
            acts = found["gain"] != 0
            self._report(self.events, numbers[acts & (found["item"] == UNKNOWN_ROW)], OBJECT)
            kept = acts & (found["item"] >= 0)
            unknown = np.full(np.count_nonzero(kept), np.nan)
            yield {
                "ordinal": unknown,
                "time": unknown,
                **{name: values[kept] for name, values in found.items()},
            }

    def _gain(self, action: object) -> float:
        return SHOWN_GAIN if action == "impression" else self.gains.get(str(action), 0.0)

    def _read_searches(self) -> Iterator[SearchBatch]:
        """Searches, with the hits that have a vector."""
        columns = {
            "search": ("query_id", KEY),
            "query": (self.query, _rows_of(self.ids)),
            "hits": (HITS, _HIT_LISTS),
        }
        for found, numbers in self._read(self.queries, columns):
            self._report(self.queries, numbers[found["query"] < 0], self.query)
            hits = found["hits"].tolist() if "hits" in found else [()] * len(numbers)
            lengths = np.fromiter(map(len, hits), np.int64, len(hits))
            owner = np.repeat(np.arange(len(hits)), lengths)
            rank = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + 1
            item = self.items.known_rows(list(chain.from_iterable(hits)))
            known = item >= 0
            self._report(self.queries, numbers[owner[~known]], HITS)
            if self.depth is not None:
                known &= rank <= self.depth
            yield SearchBatch(
                found["search"], found["query"], owner[known], item[known], rank[known]
            )

    def _report(self, source: Source, numbers: Indices, column: str) -> None:
        """Report rows with an id that has no vector."""
        for number in numbers.tolist():
            self.bad_rows.add(
                str(source), number, RowError("unknown id", place=f" in column {column}")
            )

    # -- lists ---------------------------------------------------------------------------------

    def _lists(self, searches: SearchBatch, events: Events) -> Impressions:
        """Lists of some searches, with their events."""
        search, query, owner, item, rank = searches
        # Impression events say what was seen; hits only what could have been.
        logged = np.bincount(events.owner, weights=events.shown, minlength=len(search)) > 0
        usable = query >= 0
        if logged.any() or not usable.all():
            from_hits, from_events = (~logged & usable)[owner], (logged & usable)[events.owner]
            seen = np.where(np.isnan(events.ordinal), events.place, events.ordinal)
            owner = np.concatenate([owner[from_hits], events.owner[from_events]])
            item = np.concatenate([item[from_hits], events.item[from_events]])
            rank = np.concatenate([rank[from_hits], seen[from_events]])
            order = np.lexsort((rank, owner))
            owner, item, rank = owner[order], item[order], rank[order]
        gain, time = np.zeros(len(item)), np.full(len(item), np.nan)
        missed = events.gain > 0
        if len(events.owner):
            keys = events.owner * self.items.n + events.item  # sorted, as events are
            wanted = owner * self.items.n + item
            places = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
            met = np.flatnonzero(keys[places] == wanted)
            gain[met], time[met] = events.gain[places[met]], events.time[places[met]]
            missed[places[met]] = False
        self.counts["clicks on what was not shown"] += int(np.count_nonzero(missed))
        heads = np.flatnonzero(np.diff(owner, prepend=-1))
        self.counts["searches without a list"] += len(search) - len(heads)
        return Impressions(
            query[owner[heads]].astype(np.intp),
            np.append(heads, len(owner)),
            item.astype(np.intp),
            gain,
            {"position": np.log(rank)},
            np.ones(len(heads)),
            np.zeros(len(heads), bool),
            time if self.times else np.zeros(0),
        )


# -- readers -----------------------------------------------------------------------------------


def _rows_of(ids: Ids) -> Reader:
    """Reader of rows by id; `UNKNOWN_ROW` without a vector."""

    def value(raw: Any) -> int:
        return int(ids.known_rows([raw])[0])

    return Reader(value, ids.known_rows, MISSING_ROW, np.int64)


def _ordinal(raw: Any) -> float:
    if isinstance(raw, Mapping):
        raw = raw.get(ORDINAL_INDEX)
    return float("nan") if raw is None else float(AT_LEAST_1.value(raw))


def _hits(raw: Any) -> list[Any]:
    if not isinstance(raw, list):
        raise RowError("not a list", f" {raw!r:.80}")
    return raw


#: lists of ids as they are
_HIT_LISTS = each(_hits, object, missing="")
