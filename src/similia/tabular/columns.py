"""Tables of items as people have them, and what their columns hold.

Standard library only, but for Parquet and Arrow: a command can show the columns at once.
"""

import csv
import json
import re
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing, nullcontext
from datetime import UTC, date, datetime
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeAlias

#: what a column can hold
KINDS = ("id", "text", "category", "number", "date", "vector", "unused")
#: suffixes of tables; a table of SQLite is FILE.db, or FILE.db:TABLE if there are several
TEXT_TABLES = {".csv": ",", ".tsv": "\t"}
JSON_TABLES = (".jsonl", ".ndjson")
ARROW_TABLES = (".parquet", ".pq", ".arrow", ".feather")
SQLITE_TABLES = (".db", ".sqlite", ".sqlite3")
#: names of columns of ids, the likeliest first
ID_NAMES = ("id", "item", "item_id", "product_id", "doc_id", "docid", "_id", "sku", "asin")
#: names of columns of texts, however few different ones there are
TEXT_NAMES = ("title", "name", "text", "body", "description", "content")
#: rows that tell what a column holds
SAMPLE = 1000
#: distinct values of a category in the sample, at most, and words in one
MOST_VALUES, MOST_WORDS = 200, 5
#: characters in one field of CSV
LONGEST_FIELD = 2**24

#: seconds in a year, of 365.25 days
SECONDS_A_YEAR = 365.25 * 86400

#: rows of a table, values by column
TableRows: TypeAlias = "Iterator[dict[str, Any]]"
#: kind by column
Kinds: TypeAlias = dict[str, str]


def is_table(path: Path) -> bool:
    """Whether a file may be a table of columns of several kinds."""
    suffix = _split(path)[0].suffix
    return suffix in (*TEXT_TABLES, *JSON_TABLES, *ARROW_TABLES, *SQLITE_TABLES)


def read_table(path: Path) -> TableRows:
    """Yield the rows of a table; missing values are None."""
    file, table = _split(path)
    if file.suffix in SQLITE_TABLES:
        yield from _sqlite(file, table)
    elif file.suffix in ARROW_TABLES:
        yield from _arrow(file)
    elif file.suffix in JSON_TABLES or str(path) == "-":
        yield from _objects(path)
    else:
        yield from _fields(file)


def column_kinds(path: Path, given: Mapping[str, str] | None = None) -> Kinds:
    """Find what each column holds from the first rows; what is given is taken as it is."""
    first = list(islice(read_table(path), SAMPLE))
    if not first:
        raise ValueError(f"{path}: a table must have at least one row, got none.")
    names = list(dict.fromkeys(chain.from_iterable(first)))
    asked = dict(given or {})
    for name, kind in asked.items():
        if name not in names:
            raise ValueError(f"{path}: columns must be among {', '.join(names)}, got {name}.")
        if kind not in KINDS:
            raise ValueError(f"{path}: {name} must be one of {', '.join(KINDS)}, got {kind}.")
    columns = {name: [row.get(name) for row in first] for name in names}
    found = {name: asked.get(name) or _kind(name, values) for name, values in columns.items()}
    if "id" not in found.values():
        id_column = _id_column(columns, {name: found[name] for name in names if name not in asked})
        if id_column is not None:
            found[id_column] = "id"
    return found


def kinds_in_words(kinds: Kinds) -> str:
    """Columns by kind: ``title, body: text; price: number``."""
    names = {kind: [name for name, found in kinds.items() if found == kind] for kind in KINDS}
    return "; ".join(f"{', '.join(some)}: {kind}" for kind, some in names.items() if some)


# -- what a column holds -----------------------------------------------------------------------


