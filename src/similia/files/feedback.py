"""Judgements from files, in batches of flat memory."""

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from similia.files.arrays import mapped_array
from similia.files.bad_rows import BadRows, RowError
from similia.files.columns import (
    KINDS,
    LAYOUTS,
    Column,
    Key,
    Labels,
    Number,
    Reader,
    all_at_once,
    columns_of,
    layout_of,
    one_by_one,
)
from similia.files.graded import triplets_of_grades
from similia.files.ids import Ids
from similia.files.judgements import Judgements
from similia.files.lines import LineBlock, line_blocks, opened
from similia.files.pieces import ArrayPiece, Piece, TablePiece, TextPiece
from similia.files.text import csv_fields, decoded, json_object

#: rows of a .npy file held at a time
BATCH = 2**16
TABLES = (".parquet", ".pq", ".arrow", ".feather")

Columns = list[Column]


class FeedbackFile:
    """A file of judgements that can be read again and again, in batches.

    Parameters
    ----------
    path : path
        By its suffix: .csv, .jsonl, .parquet, .arrow or .npy (a matrix of row numbers). ``-`` is
        standard input, once: JSON lines if its first character is ``{``, else CSV.
    kind : {"triplets", "pairs", "labels", "grades"}
        What a learner learns from. Triplets are query,better,worse or are drawn from
        query,item,relevance; pairs are a,b,label (or a,b,y); labels are row,label; grades are
        query,item,relevance as they are. Further columns are not read.
    ids : Ids
        Names of the rows of the (query) vectors.
    items : Ids, optional
        Names of the items, if they are other vectors.
    classes : array, optional
        Labels to expect; `values` are then places in it.
    bad_rows : BadRows, optional
        What to do with rows that cannot be used; by default they raise BadRowError.
    unjudged : {"ignore", "worse"}
        For triplets from grades: see `triplets_of_grades`.
    keep : function of an array of rows, optional
        Which judgements to take, by the query, the first point or the row: a mask.
    """

    def __init__(
        self,
        path: Path | str,
        kind: str,
        ids: Ids,
        items: Ids | None = None,
        *,
        classes: Any = None,
        bad_rows: BadRows | None = None,
        unjudged: str = "ignore",
        keep: Callable[[Any], Any] | None = None,
    ) -> None:
        self.path = Path(path)
        self.source = "standard input" if str(path) == "-" else str(path)
        self.kind = kind
        self.ids = ids
        self.items = items or ids
        self.label: Reader = (
            Number() if classes is None else Key(Ids(classes, len(classes), "label"))
        )
        self.bad_rows = bad_rows or BadRows()
        self.unjudged = unjudged
        self.keep = keep
        #: columns that were found, once reading has begun
        self.layout: tuple[str, ...] | None = None
        #: bytes (or rows, of tables) read so far
        self.position = 0

    @property
    def size(self) -> int | None:
        """What `position` will have become at the end, if that is known."""
        if str(self.path) == "-":
            return None
        if self.path.suffix in TABLES:
            from similia.files.arrow import Table

            return int(Table(self.path).n_rows)
        return self.path.stat().st_size

    def __iter__(self) -> Iterator[Judgements]:
        return self.drawn(self.raw()) if self.kind == "triplets" else self.raw()

    def drawn(self, batches: Iterator[Judgements]) -> Iterator[Judgements]:
        """Triplets drawn from grades; other judgements unchanged."""
        first = next(batches, None)  # the columns are known once something has been read
        if first is None:
            return
        whole = chain([first], batches)
        if self.layout == LAYOUTS["grades"][0]:
            shape = (self.ids.n, self.items.n)
            yield from triplets_of_grades(whole, shape, unjudged=self.unjudged)
        else:
            yield from whole

    def raw(self) -> Iterator[Judgements]:
        """Judgements as the columns state them: grades stay grades."""
        self.position = 0
        if self.path.suffix in TABLES:
            yield from self._from_table()
        elif self.path.suffix == ".npy":
            yield from self._from_array()
        elif self.path.suffix in (".csv", ".jsonl", ".ndjson") or str(self.path) == "-":
            with opened(self.path) as file:
                yield from self._from_lines(file)
        else:
            raise ValueError(
                f"{self.path}: feedback must be in a file that ends in .csv, .jsonl, .npy or one "
                f"of {', '.join(TABLES)}, got {self.path.suffix or 'no suffix'}."
            )

    # -- formats -------------------------------------------------------------------------------

    def _from_lines(self, file: IO[bytes]) -> Iterator[Judgements]:
        header: list[str] | None = None
        columns: Columns = []
        is_json = self.path.suffix in (".jsonl", ".ndjson")
        for read in line_blocks(file, self.source):
            self.position += len(read.data)
            block = read
            if not columns:
                if str(self.path) == "-":
                    is_json = block.data.lstrip().startswith(b"{")
                columns, header, block = self._begin(block, is_json)
            if columns:
                yield from self._judgements(columns, TextPiece(block, header))

    def _begin(self, block: LineBlock, is_json: bool) -> tuple[Columns, Any, LineBlock]:
        """Give the columns, the header of CSV, and the block without it."""
        if is_json:
            return self._json_columns(block), None, block
        for number, line in block.lines():
            try:
                header = [name.strip().lower() for name in csv_fields(decoded(line))]
            except RowError as error:
                raise ValueError(f"{self.source}: the header is {error}.") from None
            columns = self._columns(header)
            if len(set(header)) != len(header):
                raise ValueError(f"{self.source}: the columns must have different names.")
            skipped = number + 1 - block.number
            rest = block.data.split(b"\n", skipped)
            data = rest[skipped] if len(rest) > skipped else b""
            return columns, header, LineBlock(number + 1, data)
        return [], None, block

    def _json_columns(self, block: LineBlock) -> Columns:
        """Give the columns that some line of the block has; if none is JSON, all lines are bad."""
        wrong: list[tuple[int, RowError]] = []
        without: ValueError | None = None
        for number, line in block.lines():
            try:
                return self._columns(list(json_object(decoded(line))))
            except RowError as error:
                wrong.append((number, error))
            except ValueError as error:
                without = without or error
        if without is not None:
            raise without
        for number, reason in wrong:
            self.bad_rows.add(self.source, number, reason)
        return []

    def _from_table(self) -> Iterator[Judgements]:
        from similia.files.arrow import Table

        table = Table(self.path)
        columns = self._columns(table.schema.names)
        for batch in table.batches([column.name for column in columns]):
            yield from self._judgements(columns, TablePiece(batch, self.position + 1))
            self.position += batch.num_rows

    def _from_array(self) -> Iterator[Judgements]:
        given = mapped_array(self.path, "feedback")
        layouts = [layout for layout in LAYOUTS[self.kind] if given.shape[1:] == (len(layout),)]
        if not layouts or given.dtype.kind not in "fiu":
            wanted = " or ".join(",".join(layout) for layout in LAYOUTS[self.kind])
            raise ValueError(
                f"{self.path}: feedback must be a matrix of numbers with the columns {wanted}, "
                f"got shape {given.shape} and dtype {given.dtype}."
            )
        columns = self._columns(layouts[0])
        for start in range(0, len(given), BATCH):
            part = np.asarray(given[start : start + BATCH])
            self.position += part.nbytes
            yield from self._judgements(columns, ArrayPiece(part, start + 1))

    # -- rows ----------------------------------------------------------------------------------

    def _columns(self, names: Sequence[str]) -> Columns:
        self.layout = layout_of(self.source, self.kind, names)
        return columns_of(self.layout, self.ids, self.items, self.label)

    def _judgements(self, columns: Columns, piece: Piece) -> Iterator[Judgements]:
        """Take a piece at once if it is all good, else in halves, at last row by row."""
        raw = piece.at_once(columns)
        found = None if raw is None else all_at_once(columns, raw)
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
        keys = [c for c, column in zip(found, columns, strict=True) if _is_row(column)]
        values = [c for c, column in zip(found, columns, strict=True) if not _is_row(column)]
        tuples = np.column_stack(keys).astype(np.int64, copy=False)
        taken = Judgements(tuples, values[0] if values else None, numbers)
        yield taken if self.keep is None else taken.part(self.keep(tuples[:, 0]))

    def _good_rows(self, columns: Columns, piece: Piece) -> tuple[list[Any], Any]:
        kept, numbers = [], []
        for number, fields in piece.rows(columns):
            try:
                if isinstance(fields, RowError):
                    raise fields
                kept.append(one_by_one(columns, fields))
                numbers.append(number)
            except RowError as error:
                self.bad_rows.add(self.source, number, error)
        found = [np.array(column) for column in zip(*kept, strict=True)]
        return found, np.array(numbers, dtype=np.int64)


def _is_row(column: Column) -> bool:
    return column.name not in ("label", "y", "relevance")


class _Known(Exception):
    """The columns are known, and nothing more is to be read."""


class _Probe(FeedbackFile):
    """A file that is read only until its columns are known."""

    def _columns(self, names: Sequence[str]) -> Columns:
        super()._columns(names)
        raise _Known


def kind_of(path: Path | str) -> str:
    """Tell from the names of its columns what a file holds: "grades", "triplets", …"""
    file = _Probe(path, "any", Ids(None, 0), bad_rows=BadRows("skip"))
    try:
        for _ in file:
            pass
    except _Known:
        found = [kind for kind in KINDS if file.layout in LAYOUTS[kind]]
        return found[0]
    raise ValueError(f"{path}: feedback must be at least one judgement, got none.")


def classes_in(path: Path | str, ids: Ids, bad_rows: BadRows | None = None) -> Any:
    """Give the distinct labels of a file of labels: integers if all are, else texts.

    A pass over the file in flat memory; rows that are bad are left to the pass that learns.
    """
    gathered = Labels()
    file = FeedbackFile(path, "labels", ids, bad_rows=bad_rows or BadRows("skip"))
    file.label = gathered
    for _ in file:
        pass
    return gathered.classes


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
