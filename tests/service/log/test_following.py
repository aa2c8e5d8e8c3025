"""A log that another process writes: the same states, whatever happens between."""

import threading
from contextlib import ExitStack, closing

import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

import psycopg

from similia.service.errors import Taken, Unavailable
from similia.service.log.opening import Access
from similia.service.log.postgres import postgres_log, schema_of
from similia.service.log.records import TenantSettings
from similia.service.log.writers import Claim, Writers
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants
from tests.service.conftest import until
from tests.service.problems import bits, filled, item, judgement, query, taught, triplet

FOLLOWS = Access(follows=True)
WRITES = Access(address="http://writer:1")


@pytest.fixture
def both(server, name, tmp_path):
    """A tenant where it is written, and where it is followed."""
    with ExitStack() as stack:
        written = stack.enter_context(closing(filled(server.url, name, cache=tmp_path / "w")))
        followed = Tenant.open(server.url, name, cache=tmp_path / "f", access=FOLLOWS)
        stack.enter_context(closing(followed))
        yield written, followed


def same(written, followed, seq=None):
    """Whether both rank by the same bits after a row."""
    seq = seq or written.log.last
    rankings = []
    for tenant in (written, followed):
        tenant.rank(query(0), min_seq=seq, timeout=60)
        tenant.learner.wait(seq, 60)
        rankings.append(tenant.rank(query(0), k=30, explain=True))
    assert bits(written.learner.live.learner) == bits(followed.learner.live.learner)
    assert rankings[0] == rankings[1]


def test_a_follower_has_the_same_bits(both):
    written, followed = both
    for start in range(0, 300, 50):
        written.feedback([judgement(i) for i in range(start, start + 50)])
        same(written, followed)
    written.put_items([item(i, seed=5) for i in range(10)])
    written.delete_items(["i29"])
    written.retract("j3")
    written.feedback([judgement(1000)])
    same(written, followed)
    assert followed.status().seq == written.status().seq
    assert followed.status().judgements == written.status().judgements


def test_a_follower_ranks_by_the_row_that_is_asked_for(both):
    written, followed = both
    for i in range(30):
        seq = written.feedback([triplet(i)])[0].seq
        assert followed.rank(query(0), min_seq=seq, timeout=60).seq >= seq
    with pytest.raises(ValueError, match=f"at most {written.log.last}, got 999"):
        followed.rank(query(0), min_seq=999)


def test_a_follower_hears_of_a_commit_without_looking(both, monkeypatch):
    from similia.service.log import following

    written, followed = both
    monkeypatch.setattr(following, "POLL_SECONDS", 1000.0)
    until(lambda: followed.log.writer._seq == written.log.last)
    followed.log.writer._ring()  # the wait that began before
    until(lambda: followed.log.writer._seq == written.log.last)
    for i in range(5):
        seq = written.feedback([triplet(i)])[0].seq
        until(lambda: followed.learner.seq >= seq)  # noqa: B023


def test_a_follower_looks_where_nobody_calls(both, monkeypatch):
    written, followed = both
    monkeypatch.setattr(type(written.log.writer.database), "announce", lambda self: None)
    seq = written.feedback([triplet(0)])[0].seq
    until(lambda: followed.learner.seq >= seq)


def test_an_item_is_found_once_it_is_put(both):
    written, followed = both
    written.put_items([item(77)])
    assert followed.item("i77") is not None


def test_a_follower_writes_nothing(both):
    written, followed = both
    last = written.log.last
    for change in (
        lambda: followed.feedback([triplet(0)]),
        lambda: followed.put_items([item(0)]),
        lambda: followed.delete_items(["i0"]),
    ):
        with pytest.raises(Unavailable, match="written by another process"):
            change()
    assert written.log.newest() == written.log.check().rows == last


