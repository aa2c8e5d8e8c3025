"""Items that change while they are searched: rows are written once, and readers take snapshots.

A row is all views of one version of an item, side by side. A new version is a new row, and the old
one is dead. Readers hold an `ItemSnapshot`, a number of rows and which of them are dead, so they
need no lock: rows are never written again, and compaction fills new arrays.

Each row knows when it came and went, so `ItemVersions` finds items as they were at an earlier row
of the log, also while they change; of what went before the last compaction nothing is left.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.service.errors import Invalid
from similia.service.log.records import (
    Body,
    Configured,
    Delete,
    Item,
    Packed,
    Put,
    Query,
    TenantSettings,
    Value,
    View,
    view_of,
)
from similia.tabular.column_views import ColumnView
from similia.tabular.columns import is_missing
from similia.tabular.layout import WORD_VIEW
from similia.views import Views, checked_views

#: share of dead rows that triggers compaction
COMPACT_ABOVE = 0.5
#: fewest rows that are compacted
MIN_COMPACTED = 1024


class Layout:
    """Where each view is in a row."""

    def __init__(self, views: Sequence[View], columns: Sequence[ColumnView] = ()) -> None:
        self._given = {view.name: view.width for view in views}
        #: views that are made of fields of items
        self.columns = list(columns)
        self.views = [*views, *map(view_of, columns)]
        ends = np.cumsum([0, *(view.width for view in self.views)]).tolist()
        pairs = zip(self.views, ends, ends[1:], strict=False)
        self.places = {view.name: slice(begin, end) for view, begin, end in pairs}
        self.width = ends[-1]
        self.base = self.views[0].name
        #: whether the words of texts are a view beside vectors
        self.has_words = WORD_VIEW in self._given and self.base != WORD_VIEW
        self._compared = [view for view in self.views if view.compared]
        self._parts = [(view.name, view.compared, bytes(4 * view.width)) for view in self.views]

    @classmethod
    def of(cls, settings: TenantSettings) -> Self:
        """Layout by the settings of a tenant."""
        fields = [ColumnView(name, "number") for name in settings.fields]
        return cls(settings.views or [], [*fields, *settings.columns])

    def items(self, rows: Array) -> Views:
        """Views of rows of items."""
        return checked_views({view.name: rows[:, self.places[view.name]] for view in self.views})

    def queries(self, rows: Array) -> Views:
        """Views of rows that stand for queries."""
        return checked_views(
            {view.name: rows[:, self.places[view.name]] for view in self._compared}
        )

    def query_row(self, vectors: Mapping[str, Array]) -> NDArray[np.float32]:
        """Vectors of a query as a row; missing views are zero."""
        row = np.zeros(self.width, np.float32)
        for view in self._compared:
            if view.name in vectors:
                row[self.places[view.name]] = vectors[view.name]
        return row

    def item_rows(self, items: Sequence[Item], vectors: Sequence[Packed]) -> NDArray[np.float32]:
        """Vectors and fields of items as rows."""
        rows = np.zeros((len(items), self.width), np.float32)
        for name, width in self._given.items():
            own = b"".join(each.get(name, bytes(4 * width)) for each in vectors)
            rows[:, self.places[name]] = np.frombuffer(own, "<f4").reshape(len(items), width)
        for column in self.columns:
            values = [item.fields.get(column.name) for item in items]
            part = rows[:, self.places[column.name]]
            if column.is_category:
                part[column.ones(values)] = 1.0
            else:
                part[:, 0] = column.features(values)
        return rows

    def named(self, text: str) -> dict[str, list[float]]:
        """Views of the categories that a typed query names."""
        found: dict[str, list[float]] = {}
        for column in self.columns:
            places = column.named(text)
            if places:
                vector = np.zeros(column.width)
                vector[places] = 1.0
                found[column.name] = vector.tolist()
        return found

    def query_bytes(self, vectors: Packed) -> bytes | None:
        """A query row from the bytes of vectors; None if the widths differ."""
        if len(self._parts) == 1:
            row = vectors.get(self.base)
            return row if row is not None and len(row) == 4 * self.width else None
        parts = [vectors.get(name, zeros) if own else zeros for name, own, zeros in self._parts]
        row = b"".join(parts)
        return row if len(row) == 4 * self.width else None

    def split(self, row: Array) -> dict[str, list[float]]:
        """A row as vectors by name."""
        return {name: row[place].tolist() for name, place in self.places.items()}

    def vectors(self, row: Array) -> dict[str, list[float]]:
        """The vectors that an item was given with, by view."""
        return {name: row[self.places[name]].tolist() for name in self._given}

    # -- checks --------------------------------------------------------------------------------

    def check_query(self, vectors: Mapping[str, object]) -> None:
        """Refuse vectors of other names or widths, or without the base."""
        compared = {view.name: view.width for view in self._compared}
        if self.base not in vectors:
            raise Invalid(f"query: vectors must have {self.base!r}, got {_names(vectors)}.")
        for name, vector in vectors.items():
            if name not in compared:
                raise Invalid(f"query: vectors must be of {_names(compared)}, got {name!r:.80}.")
            check_vector(f"query: {name}", vector, compared[name])

    def check_item(self, item: Item) -> None:
        """Refuse an item without all views, or with others."""
        wanted = self._given
        for name in (*wanted, *item.vectors):
            if name not in wanted or name not in item.vectors:
                raise Invalid(
                    f"item {item.id!r:.80}: vectors must be {_names(wanted)}, "
                    f"got {_names(item.vectors)}."
                )
            check_vector(f"item {item.id!r:.80}: {name}", item.vectors[name], wanted[name])
        for column in self.columns:
            value = item.fields.get(column.name)
            if not is_missing(value):
                _check_field(f"item {item.id!r:.80}: the field {column.name!r}", column, value)


def _check_field(name: str, column: ColumnView, value: Value | None) -> None:
    """Refuse a value that is not of a column's kind, or too large to learn from."""
    if column.is_category:
        if not isinstance(value, str):
            raise Invalid(f"{name} must be a text, got {value!r:.80}.")
        return
    if column.number(value) is None:
        what = "a date such as 2024-05-02" if column.kind == "date" else "a number"
        raise Invalid(f"{name} must be {what}, got {value!r:.80}.")
    if abs(column.features([value])[0]) > largest_number(1):
        raise Invalid(f"{name} must be at most {largest_number(1):.1e}, got {value!r:.80}.")


