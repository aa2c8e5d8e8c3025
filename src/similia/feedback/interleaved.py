"""Interleaved lists in files: what was drafted, whose it is, and what was clicked."""

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.files import BadRows, FeedbackLike, RowError, Source
from similia.files.columns import CLICK, KEY, NUMBER, TEXT, Columns, each
from similia.files.keys import key
from similia.safety.whole import replacing

#: columns of a file of lists; whoever shows them sets click to 1 for what is clicked
DRAFT_COLUMNS = ("search", "query", "item", "position", "team", "champion", "challenger", "click")
TEAMS = ("champion", "challenger")
#: stands for a champion that is no generation of a folder
NO_GENERATION = -1


class Drafts(NamedTuple):
    """Rows of interleaved lists: one for each item shown."""

    #: keys of the searches and items
    search: Indices
    item: Indices
    #: whether the challenger brought the item, and whether it was clicked
    challenger: NDArray[np.bool_]
    clicked: NDArray[np.bool_]
    #: generation of the champion; NO_GENERATION if it is none
    champion: int
    #: key of the name of the challenger
    name: int
    #: clicks on items that were not in their list
    n_strays: int = 0


def _team(raw: object) -> float:
    if raw not in TEAMS:
        raise RowError(f"not one of {', '.join(TEAMS)}", f": {raw!r:.80}")
    return float(TEAMS.index(str(raw)))


def write_drafts(path: Path, rows: Iterable[Sequence[Any]]) -> int:
    """Write rows (search, query, item, position, team, champion, challenger); return their number.

    A last column, click, is 0 in each of them.
    """
    n = 0
    with replacing(path) as temporary, open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(DRAFT_COLUMNS)
        for row in rows:
            writer.writerow([*row, 0])
            n += 1
    return n


def read_drafts(
    path: FeedbackLike, clicks: "FeedbackLike | None" = None, *, bad_rows: BadRows | None = None
) -> Drafts:
    """Read lists as `write_drafts` writes them, in any format of feedback.

    Clicks are in the column click or, with `clicks`, rows search,item of another file.
    """
    readers: Columns = {
        "search": KEY,
        "item": KEY,
        "team": each(_team),
        "champion": NUMBER._replace(missing=float(NO_GENERATION)),
        "challenger": KEY._replace(missing=key("")),
    }
    if clicks is None:
        readers = {**readers, "click": CLICK}
    search, item, team, champion, challenger, *clicked = read_named(path, readers, bad_rows)
    for name, values in (("champion", champion), ("challenger", challenger)):
        if len(np.unique(values)) > 1:
            raise ValueError(
                f"{Source(path)}: {name} must be the same in all rows, got several; judge the "
                "lists of one test at a time."
            )
    n_strays = 0
    if clicks is None:
        marks = clicked[0] > 0
    else:
        pairs = _pairs(*read_named(clicks, {"search": KEY, "item": KEY}, bad_rows))
        shown = _pairs(search, item)
        marks = np.isin(shown, pairs)
        n_strays = int(np.count_nonzero(~np.isin(pairs, shown)))
    return Drafts(search, item, team > 0, marks, int(champion[0]), int(challenger[0]), n_strays)


def read_rankings(path: FeedbackLike, *, bad_rows: BadRows | None = None) -> dict[str, list[str]]:
    """Items of each query, highest score first, by their ids: a run of TREC, or such columns."""
    readers: Columns = {"query": TEXT, "item": TEXT, "score": NUMBER}
    query, item, score = read_named(path, readers, bad_rows)
    found: dict[str, list[str]] = {}
    for place in np.argsort(-score, kind="stable").tolist():
        found.setdefault(query[place], []).append(item[place])
    return found


def read_named(path: FeedbackLike, readers: Columns, bad_rows: BadRows | None) -> list[Array]:
    """Columns of a file by name, one after another, all of it at once."""
    source, bad = Source(path), bad_rows or BadRows()

    def choose(names: Sequence[str]) -> Columns:
        if not set(readers).issubset(names):
            raise ValueError(
                f"{source}: the columns must be {','.join(readers)}, got {','.join(names)!r:.120}."
            )
        return readers

    parts = [tuple(found.values()) for found, _ in source.batches(choose, (), bad)]
    if not parts:
        raise ValueError(f"{source}: rows must be at least one, got none.")
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _pairs(search: Indices, item: Indices) -> NDArray[np.uint64]:
    """One number for each pair of keys."""
    mixed = search.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return (mixed ^ (mixed >> np.uint64(29))) * np.uint64(3) + item.astype(np.uint64)