def test_promotion_and_rollback_reach_followers_at_the_same_row(server, name, tmp_path):
    written = taught(server.url, name=name, cache=tmp_path / "w")
    followed = Tenant.open(server.url, name, cache=tmp_path / "f", access=FOLLOWS)
    asked = query(0)
    asked = type(asked)(item="i0")
    base = followed.rank(asked, k=40, model="champion").results
    promoted = written.champions.promote()
    assert promoted.promoted
    seq = written.champions.models()[-1].seq
    for tenant in (written, followed):
        assert tenant.rank(asked, k=40, model="champion", min_seq=seq).results != base
        assert tenant.status().generation == 1
    ranked = [tenant.rank(asked, k=40, model="champion") for tenant in (written, followed)]
    assert ranked[0] == ranked[1]
    written.champions.rollback(0)
    for tenant in (written, followed):
        found = tenant.rank(asked, k=40, model="champion", min_seq=written.log.last)
        assert found.results == base
    followed.close()
    written.close()


def test_a_ranking_by_the_champion_is_of_the_row_that_it_names(server, name, tmp_path):
    """A follower that knows a promotion and has not learnt as far ranks by the one before."""
    written = taught(server.url, name=name, cache=tmp_path / "w")
    followed = Tenant.open(server.url, name, cache=tmp_path / "f", access=FOLLOWS)
    before = followed.learner.live
    with followed.learner._folding:  # it learns nothing meanwhile
        assert written.champions.promote().promoted
        until(lambda: followed.champions.current == 1)
        state = followed.champions.state()
        assert (state.seq, state.learner) == (before.seq, None)
    followed.learner.wait(written.log.last, 60)
    assert followed.champions.state().learner is not None
    followed.close()
    written.close()


def test_a_row_set_aside_by_the_writer_is_passed_over(both, monkeypatch):
    from similia.service.engine import fold as folding

    written, followed = both
    lessons = folding.lessons_of
    bad = written.log.last + 3

    def failing(seq, *rest):
        if seq == bad:
            raise ArithmeticError("a row that cannot be learnt")
        return lessons(seq, *rest)

    monkeypatch.setattr(folding, "lessons_of", failing)
    monkeypatch.setattr("similia.service.engine.learner.LOG_RETRY_SECONDS", 0.01)
    written.feedback([triplet(i) for i in range(10)])
    until(lambda: written.log.set_aside() == {bad})
    same(written, followed)


def test_shared_items_are_followed_as_of_the_row_that_a_judgement_was_made_at(
    server, name, tmp_path
):
    owner, team = name, f"{name}-team"
    writing = Tenants(server.url, cache=tmp_path / "w")
    filled(server.url, owner, cache=tmp_path / "w").close()
    writing.create(team, TenantSettings(shares=owner))
    following = Tenants(
        server.url, cache=tmp_path / "f", access=Access(True, "", frozenset({owner, team}))
    )
    written, followed = writing.get(team), following.get(team)
    learner = following.get(owner).learner
    for step in range(6):
        with learner._folding:  # the owner's items come later than what the team says of them
            writing.get(owner).put_items([item(i, seed=step + 7) for i in range(30)])
            writing.get(owner).learner.wait(writing.get(owner).log.last, 60)
            seq = written.feedback([triplet(100 * step + i) for i in range(40)])[-1].seq
            until(lambda: followed.log.last >= seq)  # noqa: B023
        same(written, followed)
    following.close()
    writing.close()


def test_a_follower_survives_restarts_of_the_database(server, both):
    written, followed = both
    for start in range(0, 60, 20):
        written.feedback([judgement(i) for i in range(start, start + 20)])
        server.stop()
        try:
            assert followed.rank(query(0)).results  # what is in memory still ranks
            with pytest.raises(Unavailable):
                followed.rank(query(0), min_seq=10**6)
        finally:
            server.start()
        until(lambda: _answers(written))
        same(written, followed)


def _answers(tenant):
    try:
        tenant.feedback([triplet(5000)])
    except Unavailable:
        return False
    return True


