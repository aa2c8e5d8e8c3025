"""Rows of CSV and JSONL files, one by one, with a reason for each that is bad."""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any

from similia.files.bad_rows import RowError
from similia.files.lines import LineBlock

#: what a line becomes: its fields in the order asked for, or why it cannot be read
Fields = list[Any] | RowError


def decoded(line: bytes) -> str:
    """Give a line as text, or raise RowError."""
    try:
        return line.decode("utf-8").rstrip("\r")
    except UnicodeDecodeError as error:
        raise RowError("not valid UTF-8", f" at byte {error.start}") from None


def csv_fields(line: str) -> list[str]:
    """Split one line. A quoted field may hold commas and doubled quotes, but no line break.

    So an opened quote that nobody closes spoils its own line and no other.
    """
    try:
        rows = list(csv.reader([line], strict=True))
    except csv.Error as error:
        raise RowError("not valid CSV", f" ({error})") from None
    return rows[0] if rows else []


def json_object(line: str) -> dict[str, Any]:
    """Parse one line as a JSON object, or raise RowError."""
    try:
        found = json.loads(line)
    except RecursionError:
        raise RowError("not valid JSON", " (it is nested too deeply)") from None
    except ValueError as error:
        reason = getattr(error, "msg", "a number has too many digits")
        raise RowError("not valid JSON", f" ({reason})") from None
    if not isinstance(found, dict):
        raise RowError("not a JSON object", f": {line!r:.80}")
    return found


def csv_rows(
    block: LineBlock, header: Sequence[str], names: Sequence[str]
) -> Iterator[tuple[int, Fields]]:
    """Yield the number and the named fields of each line."""
    places = [header.index(name) for name in names]
    for number, line in block.lines():
        try:
            fields = csv_fields(decoded(line))
            if len(fields) != len(header):
                raise RowError(
                    "wrong number of fields", f": {len(fields)} where the header has {len(header)}"
                )
            yield number, [fields[place].strip() or None for place in places]
        except RowError as error:
            yield number, error


def json_rows(block: LineBlock, names: Sequence[str]) -> Iterator[tuple[int, Fields]]:
    """Yield the number and the named entries of each line; a missing one is None."""
    for number, line in block.lines():
        try:
            found = json_object(decoded(line))
            yield number, [found.get(name) for name in names]
        except RowError as error:
            yield number, error
