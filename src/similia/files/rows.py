"""Rows of files: the ids that name them, and a record of those that are unusable."""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array
from similia.exceptions import BadRowError

Rows: TypeAlias = NDArray[np.int64]

#: bad rows kept in full; all are counted
KEPT = 20
#: beginnings of texts that spreadsheets compute instead of showing
FORMULA = ("=", "+", "-", "@", "\t", "\r")
#: an integer written as text; int() would also accept "1_000"
DIGITS = re.compile(r"[+-]?[0-9]{1,100}")
#: ids for each distinct text of a column, up to which all are put into one table to look these up
MANY = 4


class RowError(ValueError):
    """Why a row is unusable; `kind` is the reason without particulars, for counting."""

    def __init__(self, kind: str, detail: str = "", place: str = "") -> None:
        super().__init__(f"{kind}{detail}{place}")
        self.kind = f"{kind}{place}"
        self.detail = detail

    def within(self, column: str) -> "RowError":
        """Same reason, with the name of the column at fault."""
        return RowError(self.kind, self.detail, f" in column {column}")


class BadRow(NamedTuple):
    """Position of an unusable row, and the reason."""

    source: str
    number: int
    reason: str

    def __str__(self) -> str:
        return f"{self.source}: row {self.number}: {self.reason}."


class BadRows:
    """Policy for unusable rows, and a record of those met so far.

    "stop" raises BadRowError at the first one; "skip" continues without it. `tell` is called for
    each skipped row, in order. `n` counts them, `counts` does so by reason, `first` keeps a few.
    """

    def __init__(self, action: str = "stop", tell: Callable[[BadRow], None] | None = None) -> None:
        if action not in ("stop", "skip"):
            raise ValueError(f"BadRows: action must be one of 'stop', 'skip', got {action!r}.")
        self.action = action
        self.tell = tell
        self.n = 0
        self.counts: Counter[str] = Counter()
        self.first: list[BadRow] = []

    def add(self, source: str, number: int, error: RowError) -> None:
        """Record a bad row, or raise BadRowError if the action is "stop"."""
        row = BadRow(source, number, str(error))
        if self.action == "stop":
            raise BadRowError(str(row))
        self.take([row], {error.kind: 1})

    def take(self, rows: Iterable[BadRow], counts: Mapping[str, int]) -> None:
        """Record rows that were skipped, here or in another process, and counts by reason."""
        self.counts.update(counts)
        for row in rows:
            self.n += 1
            if len(self.first) < KEPT:
                self.first.append(row)
            if self.tell is not None:
                self.tell(row)

    def to_dict(self) -> dict[str, Any]:
        """Counts as plain values, ready for JSON."""
        return {"n": self.n, "by_reason": dict(self.counts)}


def csv_text(value: str) -> str:
    """A text for CSV, with a quote before what a spreadsheet would take for a formula.

    `Ids` reads it with and without that quote.
    """
    return f"'{value}" if value.startswith(FORMULA) else value


class Encoded(NamedTuple):
    """A dictionary-encoded column of texts: column[i] is texts[codes[i]], or missing below 0."""

    codes: Array
    texts: Sequence[Any]


class Findable(Protocol):
    """Distinct texts that are faster found among known ones together than one by one."""

    def __init__(self, given: Sequence[str]) -> None: ...

    def places_among(self, known: Self) -> NDArray[np.int32]:
        """Place of each text among known ones; -1 where it is none of them."""


class Lists(NamedTuple):
    """A column of lists, one after another: of texts or, once read, of numbers."""

    lengths: Array
    values: Any


#: a column as a parser returns it
RawColumn: TypeAlias = Array | Encoded | Lists


