"""Files of judgements, read in batches of flat memory."""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array
from similia.files.bad_rows import BadRows, RowError
from similia.files.ids import Encoded, Ids, as_integers
from similia.files.judgements import Judgements, triplets_of_grades
from similia.files.pieces import (
    ArrayPiece,
    Columns,
    Piece,
    RawColumn,
    Reader,
    TablePiece,
    TextPiece,
    csv_fields,
    json_object,
    opened,
    text_pieces,
)
from similia.files.vectors import LINES, TABLES, mapped_array

#: rows of a .npy file held at a time
BATCH = 2**16

#: a mask over rows of (query) vectors: which judgements to keep
Keep: TypeAlias = Callable[[NDArray[np.int64]], NDArray[np.bool_]]

GRADED = ("query", "item", "relevance")
#: column names of each kind of judgement; the first layout that a file has is read
LAYOUTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "triplets": (("query", "better", "worse"), GRADED),
    "pairs": (("a", "b", "label"), ("a", "b", "y")),
    "grades": (GRADED,),
    "labels": (("row", "label"),),
}
ANY_LAYOUT = tuple(dict.fromkeys(layout for kind in LAYOUTS.values() for layout in kind))
#: columns that are not ids of vectors
VALUES = ("relevance", "label", "y")


class FeedbackFile:
    """A file of judgements that can be iterated over repeatedly, in batches.

    Parameters
    ----------
    path : path
        By its suffix: .csv, .jsonl, .parquet, .arrow or .npy (a matrix of row numbers). ``-`` is
        standard input, which can be read once: JSON lines if it starts with ``{``, else CSV.
    kind : {"triplets", "pairs", "labels", "grades"}
        Kind of judgement to read. Triplets are query,better,worse or are drawn from
        query,item,relevance; pairs are a,b,label (or a,b,y); labels are row,label; grades are
        query,item,relevance as they stand. Other columns are ignored.
    ids : Ids
        Names of the rows of the (query) vectors.
    items : Ids, optional
        Names of the items, if they are separate vectors.
    classes : array, optional
        Expected labels; `values` then index this array.
    bad_rows : BadRows, optional
        What to do with unusable rows; by default they raise BadRowError.
    unjudged : {"ignore", "worse"}
        For triplets from grades: see `triplets_of_grades`.
    keep : function from an array of rows to a mask, optional
        Selects judgements by their query, first point or row.
    """

    def __init__(
        self,
        path: Path | str,
        kind: str,
        ids: Ids,
        items: Ids | None = None,
        *,
        classes: ArrayLike | None = None,
        bad_rows: BadRows | None = None,
        unjudged: str = "ignore",
        keep: Keep | None = None,
    ) -> None:
        self.path = Path(path)
        self.source = "standard input" if str(path) == "-" else str(path)
        self.kind = kind
        self.layouts = LAYOUTS[kind]
        self.ids = ids
        self.items = items or ids
        self.label = NUMBER
        if classes is not None:
            labels = np.asarray(classes)
            names = Ids(labels, len(labels), "label")
            self.label = Reader(names.dtype, names.rows, names.row)
        self.bad_rows = bad_rows or BadRows()
        self.unjudged = unjudged
        self.keep = keep
        #: names of the columns read, once reading has begun
        self.layout: tuple[str, ...] | None = None
        #: bytes (rows, of tables) read so far
        self.position = 0

    @property
    def size(self) -> int | None:
        """Value of `position` at the end of the file, if known."""
        if str(self.path) == "-":
            return None
        if self.path.suffix in TABLES:
            from similia.files.arrow import Table

            return Table(self.path).n_rows
        return self.path.stat().st_size

    def __iter__(self) -> Iterator[Judgements]:
        return self.drawn(self.raw()) if self.kind == "triplets" else self.raw()

    def raw(self) -> Iterator[Judgements]:
        """Judgements as the columns state them: grades stay grades."""
        self.position = 0
        for columns, piece in self._pieces():
            yield from self._judgements(columns, piece)

    def drawn(self, batches: Iterator[Judgements]) -> Iterator[Judgements]:
        """Triplets drawn from grades; other judgements unchanged."""
        first = next(batches, None)  # the columns are known once something has been read
        if first is None:
            return
        whole = chain([first], batches)
        if self.layout == GRADED:
            shape = (self.ids.n, self.items.n)
            yield from triplets_of_grades(whole, shape, unjudged=self.unjudged)
        else:
            yield from whole

    # -- formats -------------------------------------------------------------------------------

    def _pieces(self) -> Iterator[tuple[Columns, Piece]]:
        """Yield the file piece by piece; `layout` is known from the first piece on."""
        suffix = self.path.suffix
        if suffix in TABLES:
            return self._from_table()
        if suffix == ".npy":
            return self._from_array()
        if suffix == ".csv" or suffix in LINES or str(self.path) == "-":
            return self._from_lines()
        raise ValueError(
            f"{self.path}: feedback must be in a file that ends in .csv, .jsonl, .npy or one "
            f"of {', '.join(TABLES)}, got {suffix or 'no suffix'}."
        )

    def _from_lines(self) -> Iterator[tuple[Columns, Piece]]:
        header: list[str] | None = None
        columns: Columns | None = None
        is_json = self.path.suffix in LINES
        with opened(self.path) as file:
            for read in text_pieces(file, self.source):
                self.position += len(read.data)
                piece = read
                if columns is None:
                    if str(self.path) == "-":
                        is_json = piece.data.lstrip().startswith(b"{")
                    if is_json:
                        columns = self._json_columns(piece)
                    else:
                        columns, piece = self._csv_columns(piece)
                        header = piece.header
                if columns is not None:
                    yield columns, TextPiece(piece.number, piece.data, header)

    def _csv_columns(self, piece: TextPiece) -> tuple[Columns | None, TextPiece]:
        """Columns named by the header, and the piece without it."""
        number, header = next(piece.parsed(csv_fields), (0, []))
        if isinstance(header, RowError):
            raise ValueError(f"{self.source}: the header is {header}.")
        if not header:
            return None, piece
        names = [name.strip().lower() for name in header]
        columns = self._columns(names)
        if len(set(names)) != len(names):
            raise ValueError(f"{self.source}: the columns must have different names.")
        skipped = number + 1 - piece.number
        rest = piece.data.split(b"\n", skipped)
        data = rest[skipped] if len(rest) > skipped else b""
        return columns, TextPiece(number + 1, data, names)

    def _json_columns(self, piece: TextPiece) -> Columns | None:
        """Columns of the first line that has some layout; if no line is JSON, all are bad rows."""
        wrong: list[tuple[int, RowError]] = []
        without: ValueError | None = None
        for number, found in piece.parsed(json_object):
            if isinstance(found, RowError):
                wrong.append((number, found))
                continue
            try:
                return self._columns(list(found))
            except ValueError as error:
                without = without or error
        if without is not None:
            raise without
        for number, reason in wrong:
            self.bad_rows.add(self.source, number, reason)
        return None

    def _from_table(self) -> Iterator[tuple[Columns, Piece]]:
        from similia.files.arrow import Table

        table = Table(self.path)
        columns = self._columns(table.schema.names)
        for batch in table.batches(columns):
            yield columns, TablePiece(self.position + 1, batch)
            self.position += batch.num_rows

    def _from_array(self) -> Iterator[tuple[Columns, Piece]]:
        given = mapped_array(self.path, "feedback")
        layouts = [layout for layout in self.layouts if given.shape[1:] == (len(layout),)]
        if not layouts or given.dtype.kind not in "fiu":
            wanted = " or ".join(",".join(layout) for layout in self.layouts)
            raise ValueError(
                f"{self.path}: feedback must be a matrix of numbers with the columns {wanted}, "
                f"got shape {given.shape} and dtype {given.dtype}."
            )
        columns = self._columns(layouts[0])
        for start in range(0, len(given), BATCH):
            part = np.asarray(given[start : start + BATCH])
            self.position += part.nbytes
            yield columns, ArrayPiece(start + 1, part)

    # -- rows ----------------------------------------------------------------------------------

    def _columns(self, names: Sequence[str]) -> Columns:
        """Readers of the first layout that the file has, by column name."""
        known = set(names)
        self.layout = next((one for one in self.layouts if known.issuperset(one)), None)
        if self.layout is None:
            wanted = " or ".join(",".join(layout) for layout in self.layouts)
            raise ValueError(
                f"{self.source}: feedback must have the columns {wanted}, "
                f"got {','.join(names)!r:.120}."
            )
        ids, items = (Reader(i.dtype, i.rows, i.row) for i in (self.ids, self.items))
        readers = {"relevance": GRADE, "y": NUMBER, "label": self.label}
        readers |= dict.fromkeys(("better", "worse", "item"), items)
        return {name: readers.get(name, ids) for name in self.layout}

    def _judgements(self, columns: Columns, piece: Piece) -> Iterator[Judgements]:
        """Parse a piece as a whole if all of it is good, else in halves, finally row by row."""
        raw = piece.raw_columns(columns)
        found = None if raw is None else _numbers(columns, raw)
        if found is not None:
            numbers = np.arange(piece.number, piece.number + len(found[0]))
        else:
            halves = piece.halves()
            for half in halves:
                yield from self._judgements(columns, half)
            if halves:
                return
            found, numbers = self._good_rows(columns, piece)
        if not len(numbers):
            return
        values = found.pop() if list(columns)[-1] in VALUES else None
        tuples = np.column_stack(found).astype(np.int64, copy=False)
        taken = Judgements(tuples, values, numbers)
        yield taken if self.keep is None else taken.part(self.keep(tuples[:, 0]))

    def _good_rows(self, columns: Columns, piece: Piece) -> tuple[list[Array], NDArray[np.int64]]:
        kept, numbers = [], []
        for number, fields in piece.rows(columns):
            try:
                if isinstance(fields, RowError):
                    raise fields
                kept.append(_row(columns, fields))
                numbers.append(number)
            except RowError as error:
                self.bad_rows.add(self.source, number, error)
        found = [np.array(column) for column in zip(*kept, strict=True)]
        return found, np.array(numbers, dtype=np.int64)


