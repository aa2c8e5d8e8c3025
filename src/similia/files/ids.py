"""Names of rows: what a file of judgements calls a vector, and which row that is."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.files.bad_rows import RowError

Rows = NDArray[np.int64]

#: what counts as an integer where integers are expected; int() would also take "1_000"
DIGITS = re.compile(r"[+-]?[0-9]{1,100}")


def as_integers(texts: Iterable[str]) -> NDArray[np.int64] | None:
    """Give texts as integers if each is what its integer prints as: 007 is a name and stays one."""
    texts = list(texts)
    try:
        numbers = np.array([int(text) for text in texts], dtype=np.int64)
    except (ValueError, OverflowError):
        return None
    return numbers if [str(number) for number in numbers.tolist()] == texts else None


class Encoded(NamedTuple):
    """A column of texts in which each text is stored once: column[i] is texts[codes[i]]."""

    codes: NDArray[Any]
    texts: list[Any]


class Ids:
    """The way from an id to a row.

    Integers may be written as texts and texts of digits as integers: "7" and 7 are the same id.

    Parameters
    ----------
    values : array of n integers or strings, optional
        The id of each row, no two alike. Without it, the ids are the row numbers 0 … n - 1.
    n : int
        How many rows there are.
    what : str
        What they name, for messages.
    """

    def __init__(self, values: Any, n: int, what: str = "id") -> None:
        self.n = n
        self.what = what
        self.values = None if values is None else _checked(values, n, what)
        self._table: dict[Any, int] = {}
        if self.values is None:
            return
        if self.is_text:
            self._table = {value: row for row, value in enumerate(self.values.tolist())}
            distinct = len(self._table)
        else:
            self._order = np.argsort(self.values, kind="stable")
            self._sorted = self.values[self._order]
            distinct = n and 1 + int(np.count_nonzero(np.diff(self._sorted)))
        if distinct != n:
            raise ValueError(
                f"{what}s must be different from each other, got {n - distinct} repeated."
            )

    @property
    def is_text(self) -> bool:
        """Whether the ids are texts and not integers."""
        return self.values is not None and self.values.dtype == object

    def names(self, rows: Any) -> list[Any]:
        """Give the ids of rows as plain integers or strings."""
        chosen = rows if self.values is None else self.values[rows]
        return list(np.asarray(chosen).tolist())

    def row(self, value: Any) -> int:
        """Give the row of one id, or raise RowError."""
        row = self._find(value)
        if row < 0:
            raise RowError(f"unknown {self.what}", f" {value!r:.80}")
        return row

    def rows(self, column: Any) -> Rows | None:
        """Give the rows of a column of ids, or None if any of them is unknown."""
        if isinstance(column, Encoded):
            found = np.array([self._find(text) for text in column.texts], dtype=np.int64)
            found = found[column.codes] if len(found) else np.empty(0, np.int64)
        elif column.dtype.kind not in "iu" or self.is_text:
            texts, codes = np.unique(column, return_inverse=True)
            return self.rows(Encoded(codes, texts.tolist()))
        elif self.values is None:
            found = column.astype(np.int64, copy=False)
            found = np.where(found < self.n, found, -1)
        else:
            found = self._search(column)
        return None if len(found) and found.min() < 0 else found

    def _search(self, column: Any) -> Rows:
        if self.n == 0:
            return np.full(len(column), -1)
        places = np.minimum(np.searchsorted(self._sorted, column), self.n - 1)
        return np.where(self._sorted[places] == column, self._order[places], -1)

    def _find(self, value: Any) -> int:
        """Give the row of one id, or -1."""
        if self.is_text:
            return self._table.get(value if isinstance(value, str) else _text(value), -1)
        number = _integer(value)
        if number is None:
            return -1
        if self.values is None:
            return number if 0 <= number < self.n else -1
        return int(self._search(np.array([number]))[0])


def _checked(values: Any, n: int, what: str) -> NDArray[Any]:
    given = np.asarray(values)
    if given.shape != (n,):
        raise ValueError(f"{what}s must be one for each of {n} rows, got shape {given.shape}.")
    if _beyond_int64(given, values):
        return np.array([str(value) for value in values], dtype=object)
    if given.dtype.kind in "iu":
        return given.astype(np.int64, copy=False)
    texts = given.astype(object)
    if not all(isinstance(text, str) for text in texts):
        raise ValueError(f"{what}s must be all integers or all strings, got {given.dtype}.")
    return texts


def _beyond_int64(given: NDArray[Any], values: Any) -> bool:
    """Whether these are integers that only texts can keep, such as hashes of 64 bits.

    As int64 they would turn negative; and a list of small and large ones is read as floats.
    """
    if given.dtype.kind == "u":
        return bool(len(given) and given.max() > np.iinfo(np.int64).max)
    return given.dtype.kind in "fO" and all(type(value) is int for value in values)


def _text(value: Any) -> str | None:
    whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
    return str(value) if whole else None


def _integer(value: Any) -> int | None:
    """Give an integer, or a text of one, as an int64 can hold it."""
    if isinstance(value, str):
        if not DIGITS.fullmatch(value):
            return None
        value = int(value)
    elif isinstance(value, float | np.floating) and value == value // 1:
        value = int(value)  # as tables write integers beside missing values
    elif isinstance(value, bool) or not isinstance(value, int | np.integer):
        return None
    return int(value) if -(2**63) <= value < 2**63 else None
