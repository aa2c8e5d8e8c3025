"""Databases of vectors: PostgreSQL with pgvector, and Qdrant. Items are written and searched."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array

#: prefix of the address or folder of a Qdrant database
QDRANT_SCHEME = "qdrant:"
POSTGRES_SCHEMES = ("postgresql://", "postgres://")

VectorsById: TypeAlias = dict[str, NDArray[np.float32]]


class StoreError(ConnectionError):
    """The database did not answer, or refused."""


class Store(Protocol):
    """Items in a table or collection."""

    def create(self, n_features: int, geometry: str, *, numbered: bool) -> None:
        """Make it for vectors of that length, with numbers or texts as ids, unless it is there.

        Raises ValueError if it is there and of another kind.
        """

    def write(self, ids: Sequence[int | str], vectors: Array) -> None:
        """Add items, or replace those with the same ids: all of them or none."""

    def check(self) -> None:
        """Raise ValueError if it cannot be searched by inner products."""

    def nearest(self, vector: Array, k: int) -> VectorsById:
        """Vectors of items with large inner products, by id; an index may miss some."""

    def vectors(self, ids: Sequence[str]) -> VectorsById:
        """Vectors of those of these items that exist, by id."""

    def some(self, n: int) -> VectorsById:
        """Vectors of any n items, by id."""

    def close(self) -> None:
        """Disconnect."""


def is_store(where: str) -> bool:
    """Whether an address is that of a store."""
    return where.startswith((*POSTGRES_SCHEMES, QDRANT_SCHEME))


def open_store(
    where: str,
    table: str,
    id: str | None = None,
    vector: str | None = None,
    key: str | None = None,
    *,
    timeout: int = 10,
) -> Store:
    """Store at an address for which `is_store` holds.

    `id` and `vector` name the columns, by default those that `create` makes: id and embedding, or
    the point itself and its unnamed vector. `timeout` is in seconds.
    """
    # Imported only when asked for: their libraries are extras.
    if where.startswith(POSTGRES_SCHEMES):
        from similia.stores.pgvector import PgvectorStore

        return PgvectorStore(where, table, id or "id", vector or "embedding", timeout)
    from similia.stores.qdrant import QdrantStore

    return QdrantStore(where.removeprefix(QDRANT_SCHEME), table, id, vector, key, timeout)
