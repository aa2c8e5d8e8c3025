"""How the values of a column become numbers."""

import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.files.keys import key, keys_of_texts
from similia.files.rows import Encoded, Ids, RawColumn, RowError


class Reader(NamedTuple):
    """How the values of one column become numbers; `Ids` read a column of ids the same way."""

    #: type for a fast parser: "int64", "float64", "string", "mixed", "list" (of texts) or "key"
    dtype: str
    #: numbers of a whole column (`Lists` of them, of lists), or None if any value is bad
    column: Callable[[RawColumn], Any]
    #: number of one value; raises RowError
    value: Callable[[Any], Any]
    #: what stands for a missing value; None if none may be missing
    missing: float | Array | None = None


#: readers by column name, in order
Columns: TypeAlias = Mapping[str, Reader | Ids]


def _floats(column: RawColumn, least: float = -math.inf) -> NDArray[np.float64] | None:
    try:
        if isinstance(column, Encoded):
            numbers = np.array(list(map(float, column.texts)), np.float64)[column.codes]
        elif isinstance(column, np.ndarray) and column.dtype.kind in "fiuO":
            numbers = column.astype(np.float64)
        else:
            return None
    except (TypeError, ValueError):
        return None
    return numbers if (np.isfinite(numbers) & (numbers >= least)).all() else None


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


NUMBER = Reader("float64", _floats, _float)
AT_LEAST_0 = Reader("float64", partial(_floats, least=0.0), partial(_float, least=0.0))
AT_LEAST_1 = Reader("float64", partial(_floats, least=1.0), partial(_float, least=1.0))


def each(
    value: Callable[[Any], float], numbers: Callable[[Array], Array | None] = _floats
) -> Reader:
    """Reader of a column of numbers, or of few distinct texts that are read one by one."""

    def column(raw: RawColumn) -> Array | None:
        if isinstance(raw, np.ndarray) and raw.dtype.kind in "fiu":
            return numbers(raw)
        if not isinstance(raw, Encoded):
            distinct, codes = np.unique(raw, return_inverse=True)
            raw = Encoded(codes, distinct.tolist())
        try:
            return np.array([value(text) for text in raw.texts])[raw.codes]
        except RowError:
            return None

    return Reader("mixed", column, value)


def _click(raw: object) -> float:
    words = {"true": 1.0, "false": 0.0}
    text = str(raw).lower()
    return words[text] if text in words else _float(raw, least=0.0)


def _keys(raw: RawColumn) -> NDArray[np.int64] | None:
    if isinstance(raw, Encoded) and set(map(type, raw.texts)) <= {str}:
        return keys_of_texts(raw.texts)[raw.codes]
    if isinstance(raw, np.ndarray) and raw.dtype.kind == "i":
        return raw.astype(np.int64, copy=False)
    if isinstance(raw, np.ndarray) and raw.dtype.kind == "u":
        return np.array(list(map(key, raw.tolist())), np.int64)
    return None


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
CLICK = each(_click, partial(_floats, least=0.0))
#: an id that only says which rows belong together
KEY = Reader("key", _keys, key)
#: seconds since 1970, or ISO 8601; UTC unless a zone is named
TIME = each(_seconds)
