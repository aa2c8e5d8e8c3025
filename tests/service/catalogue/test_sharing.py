"""Tenants that share the items of another: one copy of the items, and nothing else in common."""

from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from similia.client import Client, ServiceProblem
from similia.service.catalogue import approximate
from similia.service.catalogue.external import ExternalItems
from similia.service.errors import Conflict, Invalid, NotFound
from similia.service.http import app
from similia.service.log.records import Query, TenantSettings, Triplet, View
from similia.service.settings import Settings as ServiceSettings
from similia.service.tenants import upkeep
from similia.service.tenants.files import ItemFile
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants
from tests.service.conftest import some_items, until
from tests.service.problems import (
    SETTINGS,
    bits,
    item,
    judgement,
    learner,
    query,
    triplet,
)
from tests.service.teams import SHARING, expected, filled


def ids(ranking):
    return [result.id for result in ranking.results]


# -- one copy ----------------------------------------------------------------------------------


def test_items_are_in_memory_once(tenants, monkeypatch):
    monkeypatch.setattr(approximate, "MIN_ROWS", 10)
    owner, one, two = filled(tenants)
    for team in (one, two):
        team.feedback([judgement(i) for i in range(40)])
        learner(team)
    shelves = [tenant.learner.live.snapshot for tenant in (owner, one, two)]
    for snapshot in shelves:
        assert snapshot.rows is shelves[0].rows
        assert np.shares_memory(snapshot.matrix, shelves[0].matrix)
    assert one._texts is two._texts is owner._texts  # and so are indices
    assert 0 < len(one.learner._fold.items._copied) <= 120  # rows that wait to be learnt
    assert one.learner._fold.items._past is None


def test_what_the_owner_changes_is_ranked_at_once(tenants):
    owner, one, _ = filled(tenants)
    one.feedback([triplet(i) for i in range(20)])
    asked = Query(vectors={name: item(77).vectors[name] for name in ("meaning", "words")})
    owner.put_items([item(77)])
    assert one.item("i77") == owner.item("i77")
    assert "i77" in ids(one.rank(asked, 31))
    assert one.n_items == one.status().items == 31
    owner.delete_items(["i77"])
    assert one.item("i77") is None
    assert "i77" not in ids(one.rank(asked, 31))
    with pytest.raises(Invalid, match="i77"):
        one.feedback([Triplet(query=asked, better="i77", worse="i2")])


def test_items_are_changed_at_their_owner_only(tenants):
    _, one, _ = filled(tenants)
    for change in (lambda: one.put_items([item(1)]), lambda: one.delete_items(["i1"])):
        with pytest.raises(Invalid, match="must be changed at 'owner', whose items 'one' shares"):
            change()
    assert one.status().shares == "owner"
    assert tenants.get("owner").status().shares is None


def test_items_are_searched_as_their_owner_does(tenants, monkeypatch):
    monkeypatch.setattr(approximate, "MIN_ROWS", 10)
    owner = tenants.create("fast", TenantSettings(search="usearch"))
    owner.put_items(some_items(60))
    team = tenants.create("team", TenantSettings(shares="fast"))
    owner._approximate.build(owner.learner.live.snapshot)
    built = []
    monkeypatch.setattr(approximate.Approximate, "build", lambda *_: built.append(1))
    team.feedback([Triplet(query=Query(item="i0"), better="i5", worse="i9")])
    learner(team)
    assert len(ids(team.rank(Query(item="i0"), 10))) == 10
    assert team.learner.settings.search == "usearch"
    assert not built


@pytest.mark.parametrize("owner", ["nobody", "new", "one"])
def test_only_items_of_another_tenants_own_can_be_shared(tenants, owner):
    filled(tenants)
    with pytest.raises(Invalid, match="shares must be"):
        tenants.create("new", TenantSettings(shares=owner))
    with pytest.raises(NotFound):
        tenants.get("new")


def test_views_of_shared_items_are_not_chosen(tenants):
    filled(tenants)
    with pytest.raises(Invalid, match="views must be those of shared items"):
        tenants.create("new", TenantSettings(shares="owner", views=[View("other", 2)]))
    with pytest.raises(Conflict, match="exists"):
        tenants.create("one", SHARING)


def test_a_tenant_that_shares_is_not_opened_alone(tenants, tmp_path):
    filled(tenants)
    tenants.close()
    with pytest.raises(Invalid, match="open both through Tenants"):
        Tenant.open(tmp_path, "one")


