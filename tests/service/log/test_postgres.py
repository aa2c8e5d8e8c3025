"""What is particular to logs in a PostgreSQL database."""

import shutil
from contextlib import closing

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from similia.service.errors import Damaged, NotFound, Unavailable
from similia.service.log.opening import read_log
from similia.service.log.postgres import POSTGRES_MIGRATIONS, postgres_log, schema_of, tenants_in
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.upkeep import copy_log
from tests.service.problems import bits, filled, judgement, learner, query


def check_log(where, name):
    with closing(read_log(where, name)) as log:
        return log.check()


def test_nothing_is_lost_when_the_database_is_restarted(server, name, tmp_path):
    tenant = filled(server.url, name, cache=tmp_path)
    first = tenant.feedback([judgement(i) for i in range(20)])
    server.stop()
    try:
        with pytest.raises(Unavailable, match="send it again"):
            tenant.feedback([judgement(20)])
        tenant.rank(query(0))  # what is in memory still ranks
    finally:
        server.start()
    second = tenant.feedback([judgement(i) for i in range(15, 30)])
    assert [receipt.duplicate for receipt in second] == [True] * 5 + [False] * 10
    assert [receipt.seq for receipt in second[:5]] == [receipt.seq for receipt in first[15:]]
    assert len(tenant.judgements(limit=100)) == 30
    live = bits(learner(tenant))
    assert tenant.log.check().rows == tenant.log.last
    tenant.close()
    again = Tenant.open(server.url, name, cache=tmp_path / "another")
    assert bits(learner(again)) == live
    again.close()


def test_a_copy_in_sqlite_is_the_same_tenant(server, name, tmp_path):
    tenant = filled(server.url, name, cache=tmp_path / "cache")
    tenant.feedback([judgement(i) for i in range(140)])
    live = bits(learner(tenant))
    folder = tmp_path / "tenants" / "copy"
    folder.mkdir(parents=True)
    copy_log(server.url, name, folder / "log.sqlite")  # while it is in use
    found = check_log(server.url, name)
    assert found == tenant.log.check() == check_log(tmp_path / "tenants", "copy")
    tenant.close()
    again = Tenant.open(tmp_path / "tenants", "copy")
    assert bits(learner(again)) == live
    again.close()
    shutil.rmtree(folder)


def test_a_check_finds_what_was_changed(server, name):
    log = postgres_log(server.url, name)
    from tests.service.log.test_log import entry

    log.append([entry(i) for i in range(9)])
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(
            f"UPDATE \"{schema_of(name)}\".rows SET body = 'x' WHERE seq = 5".encode()
        )
    with pytest.raises(Damaged, match="row 5 "):
        log.check()
    log.close()


def test_a_schema_of_the_first_version_migrates(server, name):
    schema = schema_of(name)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f'CREATE SCHEMA "{schema}"'.encode())
        connection.execute(f'SET search_path TO "{schema}"'.encode())
        connection.execute("CREATE TABLE version (number BIGINT NOT NULL)")
        connection.execute("INSERT INTO version VALUES (1)")
        connection.execute(POSTGRES_MIGRATIONS[0].encode())
        postgres_log(server.url, name).close()
        found = connection.execute("SELECT number FROM version").fetchall()
        assert found == [(len(POSTGRES_MIGRATIONS),)]
        connection.execute("UPDATE version SET number = 99")
    with pytest.raises(Damaged, match="upgrade similia"):
        postgres_log(server.url, name)


def test_tenants_of_a_database_are_listed(server, name):
    postgres_log(server.url, name).close()
    assert name in tenants_in(server.url)
    with pytest.raises(NotFound):
        check_log(server.url, "nobody")
