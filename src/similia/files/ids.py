"""Ids of vectors and the rows they name; keys for ids that only group rows."""

import re
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array
from similia.files.rows import FORMULA_STARTS, RowError, csv_text

#: an integer written as text; int() would also accept "1_000"
INTEGER = re.compile(r"[+-]?[0-9]{1,100}")


class Ids:
    """Mapping from ids to row numbers; reads a column of ids.

    Integers and their decimal texts are equal as ids: "7" and 7 name the same row. `values` holds n
    different ids, None stands for the row numbers; `what` says in messages what they name.
    """

    #: as in `Reader`
    dtype, missing = np.int64, None

    def __init__(self, values: ArrayLike | None, n: int, what: str = "id") -> None:
        self.n = n
        self.what = what
        self.values = None if values is None else _checked(values, n, what)
        #: whether the ids are texts rather than integers
        self.is_text = self.values is not None and self.values.dtype == object
        self._table: dict[str, int] = {}
        if self.values is None:
            return
        if self.is_text:
            names = self.values.tolist()
            self._table = {value: row for row, value in enumerate(names)}
            distinct = len(self._table)
            for row, value in enumerate(names):  # as written by `csv_text`
                if value.startswith(FORMULA_STARTS):
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

    def rows(self, values: Sequence[Any] | Array) -> NDArray[np.int64]:
        """Rows of many ids; raise LookupError if any of them is unknown."""
        found = self.known_rows(values)
        if len(found) and found.min() < 0:
            raise LookupError(f"unknown {self.what}s")
        return found

    value, many = row, rows

    def known_rows(self, values: Sequence[Any] | Array) -> NDArray[np.int64]:
        """Rows of many ids, -1 where one is unknown."""
        if self.is_text:
            plain = values.tolist() if isinstance(values, np.ndarray) else values
            try:
                found = np.fromiter(map(self._table.get, plain, repeat(-1)), np.int64, len(plain))
            except TypeError:  # lists, or objects
                return np.fromiter(map(self._find, plain), np.int64, len(plain))
            for place in np.flatnonzero(found < 0).tolist():  # an integer names the row of its text
                found[place] = self._find(plain[place])
            return found
        try:
            numbers = _integers(values)
        except (ValueError, OverflowError, TypeError):
            return np.fromiter(map(self._find, values), np.int64, len(values))
        if self.values is None:
            return np.where((numbers >= 0) & (numbers < self.n), numbers, -1)
        return self._search(numbers)

    def _search(self, numbers: Array) -> NDArray[np.int64]:
        if self.n == 0:
            return np.full(len(numbers), -1)
        places = np.minimum(np.searchsorted(self._sorted, numbers), self.n - 1)
        return np.where(self._sorted[places] == numbers, self._order[places], -1)

    def _find(self, value: object) -> int:
        """Row of one id, or -1."""
        whole = isinstance(value, int | np.integer) and not isinstance(value, bool)
        if self.is_text:
            return self._table.get(str(value), -1) if whole or isinstance(value, str) else -1
        number = None
        if whole or (isinstance(value, str) and INTEGER.fullmatch(value)):
            number = int(value)  # type: ignore[call-overload]
        elif isinstance(value, float | np.floating) and value == value // 1:
            number = int(value)  # tables store integers beside nulls as floats
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


def _integers(values: Sequence[Any] | Array) -> NDArray[np.int64]:
    """Integers, or texts of digits alone, as an array; raise ValueError for anything else."""
    if isinstance(values, np.ndarray):
        if values.dtype.kind not in "iu" or (len(values) and values.max() >= 2**63):
            raise ValueError("not integers")
        return values.astype(np.int64, copy=False)
    kinds = set(map(type, values))
    if kinds == {str}:
        digits = "".join(values)
        if not (digits.isascii() and digits.isdigit()):
            raise ValueError("not digits")
    elif not kinds <= {int}:
        raise ValueError("not integers")
    return np.fromiter(map(int, values), np.int64, len(values))


def _checked(values: ArrayLike, n: int, what: str) -> Array:
    # A NumPy string array would pad each text to the longest.
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


#: odd factor of multiplicative hashes: 2**64 over the golden ratio
HASH_FACTOR = np.uint64(0x9E3779B97F4A7C15)


def scattered(values: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Spread integers evenly over 31 bits."""
    return values.astype(np.uint64) * HASH_FACTOR >> np.uint64(33)


# -- keys ----------------------------------------------------------------------------------------


def key(raw: object) -> int:
    """Key of one id: an integer itself, 64 bits of the BLAKE2 of a text."""
    if isinstance(raw, bool) or not isinstance(raw, str | int):
        raise RowError("not an id", f" {raw!r:.80}")
    if isinstance(raw, int):
        return raw if -(2**63) <= raw < 2**63 else hash(raw)
    digest = blake2b(raw.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little", signed=True)


def keys_of_texts(texts: Sequence[str]) -> NDArray[np.int64]:
    """Keys of texts, which often repeat: rows of a list share theirs."""
    known = {text: key(text) for text in set(texts)}
    return np.fromiter(map(known.__getitem__, texts), np.int64, len(texts))