def test_owners_are_closed_last(tmp_path, monkeypatch):
    """Those who share their items may have something to learn yet."""
    closed, close = [], Tenant.close
    monkeypatch.setattr(Tenant, "close", lambda self: (closed.append(self.name), close(self)))
    tenants = Tenants(tmp_path)
    filled(tenants)
    tenants.close()
    assert closed[-1] == "owner"
    tenants = Tenants(tmp_path)
    tenants.open_some()
    tenants.close()
    assert closed[-1] == "owner"


def test_a_team_whose_maker_was_killed_is_made_again(place, name, open_log, tmp_path):
    """Nothing was acknowledged, and the log is empty."""
    tenants = Tenants(place, cache=tmp_path / "cache")
    tenants.create(f"{name}-owner", SETTINGS).put_items([item(i) for i in range(3)])
    open_log().close()
    assert tenants.get(name).shares is None
    team = tenants.create(name, TenantSettings(shares=f"{name}-owner"))
    assert (team.shares, team.log.last) == (f"{name}-owner", 1)
    until(lambda: team.n_items == 3)
    with pytest.raises(Conflict, match="exists"):
        tenants.create(name)
    tenants.close()
    with pytest.raises(Conflict, match="exists"):
        Tenants(place, cache=tmp_path / "cache").create(name)


def test_items_may_come_after_those_who_share_them(tenants):
    owner = tenants.create("owner")
    one = tenants.create("one", SHARING)
    with pytest.raises(Invalid, match="there are no items"):
        one.feedback([triplet(0)])
    assert one.next(3) == []
    one.feedback([judgement(5)])  # a question passed over needs none
    owner.put_items([item(i) for i in range(30)])
    plain = Query(vectors={"meaning": query(0).vectors["meaning"]})
    one.feedback([Triplet(query=plain, better="i1", worse="i2")])
    assert learner(one).n_seen_ == 1


# -- nothing else in common --------------------------------------------------------------------


def test_the_same_on_every_database(place, name, tmp_path):
    """Everything that a tenant is asked, with a restart in the middle."""
    tenants = Tenants(place, cache=tmp_path / "cache")
    owner = tenants.create(name, SETTINGS)
    owner.put_items([item(i) for i in range(30)])
    teams = [
        tenants.create(f"{name}-{i}", TenantSettings(shares=name, held_out=0.5)) for i in range(2)
    ]
    one, two = teams
    before = ids(two.rank(query(0), 30))
    told = [triplet(i, source="random", judge="ann") for i in range(150)]
    receipt = one.feedback(told)[-1]
    assert one.feedback(told[:3])[0].duplicate
    one.rank(query(0), min_seq=receipt.seq)
    why = [found for i in range(20) for found in one.rank(query(i), 30, explain=True).results]
    assert all(found.parts for found in why)
    assert any(found.parts["decisions"] for found in why)
    assert len(one.next(5)) == 5
    assert one.champions.evaluate().n_queries > 0
    assert one.champions.promote().reason
    assert one.query_vectors(query(0))[0]
    assert ids(one.rank(Query(text="item 17"), 1)) == ["i17"]
    assert one.champions.models()[0].generation == 0
    assert one.champions.history(datetime.now(UTC)).seq <= one.log.last
    assert ids(two.rank(query(0), 30)) == before  # nobody else has learnt anything
    owner.put_items([item(3, seed=9)])
    one.retract(told[4].id)
    for other in (two, owner):
        assert other.learner.live.learner is None
        assert other.judgements() == []
        assert other.status().judgements == 0
        assert other.champions.evaluate().n_judgements == 0
    live = bits(learner(one))
    assert live == expected(one, owner)
    assert [name for name, _ in upkeep.check(place, one.name)] == [one.name]
    tenants.close()
    again = Tenants(place, cache=tmp_path / "another")
    assert bits(learner(again.get(one.name))) == live
    assert again.get(two.name).learner.live.learner is None
    again.close()


# -- over HTTP ---------------------------------------------------------------------------------


