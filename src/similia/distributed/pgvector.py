"""Items into a table of PostgreSQL with pgvector."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError

try:
    import psycopg
    from pgvector import Vector
    from pgvector.psycopg import register_vector
    from psycopg import sql
except ImportError as error:
    raise MissingExtraError(__name__, "psycopg and pgvector", "postgres") from error


class PgvectorTarget:
    """A table with the columns id and embedding; a schema may be named before its name."""

    def __init__(self, url: str, table: str) -> None:
        self._table = sql.Identifier(*table.split(".", 1))
        self._connection: psycopg.Connection[Any] = psycopg.connect(url, connect_timeout=10)
        self._types: list[str] = []

    def create(self, n_features: int, geometry: str, *, numbered: bool) -> None:
        """Make the table, and the extension, unless they are there."""
        with self._connection.transaction():
            self._connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
            statement = "CREATE TABLE IF NOT EXISTS {} (id {} PRIMARY KEY, embedding vector({}))"
            kind = sql.SQL("bigint" if numbered else "text")
            self._connection.execute(
                sql.SQL(statement).format(self._table, kind, sql.Literal(n_features))
            )

    def write(self, ids: Sequence[int | str], vectors: Array) -> None:
        """Copy a batch beside the table, then take it over, in one transaction."""
        with self._connection.transaction():
            if not self._types:
                register_vector(self._connection)
                column = sql.SQL("SELECT id FROM {} LIMIT 0").format(self._table)
                described = self._connection.execute(column).description
                assert described is not None
                self._types = [described[0].type_display, "vector"]
            self._run(
                "CREATE TEMPORARY TABLE batch ON COMMIT DROP AS "
                "SELECT id, embedding FROM {} WITH NO DATA"
            )
            text = self._types[0] == "text"
            with (
                self._connection.cursor() as cursor,
                cursor.copy("COPY batch (id, embedding) FROM STDIN (FORMAT BINARY)") as copy,
            ):
                copy.set_types(self._types)
                for id, vector in zip(ids, np.asarray(vectors, np.float32), strict=True):
                    copy.write_row((str(id) if text else id, Vector(vector)))
            self._run(
                "INSERT INTO {} (id, embedding) SELECT id, embedding FROM batch "
                "ON CONFLICT (id) DO UPDATE SET embedding = EXCLUDED.embedding"
            )

    def close(self) -> None:
        """Disconnect."""
        self._connection.close()

    def _run(self, statement: str) -> None:
        self._connection.execute(sql.SQL(statement).format(self._table))