def _kind(name: str, values: list[Any]) -> str:
    there = [value for value in values if not is_missing(value)]
    if len(set(map(str, there))) < 2 and len(values) > 1:
        return "unused"
    if all(as_number(value) is not None for value in there):
        return "number"
    if all(as_years(value) is not None for value in there):
        return "date"
    if all(as_vector(value) is not None for value in there):
        return "vector"
    texts = [as_text(value) for value in there]
    if all(re.match(r"[a-z][a-z+.-]*://\S+$|data:", text) for text in texts):
        return "unused"
    distinct, words = len(set(texts)), sorted(len(text.split()) for text in texts)
    few = distinct <= max(2, min(MOST_VALUES, len(texts) // 4))
    if few and words[-1] <= MOST_WORDS and name.lower() not in TEXT_NAMES:
        return "category"
    return "text" if name.lower() in TEXT_NAMES or words[len(words) // 2] > 1 else "unused"


def _id_column(columns: Mapping[str, list[Any]], kinds: Kinds) -> str | None:
    """The likeliest column of ids, all of them there and different from each other."""

    def differ(name: str) -> bool:
        values = columns[name]
        return None not in values and len(set(map(str, values))) == len(values)

    lower = {name.lower(): name for name in kinds}
    named = [lower[name] for name in ID_NAMES if name in lower]
    others = [name for name, kind in kinds.items() if kind == "unused"]
    return next((name for name in (*named, *others) if differ(name)), None)


def is_missing(value: Any) -> bool:
    """Whether a value is not there: None, empty, or NaN."""
    return value is None or value == "" or bool(value != value)


def as_number(value: Any) -> float | None:
    """A number, or a text of one; None for anything else."""
    if isinstance(value, str) and re.fullmatch(r"\s*[-+]?[\d.][\d.eE+-]*\s*", value) is None:
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if abs(found) < float("inf") else None


def as_years(value: Any) -> float | None:
    """Years since 1970 of a date or time, or of its text by ISO 8601; None for anything else."""
    if isinstance(value, str):
        if re.match(r"\s*\d{4}-\d\d-\d\d", value) is None:
            return None
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=UTC)
    if not isinstance(value, datetime):
        return None
    return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp() / SECONDS_A_YEAR


def as_vector(value: Any) -> list[float] | None:
    """A list of numbers, or its text as JSON; None for anything else."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except ValueError:
            return None
    numbers = isinstance(value, list) and len(value) > 0 and set(map(type, value)) <= {int, float}
    return value if numbers else None


def as_text(value: Any) -> str:
    """Text of a value; a list of tags is its words."""
    if is_missing(value):
        return ""
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


# -- formats -----------------------------------------------------------------------------------


def _split(path: Path) -> tuple[Path, str]:
    """File and table of ``FILE.db:TABLE``."""
    name, colon, table = path.name.rpartition(":")
    if colon and name.endswith(SQLITE_TABLES):
        return path.with_name(name), table
    return path, ""


def _fields(path: Path) -> TableRows:
    csv.field_size_limit(LONGEST_FIELD)
    with open(path, encoding="utf-8-sig", newline="") as file:
        lines = csv.reader(file, delimiter=TEXT_TABLES[path.suffix])
        try:
            header = [name.strip() for name in next(lines, [])]
            if len(set(header)) != len(header):
                raise ValueError(f"{path}: the columns must have different names.")
            for fields in lines:
                if not fields:
                    continue
                if len(fields) != len(header):
                    raise ValueError(
                        f"{path}: rows must have {len(header)} fields, as the header does, got "
                        f"{len(fields)} in line {lines.line_num}."
                    )
                yield {n: field or None for n, field in zip(header, fields, strict=True)}
        except (csv.Error, UnicodeDecodeError) as error:
            raise ValueError(f"{path}: line {lines.line_num}: {error}.") from None


def _objects(path: Path) -> TableRows:
    piped = nullcontext(sys.stdin)
    with piped if str(path) == "-" else open(path, encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                found = None
            if not isinstance(found, dict):
                raise ValueError(f"{path}: row {number}: not a JSON object.")
            yield found


def _arrow(path: Path) -> TableRows:
    from similia.files.tables import Table

    table, before = Table(path, "items"), 0
    for batch in table.batches(table.schema.names):
        try:
            rows = batch.to_pylist()
        except OverflowError:
            raise _out_of_range(path, batch, before) from None
        yield from rows
        before += len(rows)


def _out_of_range(path: Path, batch: Any, before: int) -> ValueError:
    """Error that names the first date that Python has no number for."""
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        for row, value in enumerate(column, start=before + 1):
            try:
                value.as_py()
            except OverflowError:
                return ValueError(
                    f"{path}: {name} must be a date of the years 1 to 9999, got another in row "
                    f"{row}."
                )
    return ValueError(f"{path}: dates must be of the years 1 to 9999, got another.")


def _sqlite(path: Path, table: str) -> TableRows:
    with open(path, "rb"):  # a missing file would be made
        pass
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as database:
        try:
            query = "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            names = [name for (name,) in database.execute(query)]
            if table not in names and (table or len(names) != 1):
                raise ValueError(
                    f"{path}: a table must be named, one of {', '.join(names)}: "
                    f"{path.name}:TABLE, got {table or 'none'}."
                )
            quoted = (table or names[0]).replace('"', '""')
            rows = database.execute(f'SELECT * FROM "{quoted}"')
            header = [name for name, *_ in rows.description]
            for row in rows:
                yield dict(zip(header, row, strict=True))
        except sqlite3.Error as error:
            raise ValueError(f"{path}: could not be read as a database ({error}).") from error
