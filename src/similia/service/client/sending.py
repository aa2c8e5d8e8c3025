"""Judgements of a file as a service takes them."""

import csv
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import numpy as np
from msgspec import structs

from similia.exceptions import BadRowError
from similia.service.log.records import Grades, Judgement, Query, Triplet, with_id
from similia.validation import column_names

T = TypeVar("T")
LINES = (".jsonl", ".ndjson")
COLUMN_DELIMITERS = {".csv": ",", ".tsv": "\t"}
TRIPLET = {"query", "better", "worse"}
GRADE = {"query", "item", "relevance"}
#: what messages call a table
TABLE = "judgements"


def batches(rows: Iterable[T], size: int) -> Iterator[list[T]]:
    """Lists of at most `size` rows."""
    iterator = iter(rows)
    while batch := list(islice(iterator, size)):
        yield batch


def judgements_in(path: Path, judge: str | None = None) -> Iterator[Judgement]:
    """Judgements of a file, each with an id that follows from its place and contents.

    So a file can be sent twice without counting twice, and equal rows of one file stay several.
    """
    if str(path) == "-":
        yield from _signed(_lines(sys.stdin, "-"), judge)
        return
    if path.suffix not in (*LINES, *COLUMN_DELIMITERS):
        known = ", ".join((*COLUMN_DELIMITERS, *LINES))
        raise ValueError(f"{path}: judgements to send must be in {known}, got {path.suffix!r}.")
    with open(path, encoding="utf-8-sig", newline="") as file:
        read = _lines if path.suffix in LINES else _table
        yield from _signed(read(file, str(path)), judge)


def judgements_of_table(table: Any) -> Iterator[Judgement]:
    """Judgements of a table (pandas, polars, Arrow), by its columns, as of a file."""
    names = column_names(table) or []
    columns = {name: np.asarray(table[name]).tolist() for name in names if name in TRIPLET | GRADE}
    for name in columns.keys() - {"relevance"}:
        columns[name] = [_id(name, *found) for found in enumerate(columns[name], start=1)]
    rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
    yield from _signed(_judged(names, rows, TABLE, 1), None)


def _id(column: str, number: int, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise BadRowError(f"{TABLE}: row {number}: {column} must be an id, got {value!r:.80}.")
    return str(value)


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


def _table(file: IO[str], name: str) -> Iterator[Judgement]:
    reader = csv.DictReader(file, delimiter=COLUMN_DELIMITERS[Path(name).suffix])
    yield from _judged(reader.fieldnames or (), reader, name, 2)


def _judged(
    names: Iterable[str], rows: Iterable[dict[str, Any]], source: str, first: int
) -> Iterator[Judgement]:
    """Judgements of rows by column, of which `first` is the number of the first."""
    columns = set(names)
    if columns >= TRIPLET:
        for row in rows:
            yield Triplet(query=Query(item=row["query"]), better=row["better"], worse=row["worse"])
    elif columns >= GRADE:
        yield from _grades(rows, source, first)
    else:
        raise ValueError(
            f"{source}: columns must be query,better,worse or query,item,relevance, "
            f"got {','.join(sorted(columns))!r:.120}."
        )


def _grades(rows: Iterable[dict[str, Any]], name: str, first: int) -> Iterator[Judgement]:
    """One judgement for each query; rows of a query need not be together."""
    grades: dict[str, dict[str, float]] = {}
    for number, row in enumerate(rows, start=first):
        try:
            grades.setdefault(row["query"], {})[row["item"]] = float(row["relevance"])
        except (ValueError, TypeError):
            found = row["relevance"]
            raise BadRowError(
                f"{name}: row {number}: relevance must be a number, got {found!r:.80}."
            ) from None
    for query, found in grades.items():
        yield Grades(query=Query(item=query), grades=found)
