"""Events of a log by search: joined to the searches in a temporary database."""

import sqlite3
from collections.abc import Iterable
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices

#: gain of an event that says what was shown
SHOWN_GAIN = -1.0
#: memory of the database, in KiB; the rest of it is in a file
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
    """Items shown or acted on in some searches, each once; sorted by search and item."""

    #: place of the search among those asked for
    owner: Indices
    item: Indices
    #: 0 for items that were shown and no more
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
    """Events as they are read, which are then found by their searches, in flat memory.

    A temporary SQLite database stays in its cache if it fits, and else is a file that nobody sees.
    """

    def __init__(self) -> None:
        # A reading that is given up may be collected on any thread.
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.executescript(f"PRAGMA cache_size = -{CACHE_KIB}; {_CREATE}")
        self._is_indexed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._database.close()

    def add(
        self,
        *,
        search: NDArray[np.int64],
        item: Indices,
        gain: Array,
        ordinal: Array,
        time: Array,
    ) -> None:
        """Keep some events, before any are asked for."""
        rows = zip(
            *(column.tolist() for column in (search, item, gain, ordinal, time)), strict=True
        )
        self._insert("INSERT INTO event VALUES (?, ?, ?, ?, ?)", rows)

    def events_of(self, search: NDArray[np.int64]) -> Events:
        """Events of some searches."""
        database = self._database
        if not self._is_indexed:  # at once is faster than row by row
            database.execute("CREATE INDEX by_search ON event (search)")
            self._is_indexed = True
        database.execute("DELETE FROM asked")
        self._insert("INSERT INTO asked VALUES (?, ?)", enumerate(search.tolist()))
        found = database.execute(_OF_ASKED).fetchall()
        database.execute(
            "INSERT OR IGNORE INTO met SELECT search FROM asked JOIN event USING (search)"
        )
        columns = zip(*found, strict=True) if found else [()] * len(Events._fields)
        kinds = (np.intp, np.intp, float, bool, float, float)
        return Events(*(np.array(x, kind) for x, kind in zip(columns, kinds, strict=True)))

    def n_stray_clicks(self) -> int:
        """Number of items that were acted on in searches that nobody has asked for."""
        return int(self._database.execute(_STRAY_CLICKS).fetchone()[0])

    def _insert(self, statement: str, rows: Iterable[tuple[Any, ...]]) -> None:
        self._database.execute("BEGIN")
        self._database.executemany(statement, rows)
        self._database.execute("COMMIT")
