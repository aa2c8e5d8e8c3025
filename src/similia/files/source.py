"""Where feedback comes from: a file of any format, standard input, or a table in memory."""

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from similia.files.ahead import Part, parsed_ahead
from similia.files.columns import Columns
from similia.files.pieces import (
    BLOCK,
    BYTE_ORDER_MARK,
    Entries,
    Fields,
    TablePiece,
    TextPiece,
    csv_fields,
    entry,
    json_object,
    opened,
    read_columns,
    text_pieces,
)
from similia.files.rows import BadRows, RowError, Rows
from similia.files.vectors import LINES, TABLES, mapped_array

#: rows of a .npy file held at a time
BATCH = 2**16
DELIMITERS = {".csv": ",", ".tsv": "\t"}
#: TREC's files, without a header, by the number of fields in a line
TREC = (".qrels", ".qrel", ".run", ".trec", ".txt")
TREC_NAMES = {
    4: ["query", "iteration", "item", "relevance"],
    6: ["query", "Q0", "item", "rank", "score", "run"],
}
#: suffixes of files of lines
TEXTS = (*DELIMITERS, *LINES, *TREC)
#: names of the columns of BEIR, in use where nothing else is asked for
BEIR = {"query": "query-id", "item": "corpus-id", "relevance": "score"}

#: types for a fast parser, by those of Python
JSON_TYPES = {bool: "bool", int: "int64", float: "float64", str: "string", list: "list"}


