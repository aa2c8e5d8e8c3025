"""What counts as an exam is what the service asked, of that judge, or an administrator uploaded."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from similia.service.engine import exams as examining
from similia.service.log.provenance import is_held_out, provenance, question_id
from similia.service.log.records import ASKED, UPLOADED, Query, TenantSettings, Tie, Triplet
from similia.service.tenants.tenant import Tenant
from tests.service.conftest import WIDTH, some_items
from tests.service.problems import learner

SECRET = TenantSettings(secret="a" * 32)


def pool(n):
    rows = np.random.default_rng(0).normal(size=(n, WIDTH))
    return [Query(id=f"q{i}", vectors={"vectors": row.tolist()}) for i, row in enumerate(rows)]


@pytest.fixture
def tenant(tmp_path):
    made = Tenant.create(tmp_path, "acme", TenantSettings(held_out=0.9))
    made.put_items(some_items())
    yield made
    made.close()


def answered(each, by=None, /, **changes):
    said = Triplet(
        query=each.query,
        better=each.left,
        worse=each.right,
        source=each.source,
        question=each.id,
        judge=by,
    )
    return structs.replace(said, **changes)


def exams(tenant):
    learner(tenant)
    found = tenant.champions.evaluate()
    return found.n_judgements


def asked(tenant, judge, n=20):
    return [each for each in tenant.next(n, judge, pool(40)) if each.source == "random"]


def held_out(tenant):
    return [query for query in pool(40) if is_held_out(f"id:{query.id}", tenant.learner.settings)]


def test_what_a_request_calls_random_is_feedback(tenant):
    told = [
        Triplet(query=query, better="i1", worse="i2", source="random") for query in held_out(tenant)
    ]
    tenant.feedback(told, uploaded=False)
    assert exams(tenant) == 0
    assert learner(tenant).n_seen_ == len(told)


def test_what_an_administrator_calls_random_is_an_exam(tenant):
    told = [
        Triplet(query=query, better="i1", worse="i2", source="random") for query in held_out(tenant)
    ]
    tenant.feedback(told, uploaded=True)
    assert exams(tenant) == len(told)
    assert learner(tenant) is None


def test_answers_to_the_services_questions_are_exams(tenant):
    found = asked(tenant, "ann")
    tenant.feedback([answered(each, "ann") for each in found], uploaded=False)
    n = len({each.query.id for each in found} & {query.id for query in held_out(tenant)})
    assert exams(tenant) >= n > 0


@pytest.mark.parametrize(
    "changes",
    [
        {"judge": "bea"},
        {"judge": None},
        {"question": "0" * 40},
        {"question": "short"},
        {"question": None},
        {"better": "i29"},
        {"query": Query(item="i3")},
        {"source": "*"},
    ],
    ids=str,
)
def test_an_answer_to_another_question_or_of_another_judge_is_feedback(tenant, changes):
    found = asked(tenant, "ann")
    told = [
        answered(each, "ann", **changes) for each in found if "i29" not in (each.left, each.right)
    ]
    tenant.feedback(told, uploaded=False)
    assert exams(tenant) == 0


def test_an_answer_counts_once_however_often_it_is_sent(tenant):
    found = asked(tenant, "ann")
    for number in range(3):
        tenant.feedback(
            [answered(each, "ann", id=f"{number}-{place}") for place, each in enumerate(found)],
            uploaded=False,
        )
    once = exams(tenant)
    comparisons = {(each.query.id, *sorted((each.left, each.right))) for each in found}
    assert 0 < once <= len(comparisons)


def test_only_so_many_answers_of_a_judge_count_each_day(tenant, monkeypatch):
    monkeypatch.setattr(examining, "MAX_ANSWERS_A_DAY", 5)
    for judge in ("ann", "bea"):
        told = [answered(each, judge) for each in asked(tenant, judge, 60)]
        tenant.feedback(told, uploaded=False)
    assert exams(tenant) == 10
    uploaded = [
        Triplet(query=query, better="i1", worse="i2", source="random") for query in held_out(tenant)
    ]
    tenant.feedback(uploaded, uploaded=True)
    assert exams(tenant) > 10


def test_a_key_that_names_its_judges_speaks_with_one_voice(tenant, monkeypatch):
    monkeypatch.setattr(examining, "MAX_ANSWERS_A_DAY", 5)
    judges = [f"sybil {number}" for number in range(20)]
    told = [
        answered(each, judge)
        for judge in judges
        for each in tenant.next(20, judge, pool(40), key="k1")
        if each.source == "random"
    ]
    tenant.feedback(told, uploaded=False)
    assert exams(tenant) == 5
    state, rows = tenant.learner.exams()
    assert len(rows) > 20
    exam = examining.exam_of(rows, state, tenant.log)
    assert {judge for _, judge in exam.units.values()} == {"key k1"}
    # Under another key's name, or under none, they are feedback.
    for end in (".k2", ".", ""):
        forged = [structs.replace(e, question=e.question.replace(".k1", end)) for e in told]
        tenant.feedback(forged, uploaded=False)
    assert len(tenant.learner.exams()[1]) == len(rows)


def test_promotions_say_who_spoke_and_hold_without_those_who_favour_them_most(tmp_path):
    rng = np.random.default_rng(0)
    tenant = Tenant.create(tmp_path, "acme", TenantSettings(held_out=0.5))
    tenant.put_items(some_items())
    tenant.feedback([Triplet(query=pool(1)[0], better="i1", worse="i2")])
    judges = ["ann", "bea", "cem", "dan"]
    for judge in judges:
        for each in tenant.next(60, judge, pool(200)):
            better, worse = rng.permutation([each.left, each.right])
            said = answered(each, judge, better=str(better), worse=str(worse))
            tenant.feedback([said], uploaded=False)
    learner(tenant)
    verdict = tenant.champions.promote()
    assert not verdict.promoted
    spoken = verdict.figures["judges"]
    assert {each["judge"] for each in spoken} == set(judges)
    sums = [each["difference"] * each["queries"] for each in spoken]
    assert sums == sorted(sums, reverse=True)
    assert verdict.figures == verdict.figures | {"judges": spoken}
    tenant.close()


def test_held_out_queries_of_two_tenants_have_nothing_in_common():
    keys = [f"id:{number}" for number in range(4000)]
    one, other, public = (
        {key for key in keys if is_held_out(key, TenantSettings(held_out=0.2, secret=secret))}
        for secret in ("a" * 32, "b" * 32, "")
    )
    for chosen in (one, other, public):
        assert 700 < len(chosen) < 900
    assert len(one & other) < 250
    assert len(one & public) < 250


@given(st.text(), st.text(), st.text(min_size=1), st.sampled_from(["random", "gold", "check"]))
def test_a_question_proves_what_was_asked_and_of_whom(judge, text, item, source):
    query = Query(id="q", text=text)
    id = question_id(SECRET, judge, query, ("a", item), source)
    said = Tie(query=query, items=(item, "a"), judge=judge, source=source, question=id)
    assert provenance(SECRET, said, uploaded=False) == ASKED
    assert provenance(SECRET, said, uploaded=True) == UPLOADED
    assert provenance(TenantSettings(secret="b" * 32), said, uploaded=False) == ""
    assert provenance(SECRET, structs.replace(said, judge=judge + "x"), uploaded=False) == ""
    assert provenance(SECRET, structs.replace(said, source=None), uploaded=True) == ""
