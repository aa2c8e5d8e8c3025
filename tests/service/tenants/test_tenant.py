"""A tenant: feedback in, rankings out, on every database."""

import threading
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from similia.service.engine import learner as learning
from similia.service.errors import Conflict, Invalid, NotFound, Timeout
from similia.service.log.records import (
    Clicks,
    Grades,
    Item,
    NoneOfThese,
    Pair,
    Query,
    Skip,
    TenantSettings,
    Tie,
    Triplet,
    View,
)
from similia.service.tenants.tenant import Tenant
from similia.service.tenants.tenants import Tenants
from tests.service.conftest import until
from tests.service.problems import (
    VIEWS,
    bits,
    filled,
    item,
    judgement,
    learner,
    query,
    reopened,
    triplet,
)


@pytest.fixture
def tenant(tmp_path):
    tenant = filled(tmp_path)
    yield tenant
    tenant.close()


def ids(ranking):
    return [result.id for result in ranking.results]


def test_the_same_on_every_database(place, name, tmp_path):
    """Everything once, with a restart in the middle."""
    tenant = filled(place, name, cache=tmp_path / "cache")
    asked = query(0)
    before = ids(tenant.rank(asked, 5))
    told = Triplet(query=asked, better=before[4], worse=before[0], judge="ann")
    (receipt,) = tenant.feedback([told])
    after = tenant.rank(asked, 5, min_seq=receipt.seq)
    assert ids(after).index(before[4]) < ids(after).index(before[0])
    assert tenant.feedback([told])[0] == type(receipt)(receipt.id, receipt.seq, True)
    tenant.feedback([judgement(i) for i in range(150)])
    tenant.put_items([item(99)])
    tenant.delete_items(["i3"])
    tenant.retract(receipt.id)
    live = bits(learner(tenant))
    with reopened(tenant, place, cache=tmp_path / "cache") as again:
        assert bits(learner(again)) == live
        assert again.n_items == 30
        assert again.item("i3") is None
        assert again.item("i99").text == "item 99"
        logged = again.judgements(judge="ann")
        assert [(found.record.id, found.retracted) for found in logged] == [(receipt.id, True)]
        assert again.log.check().rows == again.log.last
        with pytest.raises(Conflict):
            again.feedback([Triplet(query=query(1), better="i1", worse="i2", id="j4")])
    with pytest.raises(Conflict, match="exists"):
        Tenant.create(place, name, cache=tmp_path / "cache")


# -- ranking ---------------------------------------------------------------------------------------


def test_before_any_feedback_the_base_ranks(tenant):
    asked = query(3)
    vectors = np.array([item(i).vectors["meaning"] for i in range(30)], np.float32)
    scores = vectors @ np.array(asked.vectors["meaning"], np.float32)
    expected = [f"i{i}" for i in np.argsort(-scores)[:10]]
    assert ids(tenant.rank(asked, 10)) == expected
    assert ids(tenant.rank(asked, 10, model="base")) == expected
    assert ids(tenant.rank(asked, 10, model="champion")) == expected


def test_a_client_reads_its_own_writes(tenant):
    for i in range(20):
        asked = query(1000 + i)
        best = ids(tenant.rank(asked, 4))
        (receipt,) = tenant.feedback([Triplet(query=asked, better=best[3], worse=best[0])])
        after = tenant.rank(asked, 30, min_seq=receipt.seq)
        assert after.seq >= receipt.seq
        assert ids(after).index(best[3]) < ids(after).index(best[0])


def test_scores_are_the_learners_own(tenant):
    tenant.feedback([judgement(i) for i in range(140)])
    model, asked = learner(tenant), query(5)
    state = tenant.learner.live
    row = state.layout.query_row({n: np.float32(v) for n, v in asked.vectors.items()})
    queries, items = state.layout.queries(row[None]), state.layout.items(state.snapshot.matrix)
    expected = model.pairwise_score(queries, items)[0]
    found = tenant.rank(asked, 30)
    assert ids(found) == [state.snapshot.rows.ids[i] for i in np.argsort(-expected, kind="stable")]
    scores = [result.score for result in found.results]
    np.testing.assert_allclose(scores, np.sort(expected)[::-1], rtol=1e-4)
    assert all(result.std > 0 for result in found.results)
    some = tenant.rank(asked, 30, items=["i4", "i9", "i4", "nobody"])
    assert sorted(ids(some)) == ["i4", "i9"]
    by_id = {result.id: result.score for result in found.results}
    for result in some.results:
        assert result.score == pytest.approx(by_id[result.id], rel=1e-4)


