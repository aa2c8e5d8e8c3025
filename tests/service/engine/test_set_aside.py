"""A row that cannot be learnt all the same is set aside by a row that says so; learning goes on."""

import time

import apsw
import numpy as np
import pytest
from msgspec import msgpack

from similia.service.engine import fold as folding
from similia.service.engine.learner import LiveLearner
from similia.service.errors import Damaged
from similia.service.log.records import Item, Put, TenantSettings, decoded, encoded
from similia.service.log.rows import Entry
from similia.service.log.sqlite import LOG_FILE, sqlite_log
from similia.service.tenants import upkeep
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants
from similia.similarity.blend import Blend
from tests.service.conftest import until
from tests.service.problems import bits, filled, folded, item, learner, query, reopened, triplet

BAD = 7.0  # weight of the judgement that nothing can be learnt from


@pytest.fixture
def failing(monkeypatch):
    """Learning that fails on lists of one weight, whatever else is in the block."""
    monkeypatch.setattr(folding, "LISTS_PER_BLOCK", 8)
    learn = Blend.learn_checked

    def learn_checked(self, X, lists, **options):
        raise_if_bad(options.get("items"), lists)
        return learn(self, X, lists, **options)

    def raise_if_bad(*given):
        for each in given:
            weights = getattr(each, "weights", None)
            if weights is not None and (np.asarray(weights) == BAD).any():
                raise FloatingPointError("nothing can be learnt")

    def positional(self, *sides, **options):
        raise_if_bad(*sides)
        return learn(self, *sides, **options)

    monkeypatch.setattr(Blend, "learn_checked", positional)
    del learn_checked
    return monkeypatch


def asides(log):
    return {row.target: row.seq for row in log.rows(others=True) if row.kind == "set_aside"}


@pytest.mark.parametrize("place", [0, 3, 7, 20, 30])
def test_learning_goes_on_without_the_row_that_fails(tmp_path, failing, place):
    tenant = filled(tmp_path)
    told = [triplet(i, weight=BAD if i == place else 1.0) for i in range(32)]
    receipts = [tenant.feedback([each])[0] for each in told]
    live = bits(learner(tenant))
    assert list(asides(tenant.log)) == [receipts[place].seq]
    expected = folded(tenant.log.rows(), tenant.log.retracted())
    assert live == bits(expected)
    assert expected.n_seen_ == 31
    with reopened(tenant, tmp_path) as again:
        assert bits(learner(again)) == live
        assert len(asides(again.log)) == 1
        again.feedback([triplet(100)])
        assert learner(again).n_seen_ == 32


def test_a_row_of_an_old_log_is_set_aside_when_its_tenant_is_opened(tmp_path, failing):
    with failing.context() as healthy:
        healthy.undo()
        healthy.setattr(folding, "LISTS_PER_BLOCK", 8)
        tenant = filled(tmp_path)
        seq = [tenant.feedback([triplet(i, weight=BAD if i == 4 else 1.0)])[0] for i in range(20)]
        learner(tenant)
        tenant.close()
    for path in (tmp_path / "acme" / "snapshots").glob("*"):
        path.unlink()
    failing.setattr(folding, "LISTS_PER_BLOCK", 8)
    tenant = Tenant.open(tmp_path, "acme")
    assert list(asides(tenant.log)) in ([seq[4].seq], [])
    tenant.close()


@pytest.fixture
def misread(monkeypatch):
    """A judgement of which no lesson can be made, as if checks had missed it."""
    lessons = folding.lessons_of

    def lessons_of(seq, judgement, *rest):
        if judgement.id == "t5":
            raise ValueError("no lesson")
        return lessons(seq, judgement, *rest)

    monkeypatch.setattr(folding, "lessons_of", lessons_of)


def test_a_judgement_without_lessons_is_set_aside(tmp_path, misread):
    tenant = filled(tmp_path)
    receipts = [tenant.feedback([triplet(i)])[0] for i in range(9)]
    assert learner(tenant).n_seen_ == 8
    assert list(asides(tenant.log)) == [receipts[5].seq]
    assert [logged.retracted for logged in tenant.judgements()][5]
    assert tenant.rank(query(0), min_seq=tenant.log.last).results
    tenant.close()


