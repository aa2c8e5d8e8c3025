"""The views that a table of items becomes, and the statistics with which later rows become them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Matrix
from similia.files import BadRows, Ids, Source, VectorFile, read_vectors
from similia.files.columns import ALIASES, TEXT, WantedColumns
from similia.files.lines import opened
from similia.tabular.column_views import ColumnView, Places
from similia.tabular.columns import (
    Kinds,
    as_text,
    as_vector,
    column_kinds,
    is_table,
    read_table,
)
from similia.tabular.embedding import embedded
from similia.text import BM25
from similia.views import VECTORS, Views

#: values of an item by column
TableRow: TypeAlias = Mapping[str, Any]

#: the view of all texts of an item together
WORD_VIEW = "words"


@dataclass
class ViewLayout:
    """Which columns of a table are which views of its items.

    All texts together are the view "words", and each column of several a view of its name; so is
    each category (the same one, or one that a typed query names), number and date. Vectors come
    first: a column of them, or those that an embedder makes of the texts. Statistics are those of
    the first items read.
    """

    #: kind of each column, in the order of the table
    kinds: Kinds
    #: model that makes vectors of texts: a folder or a name
    embedder: str = ""
    #: what was measured of each column, by the name of its view
    statistics: dict[str, Any] = field(default_factory=dict)
    #: whether queries are texts that people type; else they are items
    typed: bool = False

    @classmethod
    def found_in(
        cls, path: Path, given: Mapping[str, str] | None = None, embedder: str = ""
    ) -> Self:
        """Layout of a table by its first rows; `given` are the kinds of some columns."""
        kinds = column_kinds(path, given)
        if not {"text", "vector"} & set(kinds.values()):
            raise ValueError(
                f"{path}: items must have a column of texts or of vectors, got "
                f"{', '.join(f'{name} ({kind})' for name, kind in kinds.items())}."
            )
        return cls(kinds, embedder)

    def columns(self, kind: str) -> list[str]:
        """Columns of one kind."""
        return [name for name, found in self.kinds.items() if found == kind]

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers and of dates, which are numbers of years."""
        return [*self.columns("number"), *self.columns("date")]

    @property
    def measured(self) -> list[str]:
        """Columns that are views by what was measured of them."""
        return [*self.columns("category"), *self.numbers]

    @property
    def base(self) -> str:
        """Name of the first view."""
        own = self.columns("vector")
        return VECTORS if self.embedder or (own and not self.typed) else WORD_VIEW

    def in_words(self) -> str:
        """What ranks before any feedback."""
        if self.embedder:
            return f"vectors of the texts by {self.embedder}, and their words"
        texts = ", ".join(self.columns("text"))
        return f"the words of {texts}" if self.base == WORD_VIEW else "the vectors"

    # -- reading -------------------------------------------------------------------------------

    def ids(self, path: Path, rows: Sequence[TableRow] | None = None) -> Ids:
        """Ids of a table's rows; row numbers if it has no column of them."""
        rows = list(read_table(path)) if rows is None else rows
        names = self.columns("id")
        return Ids(_names(path, [row.get(names[0]) for row in rows]) if names else None, len(rows))

    def items(self, path: Path) -> VectorFile:
        """Items of a table; their statistics are measured, unless known already."""
        return self._read(path)[1]

    def both(self, path: Path) -> tuple[VectorFile, VectorFile]:
        """Items of a table as queries, and as items."""
        asked, items = self._read(path)
        return asked, items

    def queries(self, texts: Sequence[str], ids: Ids | None = None) -> VectorFile:
        """What people type, as queries."""
        texts = list(texts)
        views: dict[str, Matrix] = {}
        if self.embedder:
            views[VECTORS] = embedded(self.embedder, texts)
        elif self.base == VECTORS:
            raise ValueError(
                "queries must be vectors or ids of items, as the items have vectors and the model "
                "has no embedder, got texts; learn again with --embed NAME."
            )
        rows = [dict.fromkeys(self.columns("text"), text) for text in texts]
        for name, bm25, some in self._words(rows, texts):
            views[name] = bm25.queries(some)
        for name in self.columns("category"):
            view = self._column_view(name)
            views[name] = _one_hot(view.ones_named(texts), len(texts), view.width)
        return VectorFile(Views(**views), ids or Ids(None, len(texts)), self)

    def _read(self, path: Path) -> tuple[VectorFile, VectorFile]:
        rows = list(read_table(path))
        if not rows:
            raise ValueError(f"{path}: a table must have at least one row, got none.")
        ids = self.ids(path, rows)
        if not self.statistics:
            self._measure(rows)
        asked, items = self.views_of(rows, path)
        return VectorFile(asked, ids, self), VectorFile(items, ids, self)

    def views_of(self, rows: Sequence[TableRow], path: Path | None = None) -> tuple[Views, Views]:
        """Views of rows as queries, and as items; vectors are kept beside the file of the rows."""
        items: dict[str, Matrix] = {}
        asked: dict[str, Matrix] = {}
        if self.embedder:
            asked[VECTORS] = items[VECTORS] = embedded(self.embedder, self.texts_of(rows), path)
        for name in () if self.typed else self.columns("vector"):
            key = VECTORS if VECTORS not in items else name
            asked[key] = items[key] = _vectors(name, [row.get(name) for row in rows])
        for name, bm25, texts in self._words(rows, self.texts_of(rows)):
            items[name], asked[name] = bm25.both(texts)
        for name in self.measured:
            view, values = self._column_view(name), [row.get(name) for row in rows]
            if view.is_category:
                asked[name] = items[name] = _one_hot(view.ones(values), len(rows), view.width)
            else:
                items[name] = view.features(values)[:, None]
        return Views(**asked), Views(**items)

    def texts_of(self, rows: Iterable[TableRow]) -> list[str]:
        """All texts of each row together."""
        names = self.columns("text")
        return ["\n".join(filter(None, (as_text(row.get(n)) for n in names))) for row in rows]

    def _words(
        self, rows: Sequence[TableRow], together: list[str]
    ) -> list[tuple[str, BM25, list[str]]]:
        """Views of texts: name, statistics, and the text of each row."""
        names = self.columns("text")
        found = [(WORD_VIEW, together)] if names else []
        if len(names) > 1:
            found += [(name, [as_text(row.get(name)) for row in rows]) for name in names]
        return [(name, BM25.restored(self.statistics[name]), texts) for name, texts in found]

    def _measure(self, rows: Sequence[TableRow]) -> None:
        """Words of texts, values of categories, and what numbers are like."""
        names = self.columns("text")
        texts = {name: [as_text(row.get(name)) for row in rows] for name in names}
        if names:
            self.statistics[WORD_VIEW] = BM25().fit(self.texts_of(rows)).state()
        if len(names) > 1:
            self.statistics |= {name: BM25().fit(some).state() for name, some in texts.items()}
        for view in self.column_views(rows):
            self.statistics[view.name] = (
                {"values": np.array(view.values, dtype=object)}
                if view.is_category
                else {"middle": view.middle, "logarithm": view.logarithm}
            )

    def column_views(self, rows: Sequence[TableRow]) -> list[ColumnView]:
        """Views of categories, numbers and dates, as these rows make them."""
        return [
            ColumnView.measured(name, self.kinds[name], [row.get(name) for row in rows])
            for name in self.measured
        ]

    def _column_view(self, name: str) -> ColumnView:
        """The view of a column, as it was measured."""
        known = dict(self.statistics[name])
        if "values" in known:
            known["values"] = tuple(known["values"].tolist())
        return ColumnView(name, self.kinds[name], **known)

    # -- saved with a model --------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """Everything as plain values and arrays."""
        return dict(vars(self))

    @classmethod
    def restored(cls, state: Mapping[str, Any]) -> Self:
        """The layout of such a state; ValueError if it is none."""
        found = cls(**state)
        views = found.measured
        texts = found.columns("text")
        views += [WORD_VIEW] * bool(texts) + texts * (len(texts) > 1)
        if not set(views) <= set(found.statistics):
            raise ValueError("the layout lacks the statistics of a column")
        return found