def test_vectors_to_search_elsewhere_give_the_same_scores(tenant):
    tenant.feedback([judgement(i) for i in range(140)])
    asked = query(77)  # of one that was judged, vectors say nearly what is remembered
    found = tenant.rank(asked, 5, min_seq=tenant.log.last)
    vectors, revision = tenant.query_vectors(asked)
    assert revision == found.revision
    for result in found.results:
        known = tenant.item(result.id)
        own = {**known.vectors, "price": [known.fields["price"]]}
        score = sum(np.dot(vectors[name], own[name]) for name in vectors)
        assert score == pytest.approx(result.score, rel=1e-4)


def test_an_explanation_adds_up_and_names_judgements(tenant):
    tenant.feedback([triplet(i) for i in range(200)])
    asked = triplet(199).query
    for result in tenant.rank(asked, 5, min_seq=tenant.log.last, explain=True).results:
        assert sum(result.parts.values()) == pytest.approx(result.score, rel=1e-3, abs=1e-3)
        for id, _ in result.judgements:
            assert tenant.log.find(id) is not None


def test_an_item_as_a_query_is_not_its_own_answer(tenant):
    found = tenant.rank(Query(item="i7"), 30)
    assert "i7" not in ids(found)
    assert len(found.results) == 29


def test_a_typed_query_is_ranked_by_the_words_of_the_items(tenant):
    found = tenant.rank(Query(text="item 17"), 30)
    assert (found.model, ids(found)[0]) == ("text", "i17")
    assert tenant.rank(Query(text="nothing of the kind"), 3).results == []
    assert ids(tenant.rank(Query(text="item 12"), 5, items=["i3", "i12"]))[0] == "i12"
    shoes = Item(id="new", vectors=item(0).vectors, text="red shoes")
    receipt = tenant.put_items([shoes])
    tenant._texts._read = None  # texts are not read again at once
    assert ids(tenant.rank(Query(text="shoes"), 5, min_seq=receipt.seq)) == ["new"]


def test_waiting_for_what_is_not_learnt_in_time_is_a_timeout(tenant):
    with tenant.learner._folding:  # the learner stands still
        (receipt,) = tenant.feedback([triplet(0)])
        with pytest.raises(Timeout, match="ask again"):
            tenant.rank(query(0), min_seq=receipt.seq, timeout=0.05)
        tenant.rank(query(0))  # who does not wait is not kept
    tenant.rank(query(0), min_seq=receipt.seq)
    with pytest.raises(Invalid, match="min_seq"):
        tenant.rank(query(0), min_seq=10**6)


def test_a_log_waits_for_a_learner_that_is_far_behind(tenant, monkeypatch):
    monkeypatch.setattr(learning, "MAX_UNLEARNT_ROWS", 3)
    told = [threading.Thread(target=tenant.feedback, args=([triplet(i)],)) for i in range(40)]
    with tenant.learner._folding:  # the learner stands still
        for thread in told:
            thread.start()
            thread.join(0.01)
        assert any(thread.is_alive() for thread in told)
    for thread in told:
        thread.join()
    assert tenant.rank(query(0), min_seq=tenant.log.last).seq == tenant.log.last


# -- items -----------------------------------------------------------------------------------------