def check_vector(name: str, vector: object, width: int) -> None:
    """Refuse all but `width` finite numbers within range."""
    try:
        found = np.asarray(vector)
    except ValueError:  # ragged lists
        found = np.asarray(None)
    masked = isinstance(vector, np.ma.MaskedArray)
    if found.dtype.kind not in "iuf" or masked:
        raise Invalid(f"{name} must be {width} numbers, got something else.")
    if found.shape != (width,):
        raise Invalid(f"{name} must be {width} numbers, got shape {found.shape}.")
    limit = largest_number(width)
    if not (np.abs(found.astype(np.float64, copy=False)) <= limit).all():
        raise Invalid(
            f"{name} must be finite numbers up to {limit:.1e}, got NaN or a larger one; scale it "
            "down."
        )


def largest_number(width: int) -> float:
    """Largest value in a vector: learners multiply two squared norms."""
    return float(np.finfo(np.float32).max) ** 0.25 / width**0.5


def check_query(layout: Layout | None, query: Query, known: Callable[[str], bool]) -> None:
    """Refuse a query that cannot be ranked."""
    if layout is None:
        raise Invalid("query: there are no items yet; put some first.")
    if query.vectors:
        layout.check_query(query.vectors)
    elif query.item is None:
        raise Invalid(
            "query: there must be vectors or an item"
            f"{', got only a text; set up an embedder' if query.text else ', got neither'}."
        )
    elif not known(query.item):
        raise Invalid(f"query: item must be the id of an item, got {query.item!r:.80}.")


def _names(given: Mapping[str, object]) -> str:
    return ", ".join(map(repr, given))[:200] or "none"


