"""Files and tables of judgements, read in batches of flat memory."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array
from similia.feedback.clicks import RULES, click_preferences
from similia.feedback.impressions import SHOWN, Impressions
from similia.feedback.judgements import Judgements, triplets_of_grades
from similia.feedback.lists import Keep, clicked_columns, in_lists
from similia.files import BadRows, FeedbackLike, Ids, RowError, Source
from similia.files.columns import AT_LEAST_0, NUMBER, Columns, Reader, Values
from similia.files.ids import as_integers
from similia.files.lines import DELIMITERS
from similia.files.vectors import TABLE_SUFFIXES, mapped_array
from similia.validation import check_parameters, one_of

_CHECKED = {"clicks": one_of(*RULES)}

GRADED = ("query", "item", "relevance")
#: column names of each kind of judgement; the first layout that a file has is read
LAYOUTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "triplets": (("query", "better", "worse"), GRADED, SHOWN),
    "lists": (("query", "better", "worse"), GRADED, SHOWN),
    "pairs": (("a", "b", "label"), ("a", "b", "y")),
    "grades": (GRADED,),
    "labels": (("row", "label"),),
}
ANY_LAYOUT = tuple(dict.fromkeys(layout for kind in LAYOUTS.values() for layout in kind))
#: columns that are not ids of vectors
VALUE_COLUMNS = ("relevance", "label", "y")
#: columns that change what a row means, and are not passed over in silence
WARN_IF_UNUSED = ("position", "weight")


class FeedbackFile:
    """Judgements from a file or table that can be iterated over repeatedly, in batches.

    Parameters
    ----------
    path : path or table
        As for `Source`: .csv, .tsv, .jsonl, .parquet, .arrow, .npy, qrels of TREC, a BEIR folder,
        ``-`` for standard input, or a table of pandas, polars or Arrow.
    kind : {"triplets", "lists", "pairs", "labels", "grades"}
        Kind of judgement to read. Triplets are query,better,worse, or are drawn from
        query,item,relevance, or are what clicks prefer in the log of an `ImpressionsFile`, one for
        each click; "lists" are the same, but logs stay lists; pairs are a,b,label (or a,b,y);
        labels are row,label; grades are query,item,relevance as they stand. Other columns are
        ignored, but for position and weight, which are warned of.
    ids : Ids
        Names of the rows of the (query) vectors.
    items : Ids, optional
        Names of the items, if they are separate vectors.
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
        columns: Mapping[str, str] | None = None,
        classes: ArrayLike | None = None,
        bad_rows: BadRows | None = None,
        unjudged: str = "ignore",
        clicks: str = "clicked",
        keep: Keep | None = None,
    ) -> None:
        check_parameters("FeedbackFile", _CHECKED, {"clicks": clicks})
        self.rows = Source(path, columns)
        self.source = self.rows.name
        self.kind = kind
        self.layouts = LAYOUTS[kind]
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
        #: names of the columns read, once reading has begun
        self.layout: tuple[str, ...] | None = None

    @property
    def is_clicks(self) -> bool:
        """Whether judgements come from clicks, once reading has begun."""
        return self.layout == SHOWN

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
        """Judgements as the columns state them: grades stay grades, and logs of clicks lists."""
        batches = self.rows.batches(self._columns, self.layouts, self.bad_rows)
        first = next(batches, None)  # the columns are known once something has been read
        if first is None:
            return
        batches = chain([first], batches)
        if self.layout == SHOWN:
            for shown, numbers in in_lists(batches, self.source, self.bad_rows):
                queries = shown.queries[:, None].astype(np.int64, copy=False)
                found = Judgements(queries, None, numbers[shown.starts[:-1]], shown)
                yield found if self.keep is None else found.part(self.keep(shown.queries))
            return
        for columns, numbers in batches:
            *_, last = columns
            values = columns.pop(last) if last in VALUE_COLUMNS else None
            tuples = np.column_stack(list(columns.values())).astype(np.int64, copy=False)
            found = Judgements(tuples, values, numbers)
            yield found if self.keep is None else found.part(self.keep(tuples[:, 0]))

    def drawn(self, batches: Iterator[Judgements], kind: str = "triplets") -> Iterator[Judgements]:
        """Triplets drawn from grades and clicks, as far as `kind` asks for them."""
        first = next(batches, None)
        if first is None:
            return
        whole = chain([first], batches)
        if self.layout == GRADED and kind != "grades":
            shape = (self.ids.n, self.items.n)
            yield from triplets_of_grades(whole, shape, unjudged=self.unjudged)
        elif self.layout == SHOWN and kind == "triplets":
            yield from filter(len, map(self._preferred, whole))
        else:
            yield from whole

    def _preferred(self, shown: Judgements) -> Judgements:
        """Triplets that clicks prefer, one for each click: its pairs are not as many judgements.

        Which one is decided by the row of the click alone, so batches do not matter.
        """
        lists = shown.lists or Impressions.joined([])
        found = click_preferences(lists, self.clicks)
        starts = np.flatnonzero(np.diff(found.better, prepend=-1))
        owner = np.searchsorted(lists.starts, found.better[starts], side="right") - 1
        clicks = shown.numbers[owner] + found.better[starts] - lists.starts[owner]
        mixed = clicks.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) >> np.uint64(33)
        counts = np.diff(np.append(starts, len(found.better)))
        chosen = starts + (mixed % counts.astype(np.uint64)).astype(np.intp)
        return Judgements(found.triplets[chosen].astype(np.int64, copy=False), None, clicks)

    def _columns(self, names: Sequence[str]) -> Columns:
        """Readers of the first layout that the file has, by column name."""
        known = set(names)
        self.layout = next((one for one in self.layouts if known.issuperset(one)), None)
        if self.layout is None:
            wanted = " or ".join(",".join(layout) for layout in self.layouts)
            raise ValueError(
                f"{self.source}: feedback must have the columns {wanted}, "
                f"got {','.join(names)!r:.120}; name yours with columns (--columns query=…,item=…)."
            )
        unused, advice = known.intersection(WARN_IF_UNUSED), "in a log of query,item,click it is"
        if self.layout == SHOWN:
            advice = "Blend, which learns from lists, uses it"
            unused -= set(WARN_IF_UNUSED if self.kind == "lists" else ())
            if self.clicks != "clicked":
                unused.discard("position")
        for name in sorted(unused):
            warnings.warn(
                f"{self.source}: the column {name} is not used beside {','.join(self.layout)} "
                f"when {self.kind} are read; {advice}.",
                UserWarning,
                stacklevel=2,
            )
        if self.layout == SHOWN:
            return clicked_columns(names, self.ids, self.items, times=self.clicks == "last-click")
        readers: dict[str, Reader | Ids] = {
            "relevance": AT_LEAST_0,
            "y": NUMBER,
            "label": self.label,
        }
        readers |= dict.fromkeys(("better", "worse", "item"), self.items)
        return {name: readers.get(name, self.ids) for name in self.layout}