def _one_hot(places: Places, n_rows: int, width: int) -> sparse.csr_array:
    """A matrix of ones at some places."""
    return sparse.csr_array((np.ones(len(places[0]), np.float32), places), (n_rows, width))


def _names(path: Path, values: list[Any]) -> list[Any]:
    """Ids of rows, each of them there: integers if all are."""
    for number, value in enumerate(values, start=1):
        if value is None or value == "":
            raise ValueError(f"{path}: ids must be there in every row, got none in row {number}.")
    if {type(value) for value in values} == {int}:
        return values
    texts = [str(value) for value in values]
    try:
        numbers = [int(text) for text in texts]
    except ValueError:
        return texts
    same = [str(number) for number in numbers] == texts and max(map(abs, numbers)) < 2**63
    return numbers if same else texts


def _vectors(name: str, values: list[Any]) -> NDArray[np.float32]:
    """A matrix of a column of vectors."""
    rows = [vector_in(name, value, number) for number, value in enumerate(values, start=1)]
    for number, row in enumerate(rows, start=1):
        if len(row) != len(rows[0]):
            raise ValueError(
                f"{name} must be a vector of {len(rows[0])} numbers in every row, got {len(row)} "
                f"in row {number}."
            )
    return np.array(rows, np.float32)


def vector_in(name: str, value: Any, row: int) -> list[float]:
    """The vector of a column in a row."""
    found = as_vector(value)
    if found is None:
        raise ValueError(f"{name} must be a vector in every row, got {value!r:.80} in row {row}.")
    return found