# -- rows ------------------------------------------------------------------------------------------


class ItemRows:
    """Arrays that grow; rows below `n` never change."""

    def __init__(self, width: int, capacity: int = 64, floor: int = 0) -> None:
        self.matrix: NDArray[np.float32] = np.zeros((capacity, width), np.float32)
        self.ids: list[str] = []
        #: row of the present version of each item, and the last row of those that are gone
        self.place: dict[str, int] = {}
        self.gone: dict[str, int] = {}
        #: rows of the log that brought each row, and that took it away
        self.born: list[int] = []
        self.died: dict[int, int] = {}
        #: row of the version before
        self.before: dict[int, int] = {}
        #: first row of the log as of which all versions are known
        self.floor = floor
        self._keys: NDArray[np.uint64] = np.zeros(0, np.uint64)
        self._keying = threading.Lock()

    def append(self, id: str, row: Array, seq: int = 0) -> None:
        """Append a version; readers see all of it or nothing."""
        n = len(self.ids)
        if n == len(self.matrix):
            larger = np.zeros((2 * n, self.matrix.shape[1]), np.float32)
            larger[:n] = self.matrix
            self.matrix = larger
        self.matrix[n] = row
        self.ids.append(id)
        self.born.append(seq)
        earlier = self.place.get(id)
        if earlier is not None:
            self.died[earlier] = seq
        if earlier is not None or id in self.gone:
            self.before[n] = self.gone[id] if earlier is None else earlier
        self.place[id] = n

    def keys(self, n: int, of: Callable[[Array], NDArray[np.uint64]]) -> NDArray[np.uint64]:
        """A learner's keys of the first rows, computed once."""
        with self._keying:
            if len(self._keys) < n:
                self._keys = np.concatenate([self._keys, of(self.matrix[len(self._keys) : n])])
            return self._keys[:n]

    def end(self, id: str, seq: int) -> bool:
        """End the present version, if there is one."""
        row = self.place.get(id)
        if row is None:
            return False
        self.died[row] = seq
        self.gone[id] = row
        del self.place[id]
        return True


class ItemVersions(NamedTuple):
    """Items as they were after some row of the log, whatever came since."""

    rows: ItemRows
    seq: int

    def row(self, id: str) -> int | None:
        """Row of an item as it was then."""
        rows, seq = self.rows, self.seq
        row = rows.place.get(id)
        if row is None:
            row = rows.gone.get(id)
        while row is not None and rows.born[row] > seq:
            row = rows.before.get(row)
        return None if row is None or rows.died.get(row, seq + 1) <= seq else row

    def has(self, id: str) -> bool:
        """Whether the item existed then."""
        return self.row(id) is not None

    def sample(self, most: int) -> NDArray[np.float32]:
        """At most so many rows that lived then, in order and at even distances."""
        born = np.array(self.rows.born, np.int64)
        died = self.rows.died.copy()
        then = np.fromiter((row for row, end in died.items() if end <= self.seq), np.intp)
        alive = np.setdiff1d(np.flatnonzero(born <= self.seq), then, assume_unique=True)
        return self.rows.matrix[thinned(alive, most)]


def thinned(rows: Indices, most: int) -> Indices:
    """At most so many of some rows, at even distances."""
    if len(rows) <= most:
        return rows
    return rows[np.linspace(0, len(rows) - 1, most).astype(np.intp)]


class ItemSnapshot(NamedTuple):
    """Items as they were at some row of the log."""

    rows: ItemRows
    matrix: NDArray[np.float32]
    #: rows that are no longer, or not yet, the present version of an item
    dead: Indices

    def __len__(self) -> int:
        return len(self.matrix) - len(self.dead)

    def row(self, id: str) -> int | None:
        """Row of an item, unless it came or changed later."""
        row = self.rows.place.get(id)
        return None if row is None or row >= len(self.matrix) else row

    def some(self, most: int) -> Indices:
        """At most so many living rows, in order and at even distances."""
        alive = np.setdiff1d(np.arange(len(self.matrix)), self.dead, assume_unique=True)
        return thinned(alive, most)

    def newest(self, ids: Sequence[str]) -> tuple[list[str], NDArray[np.float32]]:
        """Those of some items that exist now, and their vectors."""
        places = [(id, self.rows.place.get(id)) for id in ids]
        known = [(id, row) for id, row in places if row is not None]
        return [id for id, _ in known], self.rows.matrix[[row for _, row in known]]


