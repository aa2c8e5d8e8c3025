"""Where feedback comes from: a file of any format, standard input, or a table in memory."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.exceptions import BadRowError
from similia.files import limits
from similia.files.columns import MISSING, Columns, FileColumn
from similia.files.lines import (
    BYTE_ORDER_MARK,
    DELIMITERS,
    JSON_SUFFIXES,
    TREC_SUFFIXES,
    Block,
    Entries,
    Fields,
    blocks,
    fields_of,
    opened,
    unwrapped,
)
from similia.files.rows import BadRows, RowError
from similia.files.vectors import TABLE_SUFFIXES, mapped_array

#: columns of TREC's files by the number of fields in a line
TREC_NAMES = {
    4: ["query", "iteration", "item", "relevance"],
    6: ["query", "Q0", "item", "rank", "score", "run"],
}
#: suffixes of files of lines
TEXT_SUFFIXES = (*DELIMITERS, *JSON_SUFFIXES, *TREC_SUFFIXES)
#: names of the columns of BEIR, in use where nothing else is asked for
BEIR_COLUMNS = {"query": "query-id", "item": "corpus-id", "relevance": "score"}


class ArrowTable(Protocol):
    """A table that speaks Arrow: of pandas, polars, pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: what feedback can be read from
FeedbackLike: TypeAlias = "Path | str | ArrowTable | Mapping[str, ArrayLike] | Source"
#: readers of columns chosen by their names; raises ValueError if some are not there
Choose: TypeAlias = Callable[[Sequence[str]], Columns]
#: numbers by column, and row numbers
Batch: TypeAlias = "tuple[dict[str, Any], NDArray[np.int64]]"


class Part(NamedTuple):
    """Some rows of a source, as it has them."""

    readers: Columns
    #: one for each reader
    columns: list[FileColumn]
    numbers: NDArray[np.int64]
    #: lines that are no rows, by number
    wrong: dict[int, RowError]
    #: `Source.position` at their end
    end: int

    def read(self, source: str, bad_rows: BadRows) -> Iterator[Batch]:
        """Yield the good rows, if there are any; the others are reported.

        Where a bad row is an error, it is raised after the rows before it.
        """
        found, wrong = {}, dict(self.wrong)
        good = np.ones(len(self.numbers), bool)
        for (name, reader), column in zip(self.readers.items(), self.columns, strict=True):
            found[name], reasons = column.read(reader)
            for row, error in reasons.items():
                good[row] = False
                wrong.setdefault(
                    int(self.numbers[row]),
                    RowError(f"column {name} is missing")
                    if error is MISSING
                    else error.within(name),
                )
        numbers, stop = self.numbers, None
        for number in sorted(wrong):
            try:
                bad_rows.add(source, number, wrong[number])
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