def test_items_come_change_and_go_in_rankings(tenant):
    asked = query(0)
    best = np.array(asked.vectors["meaning"]) * 10
    twin = Item(
        id="new",
        vectors={"meaning": best.tolist(), "words": [0.0] * 3, "freshness": [0.0]},
    )
    receipt = tenant.put_items([twin])
    assert ids(tenant.rank(asked, 1, min_seq=receipt.seq)) == ["new"]
    assert tenant.n_items == 31
    worst = Item(id="new", vectors={**twin.vectors, "meaning": (-best).tolist()})
    receipt = tenant.put_items([worst])
    assert ids(tenant.rank(asked, 31, min_seq=receipt.seq))[-1] == "new"
    assert tenant.n_items == 31
    receipt = tenant.delete_items(["new", "nobody"])
    assert "new" not in ids(tenant.rank(asked, 31, min_seq=receipt.seq))
    assert tenant.item("new") is None
    assert tenant.n_items == 30


def test_items_are_searched_while_they_are_replaced_over_and_over(tenant, monkeypatch):
    from similia.service.catalogue import items

    monkeypatch.setattr(items, "MIN_COMPACTED", 16)
    monkeypatch.setattr("similia.service.engine.fold.LISTS_PER_BLOCK", 4)
    errors, stop = [], threading.Event()

    def search():
        try:
            while not stop.is_set():
                found = ids(tenant.rank(query(0), 30))
                assert len(found) == len(set(found)) == 30
                assert tenant.item("i5").id == "i5"
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=search)
    thread.start()
    for i in range(60):
        tenant.put_items([item(number, seed=i) for number in range(i % 20, i % 20 + 5)])
        tenant.feedback([triplet(5 * i + j) for j in range(5)])
    stop.set()
    thread.join()
    assert not errors
    asked = query(0)
    live = tenant.rank(asked, 30, min_seq=tenant.log.last)
    assert len(tenant.learner.live.snapshot.matrix) < 100  # the dead were cleared away
    for result in live.results:
        state = tenant.learner.live
        assert state.snapshot.rows.ids[state.snapshot.row(result.id)] == result.id


def test_feedback_on_an_item_that_was_just_put_is_taken(tenant):
    for number in range(100, 120):
        tenant.put_items([item(number)])
        tenant.feedback([Triplet(query=query(0), better=f"i{number}", worse="i0")])


def test_views_come_from_the_first_item_unless_they_are_set(tmp_path):
    tenant = Tenant.create(tmp_path, "plain")
    tenant.put_items([Item(id="a", vectors={"z": [1, 2], "a": [1]})])
    assert tenant.status().views == [View("z", 2), View("a", 1)]
    with reopened(tenant, tmp_path) as again:
        assert again.status().views == [View("z", 2), View("a", 1)]


# -- what is refused -------------------------------------------------------------------------------

BASE = {"meaning": [0.0] * 6}


@pytest.mark.parametrize(
    "bad",
    [
        Triplet(query=query(0), better="i1", worse="i1"),
        Triplet(query=query(0), better="i1", worse="nobody"),
        Triplet(query=query(0), better="i1", worse="i2", weight=-1.0),
        Triplet(query=query(0), better="i1", worse="i2", weight=float("nan")),
        Triplet(query=query(0), better="i1", worse="i2", id=""),
        Triplet(query=query(0), better="i1", worse="i2", id="x" * 1000),
        Triplet(query=Query(), better="i1", worse="i2"),
        Triplet(query=Query(text="shoes"), better="i1", worse="i2"),
        Triplet(query=Query(item="nobody"), better="i1", worse="i2"),
        Triplet(query=Query(vectors={"meaning": [1.0]}), better="i1", worse="i2"),
        Triplet(query=Query(vectors={"words": [1.0] * 3}), better="i1", worse="i2"),
        Triplet(query=Query(vectors={**BASE, "what": [1.0]}), better="i1", worse="i2"),
        Triplet(query=Query(vectors={"meaning": [float("inf")] * 6}), better="i1", worse="i2"),
        Triplet(query=Query(vectors={"meaning": [2e9] * 6}), better="i1", worse="i2"),
        Tie(query=query(0), items=("i1", "i1")),
        NoneOfThese(query=query(0), shown=[]),
        Grades(query=query(0), grades={"i1": -1.0, "i2": 0.0}),
        Grades(query=query(0), grades={"i1": float("nan")}),
        Clicks(query=query(0), shown=["i1", "i2"], clicked=["i3"]),
        Clicks(query=query(0), shown=["i1", "i1"], clicked=["i1"]),
        Clicks(query=query(0), shown=["i1", "i2"], clicked=["i1"], positions=[1]),
        Clicks(query=query(0), shown=["i1", "i2"], clicked=["i1"], positions=[0, 1]),
        Pair(query=query(0), item="nobody", similar=True),
    ],
)
def test_a_bad_judgement_is_refused_and_nothing_of_its_batch_is_stored(tenant, bad):
    last = tenant.log.last
    with pytest.raises(Invalid) as caught:
        tenant.feedback([triplet(0), bad])
    assert list(caught.value.rows) == [1]
    assert tenant.log.last == last


