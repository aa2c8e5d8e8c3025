"""Items in a table of PostgreSQL with pgvector."""

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.stores import StoreError, VectorsById

try:
    import psycopg
    from pgvector import Vector
    from pgvector.psycopg import register_vector
    from psycopg import sql
except ImportError as error:
    raise MissingExtraError(__name__, "psycopg and pgvector", "postgres") from error

#: breadth of a search by HNSW; pgvector allows no more
MAX_EF_SEARCH = 1000


class PgvectorStore:
    """A table with a column of ids and one of vectors; a schema may precede its name."""

    def __init__(self, url: str, table: str, id: str, vector: str, timeout: int) -> None:
        self._url = url
        self._timeout = timeout
        self._names: dict[str, sql.Composable] = {
            "table": sql.Identifier(*table.split(".", 1)),
            "id": sql.Identifier(id),
            "vector": sql.Identifier(vector),
            "type": sql.SQL("text"),
        }
        self._lock = threading.Lock()
        self._connection: psycopg.Connection[Any] | None = None
        self._types: list[str] = []

    # -- writing -------------------------------------------------------------------------------

    def create(self, n_features: int, geometry: str, *, numbered: bool) -> None:
        """Make the table, and the extension, unless they exist."""
        connection = self._connected()
        kind = sql.SQL("bigint" if numbered else "text")
        with connection.transaction():
            connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            connection.execute(
                self._statement(
                    "CREATE TABLE IF NOT EXISTS {table} ({id} {kind} PRIMARY KEY, {vector} "
                    "vector({width}))",
                    kind=kind,
                    width=sql.Literal(n_features),
                )
            )

    def write(self, ids: Sequence[int | str], vectors: Array) -> None:
        """Copy a batch into a temporary table, then merge it, in one transaction."""
        connection = self._connected()
        with connection.transaction():
            if not self._types:
                register_vector(connection)
                column = self._statement("SELECT {id} FROM {table} LIMIT 0")
                described = connection.execute(column).description
                assert described is not None
                self._types = [described[0].type_display, "vector"]
            connection.execute(
                self._statement(
                    "CREATE TEMPORARY TABLE batch ON COMMIT DROP AS "
                    "SELECT {id}, {vector} FROM {table} WITH NO DATA"
                )
            )
            text = self._types[0] == "text"
            copying = self._statement("COPY batch ({id}, {vector}) FROM STDIN (FORMAT BINARY)")
            with connection.cursor() as cursor, cursor.copy(copying) as copy:
                copy.set_types(self._types)
                for id, vector in zip(ids, np.asarray(vectors, np.float32), strict=True):
                    copy.write_row((str(id) if text else id, Vector(vector)))
            connection.execute(
                self._statement(
                    "INSERT INTO {table} ({id}, {vector}) SELECT {id}, {vector} FROM batch "
                    "ON CONFLICT ({id}) DO UPDATE SET {vector} = EXCLUDED.{vector}"
                )
            )

    # -- searching -----------------------------------------------------------------------------

    def check(self) -> None:
        """Raise ValueError if the table or its columns are missing."""
        try:
            found = self._ask("SELECT pg_typeof({id})::text, {vector}::real[] FROM {table} LIMIT 1")
        except StoreError as error:
            self.close()
            raise ValueError(str(error)) from error
        if found:
            self._names["type"] = sql.SQL(found[0][0])

    def nearest(self, vector: Array, k: int) -> VectorsById:
        """Vectors of items with large inner products, by id; an index may miss some."""
        found = self._ask(
            "SELECT {id}::text, {vector}::real[] FROM {table} WHERE {vector} IS NOT NULL "
            "ORDER BY {vector} <#> %s::vector LIMIT %s",
            str(np.asarray(vector, np.float32).tolist()),
            k,
            breadth=min(k, MAX_EF_SEARCH),
        )
        return _vectors(found)

    def vectors(self, ids: Sequence[str]) -> VectorsById:
        """Vectors of those of these items that exist, by id."""
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

    def some(self, n: int) -> VectorsById:
        """Vectors of any n items, by id."""
        columns = "SELECT {id}::text, {vector}::real[] FROM {table}"
        return _vectors(self._ask(f"{columns} WHERE {{vector}} IS NOT NULL LIMIT %s", n))

    def close(self) -> None:
        """Disconnect."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _ask(self, statement: str, *given: Any, breadth: int = 0) -> list[tuple[Any, ...]]:
        """Rows of an answer; reconnects once after a lost connection."""
        query = self._statement(statement)
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
                        raise StoreError(f"the database did not answer ({error})") from error
        raise AssertionError("unreachable")

    def _connected(self) -> "psycopg.Connection[Any]":
        if self._connection is None:
            self._connection = psycopg.connect(
                self._url, autocommit=True, connect_timeout=self._timeout
            )
        return self._connection

    def _statement(self, text: str, **more: sql.Composable) -> sql.Composed:
        return sql.SQL(text).format(**self._names, **more)


def _vectors(rows: list[tuple[Any, ...]]) -> VectorsById:
    return {str(id): np.asarray(vector, np.float32) for id, vector in rows}