def test_items_that_do_not_fit_are_set_aside_and_others_learnt_from(tmp_path):
    tenant = filled(tmp_path)
    before = tenant.item("i1")
    wrong = Put(items=[Item(id="i1", vectors={"meaning": [1.0]})])
    (place,) = tenant.log.append([Entry("put", encoded(wrong))])
    tenant.feedback([triplet(i) for i in range(5)])
    assert learner(tenant).n_seen_ == 5
    assert list(asides(tenant.log)) == [place.seq]
    assert tenant.item("i1") == before
    with reopened(tenant, tmp_path) as again:
        assert again.item("i1") == before


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x90", msgpack.encode([{"kind": "later"}, []])])
@pytest.mark.parametrize("kind", ["triplet", "put", "decision"])
def test_rows_that_hold_no_record_are_set_aside(tmp_path, kind, body):
    tenant = filled(tmp_path)
    tenant.feedback([triplet(i) for i in range(3)])
    judged = {"id": "odd", "query": "q", "judge": "ann"} if kind == "triplet" else {}
    (place,) = tenant.log.append([Entry(kind, body, **judged)])
    tenant.feedback([triplet(i) for i in range(3, 6)])
    assert learner(tenant).n_seen_ == 6
    assert list(asides(tenant.log)) == [place.seq]
    for each in (tenant, Tenant):
        if each is Tenant:
            tenant.close()
            tenant = Tenant.open(tmp_path, "acme")
        assert len(tenant.judgements()) == 6
        assert tenant.next(3, judge="ann")
        assert tenant.judges.standings() == []
        assert tenant.champions.models()
        assert tenant.rank(query(0)).results
    tenant.close()
    ((_, found),) = upkeep.check(str(tmp_path))
    assert not found.unlearnable


def test_learning_goes_on_after_rows_were_set_aside_at_the_start(tmp_path, monkeypatch):
    """The row that says so comes while the tenant is being opened."""
    tenant = filled(tmp_path)
    tenant.feedback([triplet(i) for i in range(3)])
    tenant.close()
    log = sqlite_log(tmp_path / "acme")
    log.append([Entry("put", b"\xc1")])
    log.close()
    aside = LiveLearner._set_aside

    def slowly(self, error):
        aside(self, error)
        time.sleep(0.3)  # time for another thread to learn what was written

    monkeypatch.setattr(LiveLearner, "_set_aside", slowly)
    again = Tenant.open(tmp_path, "acme")
    again.feedback([triplet(10)])
    assert learner(again).n_seen_ == 4
    assert len(asides(again.log)) == 1
    again.close()


def test_a_row_that_was_changed_on_the_disk_is_not_set_aside(tmp_path):
    tenant = filled(tmp_path)
    seq = tenant.feedback([triplet(i) for i in range(3)])[1].seq
    tenant.close()
    connection = apsw.Connection(str(tmp_path / "acme" / LOG_FILE))
    connection.execute("UPDATE rows SET body = x'c1' WHERE seq = ?", (seq,))
    connection.close()
    with pytest.raises(Damaged, match=f"row {seq} .* restore"):
        Tenant.open(tmp_path, "acme")
    with pytest.raises(Damaged, match=f"row {seq} "):
        list(upkeep.check(str(tmp_path)))


def test_items_set_aside_by_their_owner_are_not_shared(tmp_path):
    tenants = Tenants(tmp_path)
    owner = filled_in(tenants, "owner")
    owner.log.append([Entry("put", b"\xc1")])
    owner.put_items([item(3, seed=1)])
    team = tenants.create("team", TenantSettings(shares="owner"))
    team.feedback([triplet(i) for i in range(5)])
    until(lambda: asides(owner.log))  # its learner has a thread of its own
    assert len(asides(owner.log)) == 1
    assert asides(team.log) == {}
    live = bits(learner(team))
    tenants.close()
    assert [found.unlearnable for _, found in upkeep.check(str(tmp_path))] == [{}, {}]
    with_team = Tenants(tmp_path)
    assert bits(learner(with_team.get("team"))) == live
    with_team.close()


def test_other_tenants_learn_on(tmp_path, misread):
    tenants = Tenants(tmp_path)
    one, other = (filled_in(tenants, name) for name in ("one", "other"))
    one.feedback([triplet(5)])
    other.feedback([triplet(6)])
    assert learner(other).n_seen_ == 1
    assert learner(one) is None
    tenants.close()


def filled_in(tenants, name):
    from tests.service.problems import SETTINGS

    tenant = tenants.create(name, SETTINGS)
    tenant.put_items([item(i) for i in range(30)])
    return tenant


def test_a_check_names_rows_that_cannot_be_learnt_and_sets_them_aside(tmp_path):
    tenant = filled(tmp_path)
    tenant.feedback([triplet(i) for i in range(5)])
    learner(tenant)
    log = tenant.log
    tenant.learner._closed = True  # nobody learns any more
    wrong = Put(items=[Item(id="i1", vectors={"meaning": [1.0]})])
    log.subscribe(lambda _: None)
    (place,) = log.append([Entry("put", encoded(wrong))])
    log.close()
    ((_, found),) = upkeep.check(str(tmp_path))
    assert list(found.unlearnable) == [place.seq]
    assert f"row {place.seq} cannot be learnt" in found.unlearnable[place.seq]
    list(upkeep.check(str(tmp_path), set_aside=True))
    ((_, found),) = upkeep.check(str(tmp_path))
    assert not found.unlearnable
    again = Tenant.open(tmp_path, "acme")
    assert learner(again).n_seen_ == 5
    (row,) = [row for row in again.log.rows(others=True) if row.kind == "set_aside"]
    assert decoded(row.body).record.seq == row.target == place.seq
    again.close()