@pytest.mark.parametrize(
    "vectors",
    [
        {},
        {"meaning": [1.0] * 6},
        {"meaning": [1.0] * 6, "words": [1.0] * 2, "freshness": [1.0]},
        {"meaning": [float("nan")] * 6, "words": [1.0] * 3, "freshness": [1.0]},
        {"meaning": [1.0] * 6, "words": [1.0] * 3, "freshness": [1.0], "more": [1.0]},
    ],
)
def test_a_bad_item_is_refused_and_nothing_of_its_batch_is_stored(tenant, vectors):
    last = tenant.log.last
    with pytest.raises(Invalid) as caught:
        tenant.put_items([item(50), Item(id="bad", vectors=vectors)])
    assert list(caught.value.rows) == [1]
    assert tenant.log.last == last


def test_the_largest_numbers_that_are_taken_leave_no_nan(tmp_path):
    tenant = Tenant.create(tmp_path, "large", TenantSettings(fields=["price"]))
    rng = np.random.default_rng(0)

    def huge():
        return {"meaning": np.where(rng.normal(size=6) > 0, 1.7e9, -1.7e9).tolist()}

    tenant.put_items([Item(id=f"i{i}", vectors=huge(), fields={"price": 4e9}) for i in range(30)])
    told = [
        Triplet(query=Query(vectors=huge()), better=f"i{a}", worse=f"i{b}")
        for a, b in (rng.choice(30, 2, replace=False) for _ in range(150))
    ]
    tenant.feedback(told)
    for value in learner(tenant).get_state().values():
        assert not isinstance(value, np.ndarray) or np.isfinite(value).all()
    found = tenant.rank(Query(vectors=huge()), 30)
    assert np.isfinite([result.score for result in found.results]).all()
    larger = Item(id="x", vectors={"meaning": [1.8e9] * 6})
    with pytest.raises(Invalid, match="scale it down"):
        tenant.put_items([larger])
    tenant.close()


def test_other_bad_requests_are_refused(tenant):
    for bad in ({"k": 0}, {"k": 10**6}, {"model": "other"}, {"items": ["x"] * 2000}):
        with pytest.raises(Invalid):
            tenant.rank(query(0), **bad)
    with pytest.raises(NotFound):
        tenant.retract("nobody")
    with pytest.raises(Invalid):
        tenant.judgements(limit=0)
    with pytest.raises(Invalid):
        tenant.put_items([])
    with pytest.raises(NotFound):
        Tenant.open(tenant.cache.parent, "nobody")
    with pytest.raises(Invalid):
        Tenant.open(tenant.cache.parent, "../acme")


def test_there_is_no_ranking_without_items(tmp_path):
    tenant = Tenant.create(tmp_path, "empty")
    with pytest.raises(Invalid, match="there are no items"):
        tenant.rank(query(0))
    tenant.put_items([item(0)])
    receipt = tenant.delete_items(["i0"])
    assert tenant.rank(query(0), min_seq=receipt.seq).results == []
    tenant.close()


# -- retraction, history ---------------------------------------------------------------------------


def test_a_retracted_decision_is_no_longer_obeyed(tenant):
    asked = query(77)
    before = tenant.rank(asked, 5)
    (receipt,) = tenant.feedback(
        [Triplet(query=asked, better=ids(before)[4], worse=ids(before)[0])]
    )
    assert ids(tenant.rank(asked, 5, min_seq=receipt.seq)) != ids(before)
    back = tenant.retract(receipt.id, by="owner")
    assert ids(tenant.rank(asked, 5, min_seq=back.seq)) == ids(before)
    assert tenant.retract(receipt.id).duplicate