class ArrowTable(Protocol):
    """A table that speaks Arrow: of pandas, polars, pyarrow, DuckDB."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...


#: what feedback can be read from
FeedbackLike: TypeAlias = "Path | str | ArrowTable | Mapping[str, ArrayLike] | Source"
#: readers of columns chosen by their names; raises ValueError if some are not there
Choose: TypeAlias = Callable[[Sequence[str]], Columns]
#: numbers by column, and row numbers
Batch: TypeAlias = tuple[dict[str, Any], Rows]


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
    """

    def __init__(self, given: FeedbackLike, columns: Mapping[str, str] | None = None) -> None:
        if isinstance(given, Source):
            columns, given = columns or given.columns, given.given
        elif isinstance(given, str | Path):
            given = _qrels(Path(given)) if Path(given).is_dir() else Path(given)
        self.given: Path | ArrowTable | Mapping[str, ArrayLike] = given
        self.columns: dict[str, str] = dict(columns or {})
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
        if self.suffix in TABLES:
            return int(self.table().n_rows)
        return None if self.is_standard_input else self.path.stat().st_size

    def batches(
        self, choose: Choose, widths: Sequence[Sequence[str]], bad_rows: BadRows
    ) -> Iterator[Batch]:
        """Yield numbers by column, and row numbers; parameters are those of `pieces`."""
        self.position = 0
        pieces = self.pieces(choose, widths, bad_rows)
        file = self.given if isinstance(self.given, Path) and self.suffix in TEXTS else None
        # Whoever writes to a pipe may take time, and nothing read from one waits for more; in a
        # file of one block there is no more.
        if file is not None and file.is_file() and file.stat().st_size > BLOCK:
            pieces = parsed_ahead(pieces)
        for columns, piece, end in pieces:
            self.position = end
            for found, numbers in read_columns(columns, piece, self.name, bad_rows):
                yield dict(zip(columns, found, strict=True)), numbers

    def pieces(
        self, choose: Choose, widths: Sequence[Sequence[str]], bad_rows: BadRows
    ) -> Iterator[Part]:
        """Yield columns, pieces of rows, and the `position` where each ends.

        `choose` picks columns by name, once the names are known; `widths` are the names that a
        matrix without names may have, told apart by their number; lines before the names are known
        are `bad_rows`.
        """
        if self.suffix in TABLES:
            yield from self._from_table(choose)
        elif self.suffix == ".npy":
            yield from self._from_array(choose, widths)
        elif self.suffix in TEXTS or self.is_standard_input:
            yield from self._from_text(choose, bad_rows)
        else:
            known = ", ".join((*DELIMITERS, ".jsonl", ".npy", *TABLES, *TREC))
            raise ValueError(
                f"{self}: feedback must be in a file that ends in one of {known}, "
                f"got {self.suffix or 'no suffix'}."
            )

    def names(self, found: Sequence[str]) -> dict[str, str]:
        """Our names of the columns found; raise ValueError if a column asked for is not there."""
        # Headers of CSV are in lower case.
        asked = {n: c if c in found else c.lower() for n, c in self.columns.items()}
        if not asked and set(found) >= set(BEIR.values()):
            asked = BEIR
        for name in asked.values():
            if name not in found:
                raise ValueError(
                    f"{self}: columns must be among {','.join(found)!r:.120}, got {name!r}."
                )
        taken = set(asked.values())
        free = {name: name for name in found if name not in taken and name not in asked}
        return {**free, **asked}

    # -- formats -------------------------------------------------------------------------------

    def _from_text(self, choose: Choose, bad_rows: BadRows) -> Iterator[Part]:
        end = 0
        columns: Columns | None = None
        layout: Fields | Entries | None = None
        with opened(str(self.given)) as file:
            for piece in text_pieces(file, self.name):
                end += len(piece.data)
                rest = piece
                if columns is None:
                    is_json = self.suffix in LINES
                    if self.is_standard_input:
                        is_json = piece.data.lstrip().startswith(b"{")
                    if is_json:
                        columns, layout = self._json_columns(piece, choose, bad_rows)
                    elif (found := self._header(piece)) is not None:
                        layout, rest = found
                        columns = choose(list(layout.places))
                if columns is not None:
                    yield columns, replace(rest, layout=layout), end

    def _header(self, piece: TextPiece) -> tuple[Fields, TextPiece] | None:
        """Fields of lines, and the lines after the header; None if all are blank."""
        delimiter = " " if self.suffix in TREC else DELIMITERS.get(self.suffix, ",")
        split = str.split if delimiter == " " else partial(csv_fields, delimiter=delimiter)
        number, header = next(piece.parsed(split), (0, []))
        if isinstance(header, RowError):
            raise ValueError(f"{self}: the header is {header}.")
        if not header:
            return None
        if delimiter == " ":
            if len(header) not in TREC_NAMES:
                raise ValueError(
                    f"{self}: lines must have 4 fields, as qrels do, or 6, as runs do, "
                    f"got {len(header)}."
                )
            header, rest = TREC_NAMES[len(header)], piece
        else:
            header = [name.strip().lower() for name in header]
            lines = piece.data.split(b"\n", number + 1 - piece.number)
            rest = TextPiece(
                number + 1, lines[-1] if len(lines) > number + 1 - piece.number else b""
            )
        if len(set(header)) != len(header):
            raise ValueError(f"{self}: the columns must have different names.")
        names = self.names(header)
        places = {ours: header.index(theirs) for ours, theirs in names.items()}
        return Fields(places, len(header), delimiter), rest

    def _json_columns(
        self, piece: TextPiece, choose: Choose, bad_rows: BadRows
    ) -> tuple[Columns | None, Entries | None]:
        """Columns of the first line that has what is wanted; if none is JSON, all are bad rows."""
        wrong: list[tuple[int, RowError]] = []
        without: ValueError | None = None
        for number, found in piece.parsed(json_object):
            if isinstance(found, RowError):
                wrong.append((number, found))
                continue
            try:
                nested = [n for n in self.columns.values() if n not in found and "." in n]
                names = self.names([*found, *nested])
                columns = choose(list(names))
            except ValueError as error:
                without = without or error
                continue
            paths = {
                ours: (theirs,) if theirs in found else tuple(theirs.split("."))
                for ours, theirs in names.items()
            }
            kinds = {name: JSON_TYPES.get(type(entry(found, paths[name]))) for name in columns}
            return columns, Entries(paths, {name: kind for name, kind in kinds.items() if kind})
        if without is not None:
            raise without
        for number, reason in wrong:
            bad_rows.add(str(self), number, reason)
        return None, None

    def table(self) -> Any:
        """Table in the file or in memory."""
        from similia.files.arrow.tables import Frame, Table

        return Table(self.given) if isinstance(self.given, Path) else Frame(self.given)

    def _from_table(self, choose: Choose) -> Iterator[Part]:
        table, end = self.table(), 0
        names = self.names(table.names)
        columns = choose(list(names))
        for found in table.columns([names[name] for name in columns]):
            piece = TablePiece(end + 1, dict(zip(columns, found, strict=True)))
            end += len(found[0])
            yield columns, piece, end

    def _from_array(self, choose: Choose, widths: Sequence[Sequence[str]]) -> Iterator[Part]:
        given = mapped_array(self.path, "feedback")
        names = next((names for names in widths if given.shape[1:] == (len(names),)), None)
        if names is None or given.dtype.kind not in "fiu":
            wanted = " or ".join(",".join(names) for names in widths)
            raise ValueError(
                f"{self}: feedback must be a matrix of numbers with the columns {wanted}, "
                f"got shape {given.shape} and dtype {given.dtype}."
            )
        columns, end = choose(names), 0
        for start in range(0, len(given), BATCH):
            part = np.asarray(given[start : start + BATCH])
            end += part.nbytes
            yield columns, TablePiece(start + 1, dict(zip(names, part.T, strict=True))), end


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