class Items:
    """All items by id, written by one thread."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._rows = ItemRows(layout.width)
        self._kept: dict[str, Item] = {}
        #: changes whenever items do
        self.version = 0
        #: last row of the log that has changed them completely
        self.changed = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, id: object) -> bool:
        return id in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def put(self, item: Item, row: Array, seq: int = 0) -> None:
        """Add or replace an item."""
        self._kept.pop(item.id, None)  # keep the order of the last versions
        self._rows.append(item.id, row, seq)
        self._kept[item.id] = item
        self.version += 1

    def delete(self, id: str, seq: int = 0) -> None:
        """Delete an item, if it exists."""
        if self._rows.end(id, seq):
            del self._kept[id]
            self.version += 1

    def row(self, id: str) -> int | None:
        """Row of the present version of an item."""
        return self._rows.place.get(id)

    def matrix(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Rows, of whatever versions."""
        found: NDArray[np.float32] = self._rows.matrix[np.asarray(rows, np.intp)]
        return found

    def latest(self) -> ItemVersions:
        """Items as of the last row that was applied whole."""
        while (found := self.as_of(self.changed)) is None:
            pass  # compacted just now
        return found

    def as_of(self, seq: int) -> ItemVersions | None:
        """Items as they were after a row of the log; None if compaction has forgotten that."""
        rows = self._rows
        return None if seq < rows.floor else ItemVersions(rows, seq)

    def get(self, id: str) -> Item | None:
        """An item with its vectors as lists."""
        rows = self._rows  # compaction may replace them
        item, row = self._kept.get(id), rows.place.get(id)
        if item is None or row is None:
            return None
        vectors = self.layout.vectors(rows.matrix[row])
        return Item(id=id, vectors=vectors, text=item.text, fields=item.fields, image=item.image)

    def texts(self) -> dict[str, str]:
        """Texts of the items that have one, by id."""
        return {item.id: item.text for item in list(self._kept.values()) if item.text}

    def snapshot(self) -> ItemSnapshot:
        """A snapshot for readers."""
        rows = self._rows
        return ItemSnapshot(rows, rows.matrix[: len(rows.ids)], np.array(list(rows.died), np.intp))

    def sample(self, most: int) -> NDArray[np.float32]:
        """At most so many rows of living items, in order and at even distances."""
        now = self.snapshot()
        return now.matrix[now.some(most)]

    @property
    def wastes(self) -> bool:
        """Whether compaction is due."""
        n = len(self._rows.ids)
        return n >= MIN_COMPACTED and len(self._rows.died) >= COMPACT_ABOVE * n

    def compact(self) -> None:
        """Drop dead rows; order stays, row numbers change."""
        old = self._rows
        alive = self.snapshot().some(len(old.ids))
        rows = ItemRows(self.layout.width, max(64, 2 * len(alive)), self.changed)
        rows.matrix[: len(alive)] = old.matrix[alive]
        rows.ids = [old.ids[row] for row in alive]
        rows.born = [old.born[row] for row in alive]
        rows.place = {id: row for row, id in enumerate(rows.ids)}
        self._rows = rows


def fed(items: Items | None, seq: int, body: Body) -> Items | None:
    """Items after one more row of the log; None until their views are known."""
    match body.record:
        case Put(items=given) if items is not None:
            rows = items.layout.item_rows(given, body.vectors)
            for item, row in zip(given, rows, strict=True):  # all or none
                items.put(item, row, seq)
            items.changed = seq
        case Delete(items=ids) if items is not None:
            for id in ids:
                items.delete(id, seq)
            items.changed = seq
        case Configured(settings=settings) if items is None and settings.views:
            return Items(Layout.of(settings))
        case _:
            pass
    return items
