"""Files and tables of judgements, read in batches of flat memory."""

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array, Indices
from similia.feedback.clicks import RULES, click_preferences
from similia.feedback.grades import triplets_of_grades
from similia.feedback.impressions import SHOWN_COLUMNS, Impressions
from similia.feedback.judgements import Judgements, in_lists
from similia.files import BadRows, FeedbackLike, Ids, RowError, Source
from similia.files.columns import (
    AT_LEAST_0,
    AT_LEAST_1,
    CLICK,
    KEY,
    NUMBER,
    TIME,
    RawValues,
    Reader,
    WantedColumns,
)
from similia.files.ids import as_integers, scattered
from similia.files.lines import FIELD_DELIMITERS
from similia.files.vectors import TABLE_SUFFIXES, mapped_array
from similia.validation import TRIPLET_COLUMNS, check_parameters, one_of

#: maps rows of (query) vectors to a mask of the judgements to keep
Keep: TypeAlias = Callable[[Indices], NDArray[np.bool_]]

_CHECKED = {"clicks": one_of(*RULES)}

GRADED = ("query", "item", "relevance")
#: columns of each kind of judgement; the first layout found in a file is read
LAYOUTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "triplets": (TRIPLET_COLUMNS, GRADED, SHOWN_COLUMNS),
    "lists": (TRIPLET_COLUMNS, GRADED, SHOWN_COLUMNS),
    "log": (SHOWN_COLUMNS,),
    "pairs": (("a", "b", "label"), ("a", "b", "y")),
    "grades": (GRADED,),
    "labels": (("row", "label"),),
}
ANY_LAYOUT = tuple(dict.fromkeys(layout for kind in LAYOUTS.values() for layout in kind))
#: optional columns of a log, beside `SHOWN_COLUMNS`; times are read only on request
LOG_DETAILS: dict[str, Reader | Ids] = {
    "impression": KEY,
    "visit": KEY,
    "position": AT_LEAST_1,
    "weight": AT_LEAST_0,
}
#: columns that are not ids of vectors
VALUE_COLUMNS = ("relevance", "label", "y")
#: columns that change the meaning of a row; ignoring them deserves a warning
WARN_IF_UNUSED = ("position", "weight")


