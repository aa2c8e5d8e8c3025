"""Logs of what was shown and clicked, as batches of lists."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.feedback.impressions import SHOWN, Impressions
from similia.files import BadRows, FeedbackLike, Ids, RowError, Source
from similia.files.columns import AT_LEAST_0, AT_LEAST_1, CLICK, KEY, TIME, Columns
from similia.files.source import Batch

#: a mask over rows of (query) vectors: which judgements to keep
Keep: TypeAlias = Callable[[Indices], NDArray[np.bool_]]

#: columns that a log may have beside those of `SHOWN`
LOG_DETAILS = {
    "impression": KEY,
    "visit": KEY,
    "position": AT_LEAST_1,
    "weight": AT_LEAST_0,
    "timestamp": TIME,
}


class ImpressionsFile:
    """A log of what was shown and clicked that can be iterated over, in batches of `Impressions`.

    Parameters
    ----------
    source : path or table
        As for `Source`, one row for each item shown. Columns: query, item, click (1 or 0, true or
        false, or a gain of at least 0) and, if there, impression or visit, position (from 1, the
        logarithm becomes a nuisance), weight (of the list, in its first row) and timestamp.
        Successive rows of one impression (else of one query in one visit, else of one query) are a
        list.
    ids, items : Ids
        Names of the rows of the query vectors, and of the items if they are separate vectors.
    columns : dict of str, optional
        What the log calls these columns, by our name.
    times : bool
        Read timestamps; they cost as much as all the rest.
    bad_rows : BadRows, optional
        What to do with unusable rows; by default they raise BadRowError.
    keep : function from an array of rows to a mask, optional
        Selects lists by their query.

    Examples
    --------
    >>> from similia.feedback import ImpressionsFile
    >>> from similia.files import Ids
    >>> log = {"query": [0, 0, 1, 1], "item": [3, 4, 4, 5], "click": [0, 1, 1, 0]}
    >>> [lists.starts.tolist() for lists in ImpressionsFile(log, Ids(None, 6))]
    [[0, 2, 4]]
    """

    def __init__(
        self,
        source: FeedbackLike,
        ids: Ids,
        items: Ids | None = None,
        *,
        columns: Mapping[str, str] | None = None,
        times: bool = False,
        bad_rows: BadRows | None = None,
        keep: Keep | None = None,
    ) -> None:
        self.source = Source(source, columns)
        self.ids = ids
        self.items = items or ids
        self.times = times
        self.bad_rows = bad_rows or BadRows()
        self.keep = keep

    def __iter__(self) -> Iterator[Impressions]:
        for found, _ in in_lists(self._rows(), str(self.source), self.bad_rows):
            yield found

    def _rows(self) -> Iterator[Batch]:
        for found, numbers in self.source.batches(self._columns, (), self.bad_rows):
            if self.keep is not None:
                kept = self.keep(found["query"])
                found = {name: values[kept] for name, values in found.items()}
                numbers = numbers[kept]
            yield found, numbers

    def _columns(self, names: Sequence[str]) -> Columns:
        if not set(names).issuperset(SHOWN):
            raise ValueError(
                f"{self.source}: a log must have the columns {','.join(SHOWN)}, "
                f"got {','.join(names)!r:.120}; name yours with columns (--columns query=…,item=…)."
            )
        return clicked_columns(names, self.ids, self.items, times=self.times)


def read_impressions(
    source: Any, ids: Ids, items: Ids | None = None, **options: Any
) -> Impressions:
    """All lists of a log at once; parameters are those of `ImpressionsFile`."""
    return Impressions.joined(list(ImpressionsFile(source, ids, items, **options)))


def clicked_columns(names: Sequence[str], ids: Ids, items: Ids, *, times: bool = False) -> Columns:
    """Readers of a log of clicks that has these columns."""
    details = {name: reader for name, reader in LOG_DETAILS.items() if name in names}
    if not times:
        details.pop("timestamp", None)
    return {"query": ids, "item": items, "click": CLICK, **details}


def in_lists(
    rows: Iterator[Batch], source: str, bad_rows: BadRows
) -> Iterator[tuple[Impressions, Indices]]:
    """Gather successive rows into lists; yield them with the row number of each item shown.

    A list that ends with a batch waits for the next batch, so lists do not depend on batches.
    """
    held: Batch | None = None
    for columns, numbers in rows:
        if held is not None:
            columns = {
                name: np.concatenate([held[0][name], values]) for name, values in columns.items()
            }
            numbers = np.concatenate([held[1], numbers])
        if not len(numbers):
            continue
        columns, numbers, starts = _cut(columns, numbers, source, bad_rows)
        last = starts[-1]
        held = {name: values[last:] for name, values in columns.items()}, numbers[last:]
        if last:
            yield _lists(columns, starts), numbers[:last]
    if held is not None:
        yield _lists(held[0], np.array([0, len(held[1])])), held[1]


def _cut(
    columns: dict[str, Array], numbers: Indices, source: str, bad_rows: BadRows
) -> tuple[dict[str, Array], Indices, Indices]:
    """Rows without those of a second query in an impression, and where lists start."""
    key, query = columns.get("impression"), columns["query"]
    if key is None:
        key = columns.get("visit", query)
        changed = (key[1:] != key[:-1]) | (query[1:] != query[:-1])
        return columns, numbers, np.concatenate([[0], np.flatnonzero(changed) + 1])
    starts = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1])
    _, counts = np.unique(key[starts], return_counts=True)
    if counts.max() > 1:
        again = np.argsort(key[starts], kind="stable")
        place = starts[again[1:][np.diff(key[starts][again]) == 0].min()]
        raise ValueError(
            f"{source}: rows of one impression must follow one another, got more of an earlier one "
            f"in row {numbers[place]}; sort the log by impression."
        )
    lengths = np.diff(np.append(starts, len(key)))
    mixed = query != np.repeat(query[starts], lengths)
    if not mixed.any():
        return columns, numbers, starts
    for number in numbers[mixed].tolist():
        bad_rows.add(source, number, RowError("another query in the same impression"))
    kept = {name: values[~mixed] for name, values in columns.items()}
    return kept, numbers[~mixed], starts - np.cumsum(mixed)[starts]


def _lists(columns: dict[str, Array], starts: Indices) -> Impressions:
    """Lists between successive starts."""
    heads, end = starts[:-1], starts[-1]
    nuisance = {}
    if "position" in columns:
        nuisance["position"] = np.log(columns["position"][:end])
    weights = columns["weight"][heads] if "weight" in columns else np.ones(len(heads))
    return Impressions(
        columns["query"][heads],
        starts,
        columns["item"][:end],
        columns["click"][:end],
        nuisance,
        weights,
        np.zeros(len(heads), bool),
        columns["timestamp"][:end] if "timestamp" in columns else np.zeros(0),
    )
