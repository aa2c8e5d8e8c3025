"""Items in a database of vectors elsewhere: it proposes, the service learns and ranks.

The database is asked with the base view of the query's vector, as changed by what was learnt, and
its candidates are put in order by all that is known. Items that somebody judges are copied into the
log, so that a replay needs nothing from outside. The database is only ever read.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, TypeAlias

from msgspec import structs

from similia.service.engine.lessons import shown_items
from similia.service.log.records import Item, Judgement, Query, Vector
from similia.service.settings import Settings

if TYPE_CHECKING:
    from similia.service.tenants.tenant import Tenant

#: how the setting names a database of Qdrant; what follows is an address or a folder
QDRANT = "qdrant:"
#: items that a new tenant begins with
SAMPLE = 1000

Vectors: TypeAlias = dict[str, Vector]


class Store(Protocol):
    """What is asked of a database; raises Unavailable if it does not answer."""

    def nearest(self, vector: Vector, k: int) -> Vectors:
        """Vectors of items with large inner products, by id."""

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Vectors of those of these items that there are, by id."""

    def some(self, n: int) -> Vectors:
        """Vectors of up to n items, whichever, by id."""

    def close(self) -> None:
        """Disconnect."""


class Elsewhere:
    """A database in the service of a tenant."""

    def __init__(self, store: Store) -> None:
        self.store = store

    def begin(self, tenant: "Tenant", view: str) -> None:
        """Copy some items for a new tenant: a learner measures on them what is typical."""
        if tenant.base is None:
            sample = self.store.some(SAMPLE)
            if not sample:
                raise ValueError(
                    "settings: items_at must have items, got none; add some, then start."
                )
            tenant.put_items([_item(id, vector, view) for id, vector in sample.items()])

    def bring(self, tenant: "Tenant", judgements: Sequence[Judgement]) -> None:
        """Copy items that judgements name and the log does not know."""
        named = {id for judgement in judgements for id in shown_items(judgement)}
        named |= {j.query.item for j in judgements if j.query.item is not None}
        ids = [id for id in sorted(named) if not tenant.has(id)]
        if ids and tenant.base is not None:
            found = self.store.vectors(ids)
            items = [_item(id, found[id], tenant.base) for id in ids if id in found]
            if items:
                tenant.put_items(items)

    def asked(self, tenant: "Tenant", query: Query) -> Query:
        """The query with the vector of its item, if the log does not know that."""
        if query.item is None or query.vectors or tenant.base is None or tenant.has(query.item):
            return query
        found = self.store.vectors([query.item]).get(query.item)
        if found is None:
            return query
        return structs.replace(query, vectors={tenant.base: found.tolist()})


def _item(id: str, vector: Vector, view: str) -> Item:
    return Item(id=id, vectors={view: vector.tolist()})


def open_store(settings: Settings) -> Store | None:
    """The database of the settings; None if items are in the log alone."""
    where = settings.items_at
    if not where:
        return None
    # The adapters are imported only where they are asked for: their libraries are extras.
    if where.startswith(("postgresql://", "postgres://")):
        from similia.service.catalogue.pgvector import PgvectorStore

        return PgvectorStore(
            where,
            settings.items_table,
            settings.items_id or "id",
            settings.items_vector or "embedding",
        )
    if where.startswith(QDRANT):
        from similia.service.catalogue.qdrant import QdrantStore

        return QdrantStore(
            where.removeprefix(QDRANT),
            settings.items_table,
            settings.items_id or None,
            settings.items_vector or None,
            settings.items_key or None,
        )
    raise ValueError(
        f"settings: items_at must be a postgresql:// URL or {QDRANT} and an address or a folder, "
        f"got {where.partition('://')[0]!r:.40}."
    )