def test_skips_are_logged_and_not_learnt(tenant):
    tenant.feedback([Skip(query=Query(text="what?"), shown=["i1", "i2"])])
    assert learner(tenant) is None
    assert tenant.status().judgements == 1


def test_history_names_what_ranked_at_a_time(tenant):
    tenant.feedback([triplet(0)])
    first = tenant.judgements()[0]
    tenant.feedback([triplet(1)])
    assert tenant.champions.history(first.time).seq >= first.seq
    assert tenant.champions.history(datetime.now(UTC)).seq == tenant.log.last
    with pytest.raises(NotFound):
        tenant.champions.history(first.time - timedelta(days=1))
    with pytest.raises(Invalid, match="time zone"):
        tenant.champions.history(datetime(2026, 1, 1))


def test_judgements_come_in_pages(tenant):
    tenant.feedback([triplet(i) for i in range(25)])
    first = tenant.judgements(limit=20)
    rest = tenant.judgements(after=first[-1].seq, limit=20)
    assert [found.record.id for found in (*first, *rest)] == [f"t{i}" for i in range(25)]
    assert first[3].record.query.vectors == pytest.approx(
        {n: pytest.approx(v, rel=1e-6) for n, v in triplet(3).query.vectors.items()}
    )
    asked = triplet(3).query
    assert "t3" in {found.record.id for found in tenant.judgements(query=asked)}


# -- many ------------------------------------------------------------------------------------------


def test_tenants_share_nothing(place, tmp_path, name):
    tenants = Tenants(place, cache=tmp_path / "cache")
    one, other = tenants.create(f"{name}-one"), tenants.get_or_create(f"{name}-other")
    one.put_items([item(i) for i in range(5)])
    other.put_items([Item(id="i0", vectors={"x": [1.0]})])
    one.feedback([Triplet(query=query(0), better="i1", worse="i2", id="same")])
    with pytest.raises(Invalid):
        other.feedback([Triplet(query=query(0), better="i1", worse="i2", id="same")])
    with pytest.raises(NotFound):
        other.retract("same")
    assert other.judgements() == []
    assert set(tenants.names()) >= {f"{name}-one", f"{name}-other"}
    tenants.close()
    assert tenants.get(f"{name}-one").status().judgements == 1
    tenants.close()


def test_fields_are_learnt_where_settings_say_so(tmp_path):
    settings = TenantSettings(views=VIEWS, fields=["price"])
    tenant = filled(tmp_path, settings=settings)
    tenant.feedback([triplet(0)])
    learner(tenant)
    assert list(tenant.status().weights) == ["meaning", "words", "freshness", "price"]
    bad = Item(id="x", vectors=item(50).vectors, fields={"price": "cheap"})
    with pytest.raises(Invalid, match="price"):
        tenant.put_items([bad])
    tenant.close()


def test_a_tenant_that_is_far_behind_closes_at_once_and_learns_the_rest_when_opened(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(learning, "ROWS_TAKEN", 1)
    tenants = Tenants(tmp_path)
    tenant = tenants.create("t")
    tenant.put_items([item(i) for i in range(30)])
    until(lambda: tenant.learner.seq == tenant.log.last)
    advance, taken, go = tenant.learner._advance, [], threading.Event()

    def slowly(rows):
        assert go.wait(60)
        taken.extend(row.seq for row in rows)
        advance(rows)

    monkeypatch.setattr(tenant.learner, "_advance", slowly)
    receipts = tenant.feedback([triplet(i) for i in range(40)])
    until(lambda: tenant.learner._rows)
    waiting = threading.Event()
    tenant.learner.when_learnt(receipts[-1].seq, waiting.set)
    closing = threading.Thread(target=tenants.close)
    closing.start()
    until(lambda: tenant.learner._closed)
    go.set()
    closing.join(60)
    assert waiting.is_set()
    assert len(taken) < 10
    again = Tenants(tmp_path)
    assert again.get("t").learner.seq == receipts[-1].seq
    again.close()
