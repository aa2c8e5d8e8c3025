"""What a tenant stores can be learnt: whatever cannot is refused before it is acknowledged."""

import math
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec import structs

from similia.service.engine.fold import Fold
from similia.service.errors import Invalid
from similia.service.log.records import (
    Clicks,
    Configured,
    Grades,
    Item,
    NoneOfThese,
    Pair,
    Put,
    Query,
    Skip,
    TenantSettings,
    Tie,
    Triplet,
    View,
    encoded,
)
from similia.service.log.rows import Row
from similia.service.tenants.checks import check_judgement, judged_entry
from similia.service.tenants.tenant import Tenant
from tests.service.conftest import some_items, until
from tests.service.problems import filled, query, triplet

GOOD = triplet(0)
FAR = datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14)))


@pytest.fixture
def tenant(tmp_path):
    made = filled(tmp_path)
    yield made
    made.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"milliseconds": 2**70},
        {"milliseconds": -1},
        {"time": FAR},
        {"id": "a\0b"},
        {"id": "x" * 300},
        {"judge": "\ud800"},
        {"source": "x" * 300},
        {"left": ""},
        {"weight": 1e7},
        {"query": Query(vectors={"meaning": [3e38] * 6})},
        {"query": Query(vectors={"meaning": [1.0] * 5})},
        {"query": Query(vectors={"meaning": [2**70] * 6})},
        {"query": Query(vectors={"self": [1.0]})},
        {"query": Query(vectors={"meaning": ["a"] * 6})},
        {"query": Query(vectors={"meaning": ["1"] * 6})},
        {"query": Query(vectors={"meaning": [10**400] * 6})},
        {"query": Query(vectors={"meaning": [None] * 6})},
        {"query": Query(vectors={"meaning": [[1.0], [2.0, 3.0]] * 3})},
        {"query": Query(vectors={"meaning": np.array(["2026-01-01"] * 6, "datetime64[D]")})},
        {"query": Query(vectors={"meaning": np.ma.masked_array([1.0] * 6, [1, 0, 0, 0, 0, 0])})},
        {"query": {"item": "i1"}},
        {"query": None},
        {"weight": 10**400},
        {"weight": "1"},
        {"trusted": "yes"},
        {"time": "now"},
        {"milliseconds": "5"},
        {"query": Query(item="i1", text="\ud800")},
    ],
    ids=lambda changes: next(iter(changes)),
)
@pytest.mark.parametrize("kind", ["triplet", "skip"])
def test_what_cannot_be_learnt_is_refused_whatever_its_kind(tenant, changes, kind):
    told = GOOD if kind == "triplet" else Skip(query=GOOD.query, shown=["i1", "i2"], id="s")
    last = tenant.log.last
    with pytest.raises(Invalid):
        tenant.feedback([structs.replace(told, **changes)])
    assert tenant.log.last == last
    assert tenant.next(5)


@pytest.mark.parametrize(
    "changes",
    [
        {"id": "a\0b"},
        {"text": "\ud800"},
        {"fields": {"price": 1e300}},
        {"fields": {"age": math.nan}},
        {"fields": {"age": [1]}},
        {"fields": None},
        {"vectors": None},
        {"vectors": {"meaning": None, "words": [0.0] * 3, "freshness": [0.0]}},
        {"text": 5},
        {"fields": {"price": 2**2000}},
        {"fields": {"": 1.0}},
        {"fields": {f"f{i}": 1.0 for i in range(300)}},
        {"vectors": {"meaning": [math.nan] * 6, "words": [0.0] * 3, "freshness": [0.0]}},
        {"vectors": {"meaning": [3e38] * 6, "words": [0.0] * 3, "freshness": [0.0]}},
    ],
    ids=str,
)
def test_items_that_cannot_be_learnt_from_are_refused(tenant, changes):
    last, item = tenant.log.last, tenant.item("i3")
    with pytest.raises(Invalid):
        tenant.put_items([item, structs.replace(item, **changes)])
    assert tenant.log.last == last


@pytest.mark.parametrize(
    "vectors", [{}, {"a": []}, {"": [1.0]}, {"a\0": [1.0]}, {"x" * 300: [1.0]}]
)
def test_views_that_could_not_be_learnt_are_refused_with_the_first_item(tmp_path, vectors):
    tenant = Tenant.create(tmp_path, "new")
    with pytest.raises(Invalid):
        tenant.put_items([Item(id="a", vectors=vectors)])
    assert tenant.log.last == 1
    tenant.close()


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": 1.5},
        {"memory": "1"},
        {"memory": True},
        {"memory": 10**30},
        {"half_life": math.nan},
        {"held_out": None},
        {"views": ["a"]},
        {"views": [View("a", 1.5)]},
        {"views": [View("a", 1), View("a", 2)]},
        {"fields": "ab"},
        {"exam_sources": "random"},
        {"exam_sources": [5]},
        {"search": "nothing"},
        {"secret": 5},
        {"secret": "\ud800"},
        {"shares": ""},
    ],
    ids=str,
)
def test_settings_that_cannot_work_are_refused_and_leave_no_tenant(tmp_path, changes):
    with pytest.raises(Invalid):
        Tenant.create(tmp_path, "new", TenantSettings(**changes))
    assert not list(tmp_path.iterdir())


