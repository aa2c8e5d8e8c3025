"""Queries that a service knows by their ids: those of a file, and those in the log."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from similia.files import read_texts, read_vectors
from similia.service.catalogue.loading import rows_of
from similia.service.log.records import JUDGEMENTS, Query
from similia.service.tenants.tenant import Tenant

#: judgements looked at for queries to offer
RECENT = 1000


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
    """Queries by id; what is in the log needs no file."""

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
        start = max(0, tenant.log.last - RECENT)
        for logged in tenant.judgements(after=start, limit=RECENT):
            if isinstance(logged.record, JUDGEMENTS):
                query = logged.record.query
                if query.id is not None:
                    found.setdefault(("id", query.id), query)
                elif query.item is not None:
                    found.setdefault(("item", query.item), query)
        return [bare(query) for query in list(found.values())[:limit]]


def bare(query: Query) -> Query:
    """A query without its vectors."""
    return structs.replace(query, vectors=None)