class Ids:
    """Mapping from ids to row numbers; reads a column of ids.

    Integers and their decimal texts are equal as ids: "7" and 7 name the same row. `values` holds n
    different ids, None stands for the row numbers; `what` says in messages what they name.
    """

    def __init__(self, values: ArrayLike | None, n: int, what: str = "id") -> None:
        self.n = n
        self.what = what
        self.values = None if values is None else _checked(values, n, what)
        #: whether the ids are texts rather than integers
        self.is_text = self.values is not None and self.values.dtype == object
        #: type of a column of these ids, for a fast parser
        self.dtype = "string" if self.is_text else "int64"
        self._table: dict[Any, int] = {}
        #: the same, to look up many texts at once: they and, with one more for none, their rows
        self._known: tuple[Findable, Rows] | None = None
        if self.values is None:
            return
        if self.is_text:
            names = self.values.tolist()
            self._table = {value: row for row, value in enumerate(names)}
            distinct = len(self._table)
            for row, value in enumerate(names):  # as `csv_text` writes them
                if value.startswith(FORMULA):
                    self._table.setdefault(csv_text(value), row)
        else:
            self._order = np.argsort(self.values, kind="stable")
            self._sorted = self.values[self._order]
            distinct = n and 1 + int(np.count_nonzero(np.diff(self._sorted)))
        if distinct != n:
            raise ValueError(
                f"{what}s must be different from each other, got {n - distinct} repeated."
            )

    def names(self, rows: ArrayLike | None = None) -> list[Any]:
        """Ids of the given rows, or of all, as plain integers or strings."""
        known = np.arange(self.n) if self.values is None else self.values
        return list((known if rows is None else known[np.asarray(rows)]).tolist())

    def row(self, value: object) -> int:
        """Row of one id; raise RowError if it is unknown."""
        row = self._find(value)
        if row < 0:
            raise RowError(f"unknown {self.what}", f" {value!r:.80}")
        return row

    def rows(self, column: RawColumn) -> Rows | None:
        """Rows of a column of ids, or None if any of them is unknown."""
        if isinstance(column, Lists):
            return None
        found = self.known_rows(column)
        return None if len(found) and found.min() < 0 else found

    #: as a `Reader` has them
    column, value, missing = rows, row, None

    def known_rows(self, column: Array | Encoded) -> Rows:
        """Rows of a column of ids, negative where one is unknown."""
        if isinstance(column, Encoded):
            found, texts = None, column.texts
            if self.is_text and 0 < len(self._table) <= MANY * len(texts):
                found = self._found_together(texts)
            if found is None:
                alone = self.is_text and set(map(type, texts)) <= {str}
                rows = map(self._table.get, texts, repeat(-1)) if alone else map(self._find, texts)
                found = np.fromiter(rows, np.int64, len(texts))
            return np.append(found, -1)[column.codes]  # a missing text is the last one
        if column.dtype.kind not in "iu" or self.is_text:
            distinct, codes = np.unique(column, return_inverse=True)
            return self.known_rows(Encoded(codes, distinct.tolist()))
        if self.values is None:
            numbers = column.astype(np.int64, copy=False)
            return np.where(numbers < self.n, numbers, -1)
        return self._search(column)

    def _found_together(self, texts: Any) -> Rows | None:
        """Rows of so many distinct texts that a table of all ids pays, -1 where one is unknown."""
        if not hasattr(texts, "places_among"):
            return None
        if self._known is None:
            try:
                known = type(texts)(list(self._table))
            except UnicodeEncodeError:  # half a surrogate pair, which no file holds
                return None
            self._known = known, np.array([*self._table.values(), -1])
        known, rows = self._known
        return rows[texts.places_among(known)]

    def _search(self, column: Array) -> Rows:
        if self.n == 0:
            return np.full(len(column), -1)
        places = np.minimum(np.searchsorted(self._sorted, column), self.n - 1)
        return np.where(self._sorted[places] == column, self._order[places], -1)

    def _find(self, value: object) -> int:
        """Row of one id, or -1."""
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if self.is_text:
            return self._table.get(str(value), -1) if whole or isinstance(value, str) else -1
        number = None
        if whole or (isinstance(value, str) and DIGITS.fullmatch(value)):
            number = int(value)  # type: ignore[call-overload]
        elif isinstance(value, float | np.floating) and value == value // 1:
            number = int(value)  # tables hold integers as floats beside nulls
        if number is None or not -(2**63) <= number < 2**63:
            return -1
        if self.values is None:
            return number if 0 <= number < self.n else -1
        return int(self._search(np.array([number]))[0])


def as_integers(texts: Iterable[str]) -> NDArray[np.int64] | None:
    """Texts as integers if every one round-trips, else None: "007" is a name and stays one."""
    texts = list(texts)
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return numbers if [str(number) for number in numbers.tolist()] == texts else None


def _checked(values: ArrayLike, n: int, what: str) -> Array:
    # NumPy would give each text the room of the longest.
    texts_alone = isinstance(values, list | tuple) and set(map(type, values)) == {str}
    given = np.asarray(values, object if texts_alone else None)
    if given.shape != (n,):
        raise ValueError(f"{what}s must be one for each of {n} rows, got shape {given.shape}.")
    plain: Iterable[Any] = values if isinstance(values, list | tuple) else given
    # Integers beyond int64, such as 64-bit hashes, are texts: as int64 they would turn negative,
    # and NumPy reads a mix of small and large ones as floats.
    if given.dtype.kind == "u":
        large = bool(n) and given.max() > np.iinfo(np.int64).max
    else:
        large = given.dtype.kind in "fO" and all(type(value) is int for value in plain)
    if large:
        return np.array([str(value) for value in plain], dtype=object)
    if given.dtype.kind in "iu":
        return given.astype(np.int64, copy=False)
    texts = given.astype(object)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{what}s must be all integers or all strings, got {given.dtype}.")
    return texts