class FeedbackFile:
    """Judgements from a file or table that can be iterated over repeatedly, in batches.

    Parameters
    ----------
    path : path or table
        As for `Source`: .csv, .tsv, .jsonl, .parquet, .arrow, .npy, qrels of TREC, a BEIR folder,
        ``-`` for standard input, or a table of pandas, polars or Arrow.
    kind : {"triplets", "lists", "log", "pairs", "labels", "grades"}
        Kind of judgement to read. Triplets are query,better,worse, or are drawn from
        query,item,relevance, or are what clicks prefer in the log of an `ImpressionsFile`, one for
        each click; "lists" are the same, but logs stay lists, and a "log" is one of these; pairs
        are a,b,label (or a,b,y); labels are row,label; grades are query,item,relevance as they
        stand. Other columns are ignored, with a warning about position and weight.
    ids : Ids
        Names of the rows of the (query) vectors.
    items : Ids, optional
        Names of the items, if they are separate vectors.
    lists : bool
        Read "lists" in place of "triplets", for a learner that learns lists.
    columns : dict of str, optional
        What the file calls these columns, by our name: ``{"query": "query-id"}``.
    classes : array, optional
        Expected labels; `values` then index this array.
    bad_rows : BadRows, optional
        What to do with unusable rows; by default they raise BadRowError.
    unjudged : {"ignore", "worse"}
        For triplets from grades: see `triplets_of_grades`.
    clicks : {"clicked", "skip-above", "last-click"}
        For triplets from clicks: see `similia.feedback.clicks.click_preferences`.
    keep : function from an array of rows to a mask, optional
        Selects judgements by their query, first point or row.
    """

    def __init__(
        self,
        path: FeedbackLike,
        kind: str,
        ids: Ids,
        items: Ids | None = None,
        *,
        lists: bool = False,
        columns: Mapping[str, str] | None = None,
        classes: ArrayLike | None = None,
        bad_rows: BadRows | None = None,
        unjudged: str = "ignore",
        clicks: str = "clicked",
        keep: Keep | None = None,
    ) -> None:
        check_parameters("FeedbackFile", _CHECKED, {"clicks": clicks})
        self.rows = Source(path, columns, what="a log" if kind == "log" else "feedback")
        self.source = self.rows.name
        self.kind = "lists" if lists and kind == "triplets" else kind
        self.ids = ids
        self.items = items or ids
        self.label: Reader | Ids = NUMBER
        if classes is not None:
            labels = np.asarray(classes)
            self.label = Ids(labels, len(labels), "label")
        self.bad_rows = bad_rows or BadRows()
        self.unjudged = unjudged
        self.clicks = clicks
        self.keep = keep
        #: whether to read the times of clicks, which cost as much as all other columns
        self.times = clicks == "last-click"
        #: columns that make up a judgement; known once reading has begun
        self.layout: tuple[str, ...] = ()

    @property
    def is_clicks(self) -> bool:
        """Whether judgements come from clicks, once reading has begun."""
        return self.layout == SHOWN_COLUMNS

    @property
    def position(self) -> int:
        """Bytes (rows, of tables) read so far."""
        return self.rows.position

    @property
    def size(self) -> int | None:
        """Value of `position` at the end of the file, if known."""
        return self.rows.size

    def __iter__(self) -> Iterator[Judgements]:
        return self.drawn(self.raw(), self.kind)

    def raw(self) -> Iterator[Judgements]:
        """Judgements as the file states them: grades stay grades, and logs stay lists."""
        batches = self.rows.batches(self.wanted(LAYOUTS[self.kind]), self.bad_rows)
        first = next(batches, None)  # columns are known after the first batch
        if first is None:
            return
        self.layout = tuple(self.rows.chosen.required if self.rows.chosen else ())
        self._warn_of_unused()
        batches = chain([first], batches)
        if self.layout == SHOWN_COLUMNS:
            for lists in in_lists(batches, self.source, self.bad_rows):
                yield lists if self.keep is None else lists.part(self.keep(lists.tuples[:, 0]))
            return
        for columns, numbers in batches:
            *_, last = columns
            values = columns.pop(last) if last in VALUE_COLUMNS else None
            tuples = np.column_stack(list(columns.values())).astype(np.int64, copy=False)
            found = Judgements(tuples, values, numbers)
            yield found if self.keep is None else found.part(self.keep(tuples[:, 0]))

    def drawn(self, batches: Iterator[Judgements], kind: str = "triplets") -> Iterator[Judgements]:
        """Triplets drawn from grades and clicks, if `kind` asks for triplets."""
        first = next(batches, None)
        if first is None:
            return
        whole = chain([first], batches)
        if self.layout == GRADED and kind != "grades":
            shape = (self.ids.n, self.items.n)
            yield from triplets_of_grades(whole, shape, unjudged=self.unjudged)
        elif self.layout == SHOWN_COLUMNS and kind == "triplets":
            yield from filter(len, map(self._preferred, whole))
        else:
            yield from whole

    def _preferred(self, shown: Judgements) -> Judgements:
        """One triplet per click, as the pairs of a click are not independent judgements.

        Which one is decided by the row of the click alone, so batches do not matter.
        """
        lists = shown.lists or Impressions.joined([])
        found = click_preferences(lists, self.clicks)
        starts = np.flatnonzero(np.diff(found.better, prepend=-1))
        owner = np.searchsorted(lists.starts, found.better[starts], side="right") - 1
        clicks = shown.numbers[owner] + found.better[starts] - lists.starts[owner]
        counts = np.diff(np.append(starts, len(found.better)))
        chosen = starts + (scattered(clicks) % counts.astype(np.uint64)).astype(np.intp)
        return Judgements(found.triplets[chosen].astype(np.int64, copy=False), None, clicks)

    def wanted(self, layouts: Sequence[tuple[str, ...]]) -> list[WantedColumns]:
        """Columns of each layout, with their readers."""
        readers: dict[str, Reader | Ids] = {
            "relevance": AT_LEAST_0,
            "y": NUMBER,
            "label": self.label,
            "click": CLICK,
        }
        readers |= dict.fromkeys(("better", "worse", "item"), self.items)
        details = LOG_DETAILS | ({"timestamp": TIME} if self.times else {})
        return [
            WantedColumns(
                {name: readers.get(name, self.ids) for name in layout},
                details if layout == SHOWN_COLUMNS else {},
            )
            for layout in layouts
        ]

    def _warn_of_unused(self) -> None:
        unused, advice = set(WARN_IF_UNUSED), "in a log of query,item,click it is"
        if self.layout == SHOWN_COLUMNS:
            advice = "Blend, which learns from lists, uses it"
            unused -= set(WARN_IF_UNUSED if self.kind in ("lists", "log") else ())
            if self.clicks != "clicked":
                unused.discard("position")
        for name in sorted(unused.intersection(self.rows.names)):
            warnings.warn(
                f"{self.source}: the column {name} is not used beside {','.join(self.layout)} "
                f"when {self.kind} are read; {advice}.",
                UserWarning,
                stacklevel=2,
            )


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
    >>> sum(len(lists) for lists in ImpressionsFile(log, Ids(None, 6)))
    2
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
        self.bad_rows = bad_rows or BadRows()
        self._file = FeedbackFile(source, "log", ids, items, columns=columns, keep=keep)
        self._file.times = times

    def __iter__(self) -> Iterator[Impressions]:
        self._file.bad_rows = self.bad_rows
        for part in self._file:
            if part.lists is not None:
                yield part.lists


