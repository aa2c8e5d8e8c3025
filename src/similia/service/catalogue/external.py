"""Items in an external database, which proposes candidates that the service ranks.

The database is searched with the base view of the query's learnt vector, and its candidates are
ranked by all that is known. Judged items are copied into the log, so that a replay needs nothing
else. The database is only read.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from similia.service.errors import Unavailable
from similia.service.log.records import Item, Judgement, Query, Vector, named_items
from similia.service.settings import Settings
from similia.stores import QDRANT_SCHEME, Store, StoreError, VectorsById, is_store, open_store

if TYPE_CHECKING:
    from similia.service.tenants.tenant import Tenant

#: items copied for a new tenant
N_COPIED = 1000


class ExternalItems:
    """An external database of items; raises Unavailable if it does not answer."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def nearest(self, vector: Vector, k: int) -> VectorsById:
        """Vectors of items with large inner products, by id."""
        with _translated():
            return self._store.nearest(vector, k)

    def vectors(self, ids: Sequence[str]) -> VectorsById:
        """Vectors of items, by id; unknown ones are left out."""
        with _translated():
            return self._store.vectors(ids)

    def begin(self, tenant: "Tenant", view: str) -> None:
        """Copy some items for a new tenant, on which its learner measures what is typical."""
        if tenant.base is None:
            with _translated():
                sample = self._store.some(N_COPIED)
            if not sample:
                raise ValueError(
                    "settings: items_at must have items, got none; add some, then start."
                )
            tenant.put_items([_item(id, vector, view) for id, vector in sample.items()])

    def bring(self, tenant: "Tenant", judgements: Sequence[Judgement]) -> None:
        """Copy items that judgements name but the log lacks."""
        named = {id for judgement in judgements for id in named_items(judgement)}
        named |= {j.query.item for j in judgements if j.query.item is not None}
        ids = [id for id in sorted(named) if not tenant.has(id)]
        if ids and tenant.base is not None:
            found = self.vectors(ids)
            items = [_item(id, found[id], tenant.base) for id in ids if id in found]
            if items:
                tenant.put_items(items)

    def asked(self, tenant: "Tenant", query: Query) -> Query:
        """The query with its item's vector, if the log lacks the item."""
        if query.item is None or query.vectors or tenant.base is None or tenant.has(query.item):
            return query
        found = self.vectors([query.item]).get(query.item)
        if found is None:
            return query
        return structs.replace(query, vectors={tenant.base: found.tolist()})

    def close(self) -> None:
        """Disconnect."""
        self._store.close()


def _item(id: str, vector: Vector, view: str) -> Item:
    return Item(id=id, vectors={view: vector.tolist()})


def open_external(settings: Settings) -> ExternalItems | None:
    """The configured database; None if all items are in the log."""
    where = settings.items_at
    if not where:
        return None
    if not is_store(where):
        raise ValueError(
            f"settings: items_at must be a postgresql:// URL or {QDRANT_SCHEME} and an address or "
            f"a folder, got {where.partition('://')[0]!r:.40}."
        )
    store = open_store(
        where,
        settings.items_table,
        settings.items_id or None,
        settings.items_vector or None,
        settings.items_key or None,
    )
    try:
        store.check()
    except ValueError as error:
        store.close()
        raise ValueError(f"settings: items_at: {error}") from error
    return ExternalItems(store)


@contextlib.contextmanager
def _translated() -> Iterator[None]:
    try:
        yield
    except StoreError as error:
        raise Unavailable(f"items_at: {error}; try again later.") from error
