"""Views side by side in a row: where each is, and what fits."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.service.errors import Invalid
from similia.service.log.records import Item, Packed, View, is_number
from similia.views import Views


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

    def item_row(self, item: Item, vectors: Packed) -> NDArray[np.float32]:
        """Vectors and fields of an item as a row."""
        row = np.zeros(self.width, np.float32)
        for name, place in self.places.items():
            if name in self.fields:
                value = item.fields.get(name, 0.0)
                row[place] = float(value) if is_number(value) else 0.0
            elif name in vectors:
                row[place] = np.frombuffer(vectors[name], "<f4").reshape(place.stop - place.start)
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
            if not is_number(value) or abs(float(value)) > largest_number(1):
                raise Invalid(
                    f"item {item.id!r:.80}: the field {name!r} must be a number up to "
                    f"{largest_number(1):.1e}, got {value!r:.80}."
                )


def check_vector(name: str, vector: object, width: int) -> None:
    """Refuse anything but so many finite numbers that have a place in single precision."""
    try:
        found = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError):
        raise Invalid(f"{name} must be {width} numbers, got something else.") from None
    if found.shape != (width,):
        raise Invalid(f"{name} must be {width} numbers, got shape {found.shape}.")
    limit = largest_number(width)
    if not (np.abs(found) <= limit).all():
        raise Invalid(
            f"{name} must be finite numbers up to {limit:.1e}, got NaN or a larger one; scale it "
            "down."
        )


def largest_number(width: int) -> float:
    """Largest number of a vector: learners multiply squared norms of two of them."""
    return float(np.finfo(np.float32).max) ** 0.25 / width**0.5


def _names(given: Mapping[str, object]) -> str:
    return ", ".join(map(repr, given))[:200] or "none"