def read_impressions(
    source: Any, ids: Ids, items: Ids | None = None, **options: Any
) -> Impressions:
    """All lists of a log at once; parameters are those of `ImpressionsFile`."""
    return Impressions.joined(list(ImpressionsFile(source, ids, items, **options)))


def classes_in(path: FeedbackLike, ids: Ids, bad_rows: BadRows | None = None) -> Array:
    """Distinct labels in a file of labels, sorted: as integers if all are, else as texts.

    Takes one pass in flat memory; bad rows are left for the pass that learns to report.
    """
    seen: set[str] = set()

    def many(raw: RawValues) -> Array:
        plain = raw.tolist() if isinstance(raw, np.ndarray) else raw
        if not set(map(type, plain)) <= {str, int}:
            raise TypeError("not labels")
        seen.update(map(str, plain))
        return np.zeros(len(plain))

    def value(raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, str | int):
            raise RowError("not a label", f" {raw!r:.80}")
        seen.add(str(raw))
        return 0

    file = FeedbackFile(path, "labels", ids, bad_rows=bad_rows or BadRows("skip"))
    file.label = Reader(value, many)
    for _ in file:
        pass
    numbers = as_integers(seen)
    return np.array(sorted(seen), dtype=object) if numbers is None else np.sort(numbers)


def kind_of(path: FeedbackLike) -> str:
    """Kind of judgement in a file, by its columns."""
    file = FeedbackFile(path, "triplets", Ids(None, 0))
    chosen = file.rows.choose(file.wanted(ANY_LAYOUT))
    if chosen is None:
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    if (layout := tuple(chosen.required)) == GRADED:
        return "grades"
    return next(kind for kind, layouts in LAYOUTS.items() if layout in layouts)


def copy_rows(path: Path, numbers: NDArray[np.int64], output: Path) -> None:
    """Copy rows by ascending number, unchanged, with the header and all columns."""
    kept = np.zeros(numbers[-1] + 1, dtype=bool)
    kept[numbers] = True
    if path.suffix == ".npy":
        np.save(output, mapped_array(path, "feedback")[: len(kept) - 1][kept[1:]])
    elif path.suffix in TABLE_SUFFIXES:
        from similia.files.tables import copy_table_rows

        copy_table_rows(path, kept[1:], output)
    else:
        header = path.suffix in FIELD_DELIMITERS
        with open(path, "rb") as source, open(output, "wb") as copy:
            for number, line in enumerate(source, start=1):
                if header and line.strip():
                    copy.write(line)
                    header = False
                elif number < len(kept) and kept[number]:
                    copy.write(line)
