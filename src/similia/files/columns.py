"""What the columns of a file of judgements mean, and how a value becomes a number."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from similia.files.bad_rows import RowError
from similia.files.ids import Encoded, Ids, as_integers

#: names of the columns, for each kind of judgement; the first that a file has are taken
LAYOUTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "triplets": (("query", "better", "worse"), ("query", "item", "relevance")),
    "pairs": (("a", "b", "label"), ("a", "b", "y")),
    "grades": (("query", "item", "relevance"),),
    "labels": (("row", "label"),),
}
#: kinds as a file's columns tell them apart
KINDS = ("grades", "triplets", "pairs", "labels")
LAYOUTS["any"] = tuple(dict.fromkeys(layout for kind in LAYOUTS for layout in LAYOUTS[kind]))


class Reader(Protocol):
    """How the values of one column become numbers: all at once, or one by one with a reason."""

    #: what a quick parser should read: "int64", "float64" or "string"
    dtype: str

    def values(self, column: Any) -> NDArray[Any] | None:
        """Give the numbers of a column, or None if any value is bad."""
        ...

    def value(self, raw: Any) -> Any:
        """Give the number of one value, or raise RowError."""
        ...


class Key:
    """A column of ids: becomes row numbers."""

    def __init__(self, ids: Ids) -> None:
        self.ids = ids
        self.dtype = "string" if ids.is_text else "int64"

    def values(self, column: Any) -> NDArray[Any] | None:
        """Give the rows, or None if any id is unknown."""
        return self.ids.rows(column)

    def value(self, raw: Any) -> int:
        """Give the row of one id."""
        return self.ids.row(raw)


class Number:
    """A column of finite numbers, none below `least`."""

    dtype = "float64"

    def __init__(self, least: float = -math.inf) -> None:
        self.least = least

    def values(self, column: Any) -> NDArray[Any] | None:
        """Give the numbers in double precision, or None if any is bad."""
        if isinstance(column, Encoded) or column.dtype.kind not in "fiu":
            return None
        numbers = column.astype(np.float64)
        return numbers if (np.isfinite(numbers) & (numbers >= self.least)).all() else None

    def value(self, raw: Any) -> float:
        """Give one number."""
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise RowError("not a number", f" {raw!r:.80}")
        try:
            number = float(raw)
        except (ValueError, OverflowError):
            raise RowError("not a number", f" {raw!r:.80}") from None
        if not math.isfinite(number):
            raise RowError("not a finite number", f" {raw!r:.80}")
        if number < self.least:
            raise RowError(f"not at least {self.least:g}", f": {raw!r:.80}")
        return number


class Labels:
    """A column of labels, gathered and not interpreted: what classes are there?"""

    dtype = "string"

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def values(self, column: Any) -> NDArray[Any]:
        """Note all labels of a column."""
        texts = column.texts if isinstance(column, Encoded) else np.unique(column).tolist()
        self.seen.update(map(str, texts))
        return np.zeros(len(column.codes if isinstance(column, Encoded) else column))

    def value(self, raw: Any) -> int:
        """Note one label."""
        if isinstance(raw, bool) or not isinstance(raw, str | int):
            raise RowError("not a label", f" {raw!r:.80}")
        self.seen.add(str(raw).strip() if isinstance(raw, int) else raw)
        return 0

    @property
    def classes(self) -> NDArray[Any]:
        """The labels in order: as integers if all are, else as texts."""
        numbers = as_integers(self.seen)
        return np.array(sorted(self.seen), dtype=object) if numbers is None else np.sort(numbers)


class Column(NamedTuple):
    """A name and how its values are read."""

    name: str
    reader: Reader


def layout_of(source: str, kind: str, names: Sequence[str]) -> tuple[str, ...]:
    """Give the columns to read of those that a file has."""
    known = set(names)
    for layout in LAYOUTS[kind]:
        if known.issuperset(layout):
            return layout
    wanted = " or ".join(",".join(layout) for layout in LAYOUTS[kind])
    raise ValueError(
        f"{source}: feedback must have the columns {wanted}, got {','.join(names)!r:.120}."
    )


def columns_of(layout: Sequence[str], ids: Ids, items: Ids, label: Reader) -> list[Column]:
    """Give each column its reader: `items` for what is found, `ids` for what is asked."""
    readers: dict[str, Reader] = {"relevance": Number(0.0), "y": Number(), "label": label}
    for name in ("query", "a", "b", "row"):
        readers[name] = Key(ids)
    for name in ("better", "worse", "item"):
        readers[name] = Key(items)
    return [Column(name, readers[name]) for name in layout]


def all_at_once(columns: Sequence[Column], raw: Sequence[Any]) -> list[NDArray[Any]] | None:
    """Give the numbers of each column, or None if any value of any column is bad."""
    found = []
    for column, values in zip(columns, raw, strict=True):
        numbers = column.reader.values(values)
        if numbers is None:
            return None
        found.append(numbers)
    return found


def one_by_one(columns: Sequence[Column], raw: Sequence[Any]) -> list[Any]:
    """Give the numbers of one row, or raise RowError with the name of the column at fault."""
    found = []
    for column, value in zip(columns, raw, strict=True):
        if value is None:
            raise RowError(f"column {column.name} is missing")
        try:
            found.append(column.reader.value(value))
        except RowError as error:
            raise error.within(column.name) from None
    return found