def test_a_view_may_have_any_name(tmp_path):
    tenant = Tenant.create(tmp_path, "new")
    tenant.put_items(
        [
            Item(id=item.id, vectors={"self": item.vectors["vectors"], "X": [1.0]})
            for item in some_items()
        ]
    )
    asked = Query(vectors={"self": [1.0] * 8, "X": [1.0]})
    seq = tenant.feedback([Triplet(query=asked, better="i1", worse="i2")])[-1].seq
    until(lambda: tenant.status().learnt_seq >= seq)
    assert len(tenant.rank(asked, 3, min_seq=seq).results) == 3
    tenant.close()


def test_only_administrators_let_a_judgement_count_for_much(tenant):
    heavy = structs.replace(GOOD, weight=100.0)
    with pytest.raises(Invalid, match="for administrators"):
        tenant.feedback([heavy], uploaded=False)
    assert tenant.feedback([heavy], uploaded=True)


# -- whatever passes -------------------------------------------------------------------------------

VIEWS = [View("self", 2), View("b", 1)]
ITEMS = [Item(id=f"i{i}", vectors={"self": [i / 9, 1.0], "b": [float(i)]}) for i in range(6)]
IDS = st.sampled_from([item.id for item in ITEMS])
NUMBERS = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, -1.0, 1e9, 3e38, 1e-40, 5, 2**70]))
TEXTS = st.one_of(st.none(), st.text(max_size=4), st.sampled_from(["\0", "\ud800", "a" * 300]))
LISTS = st.lists(IDS, min_size=1, max_size=4)
COMMON = {
    "query": st.builds(
        Query,
        id=TEXTS,
        text=TEXTS,
        item=st.one_of(st.none(), IDS),
        vectors=st.one_of(
            st.none(),
            st.dictionaries(
                st.sampled_from(["self", "b", "c"]), st.lists(NUMBERS, min_size=1, max_size=3)
            ),
        ),
    ),
    "id": TEXTS,
    "judge": TEXTS,
    "source": TEXTS,
    "weight": NUMBERS,
    "time": st.one_of(st.none(), st.datetimes(timezones=st.sampled_from([UTC, FAR.tzinfo]))),
    "milliseconds": st.one_of(st.none(), st.integers()),
}
JUDGEMENTS = st.one_of(
    st.builds(Triplet, better=IDS, worse=IDS, **COMMON),
    st.builds(Tie, items=st.tuples(IDS, IDS), **COMMON),
    st.builds(NoneOfThese, shown=LISTS, **COMMON),
    st.builds(Grades, grades=st.dictionaries(IDS, NUMBERS, min_size=1), **COMMON),
    st.builds(
        Clicks,
        shown=LISTS,
        clicked=LISTS,
        positions=st.one_of(st.none(), st.lists(st.integers(), max_size=4)),
        **COMMON,
    ),
    st.builds(Pair, item=IDS, similar=st.booleans(), **COMMON),
    st.builds(Skip, shown=LISTS, **COMMON),
)


def learning():
    """A fold with items, and what checks need of it."""
    fold = Fold()
    for seq, record in enumerate(
        [Configured(settings=TenantSettings(views=VIEWS)), Put(items=ITEMS)], 1
    ):
        fold.take(Row(seq, seq, "", encoded(record), None, None, None, None, b""))
    return fold


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(JUDGEMENTS, max_size=8))
def test_whatever_passes_the_checks_is_learnt(judgements):
    fold = learning()
    for judgement in judgements:
        try:
            check_judgement(fold.items.layout, judgement, fold.items.__contains__)
            entry = judged_entry(judgement, layout=fold.items.layout)
        except Invalid:
            continue
        seq = fold.seq + 1
        fold.take(Row(seq, seq, *entry, b""))
    learner = fold.state().learner
    if learner is not None:
        assert np.isfinite(learner.weights_).all()


def test_the_query_of_a_question_passed_over_is_asked_again(tenant):
    tenant.feedback([Skip(query=query(5), shown=["i1", "i2"], id="s")])
    assert tenant.next(3, "ann")
