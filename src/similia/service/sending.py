"""Judgements of a file as a service takes them."""

import csv
import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
from msgspec import structs

from similia.exceptions import BadRowError
from similia.service.records import Grades, Judgement, Query, Triplet, with_id

T = TypeVar("T")
LINES = (".jsonl", ".ndjson")
DELIMITERS = {".csv": ",", ".tsv": "\t"}
TRIPLET = {"query", "better", "worse"}
GRADE = {"query", "item", "relevance"}


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
    if path.suffix not in (*LINES, *DELIMITERS):
        known = ", ".join((*DELIMITERS, *LINES))
        raise ValueError(f"{path}: judgements to send must be in {known}, got {path.suffix!r}.")
    with open(path, encoding="utf-8-sig", newline="") as file:
        read = _lines if path.suffix in LINES else _table
        yield from _signed(read(file, str(path)), judge)


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
    reader = csv.DictReader(file, delimiter=DELIMITERS[Path(name).suffix])
    columns = set(reader.fieldnames or ())
    if columns >= TRIPLET:
        for row in reader:
            yield Triplet(query=Query(item=row["query"]), better=row["better"], worse=row["worse"])
    elif columns >= GRADE:
        yield from _grades(reader, name)
    else:
        raise ValueError(
            f"{name}: columns must be query,better,worse or query,item,relevance, "
            f"got {','.join(sorted(columns))!r:.120}."
        )


def _grades(reader: "csv.DictReader[str]", name: str) -> Iterator[Judgement]:
    """One judgement for each query; rows of a query need not be together."""
    grades: dict[str, dict[str, float]] = {}
    for number, row in enumerate(reader, start=2):
        try:
            grades.setdefault(row["query"], {})[row["item"]] = float(row["relevance"])
        except (ValueError, TypeError):
            found = row["relevance"]
            raise BadRowError(
                f"{name}: row {number}: relevance must be a number, got {found!r:.80}."
            ) from None
    for query, found in grades.items():
        yield Grades(query=Query(item=query), grades=found)
