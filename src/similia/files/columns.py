"""How the values of a column become numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from similia.contract import Array
from similia.files.ids import Ids
from similia.files.keys import key, keys_of_texts
from similia.files.rows import RowError

#: values as a file has them: plain ones, of which None is missing, or an array of numbers
Values: TypeAlias = "Sequence[Any] | Array"
#: why a row is unusable that lacks a value
MISSING = RowError("missing")
#: what converters of many values raise if any value is unusual
UNUSUAL = (LookupError, OverflowError, TypeError, ValueError)


class Reader(NamedTuple):
    """How the values of one column become numbers; `Ids` read columns of ids the same way."""

    #: number of one value; raises RowError
    value: Callable[[Any], Any]
    #: numbers of many values; if it raises one of `UNUSUAL`, they are read one by one
    many: Callable[[Any], Array]
    #: what stands for a missing value; None if none may be missing
    missing: float | str | None = None
    dtype: DTypeLike = np.float64


#: readers by column name, in order
Columns: TypeAlias = Mapping[str, Reader | Ids]


@dataclass(frozen=True)
class FileColumn:
    """A column of some rows: values, or places of values, below 0 where one is missing."""

    values: Values
    places: Array | None = None

    def __len__(self) -> int:
        return len(self.values if self.places is None else self.places)

    def read(self, reader: Reader | Ids) -> tuple[Array, dict[int, RowError]]:
        """Number of each row, and what is wrong with some rows."""
        if self.places is None:
            return _numbers(reader, self.values)
        gaps = bool(len(self.places)) and self.places.min() < 0
        found, wrong = _numbers(reader, [*self.values, None] if gaps else self.values)
        if not wrong:
            return found[self.places], {}
        bad = np.zeros(len(found), bool)
        bad[list(wrong)] = True
        rows = np.flatnonzero(bad[self.places]).tolist()
        last = len(found)
        return found[self.places], {row: wrong[int(self.places[row]) % last] for row in rows}


def _numbers(reader: Reader | Ids, values: Values) -> tuple[Array, dict[int, RowError]]:
    """Number of each value, and what is wrong with some of them."""
    if isinstance(values, np.ndarray) and values.dtype.kind == "f" and np.isnan(values).any():
        values = [None if value != value else value for value in values.tolist()]
    try:
        if isinstance(values, np.ndarray) or None not in values:
            return reader.many(values), {}
        if reader.missing is not None:
            there = np.array([value is not None for value in values])
            found = np.full(len(values), reader.missing, reader.dtype)
            found[there] = reader.many([value for value in values if value is not None])
            return found, {}
    except UNUSUAL:
        pass
    return _one_by_one(reader, values)


def _one_by_one(reader: Reader | Ids, values: Values) -> tuple[Array, dict[int, RowError]]:
    found, wrong = np.zeros(len(values), reader.dtype), {}
    for place, value in enumerate(values.tolist() if isinstance(values, np.ndarray) else values):
        try:
            if value is not None:
                found[place] = reader.value(value)
            elif reader.missing is not None:
                found[place] = reader.missing
            else:
                raise MISSING
        except RowError as error:
            wrong[place] = error
    return found, wrong


# -- numbers -----------------------------------------------------------------------------------


def _floats(values: Values, least: float = -math.inf) -> NDArray[np.float64]:
    if not isinstance(values, np.ndarray):
        if not set(map(type, values)) <= {str, int, float}:
            raise TypeError("not numbers")
        values = np.array(list(map(float, values)), np.float64)
    elif values.dtype.kind not in "fiu":
        raise TypeError("not numbers")
    numbers = values.astype(np.float64, copy=False)
    if not (np.isfinite(numbers) & (numbers >= least)).all():
        raise ValueError("out of range")
    return numbers


def _float(raw: object, least: float = -math.inf) -> float:
    try:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise ValueError
        number = float(raw)
    except (ValueError, OverflowError):
        raise RowError("not a number", f" {raw!r:.80}") from None
    if not math.isfinite(number):
        raise RowError("not a finite number", f" {raw!r:.80}")
    if number < least:
        raise RowError(f"not at least {least:g}", f": {raw!r:.80}")
    return number


NUMBER = Reader(_float, _floats)
AT_LEAST_0 = Reader(partial(_float, least=0.0), partial(_floats, least=0.0))
AT_LEAST_1 = Reader(partial(_float, least=1.0), partial(_floats, least=1.0))


def each(
    value: Callable[[Any], Any], dtype: DTypeLike = np.float64, missing: float | str | None = None
) -> Reader:
    """Reader of values of any kind, one after another."""

    def many(values: Values) -> Array:
        return np.fromiter(map(value, values), dtype, len(values))

    return Reader(value, many, missing, dtype)


# -- clicks, keys, times, texts ----------------------------------------------------------------


def _click(raw: object) -> float:
    words = {"true": 1.0, "false": 0.0}
    text = str(raw).lower()
    return words[text] if text in words else _float(raw, least=0.0)


def _keys(values: Values) -> NDArray[np.int64]:
    if isinstance(values, np.ndarray) and values.dtype.kind == "i":
        return values.astype(np.int64, copy=False)
    if not isinstance(values, np.ndarray) and set(map(type, values)) <= {str}:
        return keys_of_texts(values)
    return np.fromiter(
        map(key, values.tolist() if isinstance(values, np.ndarray) else values),
        np.int64,
        len(values),
    )


def _seconds(raw: object) -> float:
    if isinstance(raw, datetime):
        moment = raw
    elif isinstance(raw, str) and not raw.replace(".", "", 1).isdigit():
        try:
            moment = datetime.fromisoformat(raw)
        except ValueError:
            raise RowError("not a time", f" {raw!r:.80}") from None
    else:
        return _float(raw)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


#: a click as a gain: 1 or 0, true or false, or a number of at least 0
CLICK = Reader(_click, AT_LEAST_0.many)
#: an id that only says which rows belong together
KEY = Reader(key, _keys, dtype=np.int64)
#: seconds since 1970, or ISO 8601; UTC unless a zone is named
TIME = each(_seconds)
#: a text as it is
TEXT = each(str, object)
