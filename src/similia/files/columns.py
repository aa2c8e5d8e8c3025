"""Columns: which are wanted, and how their values become numbers."""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from similia.contract import Array
from similia.files.ids import Ids, key, keys_of_texts
from similia.files.rows import RowError

#: raw values of a column: a sequence with None for missing, or an array of numbers
RawValues: TypeAlias = "Sequence[Any] | Array"
#: reason for a row without a value
MISSING = RowError("missing")
#: raised by fast converters when any value needs a closer look
UNUSUAL = (LookupError, OverflowError, TypeError, ValueError)


class Reader(NamedTuple):
    """Converts the values of a column to numbers; `Ids` has the same interface."""

    #: converts one value; raises RowError
    value: Callable[[Any], Any]
    #: converts many values; if it raises one of `UNUSUAL`, they are converted one by one
    many: Callable[[Any], Array]
    #: stands in for a missing value; None if the value is required
    missing: float | str | None = None
    dtype: DTypeLike = np.float64


#: readers by column name, in order
ColumnReaders: TypeAlias = Mapping[str, Reader | Ids]
#: names of the columns of BEIR, in use where nothing else is asked for
BEIR_COLUMNS = {"query": "query-id", "item": "corpus-id", "relevance": "score"}
#: other names of our columns in logs, likeliest first
ALIASES = {
    ours: tuple(theirs.split())
    for ours, theirs in {
        "query": "query_id query-id qid queryid search_term search_query query_text keywords q",
        "item": "item_id doc_id product_id docid document_id itemid sku asin corpus-id doc product",
        "click": "clicked is_click is_clicked was_clicked clicks",
        "impression": "impression_id request_id search_id serp_id",
        "visit": "session_id session visit_id sessionid",
        "position": "rank pos",
        "relevance": "grade rating judgement judgment",
        "timestamp": "time ts event_time datetime created_at",
    }.items()
}


class WantedColumns(NamedTuple):
    """Columns that belong together, and how each is read."""

    required: ColumnReaders
    #: read if present
    optional: ColumnReaders = MappingProxyType({})


class EncodedColumn(NamedTuple):
    """A dictionary-encoded column: distinct values, and the index of each row's, -1 if missing."""

    values: Sequence[Any]
    places: Array


def read_column(
    reader: Reader | Ids, values: "RawValues | EncodedColumn"
) -> tuple[Array, dict[int, RowError]]:
    """Converted values, and the errors of bad rows by row."""
    if isinstance(values, EncodedColumn):
        return _read_encoded(reader, values)
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


def _read_encoded(reader: Reader | Ids, column: EncodedColumn) -> tuple[Array, dict[int, RowError]]:
    places = column.places
    gaps = bool(len(places)) and places.min() < 0
    found, wrong = read_column(reader, [*column.values, None] if gaps else column.values)
    if not wrong:
        return found[places], {}
    bad = np.zeros(len(found), bool)
    bad[list(wrong)] = True
    rows = np.flatnonzero(bad[places]).tolist()
    return found[places], {row: wrong[int(places[row]) % len(found)] for row in rows}


def _one_by_one(reader: Reader | Ids, values: RawValues) -> tuple[Array, dict[int, RowError]]:
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


def _floats(values: RawValues, least: float = -math.inf) -> NDArray[np.float64]:
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

    def many(values: RawValues) -> Array:
        return np.fromiter(map(value, values), dtype, len(values))

    return Reader(value, many, missing, dtype)


# -- clicks, keys, times, texts ----------------------------------------------------------------


def _click(raw: object) -> float:
    words = {"true": 1.0, "false": 0.0}
    text = str(raw).lower()
    return words[text] if text in words else _float(raw, least=0.0)


def _keys(values: RawValues) -> NDArray[np.int64]:
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
#: an id that only groups rows
KEY = Reader(key, _keys, dtype=np.int64)
#: seconds since 1970, or ISO 8601; UTC unless a zone is named
TIME = each(_seconds)
#: a text as it is
TEXT = each(str, object)
