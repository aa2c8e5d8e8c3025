"""Items and queries from files: items are put into a tenant at the start, queries known by id."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Protocol

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from similia.files import VectorFile, read_texts, read_vectors
from similia.service.log.records import JUDGEMENTS, Item, Query, Value
from similia.service.tenants.tenant import Tenant
from similia.tabular.columns import as_day, as_text, read_table
from similia.tabular.embedding import embedded
from similia.tabular.layout import TableRow, ViewLayout
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
    def numbers(self) -> list[str]:
        """Fields that are learnt as views."""
        return []

    def items(self) -> Iterator[Item]:
        """Items one by one, in single precision."""
        file = read_vectors(
            self.path, ids=self.ids, vector_column=self.vector_column, id_column=self.id_column
        )
        texts = None if self.texts is None else read_texts(self.texts, file.ids)
        for row, (name, vector) in enumerate(rows_of(self.path, file)):
            text = None if texts is None else str(texts[row])
            image = None if self.images is None else self.images.address(name)
            yield Item(id=name, vectors={"vectors": vector}, text=text, image=image)

    def load(self, tenant: Tenant) -> tuple[int, int]:
        """Put new and changed items into a tenant; return the numbers found and put."""
        found = put = 0
        items = self.items()
        while batch := list(islice(items, ITEMS_PER_ROW)):
            changed = [item for item in batch if tenant.item(item.id) != item]
            if changed:
                tenant.put_items(changed)
            found, put = found + len(batch), put + len(changed)
        return found, put


@dataclass(frozen=True)
class TableFile(ItemFile):
    """A table of items: vectors by a model or from the words of texts; columns become fields."""

    layout: ViewLayout = field(default_factory=lambda: ViewLayout({}))

    @property
    def numbers(self) -> list[str]:
        """Columns of numbers and dates."""
        return self.layout.numbers

    @property
    def words(self) -> Path:
        """Where the words are kept, beside the table."""
        return self.path.with_name(f"{self.path.name}.words.npz")

    def items(self) -> Iterator[Item]:
        """Items one by one; a missing number or date is the median of its column."""
        layout, rows = self.layout, list(read_table(self.path))
        texts, told = layout.texts_of(rows), (*layout.columns("category"), *layout.columns("date"))
        columns = {name: layout.numbers_of(name, rows).tolist() for name in self.numbers}
        names = layout.ids(self.path).names()
        vectors = self._vectors(rows, texts)
        for place, (name, row, text, vector) in enumerate(
            zip(names, rows, texts, vectors, strict=True)
        ):
            fields: dict[str, Value] = {column: as_text(row.get(column)) for column in told}
            for column, numbers in columns.items():
                if layout.kinds[column] == "number":
                    fields[column] = numbers[place]
                elif not fields[column]:
                    fields[column] = as_day(numbers[place])
            image = None if self.images is None else self.images.address(str(name))
            yield Item(
                id=str(name),
                vectors={VECTORS: vector.tolist()},
                text=text,
                fields=fields,
                image=image,
            )

    def _vectors(self, rows: Sequence[TableRow], texts: list[str]) -> NDArray[np.float32]:
        """Vectors of the embedder, or of the words, those of categories among them."""
        if self.layout.embedder:
            return embedded(self.layout.embedder, texts, self.path)
        categories = self.layout.columns("category")
        words = [
            "\n".join([text, *(as_text(row.get(name)) for name in categories)])
            for row, text in zip(rows, texts, strict=True)
        ]
        if not self.words.exists():
            WordVectors.fit(words).save(self.words)
        return WordVectors.load(self.words).items(words)


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