def classes_in(path: FeedbackLike, ids: Ids, bad_rows: BadRows | None = None) -> Array:
    """Distinct labels in a file of labels, sorted: as integers if all are, else as texts.

    Takes one pass in flat memory; bad rows are left for the pass that learns to report.
    """
    seen: set[str] = set()

    def many(raw: Values) -> Array:
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
    """Kind of judgement that a file holds, from the names of its columns."""
    file = FeedbackFile(path, "triplets", Ids(None, 0), bad_rows=BadRows("skip"))
    file.layouts = ANY_LAYOUT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # whoever reads the rows will hear them
        for _ in file.rows.parts(file._columns, file.layouts):
            if file.layout is not None:
                break
    if file.layout is None:
        raise ValueError(f"{file.source}: feedback must be at least one judgement, got none.")
    if file.layout == GRADED:
        return "grades"
    return next(kind for kind, layouts in LAYOUTS.items() if file.layout in layouts)


def copy_rows(path: Path, numbers: NDArray[np.int64], output: Path) -> None:
    """Copy the rows with these increasing numbers, unchanged, with header and every column."""
    kept = np.zeros(numbers[-1] + 1, dtype=bool)
    kept[numbers] = True
    if path.suffix == ".npy":
        np.save(output, mapped_array(path, "feedback")[: len(kept) - 1][kept[1:]])
    elif path.suffix in TABLE_SUFFIXES:
        from similia.files.tables import copy_table_rows

        copy_table_rows(path, kept[1:], output)
    else:
        header = path.suffix in DELIMITERS
        with open(path, "rb") as source, open(output, "wb") as copy:
            for number, line in enumerate(source, start=1):
                if header and line.strip():
                    copy.write(line)
                    header = False
                elif number < len(kept) and kept[number]:
                    copy.write(line)