def test_a_team_is_made_over_http_and_judges_the_items_of_another(http):
    url = http.running.url
    with Client(url, "team") as team, Client(url, "default") as owner:
        assert team.create(shares="default")
        assert not team.create(shares="default")
        receipt = team.prefer({"item": "i0"}, "i3", "i4")
        assert len(team.rank({"item": "i0"}, k=5, min_seq=receipt.seq).results) == 5
        assert team.item("i3") == owner.item("i3")
        assert (team.status().shares, owner.status().shares) == ("default", None)
        assert (team.status().judgements, owner.status().judgements) == (1, 0)
        for change in (lambda: team.put_items(some_items(2)), lambda: team.delete_item("i1")):
            with pytest.raises(ServiceProblem, match="must be changed at 'default'") as caught:
                change()
            assert caught.value.status == 422
        # a change at the owner is seen, followed and learnt
        owner.put_items(some_items(40, seed=1))
        assert team.item("i39").id == "i39"
        receipt = team.prefer({"item": "i39"}, "i38", "i4")
        assert team.rank({"item": "i39"}, min_seq=receipt.seq).seq >= receipt.seq
        # the page for people
        shown = http.post("/v1/team/judging/items", json={"ids": ["i39"]})
        assert shown.json()["items"][0]["text"] == "item 39"
        asked = http.get("/v1/team/judging/questions").json()["questions"][0]
        answer = {name: asked[name] for name in ("id", "query", "source")} | {"answer": "left"}
        sides = {side: asked[side]["id"] for side in ("left", "right")}
        assert http.post("/v1/team/judging/answers", json=answer | sides).is_success
        assert http.get("/v1/team/judging/progress").is_success
        assert http.get("/v1/default/judging/queries").json()["queries"] == []
    for name, shares, status in (
        ("team", None, 409),
        ("default", "team", 409),
        ("third", "team", 422),
        ("third", "third", 422),
        ("third", "nobody", 422),
        ("third", "Not A Name", 422),
    ):
        body = {} if shares is None else {"shares": shares}
        answer = http.put(f"/v1/{name}", json=body)
        assert answer.status_code == status, answer.text
    assert http.put("/v1/default").json() == {"tenant": "default", "created": False}


def test_feedback_of_a_team_needs_no_thread_unless_items_have_changed(http):
    http.put("/v1/team", json={"shares": "default"})
    tenant = http.running.service.tenants.get("team")
    told = [triplet_of(i) for i in range(4)]
    assert tenant.checked([])[1]
    assert http.post("/v1/team/feedback", json=told[0]).status_code == 200
    assert tenant.checked([]) == ([], 0)
    for one in told:
        assert http.post("/v1/team/feedback", json=one).status_code == 200
    kinds = [row.kind for row in tenant.log.rows()]
    assert kinds == ["settings", "follow", *["triplet"] * 4]


class There:
    """A database that has the items."""

    def some(self, n):
        return {one.id: np.array(one.vectors["vectors"], np.float32) for one in some_items()}

    def close(self):
        pass


def test_items_that_are_elsewhere_are_not_shared(start, monkeypatch, settings):
    """What one team judges would be copied into the log of the owner, and change all."""
    monkeypatch.setattr(app, "open_external", lambda _: ExternalItems(There()))
    running = start(items=False)
    answer = httpx.put(f"{running.url}/v1/team", json={"shares": "default"})
    assert answer.status_code == 422
    assert "shares must have its items here" in answer.json()["error"]


def test_shared_items_are_not_taken_elsewhere(settings, monkeypatch):
    tenants = Tenants(settings["store"])
    tenants.create("default").put_items(some_items())
    tenants.create("team", TenantSettings(shares="default"))
    tenants.close()
    monkeypatch.setattr(app, "open_external", lambda _: ExternalItems(There()))
    for name in ("default", "team"):
        service = app.Service(ServiceSettings(**settings, tenant=name))
        with pytest.raises(ValueError, match="items_at must be for a tenant whose items nobody"):
            service._open_tenants()
        service.close()


def test_a_file_of_items_is_refused_for_a_team(settings, tmp_path):
    tenants = Tenants(settings["store"])
    tenants.create("default").put_items(some_items())
    tenants.create("team", TenantSettings(shares="default"))
    tenants.close()
    np.save(tmp_path / "items.npy", np.ones((3, 8), np.float32))
    file = ItemFile(tmp_path / "items.npy")
    service = app.Service(ServiceSettings(**settings, tenant="team"), items=file)
    with pytest.raises(ValueError, match="must be changed at 'default'"):
        service._open_tenants()
    service.close()


def triplet_of(number):
    names = {"better": f"i{number + 1}", "worse": f"i{number + 2}"}
    return {"kind": "triplet", "id": f"t{number}", "query": {"item": "i0"}, **names}
