"""Rankings in files: TREC runs, and interleaved lists with their clicks."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Indices
from similia.files import BadRows, FeedbackLike, Ids, RowError, Source
from similia.files.columns import CLICK, KEY, NUMBER, TEXT, ColumnReaders, each
from similia.files.ids import key
from similia.safety.whole import replacing


class Run(NamedTuple):
    """A ranking of items for each query: sorted by query, best first."""

    query: Indices
    item: Indices
    score: NDArray[np.float64]
    #: from 1, within each query
    position: Indices


def read_run(
    path: FeedbackLike, ids: Ids, items: Ids | None = None, *, bad_rows: BadRows | None = None
) -> Run:
    """Read a run: lines ``query Q0 item rank score name``, or a table with query, item and score.

    As in trec_eval, items are ordered by their scores, and the ranks in the file do not matter;
    scores that are equal keep the order of the file. A run says what was ranked and not what was
    right: together with clicks or qrels its lists become `Impressions`.
    """
    columns: ColumnReaders = {"query": ids, "item": items or ids, "score": NUMBER}
    query, item, score = Source(path, what="a run").read(columns, bad_rows)
    order = np.lexsort((-score, query))
    query = query[order]
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    lengths = np.diff(np.append(starts, len(query)))
    position = np.arange(len(query)) - np.repeat(starts, lengths) + 1
    return Run(query, item[order], score[order], position)


#: columns of a file of lists; the application sets click to 1 for clicked items
DRAFT_COLUMNS = ("search", "query", "item", "position", "team", "champion", "challenger", "click")
TEAMS = ("champion", "challenger")
#: in place of a generation, for a champion from elsewhere
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
    readers: ColumnReaders = {
        "search": KEY,
        "item": KEY,
        "team": each(_team),
        "champion": NUMBER._replace(missing=float(NO_GENERATION)),
        "challenger": KEY._replace(missing=key("")),
    }
    if clicks is None:
        readers = {**readers, "click": CLICK}
    search, item, team, champion, challenger, *clicked = Source(path).read(readers, bad_rows)
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
        pairs = list(_pairs(*Source(clicks).read({"search": KEY, "item": KEY}, bad_rows)))
        shown = list(_pairs(search, item))
        marks = np.array(list(map(set(pairs).__contains__, shown)))
        n_strays = sum(not there for there in map(set(shown).__contains__, pairs))
    return Drafts(search, item, team > 0, marks, int(champion[0]), int(challenger[0]), n_strays)


def read_rankings(path: FeedbackLike, *, bad_rows: BadRows | None = None) -> dict[str, list[str]]:
    """Item ids of each query, highest score first, from a TREC run or a table."""
    readers: ColumnReaders = {"query": TEXT, "item": TEXT, "score": NUMBER}
    query, item, score = Source(path).read(readers, bad_rows)
    found: dict[str, list[str]] = {}
    for place in np.argsort(-score, kind="stable").tolist():
        found.setdefault(query[place], []).append(item[place])
    return found


def _pairs(search: Indices, item: Indices) -> Iterator[tuple[int, int]]:
    return zip(search.tolist(), item.tolist(), strict=True)
