"""Sources of feedback: files of any format, standard input, and tables in memory."""

import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array
from similia.exceptions import BadRowError
from similia.files import limits
from similia.files.columns import (
    ALIASES,
    BEIR_COLUMNS,
    MISSING,
    ColumnReaders,
    EncodedColumn,
    WantedColumns,
    read_column,
)
from similia.files.lines import (
    BYTE_ORDER_MARK,
    FIELD_DELIMITERS,
    JSON_SUFFIXES,
    TREC_SUFFIXES,
    Block,
    FieldLayout,
    ObjectLayout,
    blocks,
    header_of,
    opened,
    unwrapped,
)
from similia.files.rows import BadRows, RowError
from similia.files.vectors import TABLE_SUFFIXES, mapped_array

#: suffixes of files of lines
TEXT_SUFFIXES = (*FIELD_DELIMITERS, *JSON_SUFFIXES, *TREC_SUFFIXES)


class ArrowTable(Protocol):
    """A table with the Arrow interface, as of pandas, polars, pyarrow or DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: what feedback can be read from
FeedbackLike: TypeAlias = "Path | str | ArrowTable | Mapping[str, ArrayLike] | Source"
#: numbers by column, and row numbers
Batch: TypeAlias = "tuple[dict[str, Any], NDArray[np.int64]]"


class Part(NamedTuple):
    """Raw rows of a source."""

    #: one per reader; empty until the columns are known
    columns: list[Any]
    numbers: NDArray[np.int64]
    #: lines that could not be parsed, by number
    wrong: dict[int, RowError]
    #: `Source.position` at their end
    end: int


class Source:
    """Rows by column name, in batches of flat memory.

    Parameters
    ----------
    given : path or table
        By its suffix: .csv, .tsv, .jsonl, .parquet, .arrow, .npy (a matrix of row numbers), or
        .qrels, .qrel, .run, .trec and .txt of TREC; a BEIR folder with one file of qrels; ``-`` is
        standard input, which can be read once: JSON lines if it starts with ``{``, else CSV. A
        table is one of pandas, polars or Arrow, or a dictionary of arrays.
    columns : dict of str, optional
        What the file calls a column, by our name: ``{"query": "query-id"}``. In JSON, a dotted name
        such as ``event.item`` leads into nested objects.
    what : str
        What messages call the rows.
    documents : bool
        Whether JSON objects are documents of a search engine, which leave out empty fields and may
        be within ``_source``.
    """

    def __init__(
        self,
        given: FeedbackLike,
        columns: Mapping[str, str] | None = None,
        *,
        what: str = "feedback",
        documents: bool = False,
    ) -> None:
        if isinstance(given, Source):
            columns, given = columns or given.columns, given.given
        elif isinstance(given, str | Path):
            given = _qrels(Path(given)) if Path(given).is_dir() else Path(given)
        self.given: Path | ArrowTable | Mapping[str, ArrayLike] = given
        self.columns: dict[str, str] = dict(columns or {})
        self.what, self.documents = what, documents
        self.is_standard_input = isinstance(given, Path) and str(given) == "-"
        #: name in messages, and format
        self.name, self.suffix = "feedback", ".arrow"
        if isinstance(given, Path):
            self.name = "standard input" if self.is_standard_input else str(given)
            self.suffix = given.suffix
        #: bytes (rows, of tables) read so far
        self.position = 0
        #: the source's column names by our names, and what is read
        self.names: dict[str, str] = {}
        self.chosen: WantedColumns | None = None
        self.readers: ColumnReaders = {}
        #: columns recognized under another name, without being told
        self.read_as: dict[str, str] = {}

    def __str__(self) -> str:
        return self.name

    @property
    def path(self) -> Path:
        """File that is read; raise ValueError for a table in memory."""
        if not isinstance(self.given, Path):
            raise ValueError(f"feedback must be in a file, got {type(self.given).__name__}.")
        return self.given

    @property
    def size(self) -> int | None:
        """Value of `position` at the end, if known."""
        if self.suffix in TABLE_SUFFIXES:
            return int(self.table().n_rows)
        return None if self.is_standard_input else self.path.stat().st_size

    def batches(self, wanted: Sequence[WantedColumns], bad_rows: BadRows) -> Iterator[Batch]:
        """Yield numbers by column, and row numbers; bad rows are reported.

        The first of the `wanted` sets of columns that is there is read, and is then `chosen`. A
        matrix without names has the one of its width. Where a bad row is an error, it is raised
        after the rows before it.
        """
        for part in self._parts(wanted):
            self.position = part.end
            found, wrong = {}, dict(part.wrong)
            good = np.ones(len(part.numbers), bool)
            for (name, reader), values in zip(self.readers.items(), part.columns, strict=True):
                found[name], reasons = read_column(reader, values)
                for row, error in reasons.items():
                    good[row] = False
                    reason = error.within(name)
                    if error is MISSING:
                        reason = RowError(f"column {name} is missing")
                    wrong.setdefault(int(part.numbers[row]), reason)
            numbers, stop = part.numbers, None
            for number in sorted(wrong):
                try:
                    bad_rows.add(self.name, number, wrong[number])
                except BadRowError as error:
                    good &= numbers < number
                    stop = error
                    break
            if wrong:
                found, numbers = {name: x[good] for name, x in found.items()}, numbers[good]
            if len(numbers):
                yield found, numbers
            if stop is not None:
                raise stop

    def choose(self, wanted: Sequence[WantedColumns]) -> WantedColumns | None:
        """The set of columns that would be read; None without rows."""
        for _ in self._parts(wanted):
            if self.chosen is not None:
                break
        return self.chosen

    def read(self, columns: ColumnReaders, bad_rows: BadRows | None = None) -> list[Array]:
        """Read whole columns, in the given order."""
        batches = self.batches([WantedColumns(columns)], bad_rows or BadRows())
        parts = [tuple(found.values()) for found, _ in batches]
        if not parts:
            raise ValueError(f"{self}: {self.what} must have at least one row, got none.")
        return [np.concatenate(column) for column in zip(*parts, strict=True)]

    def _choose(self, found: Sequence[str], wanted: Sequence[WantedColumns]) -> dict[str, str]:
        """Choose what to read; return what the source calls these columns, by our names."""
        # Headers of CSV are in lower case.
        asked = {n: c if c in found else c.lower() for n, c in self.columns.items()}
        if self.documents:
            asked = {name: column for name, column in asked.items() if column in found}
        if not asked and set(found) >= set(BEIR_COLUMNS.values()):
            asked = BEIR_COLUMNS
        for column in asked.values():
            if column not in found:
                raise ValueError(
                    f"{self}: columns must be among {','.join(found)!r:.120}, got {column!r}."
                )
        others = set(found) - {*asked.values(), *self.columns, *asked}
        self.names = {name: name for name in found if name in others} | asked
        known = {name.lower(): name for name in others}
        for ours, aliases in ALIASES.items():
            alias = next((known[name] for name in (ours, *aliases) if name in known), None)
            if alias is not None:
                self.names.setdefault(ours, alias)
        self.chosen = next(
            (one for one in wanted if one.required.keys() <= self.names.keys()), None
        )
        if self.chosen is None:
            clicks = any("click" in one.required for one in wanted)
            is_run = self.suffix in TREC_SUFFIXES
            if clicks and not is_run and {"query", "item"} <= self.names.keys():
                raise ValueError(
                    f"{self}: a log of clicks must say what was shown, too, got only what was "
                    "clicked: an item that nobody saw looks like one that nobody wanted. Log each "
                    "item shown with click 1 or 0 (query,item,click,position), or let similia "
                    "learn assume that people saw the best of today's ranking: --shown base:10."
                )
            choices = " or ".join(",".join(one.required) for one in wanted)
            s = "s" * ("," in choices)
            read_as = ", ".join(f"{n} is {c}" for n, c in self.names.items() if n != c)
            raise ValueError(
                f"{self}: {self.what} must have the column{s} {choices}, got "
                f"{','.join(found)!r:.120}{f' ({read_as})' * bool(read_as)}; name yours with "
                "columns (--columns query=…,item=…)."
            )
        optional = {n: one for n, one in self.chosen.optional.items() if n in self.names}
        self.readers = {**self.chosen.required, **optional}
        read = {name: self.names[name] for name in self.readers}
        self.read_as = {n: c for n, c in read.items() if n != c and n not in self.columns}
        return read

    # -- formats -------------------------------------------------------------------------------

    def _parts(self, wanted: Sequence[WantedColumns]) -> Iterator[Part]:
        """Raw rows."""
        self.position, self.chosen, self.readers = 0, None, {}
        if self.suffix in TABLE_SUFFIXES:
            yield from self._from_table(wanted)
        elif self.suffix == ".npy":
            yield from self._from_array(wanted)
        elif self.suffix in TEXT_SUFFIXES or self.is_standard_input:
            with opened(str(self.given)) as file:
                found = blocks(file, self.name)
                first = next(found, Block(1, b""))
                is_json = self.suffix in JSON_SUFFIXES
                if self.is_standard_input:
                    is_json = first.data.lstrip().startswith(b"{")
                read = self._from_objects if is_json else self._from_fields
                yield from read(chain([first], found), wanted)
        else:
            suffixes = (*FIELD_DELIMITERS, ".jsonl", ".npy", *TABLE_SUFFIXES, *TREC_SUFFIXES)
            raise ValueError(
                f"{self}: feedback must be in a file that ends in one of {', '.join(suffixes)}, "
                f"got {self.suffix or 'no suffix'}."
            )

    def _from_fields(
        self, lines: Iterable[Block], wanted: Sequence[WantedColumns]
    ) -> Iterator[Part]:
        delimiter = " " if self.suffix in TREC_SUFFIXES else FIELD_DELIMITERS.get(self.suffix, ",")
        layout, end = None, 0
        for block in lines:
            end += len(block.data)
            if layout is None:
                if not block.data.strip():
                    continue
                header, block = header_of(self.name, block, delimiter)
                names = self._choose(header, wanted)
                places = {ours: header.index(theirs) for ours, theirs in names.items()}
                layout = FieldLayout(places, len(header), delimiter)
            fields, numbers, wrong = block.fields(layout)
            columns = [layout.column(fields, name) for name in self.readers]
            yield Part(columns, np.array(numbers, np.int64), wrong, end)

    def _from_objects(
        self, lines: Iterable[Block], wanted: Sequence[WantedColumns]
    ) -> Iterator[Part]:
        layout, end = None, 0
        for block in lines:
            end += len(block.data)
            rows, numbers, wrong = block.objects()
            if self.documents:
                rows = list(map(unwrapped, rows))
            if layout is None and rows:
                layout = self._object_layout(rows, wanted)
            columns = [] if layout is None else [layout.column(rows, name) for name in self.readers]
            yield Part(columns, np.array(numbers, np.int64), wrong, end)

    def _object_layout(
        self, rows: list[dict[str, Any]], wanted: Sequence[WantedColumns]
    ) -> ObjectLayout:
        """Layout of the first object with the wanted columns."""
        reasons: list[ValueError] = []
        for found in rows:
            try:
                absent = [name for name in self.columns.values() if name not in found]
                nested = absent if self.documents else [name for name in absent if "." in name]
                names = self._choose([*found, *nested], wanted)
            except ValueError as error:
                reasons.append(error)
                continue
            return ObjectLayout(
                {
                    ours: (theirs,) if theirs in found else tuple(theirs.split("."))
                    for ours, theirs in names.items()
                }
            )
        raise reasons[0]

    def table(self) -> Any:
        """Table in the file or in memory."""
        from similia.files.tables import Frame, Table

        return Table(self.given) if isinstance(self.given, Path) else Frame(self.given)

    def _from_table(self, wanted: Sequence[WantedColumns]) -> Iterator[Part]:
        table, end = self.table(), 0
        names = self._choose(table.names, wanted)
        for columns in table.columns(list(names.values())):
            places = columns[0].places if isinstance(columns[0], EncodedColumn) else columns[0]
            n = len(places)
            yield Part(columns, np.arange(end + 1, end + n + 1), {}, end := end + n)

    def _from_array(self, wanted: Sequence[WantedColumns]) -> Iterator[Part]:
        given = mapped_array(self.path, self.what)
        names = next(
            (list(x.required) for x in wanted if given.shape[1:] == (len(x.required),)), []
        )
        if not names or given.dtype.kind not in "fiu":
            choices = " or ".join(",".join(one.required) for one in wanted)
            raise ValueError(
                f"{self}: {self.what} must be a matrix of numbers with the columns {choices}, "
                f"got shape {given.shape} and dtype {given.dtype}."
            )
        self._choose(names, wanted)
        end = 0
        for start in range(0, len(given), limits.BATCH_ROWS):
            rows = np.asarray(given[start : start + limits.BATCH_ROWS])
            end += rows.nbytes
            numbers = np.arange(start + 1, start + len(rows) + 1)
            yield Part([rows[:, names.index(name)] for name in self.readers], numbers, {}, end)


def _qrels(folder: Path) -> Path:
    """The one file of qrels in a BEIR folder."""
    found = sorted(folder.glob("qrels/*.tsv")) or sorted(folder.glob("qrels.tsv"))
    if len(found) != 1:
        names = ", ".join(str(path.relative_to(folder)) for path in found) or "none"
        raise ValueError(
            f"{folder}: a folder of feedback must have one file of qrels, got {names}; "
            "name the file itself."
        )
    return found[0]


@contextmanager
def spooled(given: FeedbackLike) -> Iterator[Source]:
    """Yield a source that can be read more than once; standard input is first copied to disk."""
    source = Source(given)
    if not source.is_standard_input:
        yield source
        return
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "feedback"
        with open(copy, "wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        with open(copy, "rb") as file:
            head = file.read(1024).removeprefix(BYTE_ORDER_MARK).lstrip()
        suffix = ".jsonl" if head.startswith(b"{") else ".csv"
        yield Source(copy.rename(copy.with_suffix(suffix)), source.columns)