def _numbers(columns: Columns, raw: Sequence[RawColumn]) -> list[Array] | None:
    """Numbers of each column, or None if any value is bad."""
    found = []
    for reader, values in zip(columns.values(), raw, strict=True):
        numbers = reader.column(values)
        if numbers is None:
            return None
        found.append(numbers)
    return found


def _row(columns: Columns, fields: Iterable[Any]) -> list[float]:
    """Numbers of one row; raise RowError with the name of the column at fault."""
    found = []
    for (name, reader), value in zip(columns.items(), fields, strict=True):
        if value is None:
            raise RowError(f"column {name} is missing")
        try:
            found.append(reader.value(value))
        except RowError as error:
            raise error.within(name) from None
    return found


# -- readers -----------------------------------------------------------------------------------


def _floats(column: RawColumn, least: float = -math.inf) -> NDArray[np.float64] | None:
    if isinstance(column, Encoded) or column.dtype.kind not in "fiu":
        return None
    numbers = column.astype(np.float64)
    return numbers if (np.isfinite(numbers) & (numbers >= least)).all() else None


def _float(raw: object, least: float = -math.inf) -> float:
    try:
        if isinstance(raw, bool) or not isinstance(raw, str | int | float):
            raise ValueError
        number = float(raw)
    except (ValueError, OverflowError):
        raise RowError("not a number", f" {raw!r:.80}") from None
    if not math.isfinite(number):
        raise RowError("not a finite number", f" {raw!r:.80}")
    if number < least:
        raise RowError(f"not at least {least:g}", f": {raw!r:.80}")
    return number