class Source:
    """Rows under given column names, in pieces of flat memory.

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
    documents : bool
        Whether JSON objects are documents of a search engine, which leave out empty fields and may
        be within ``_source``.
    """

    def __init__(
        self,
        given: FeedbackLike,
        columns: Mapping[str, str] | None = None,
        *,
        documents: bool = False,
    ) -> None:
        if isinstance(given, Source):
            columns, given = columns or given.columns, given.given
        elif isinstance(given, str | Path):
            given = _qrels(Path(given)) if Path(given).is_dir() else Path(given)
        self.given: Path | ArrowTable | Mapping[str, ArrayLike] = given
        self.columns: dict[str, str] = dict(columns or {})
        self.documents = documents
        self.is_standard_input = isinstance(given, Path) and str(given) == "-"
        #: what messages call it, and its format
        self.name, self.suffix = "feedback", ".arrow"
        if isinstance(given, Path):
            self.name = "standard input" if self.is_standard_input else str(given)
            self.suffix = given.suffix
        #: bytes (rows, of tables) read so far
        self.position = 0

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

    def batches(
        self, choose: Choose, widths: Sequence[Sequence[str]], bad_rows: BadRows
    ) -> Iterator[Batch]:
        """Yield numbers by column, and row numbers; parameters are those of `parts`."""
        for part in self.parts(choose, widths):
            self.position = part.end
            yield from part.read(self.name, bad_rows)

    def parts(self, choose: Choose, widths: Sequence[Sequence[str]]) -> Iterator[Part]:
        """Yield rows as the source has them.

        `choose` picks columns by name, once the names are known; `widths` are the names that a
        matrix without names may have, told apart by their number.
        """
        self.position = 0
        if self.suffix in TABLE_SUFFIXES:
            yield from self._from_table(choose)
        elif self.suffix == ".npy":
            yield from self._from_array(choose, widths)
        elif self.suffix in TEXT_SUFFIXES or self.is_standard_input:
            yield from self._from_text(choose)
        else:
            known = ", ".join((*DELIMITERS, ".jsonl", ".npy", *TABLE_SUFFIXES, *TREC_SUFFIXES))
            raise ValueError(
                f"{self}: feedback must be in a file that ends in one of {known}, "
                f"got {self.suffix or 'no suffix'}."
            )

    def names(self, found: Sequence[str]) -> dict[str, str]:
        """Our names of the columns found; raise ValueError if a column asked for is not there."""
        # Headers of CSV are in lower case.
        asked = {n: c if c in found else c.lower() for n, c in self.columns.items()}
        if not asked and set(found) >= set(BEIR_COLUMNS.values()):
            asked = BEIR_COLUMNS
        for name in asked.values():
            if name not in found:
                raise ValueError(
                    f"{self}: columns must be among {','.join(found)!r:.120}, got {name!r}."
                )
        taken = set(asked.values())
        free = {name: name for name in found if name not in taken and name not in asked}
        return {**free, **asked}

    # -- formats -------------------------------------------------------------------------------

    def _from_text(self, choose: Choose) -> Iterator[Part]:
        with opened(str(self.given)) as file:
            found = blocks(file, self.name)
            first = next(found, None)
            if first is None:
                return
            is_json = self.suffix in JSON_SUFFIXES
            if self.is_standard_input:
                is_json = first.data.lstrip().startswith(b"{")
            read = self._from_objects if is_json else self._from_fields
            yield from read(chain([first], found), choose)

    def _from_fields(self, lines: Iterable[Block], choose: Choose) -> Iterator[Part]:
        layout, end = None, 0
        readers: Columns = {}
        for block in lines:
            end += len(block.data)
            if layout is None:
                header = self._header(block)
                if header is None:  # all lines are blank
                    continue
                layout, block = header
                readers = choose(list(layout.places))
            fields, numbers, wrong = block.fields(layout)
            columns = [layout.column(fields, name) for name in readers]
            yield Part(readers, columns, np.array(numbers, np.int64), wrong, end)

    def _header(self, block: Block) -> tuple[Fields, Block] | None:
        """Where the columns are, and the lines after the header."""
        delimiter = " " if self.suffix in TREC_SUFFIXES else DELIMITERS.get(self.suffix, ",")
        first = block.first_line()
        if first is None:
            return None
        line, rest = first
        try:
            header = fields_of(line.decode().rstrip("\r"), delimiter)
        except UnicodeDecodeError as error:
            raise ValueError(
                f"{self}: the header is not valid UTF-8 at byte {error.start}."
            ) from None
        except RowError as error:
            raise ValueError(f"{self}: the header is {error}.") from None
        if delimiter == " ":
            if len(header) not in TREC_NAMES:
                raise ValueError(
                    f"{self}: lines must have 4 fields, as qrels do, or 6, as runs do, "
                    f"got {len(header)}."
                )
            header, rest = TREC_NAMES[len(header)], block
        else:
            header = [name.strip().lower() for name in header]
        if len(set(header)) != len(header):
            raise ValueError(f"{self}: the columns must have different names.")
        names = self.names(header)
        places = {ours: header.index(theirs) for ours, theirs in names.items()}
        return Fields(places, len(header), delimiter), rest

    def _from_objects(self, lines: Iterable[Block], choose: Choose) -> Iterator[Part]:
        layout, end = None, 0
        readers: Columns = {}
        for block in lines:
            end += len(block.data)
            rows, numbers, wrong = block.objects()
            if self.documents:
                rows = list(map(unwrapped, rows))
            if layout is None and rows:
                layout, readers = self._entries(rows, choose)
            columns = [] if layout is None else [layout.column(rows, name) for name in readers]
            yield Part(readers, columns, np.array(numbers, np.int64), wrong, end)

    def _entries(self, rows: list[dict[str, Any]], choose: Choose) -> tuple[Entries, Columns]:
        """Columns of the first object that has what is wanted."""
        reasons: list[ValueError] = []
        for found in rows:
            try:
                absent = [name for name in self.columns.values() if name not in found]
                nested = absent if self.documents else [name for name in absent if "." in name]
                names = self.names([*found, *nested])
                readers = choose(list(names))
            except ValueError as error:
                reasons.append(error)
                continue
            paths = {
                ours: (theirs,) if theirs in found else tuple(theirs.split("."))
                for ours, theirs in names.items()
            }
            return Entries(paths), readers
        raise reasons[0]

    def table(self) -> Any:
        """Table in the file or in memory."""
        from similia.files.tables import Frame, Table

        return Table(self.given) if isinstance(self.given, Path) else Frame(self.given)

    def _from_table(self, choose: Choose) -> Iterator[Part]:
        table, end = self.table(), 0
        names = self.names(table.names)
        readers = choose(list(names))
        for columns in table.columns([names[name] for name in readers]):
            n = len(columns[0])
            yield Part(readers, columns, np.arange(end + 1, end + n + 1), {}, end := end + n)

    def _from_array(self, choose: Choose, widths: Sequence[Sequence[str]]) -> Iterator[Part]:
        given = mapped_array(self.path, "feedback")
        names = next((names for names in widths if given.shape[1:] == (len(names),)), None)
        if names is None or given.dtype.kind not in "fiu":
            wanted = " or ".join(",".join(names) for names in widths)
            raise ValueError(
                f"{self}: feedback must be a matrix of numbers with the columns {wanted}, "
                f"got shape {given.shape} and dtype {given.dtype}."
            )
        readers, end = choose(names), 0
        for start in range(0, len(given), limits.BATCH_ROWS):
            rows = np.asarray(given[start : start + limits.BATCH_ROWS])
            end += rows.nbytes
            columns = [FileColumn(rows[:, names.index(name)]) for name in readers]
            yield Part(readers, columns, np.arange(start + 1, start + len(rows) + 1), {}, end)


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
