"""Judgements of a file as a service takes them."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
from msgspec import structs

from similia.exceptions import BadRowError
from similia.files import BadRows, FeedbackLike, Source
from similia.files.columns import AT_LEAST_0, AT_LEAST_1, CLICK, TEXT, WantedColumns
from similia.files.lines import unwrapped
from similia.service.http.ubi import judgements_of
from similia.service.log.limits import MAX_ID_LENGTH
from similia.service.log.records import Clicks, Grades, Judgement, Query, Triplet, with_id
from similia.service.schemas import UbiDocuments

T = TypeVar("T")
LINES = (".jsonl", ".ndjson")
#: queries of a file that are looked up to find out what they are
QUERIES_LOOKED_AT = 20
#: what a row can be: a triplet, a grade, or an item of a list that was shown
SENT_COLUMNS = (
    WantedColumns(dict.fromkeys(("query", "better", "worse"), TEXT)),
    WantedColumns({"query": TEXT, "item": TEXT, "relevance": AT_LEAST_0}),
    WantedColumns(
        {"query": TEXT, "item": TEXT, "click": CLICK},
        {"impression": TEXT, "visit": TEXT, "position": AT_LEAST_1, "weight": AT_LEAST_0},
    ),
)


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` rows."""
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def judgements_in(
    path: Path,
    judge: str | None = None,
    *,
    events: Path | None = None,
    columns: dict[str, str] | None = None,
    queries: str = "item",
) -> Iterator[Judgement]:
    """Judgements of a file, each with an id that follows from its place and contents.

    So a file that is sent twice counts once, while equal rows of one file all count. Files are
    those that `similia learn` reads, lines of JSON as the API takes them, or searches of UBI with
    their events. `queries` says what a query is: an "item", an "id" or a "text".
    """
    if events is not None:
        documents = UbiDocuments(queries=_documents(path), events=_documents(events))
        yield from _signed(iter(judgements_of(documents)), judge)
    elif str(path) == "-" or (path.suffix in LINES and _is_api(path)):
        piped = nullcontext(sys.stdin)
        with piped if str(path) == "-" else open(path, encoding="utf-8-sig") as file:
            yield from _signed(_lines(file, str(path)), judge)
    else:
        yield from _signed(_judged(Source(path, columns), queries), judge)


def queries_are(path: Path, columns: dict[str, str] | None, is_item: Callable[[str], bool]) -> str:
    """Whether the queries of a file are items ("item") or what people typed ("text").

    The first ones decide: they are items if at least half of them are.
    """
    if str(path) == "-" or (path.suffix in LINES and _is_api(path)):
        return "item"  # what such lines say themselves
    asked: dict[str, None] = {}
    for row in _rows(Source(path, columns)):
        asked[row["query"]] = None
        if len(asked) == QUERIES_LOOKED_AT:
            break
    known = sum(len(query) <= MAX_ID_LENGTH and is_item(query) for query in asked)
    return "item" if 2 * known >= len(asked) else "text"


def judgements_of_table(table: FeedbackLike, queries: str = "item") -> Iterator[Judgement]:
    """Judgements of a table (pandas, polars, Arrow), by its columns, as of a file."""
    yield from _signed(_judged(Source(table), queries), None)


def _is_api(path: Path) -> bool:
    """Whether lines are judgements of the API rather than rows of a table."""
    with open(path, encoding="utf-8-sig") as file:
        first = next((line for line in file if line.strip()), "")
    try:
        return "kind" in json.loads(first or "{}")
    except (ValueError, TypeError):
        return True  # its decoder names the error


def _documents(path: Path) -> list[dict[str, Any]]:
    with open(path, encoding="utf-8-sig") as file:
        try:
            return [unwrapped(json.loads(line)) for line in file if line.strip()]
        except ValueError as error:
            raise BadRowError(f"{path}: documents must be lines of JSON ({error}).") from None


def _signed(judgements: Iterator[Judgement], judge: str | None) -> Iterator[Judgement]:
    seen: dict[str, int] = {}
    for judgement in judgements:
        if judge is not None:
            judgement = structs.replace(judgement, judge=judge)
        if judgement.id is None:
            name = str(with_id(judgement)[0].id)
            seen[name] = seen.get(name, 0) + 1
            judgement = structs.replace(judgement, id=f"{name}-{seen[name]}")
        yield judgement


def _lines(file: IO[str], name: str) -> Iterator[Judgement]:
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Judgement)
    for number, line in enumerate(file, start=1):
        if line.strip():
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError as error:
                raise BadRowError(f"{name}: row {number}: {error}") from None


def _judged(source: Source, queries: str) -> Iterator[Judgement]:
    """Judgements of rows by column; grades of a query, and rows of a list, are one."""
    rows = _rows(source)
    first = next(rows, None)
    if first is None:
        return
    if "better" in first:
        for row in (first, *rows):
            query = _query(queries, row["query"])
            yield Triplet(query=query, better=row["better"], worse=row["worse"])
    elif "relevance" in first:
        grades: dict[str, dict[str, float]] = {}
        for row in (first, *rows):
            grades.setdefault(row["query"], {})[row["item"]] = float(row["relevance"])
        for name, found in grades.items():
            yield Grades(query=_query(queries, name), grades=found)
    else:
        shown, last = [first], _list_of(first)
        for row in rows:
            if _list_of(row) != last:
                yield _clicks(shown, queries)
                shown, last = [], _list_of(row)
            shown.append(row)
        yield _clicks(shown, queries)


def _rows(source: Source) -> Iterator[dict[str, Any]]:
    for columns, _ in source.batches(SENT_COLUMNS, BadRows()):
        values = [column.tolist() for column in columns.values()]
        for row in zip(*values, strict=True):
            yield dict(zip(columns, row, strict=True))


def _list_of(row: dict[str, Any]) -> tuple[str, ...]:
    """What successive rows of one list have in common."""
    if "impression" in row:
        return (row["impression"],)
    return row["query"], row.get("visit", "")


def _clicks(rows: list[dict[str, Any]], queries: str) -> Clicks:
    positions = [int(row["position"]) for row in rows if "position" in row]
    return Clicks(
        query=_query(queries, rows[0]["query"]),
        shown=[row["item"] for row in rows],
        clicked=[row["item"] for row in rows if row["click"] > 0],
        positions=positions or None,
        weight=float(rows[0].get("weight", 1.0)),
    )


def _query(kind: str, value: str) -> Query:
    if kind == "id":
        return Query(id=value)
    return Query(text=value) if kind == "text" else Query(item=value)
