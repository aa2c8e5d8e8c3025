"""Items that change while they are searched: rows are written once, and readers see a frozen shelf.

A row is all views of one version of an item, side by side. A new version is a new row, and the old
one is dead. Readers hold a `Shelf`, a number of rows and which of them are dead, so they need no
lock: rows are never written again, and compaction fills new arrays.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.service.errors import Invalid
from similia.service.records import Item, Packed, View, is_number
from similia.views import Views

#: share of dead rows above which the living are moved together
WASTE = 0.5
#: rows below which they never are
FEW = 1024


class Layout:
    """Where each view is in a row."""

    def __init__(self, views: Sequence[View], fields: Sequence[str] = ()) -> None:
        self.views = [*views, *(View(name, 1, compared=False) for name in fields)]
        self.fields = set(fields)
        ends = np.cumsum([0, *(view.width for view in self.views)]).tolist()
        pairs = zip(self.views, ends, ends[1:], strict=False)
        self.places = {view.name: slice(begin, end) for view, begin, end in pairs}
        self.width = ends[-1]
        self.base = self.views[0].name
        self._parts = [(view.name, view.compared, bytes(4 * view.width)) for view in self.views]

    def sides(self, queries: Array, items: Array) -> tuple[Views, Views]:
        """Views of rows that stand for queries, and of rows of items."""
        compared = {view.name: queries[:, self.places[view.name]] for view in self._compared}
        return Views(**compared), self.items(items)

    def items(self, rows: Array) -> Views:
        """Views of rows of items."""
        return Views(**{view.name: rows[:, self.places[view.name]] for view in self.views})

    def queries(self, rows: Array) -> Views:
        """Views of rows that stand for queries."""
        return Views(**{view.name: rows[:, self.places[view.name]] for view in self._compared})

    @property
    def _compared(self) -> Iterator[View]:
        return (view for view in self.views if view.compared)

    def query_row(self, vectors: Mapping[str, Array]) -> NDArray[np.float32]:
        """Vectors of a query as a row; a view that it lacks has no say."""
        row = np.zeros(self.width, np.float32)
        for view in self._compared:
            if view.name in vectors:
                row[self.places[view.name]] = vectors[view.name]
        return row

    def query_bytes(self, vectors: Packed) -> bytes | None:
        """The same from the bytes of vectors; None if they are of another width."""
        if len(self._parts) == 1:
            row = vectors.get(self.base)
            return row if row is not None and len(row) == 4 * self.width else None
        parts = [vectors.get(name, zeros) if own else zeros for name, own, zeros in self._parts]
        row = b"".join(parts)
        return row if len(row) == 4 * self.width else None

    def split(self, row: Array) -> dict[str, list[float]]:
        """A row as vectors by name."""
        return {name: row[place].tolist() for name, place in self.places.items()}

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
        wanted = {view.name: view.width for view in self.views if view.name not in self.fields}
        for name in (*wanted, *item.vectors):
            if name not in wanted or name not in item.vectors:
                raise Invalid(
                    f"item {item.id!r:.80}: vectors must be {_names(wanted)}, "
                    f"got {_names(item.vectors)}."
                )
            check_vector(f"item {item.id!r:.80}: {name}", item.vectors[name], wanted[name])
        for name in self.fields & item.fields.keys():
            value = item.fields[name]
            if not is_number(value) or abs(float(value)) > largest(1):
                raise Invalid(
                    f"item {item.id!r:.80}: the field {name!r} must be a number up to "
                    f"{largest(1):.1e}, got {value!r:.80}."
                )


def check_vector(name: str, vector: object, width: int) -> None:
    """Refuse anything but so many finite numbers that have a place in single precision."""
    try:
        found = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise Invalid(f"{name} must be {width} numbers, got something else.") from None
    if found.shape != (width,):
        raise Invalid(f"{name} must be {width} numbers, got shape {found.shape}.")
    limit = largest(width)
    if not (np.abs(found) <= limit).all():
        raise Invalid(
            f"{name} must be finite numbers up to {limit:.1e}, got NaN or a larger one; scale it "
            "down."
        )


def largest(width: int) -> float:
    """Largest number of a vector: learners multiply squared norms of two of them."""
    return float(np.finfo(np.float32).max) ** 0.25 / width**0.5


def _names(given: Mapping[str, object]) -> str:
    return ", ".join(map(repr, given))[:200] or "none"


class _Rows:
    """Arrays that grow; rows below `n` never change."""

    def __init__(self, width: int, capacity: int = 64) -> None:
        self.matrix: NDArray[np.float32] = np.zeros((capacity, width), np.float32)
        self.ids: list[str] = []
        #: row of the present version of each item
        self.place: dict[str, int] = {}

    def append(self, id: str, row: Array) -> None:
        n = len(self.ids)
        if n == len(self.matrix):
            larger = np.zeros((2 * n, self.matrix.shape[1]), np.float32)
            larger[:n] = self.matrix
            self.matrix = larger
        self.matrix[n] = row
        self.ids.append(id)
        self.place[id] = n


class Shelf(NamedTuple):
    """Items as they were at some row of the log."""

    rows: _Rows
    matrix: NDArray[np.float32]
    #: rows that are no longer, or not yet, the present version of an item
    dead: Indices

    def __len__(self) -> int:
        return len(self.matrix) - len(self.dead)

    def id(self, row: int) -> str:
        """Id of the item in a row."""
        return self.rows.ids[row]

    def row(self, id: str) -> int | None:
        """Row of an item, unless it came or changed later."""
        row = self.rows.place.get(id)
        return None if row is None or row >= len(self.matrix) else row

    def some(self, most: int) -> Indices:
        """Living rows in order, evenly thinned out to at most so many."""
        alive = np.setdiff1d(np.arange(len(self.matrix)), self.dead, assume_unique=True)
        if len(alive) > most:
            alive = alive[np.linspace(0, len(alive) - 1, most).astype(np.intp)]
        return alive

    def newest(self, ids: Sequence[str]) -> tuple[list[str], NDArray[np.float32]]:
        """Those of some items that exist now, and their rows."""
        places = [(id, self.rows.place.get(id)) for id in ids]
        known = [(id, row) for id, row in places if row is not None]
        return [id for id, _ in known], self.rows.matrix[[row for _, row in known]]


class Items:
    """All items by id, written by one thread."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self._rows = _Rows(layout.width)
        self._dead: list[int] = []
        self._kept: dict[str, Item] = {}
        #: changes whenever items do
        self.version = 0

    def __len__(self) -> int:
        return len(self._kept)

    def __contains__(self, id: object) -> bool:
        return id in self._kept

    def __iter__(self) -> Iterator[str]:
        return iter(self._kept)

    def put(self, item: Item, vectors: Packed) -> None:
        """Add an item, or put it in place of the one with its id; vectors come as bytes."""
        row = np.zeros(self.layout.width, np.float32)
        for name, place in self.layout.places.items():
            if name in self.layout.fields:
                value = item.fields.get(name, 0.0)
                row[place] = float(value) if is_number(value) else 0.0
            elif name in vectors:
                row[place] = np.frombuffer(vectors[name], "<f4")
        self.delete(item.id)
        self._rows.append(item.id, row)
        self._kept[item.id] = item
        self.version += 1

    def delete(self, id: str) -> None:
        """Take an item away, if it is there."""
        row = self._rows.place.pop(id, None)
        if row is not None:
            self._dead.append(row)
            del self._kept[id]
            self.version += 1

    def row(self, id: str) -> int | None:
        """Row of the present version of an item."""
        return self._rows.place.get(id)

    def matrix(self, rows: Sequence[int]) -> NDArray[np.float32]:
        """Rows, of whatever versions."""
        found: NDArray[np.float32] = self._rows.matrix[np.asarray(rows, np.intp)]
        return found

    def get(self, id: str) -> Item | None:
        """An item with its vectors as lists."""
        rows = self._rows  # compaction may put others in their place
        item, row = self._kept.get(id), rows.place.get(id)
        if item is None or row is None:
            return None
        found = self.layout.split(rows.matrix[row])
        vectors = {name: v for name, v in found.items() if name not in self.layout.fields}
        return Item(id=id, vectors=vectors, text=item.text, fields=item.fields, image=item.image)

    def texts(self) -> dict[str, str]:
        """Texts of the items that have one, by id."""
        return {item.id: item.text for item in list(self._kept.values()) if item.text}

    def shelf(self) -> Shelf:
        """What readers see from now on."""
        n = len(self._rows.ids)
        return Shelf(self._rows, self._rows.matrix[:n], np.array(self._dead, np.intp))

    @property
    def wastes(self) -> bool:
        """Whether too many rows are dead."""
        n = len(self._rows.ids)
        return n >= FEW and len(self._dead) >= WASTE * n

    def compact(self) -> None:
        """Move the living together; the order stays, row numbers do not."""
        alive = self.shelf().some(len(self._rows.ids))
        rows = _Rows(self.layout.width, max(64, 2 * len(alive)))
        rows.matrix[: len(alive)] = self._rows.matrix[alive]
        rows.ids = [self._rows.ids[row] for row in alive]
        rows.place = {id: row for row, id in enumerate(rows.ids)}
        self._rows, self._dead = rows, []