def asked_in(source: Source, items: Ids) -> list[str] | None:
    """Texts that people typed, if those are the queries of a log, and not ids of items.

    Where `query` names no items but a column of its ids does, the source reads that one.
    """
    text = TEXT._replace(missing="")
    others = {name: text for name in ALIASES["query"] if name.endswith("id")}
    found: dict[str, dict[str, None]] = {}
    for columns, _ in source.batches([WantedColumns({"query": text}, others)], BadRows("skip")):
        for name, values in columns.items():
            found.setdefault(name, {}).update(dict.fromkeys(map(str, values.tolist())))
    for name, values in found.items():
        if (items.known_rows(list(values)) >= 0).mean() >= 0.5:
            if name != "query":
                source.columns["query"] = name
            return None
    return [text for text in found.get("query", {}) if text]


def read_sides(
    path: Path,
    layout: ViewLayout,
    *,
    feedback: Source | None = None,
    queries: Path | None = None,
) -> tuple[VectorFile, VectorFile]:
    """Queries and items as views: queries of a file, or those that the feedback names.

    Without queries of their own, they are items if the feedback names items, else what it holds as
    queries is what people typed.
    """
    if queries is not None and not is_table(queries):
        items = layout.items(path)
        asked = read_vectors(queries)
        kept = (VECTORS, *layout.numbers)
        views = {name: items.X[name] for name in items.X if name in kept}
        return VectorFile(Views(**{VECTORS: asked.X}), asked.ids), items._replace(X=Views(**views))
    if queries is not None:
        layout.typed = True
        return read_queries(queries, layout), layout.items(path)
    found = None if feedback is None else asked_in(feedback, layout.ids(path))
    if found is None:
        return layout.both(path)
    layout.typed = True
    items = layout.items(path)
    return layout.queries(found, Ids(found, len(found), "query")), items


def read_queries(path: Path, layout: ViewLayout) -> VectorFile:
    """Queries of a file: texts, one per line or in a table, or rows of the items' table."""
    if path.suffix == ".txt" or str(path) == "-":
        with opened(path) as file:
            texts = file.read().decode("utf-8-sig").splitlines()
        return layout.queries(texts, _text_ids(texts))
    if not is_table(path):
        found = read_vectors(path)
        return VectorFile(Views(**{VECTORS: found.X}), found.ids, layout)
    if not layout.typed:
        return layout.both(path)[0]
    kinds = column_kinds(path)
    names = [name for name in (*layout.columns("text"), "query", "text") if name in kinds]
    names += [name for name, kind in kinds.items() if kind in ("text", "category")]
    if not names:
        raise ValueError(f"{path}: queries must have a column of texts, got {', '.join(kinds)}.")
    texts = [as_text(row.get(names[0])) for row in read_table(path)]
    own = ViewLayout({name: kind for name, kind in kinds.items() if kind == "id"})
    return layout.queries(texts, own.ids(path))


def _text_ids(texts: list[str]) -> Ids | None:
    """Texts as their own ids, if they differ."""
    return Ids(texts, len(texts), "query") if len(set(texts)) == len(texts) else None