NUMBER = Reader("float64", _floats, _float)
GRADE = Reader("float64", partial(_floats, least=0.0), partial(_float, least=0.0))


class _Labels:
    """Collects the labels of a column without interpreting them."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def column(self, column: RawColumn) -> Array:
        texts = column.texts if isinstance(column, Encoded) else np.unique(column).tolist()
        self.seen.update(map(str, texts))
        return np.zeros(len(column.codes if isinstance(column, Encoded) else column))

    def value(self, raw: object) -> int:
        if isinstance(raw, bool) or not isinstance(raw, str | int):
            raise RowError("not a label", f" {raw!r:.80}")
        self.seen.add(str(raw))
        return 0


def classes_in(path: Path | str, ids: Ids, bad_rows: BadRows | None = None) -> Array:
    """Distinct labels in a file of labels, sorted: as integers if all are, else as texts.

    Takes one pass in flat memory; bad rows are left for the pass that learns to report.
    """
    labels = _Labels()
    file = FeedbackFile(path, "labels", ids, bad_rows=bad_rows or BadRows("skip"))
    file.label = Reader("string", labels.column, labels.value)
    for _ in file:
        pass
    numbers = as_integers(labels.seen)
    return np.array(sorted(labels.seen), dtype=object) if numbers is None else np.sort(numbers)


def kind_of(path: Path | str) -> str:
    """Kind of judgement that a file holds, from the names of its columns."""
    file = FeedbackFile(path, "triplets", Ids(None, 0), bad_rows=BadRows("skip"))
    file.layouts = ANY_LAYOUT
    next(file._pieces(), None)
    if file.layout is None:
        raise ValueError(f"{path}: feedback must be at least one judgement, got none.")
    if file.layout == GRADED:
        return "grades"
    return next(kind for kind, layouts in LAYOUTS.items() if file.layout in layouts)


def copy_rows(path: Path, numbers: NDArray[np.int64], output: Path) -> None:
    """Copy some rows of a feedback file unchanged, with its header and every column.

    Parameters
    ----------
    path : path
    numbers : increasing integer array
        Row numbers, as `Judgements` have them.
    output : path
        New file of the same format.
    """
    kept = np.zeros(numbers[-1] + 1, dtype=bool)
    kept[numbers] = True
    if path.suffix == ".npy":
        np.save(output, mapped_array(path, "feedback")[: len(kept) - 1][kept[1:]])
    elif path.suffix in TABLES:
        from similia.files import arrow

        arrow.copy_rows(path, kept[1:], output)
    else:
        header = path.suffix == ".csv"
        with open(path, "rb") as source, open(output, "wb") as copy:
            for number, line in enumerate(source, start=1):
                if header and line.strip():
                    copy.write(line)
                    header = False
                elif number < len(kept) and kept[number]:
                    copy.write(line)
