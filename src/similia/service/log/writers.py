"""Which process writes which tenants: locks in the database, and addresses beside them.

A lock of PostgreSQL belongs to a connection, and a connection has a name that others see: the
address of its process. So an address is there for exactly as long as its process writes.
"""

import contextlib
import threading

import psycopg

from similia.service.errors import Unavailable
from similia.service.log.postgres import (
    Connection,
    PostgresReader,
    connected,
    lock_key,
    noticed_when_gone,
    schema_of,
    translated,
)

#: addresses of those who hold one of some locks, those of the first lock first
HOLDERS = """
    SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid)
    CROSS JOIN LATERAL (SELECT (classid::bigint << 32) | objid::bigint AS key) AS lock
    WHERE locktype = 'advisory' AND granted AND objsubid = 1 AND key = ANY(?)
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND starts_with(application_name, 'http')
    ORDER BY array_position(?::bigint[], key), backend_start LIMIT 1
    """


def _claim_key(tenant: str) -> int:
    """Lock that all who may write a tenant share; a tenant that nobody uses is closed."""
    return lock_key(f"writes {tenant}")


class Writers:
    """Finds the process that writes a tenant; safe to use from many threads."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._opening = threading.Lock()
        self._reader: PostgresReader | None = None

    def find(self, tenant: str) -> str:
        """Address of the process that writes a tenant, or that would; raises Unavailable."""
        keys = [lock_key(schema_of(tenant)), _claim_key(tenant), _claim_key("*")]
        with translated(), self._opening:
            reader = self._reader = self._reader or PostgresReader(self._url)
        found = reader.read(HOLDERS, keys, keys)
        if not found:
            raise Unavailable(f"log: no process writes {tenant!r} at the moment; try again later.")
        return str(found[0][0])

    def close(self) -> None:
        """Disconnect."""
        if self._reader is not None:
            self._reader.close()


class Claim:
    """Says that this process writes tenants, for as long as it lives."""

    def __init__(self, url: str, address: str, tenants: frozenset[str]) -> None:
        self._url, self._address = url, address
        self._keys = [_claim_key(name) for name in sorted(tenants) or ["*"]]
        self._changing = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def hold(self) -> bool:
        """Keep the claim; whether it was held all the while, or the database was away."""
        with translated(), self._changing:
            if self._closed:
                return False
            if self._connection is not None:
                with contextlib.suppress(psycopg.OperationalError):
                    self._connection.execute("SELECT 1")
                    return True
                self._connection.close()
                self._connection = None
            connection = connected(self._url, address=self._address)
            try:
                noticed_when_gone(connection)
                for key in self._keys:
                    connection.execute("SELECT pg_advisory_lock_shared(%s)", (key,))
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return False

    def close(self) -> None:
        """End the claim, for good."""
        with self._changing:
            self._closed = True
            if self._connection is not None:
                self._connection.close()