def test_a_log_that_went_back_is_no_longer_followed(server, both):
    written, followed = both
    written.feedback([triplet(i) for i in range(5)])
    same(written, followed)
    schema = schema_of(written.name)
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(f'DELETE FROM "{schema}".rows WHERE seq = {written.log.last}'.encode())
        connection.execute(
            b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s",
            (f'%LISTEN "{schema}"%',),
        )
        connection.execute(
            b"SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            b"WHERE pid <> pg_backend_pid() AND query LIKE 'SELECT seq, time%'"
        )
    until(lambda: followed.log.writer.failure is not None)
    with pytest.raises(Exception, match="start this process again"):
        followed.rank(query(0), min_seq=10**6)


def test_followers_on_one_machine_have_folders_of_their_own(server, name, tmp_path):
    filled(server.url, name, cache=tmp_path).close()
    only = Access(True, "", frozenset({name}))
    first, second = (Tenants(server.url, cache=tmp_path, access=only) for _ in range(2))
    folders = {tenants.get(name).cache for tenants in (first, second)}
    assert len(folders) == 2
    ending = threading.Thread(target=first.close)  # as a service does
    ending.start()
    ending.join()
    third = Tenants(server.url, cache=tmp_path, access=only)
    assert third.get(name).cache in folders
    second.close()
    third.close()


# -- who writes ----------------------------------------------------------------------------------


def test_the_writer_of_a_tenant_is_found_as_long_as_it_writes(server, name):
    with closing(Writers(server.url)) as writers:
        with pytest.raises(Unavailable, match="no process writes"):
            writers.find(name)
        log = postgres_log(server.url, name, address="http://a:1")
        assert writers.find(name) == "http://a:1"
        log.close()
        claims = [
            Claim(server.url, f"http://{n}:1", names)
            for n, names in (("all", frozenset()), ("some", frozenset({name})))
        ]
        for claim in claims:
            assert not claim.hold()
            assert claim.hold()
        assert writers.find(name) == "http://some:1"
        assert writers.find(f"{name}-other") == "http://all:1"
        for claim in claims:
            claim.close()
        until(lambda: not _found(writers, name))


def _found(writers, name):
    try:
        return writers.find(name)
    except Unavailable:
        return None


def test_a_writer_that_another_one_replaced_says_so(server, name, tmp_path):
    first = filled(server.url, name, cache=tmp_path / "a")
    server.stop()
    server.start()
    second = Tenant.open(server.url, name, cache=tmp_path / "b")
    seq = second.feedback([triplet(0)])[0].seq
    with pytest.raises(Unavailable, match="has taken over"):
        first.rank(query(0), min_seq=seq)
    with pytest.raises(Taken):
        first.log.writer.recover()
    second.log.writer.recover()
    second.close()
    first.log.writer.recover()  # nobody else has it any more
    assert first.rank(query(0), min_seq=seq).seq == seq
    first.close()


def test_many_read_while_one_writes(both):
    written, followed = both
    stop, errors = threading.Event(), []

    def read():
        try:
            while not stop.is_set():
                seq = written.log.last
                assert followed.rank(query(1), min_seq=seq, timeout=60).seq >= seq
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(100):
        written.feedback([judgement(i)])
    stop.set()
    for thread in threads:
        thread.join()
    assert not errors
    same(written, followed)


def test_learning_goes_on_if_no_snapshot_can_be_written(server, name, tmp_path, monkeypatch):
    """Snapshots name the last row by its hash, which is read from a database that may be away."""
    from similia.service.engine import snapshots

    monkeypatch.setattr(snapshots, "BLOCKS_BETWEEN", 1)
    tenant = filled(server.url, name, cache=tmp_path)
    row, away = tenant.log.row, []

    def failing(seq):
        away.append(seq)
        raise Unavailable("away")

    monkeypatch.setattr(tenant.log, "row", failing)
    seq = tenant.feedback([triplet(i) for i in range(300)])[-1].seq
    tenant.learner.wait(seq, 60)
    until(lambda: away)
    monkeypatch.setattr(tenant.log, "row", row)
    seq = tenant.feedback([triplet(i) for i in range(300, 600)])[-1].seq
    assert tenant.rank(query(0), min_seq=seq, timeout=60).seq >= seq
    assert not tenant.learner.has_stopped
    tenant.close()
