"""Items in a table of PostgreSQL with pgvector."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.exceptions import MissingExtraError
from similia.service.catalogue.elsewhere import Vectors
from similia.service.errors import Unavailable
from similia.service.log.records import Vector

try:
    import psycopg
    from psycopg import sql
except ImportError as error:
    raise MissingExtraError(__name__, "psycopg", "postgres") from error

#: breadth of a search by HNSW; pgvector allows no more
MOST = 1000


class PgvectorStore:
    """A table with a column of ids and one of vectors; a schema may be named before its name."""

    def __init__(self, url: str, table: str, id: str, vector: str) -> None:
        self._url = url
        self._names = {
            "table": sql.Identifier(*table.split(".", 1)),
            "id": sql.Identifier(id),
            "vector": sql.Identifier(vector),
        }
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._id_type = sql.SQL("text")
        try:
            found = self._ask("SELECT pg_typeof({id})::text, {vector}::real[] FROM {table} LIMIT 1")
        except Unavailable as error:
            self.close()
            raise ValueError(f"settings: {error}") from error
        if found:
            self._id_type = sql.SQL(found[0][0])

    def nearest(self, vector: Vector, k: int) -> Vectors:
        """Vectors of items with large inner products, by id; an index may miss some."""
        found = self._ask(
            "SELECT {id}::text, {vector}::real[] FROM {table} WHERE {vector} IS NOT NULL "
            "ORDER BY {vector} <#> %s::vector LIMIT %s",
            str(np.asarray(vector, np.float32).tolist()),
            k,
            breadth=min(k, MOST),
        )
        return _vectors(found)

    def vectors(self, ids: Sequence[str]) -> Vectors:
        """Vectors of those of these items that there are, by id."""
        try:
            found = self._ask(
                "SELECT {id}::text, {vector}::real[] FROM {table} "
                "WHERE {id} = ANY(%s::text[]::{type}[]) AND {vector} IS NOT NULL",
                list(ids),
            )
        except psycopg.DataError:  # a text that is no id of this type
            alone = [self.vectors([id]) for id in ids] if len(ids) > 1 else []
            return {name: vector for each in alone for name, vector in each.items()}
        return _vectors(found)

    def some(self, n: int) -> Vectors:
        """Vectors of up to n items, whichever, by id."""
        columns = "SELECT {id}::text, {vector}::real[] FROM {table}"
        return _vectors(self._ask(f"{columns} WHERE {{vector}} IS NOT NULL LIMIT %s", n))

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask(self, statement: str, *given: Any, breadth: int = 0) -> list[tuple[Any, ...]]:
        query = sql.SQL(statement).format(**self._names, type=self._id_type)
        with self._lock:
            for attempt in range(2):
                try:
                    connection = self._connected()
                    if breadth:
                        setting = "SELECT set_config('hnsw.ef_search', %s, false)"
                        connection.execute(setting, [str(breadth)])
                    return connection.execute(query, given).fetchall()
                except psycopg.DataError:
                    raise
                except psycopg.Error as error:
                    lost = self._connection is None or self._connection.closed
                    self._connection = None if lost else self._connection
                    if not lost or attempt:
                        raise Unavailable(
                            f"items_at: the database did not answer ({error}); try again later."
                        ) from error
        raise AssertionError("unreachable")

    def _connected(self) -> "psycopg.Connection[Any]":
        if self._connection is None:
            self._connection = psycopg.connect(self._url, autocommit=True, connect_timeout=10)
        return self._connection


def _vectors(rows: list[tuple[Any, ...]]) -> Vectors:
    return {str(id): np.asarray(vector, np.float32) for id, vector in rows}
