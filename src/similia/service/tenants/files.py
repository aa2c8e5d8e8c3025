"""Items and queries from files: items are put into a tenant at the start, queries known by id."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Protocol, TypeAlias

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from similia.files import VectorFile, read_texts, read_vectors
from similia.service.log.records import JUDGEMENTS, Item, Query, Value
from similia.service.tenants.tenant import Tenant
from similia.tabular.column_views import ColumnView
from similia.tabular.columns import as_text, is_missing, read_table
from similia.tabular.embedding import embedded
from similia.tabular.layout import WORD_VIEW, TableRow, ViewLayout, vector_in
from similia.tabular.words import WordVectors
from similia.views import VECTORS

#: latest judgements searched for queries to offer
N_LOOKED_AT = 1000


@dataclass(frozen=True)
class QueryFile:
    """A file of query vectors of the base view, with ids and perhaps texts."""

    path: Path
    ids: Path | None = None
    texts: Path | None = None

    def queries(self, view: str) -> Iterator[Query]:
        """Queries one by one."""
        file = read_vectors(self.path, ids=self.ids)
        texts = None if self.texts is None else read_texts(self.texts, file.ids)
        for row, (name, vector) in enumerate(rows_of(self.path, file)):
            text = None if texts is None else str(texts[row])
            yield Query(id=name, text=text, vectors={view: vector})


class KnownQueries:
    """Queries by id, from a file or the log."""

    def __init__(self, given: Iterable[Query] = ()) -> None:
        self._given = {str(query.id): query for query in given}

    def find(self, tenant: Tenant, id: str) -> Query | None:
        """The query with this id, with its vectors."""
        if id in self._given:
            return self._given[id]
        for logged in tenant.judgements(limit=1, query=id):
            if isinstance(logged.record, JUDGEMENTS):
                return logged.record.query
        return None

    def pool(self) -> list[Query]:
        """Queries of the file."""
        return list(self._given.values())

    def some(self, tenant: Tenant, limit: int) -> list[Query]:
        """Queries to offer to a person, without vectors: those of the file, then recent ones."""
        found = {("id", name): query for name, query in self._given.items()}
        start = max(0, tenant.log.last - N_LOOKED_AT)
        for logged in tenant.judgements(after=start, limit=N_LOOKED_AT):
            if isinstance(logged.record, JUDGEMENTS):
                query = logged.record.query
                if query.id is not None:
                    found.setdefault(("id", query.id), query)
                elif query.item is not None:
                    found.setdefault(("item", query.item), query)
                elif query.text is not None:
                    found.setdefault(("text", query.text), query)
        return [bare(query) for query in list(found.values())[:limit]]


def bare(query: Query) -> Query:
    """A query without its vectors."""
    return structs.replace(query, vectors=None)


#: items in one row of the log
ITEMS_PER_ROW = 500
#: values of a category that is a view: each of them is a number in every item
MAX_VALUES = 512

#: items whose words become a view beside vectors: more would take minutes to start with
MAX_WORDED = 50_000
#: vectors of an item by view, and what makes some of texts
Vectors: TypeAlias = dict[str, list[float]]
Further: TypeAlias = Callable[[Sequence[str]], Iterable[Vectors]]

logger = logging.getLogger("similia.service")


def no_vectors(texts: Sequence[str]) -> Iterable[Vectors]:
    """No vectors for each text."""
    return [{}] * len(texts)


class ImageAddresses(Protocol):
    """Where pictures of items are served."""

    def address(self, id: str) -> str | None:
        """Address of the picture of an item."""


@dataclass(frozen=True)
class ItemFile:
    """A file of vectors, with ids and perhaps texts."""

    path: Path
    ids: Path | None = None
    vector_column: str | None = None
    id_column: str | None = None
    texts: Path | None = None
    images: ImageAddresses | None = None

    @property
    def words(self) -> Path:
        """Where the words are kept, beside the items."""
        return self.path.with_name(f"{self.path.name}.words.npz")

    def load(self, tenant: Tenant, words: bool = True) -> tuple[int, int]:
        """Put new and changed items into a tenant; return the numbers found and put.

        With `words`, those of the texts become a view of a new tenant.
        """
        further = partial(self._further, tenant, words=words)
        return self._put(tenant, self.items(further), [])

    def items(self, further: Further = no_vectors) -> Iterator[Item]:
        """Items one by one, in single precision, with `further` vectors of their texts."""
        file = read_vectors(
            self.path, ids=self.ids, vector_column=self.vector_column, id_column=self.id_column
        )
        given = None if self.texts is None else read_texts(self.texts, file.ids)
        texts = [None] * file.ids.n if given is None else [str(text) for text in given]
        others = further([text or "" for text in texts])
        rows = rows_of(self.path, file)
        for (name, vector), text, more in zip(rows, texts, others, strict=True):
            image = None if self.images is None else self.images.address(name)
            yield Item(id=name, vectors={VECTORS: vector, **more}, text=text, image=image)

    def _further(self, tenant: Tenant, texts: Sequence[str], words: bool) -> Iterable[Vectors]:
        """The words of each text as a view beside vectors, if it is one.

        The log decides: the view is there from the first start on, or never.
        """
        words = words and any(texts)
        if tenant.has_words:
            vectors = self._word_vectors(texts)
        elif tenant.columns is not None:
            if words:
                logger.warning(
                    f"{self.path}: words were no view when this store began, so texts are only "
                    "shown; start with a new --store to learn from them."
                )
            return no_vectors(texts)
        elif words:
            try:
                if len(texts) > MAX_WORDED:
                    raise ValueError(f"items must be at most {MAX_WORDED}, got {len(texts)}.")
                vectors = self._word_vectors(texts)
            except (ValueError, OSError) as error:  # too few words, or no place for their file
                logger.warning(f"{self.path}: words are no view, and texts only shown: {error}")
                return no_vectors(texts)
        else:
            return no_vectors(texts)
        return ({WORD_VIEW: vector.tolist()} for vector in vectors)

    def _word_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        if not self.words.exists():
            WordVectors.fit(texts).save(self.words)
            return WordVectors.load(self.words).items(texts)
        kept = WordVectors.load(self.words)
        if new := kept.unknown(texts):
            logger.warning(
                f"{self.words} is of earlier items, so words that are new count for nothing: "
                f"{some(new)}; delete it and start with a new --store to search by them."
            )
        return kept.items(texts)

    def _put(
        self, tenant: Tenant, items: Iterator[Item], columns: Sequence[ColumnView]
    ) -> tuple[int, int]:
        found = put = 0
        while batch := list(islice(items, ITEMS_PER_ROW)):
            changed = [item for item in batch if tenant.item(item.id) != item]
            if changed:
                tenant.put_items(changed, columns)
            found, put = found + len(batch), put + len(changed)
        return found, put


@dataclass(frozen=True)
class TableFile(ItemFile):
    """A table of items: vectors of a column, a model or the words; other columns become fields."""

    layout: ViewLayout = field(default_factory=lambda: ViewLayout({}))

    def load(self, tenant: Tenant, words: bool = True) -> tuple[int, int]:
        """Put new and changed items; columns stay the views that they were at the first start."""
        known, kinds = tenant.columns, self.layout.kinds
        same = {each.name: each.kind for each in known or () if each.name in kinds}
        layout = replace(self.layout, kinds={**kinds, **same})
        rows = self._rows(layout)
        found = layout.column_views(rows)
        notes = too_wide(found) if known is None else changes(known, found, kinds)
        for note in notes:
            logger.warning(f"{self.path}: {note}.")
        columns = [each for each in found if may_be_view(each)]
        further: Further = no_vectors
        if layout.embedder or layout.columns("vector"):
            others = {*layout.measured, *layout.columns("vector")}
            words = words and bool(layout.columns("text")) and WORD_VIEW not in others
            further = partial(self._further, tenant, words=words)
        return self._put(tenant, self._items(layout, rows, further), columns)

    def items(self, further: Further = no_vectors) -> Iterator[Item]:
        """Items one by one, with `further` vectors of their texts."""
        return self._items(self.layout, self._rows(self.layout), further)

    def _rows(self, layout: ViewLayout) -> list[TableRow]:
        """Rows without their vectors."""
        names = [name for name, kind in layout.kinds.items() if kind != "vector"]
        return [{name: row.get(name) for name in names} for row in read_table(self.path)]

    def _items(
        self, layout: ViewLayout, rows: Sequence[TableRow], further: Further
    ) -> Iterator[Item]:
        numbers = {
            view.name: view.numbers([row.get(view.name) for row in rows]).tolist()
            for view in (ColumnView(name, layout.kinds[name]) for name in layout.numbers)
        }
        told = (*layout.columns("category"), *layout.columns("date"))
        texts, names = layout.texts_of(rows), layout.ids(self.path, rows).names()
        vectors, others = self._vectors(layout, rows, texts), further(in_words(layout, rows))
        for place, (name, row, text, vector, more) in enumerate(
            zip(names, rows, texts, vectors, others, strict=True)
        ):
            fields: dict[str, Value] = {
                column: as_text(row[column]) for column in told if not is_missing(row[column])
            }
            fields |= {
                column: numbers[column][place]
                for column in layout.columns("number")
                if not is_missing(row[column])
            }
            image = None if self.images is None else self.images.address(str(name))
            own = {**vector, **more}
            yield Item(id=str(name), vectors=own, text=text, fields=fields, image=image)

    def _vectors(
        self, layout: ViewLayout, rows: Sequence[TableRow], texts: list[str]
    ) -> Iterator[Vectors]:
        """Vectors of the embedder, of the table, or of the words, categories among them."""
        own = layout.columns("vector")
        if layout.embedder:
            found = embedded(layout.embedder, texts, self.path)
        elif own:
            names = [VECTORS, *own[1:]]
            for number, row in enumerate(read_table(self.path), start=1):
                yield {
                    name: np.array(vector_in(column, row.get(column), number), "<f4").tolist()
                    for name, column in zip(names, own, strict=True)
                }
            return
        else:
            found = self._word_vectors(in_words(layout, rows))
        for vector in found:
            yield {VECTORS: vector.tolist()}


def in_words(layout: ViewLayout, rows: Sequence[TableRow]) -> list[str]:
    """What the words of rows are compared by: their texts and categories."""
    categories = layout.columns("category")
    return [
        "\n".join([text, *(as_text(row.get(name)) for name in categories)])
        for row, text in zip(rows, layout.texts_of(rows), strict=True)
    ]


def may_be_view(column: ColumnView) -> bool:
    """Whether a column of a new tenant becomes a view."""
    return 1 <= column.width <= MAX_VALUES


def too_wide(found: Sequence[ColumnView]) -> Iterator[str]:
    """Which columns do not become views."""
    for each in found:
        if not may_be_view(each):
            yield (
                f"{each.name} must have 1 to {MAX_VALUES} values to be a view, got {each.width}; "
                "it is only shown"
            )


def some(names: Sequence[str]) -> str:
    """The first of some names, and how many there are."""
    return f"{', '.join(names[:5])} ({len(names)} in all)"


def changes(
    known: Sequence[ColumnView], now: Sequence[ColumnView], kinds: Mapping[str, str]
) -> Iterator[str]:
    """What a table has, or lacks, beside the views that its columns became at the first start."""
    columns = {each.name: each for each in known}
    advice = "start with a new --store to learn from"
    for each in known:
        if each.name not in kinds:
            yield f"{each.name} is a view, but no column any more, so items count as without it"
    for each in now:
        earlier = columns.get(each.name)
        if earlier is None and may_be_view(each):
            yield f"{each.name} was no view when this store began, and is only shown; {advice} it"
        elif earlier and (new := sorted(set(each.values) - set(earlier.values))):
            yield f"values of {each.name} that are new count as none: {some(new)}; {advice} them"


def rows_of(path: Path, file: VectorFile) -> Iterator[tuple[str, list[float]]]:
    """Ids and dense, finite vectors of a file, in single precision."""
    matrix = file.X
    if not isinstance(matrix, np.ndarray):
        raise ValueError(f"{path}: vectors to serve must be dense, got others.")
    for row, name in enumerate(file.ids.names()):
        vector = np.asarray(matrix[row], np.float32)
        if not np.isfinite(vector).all():
            raise ValueError(f"{path}: vectors must be finite, got row {row}, {name!r}.")
        yield str(name), vector.tolist()
