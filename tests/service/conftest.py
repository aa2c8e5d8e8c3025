import itertools

import pytest

pytest.importorskip("apsw", reason="needs apsw")
pytest.importorskip("msgspec", reason="needs msgspec")

_numbers = itertools.count()


@pytest.fixture(scope="session")
def server():
    pytest.importorskip("psycopg", reason="needs psycopg")
    from tests.service.servers import Server

    server = Server()
    yield server
    server.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Where logs are, as arguments of Tenant: a folder, or a database that others use too."""
    if request.param == "sqlite":
        return str(tmp_path / "tenants")
    return request.getfixturevalue("server").url


@pytest.fixture
def name():
    """Name of a tenant that no other test has."""
    return f"tenant-{next(_numbers)}"


@pytest.fixture
def open_log(place, name):
    """Opens the log of a tenant, as often as called."""
    from similia.service.opening import is_url
    from similia.service.sqlite import SQLiteLog

    def opened():
        if is_url(place):
            from similia.service.postgres import PostgresLog

            return PostgresLog(place, name)
        from pathlib import Path

        return SQLiteLog(Path(place) / name)

    return opened
