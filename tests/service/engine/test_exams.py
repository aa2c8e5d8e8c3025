"""Held-out queries, promotion, rollback: decided by exams, recorded in the log."""

import shutil
from datetime import UTC, datetime

import pytest

from similia.service.errors import Invalid
from similia.service.log.provenance import is_held_out
from similia.service.log.records import Grades, Query, Triplet
from similia.service.tenants.tenant import Tenant
from tests.service.problems import TAUGHT_VIEWS, bits, learner, reopened, taught

WIDTH = TAUGHT_VIEWS[0].width


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Folder of a tenant that was taught well."""
    folder = tmp_path_factory.mktemp("taught")
    taught(folder).close()
    return folder


@pytest.fixture
def tenant(folder, tmp_path):
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    tenant = Tenant.open(tmp_path, "acme")
    yield tenant
    tenant.close()


def test_held_out_queries_are_never_learnt_from(tenant):
    chosen = tenant.learner.settings
    n = sum(is_held_out(f"id:q{number}", chosen) for number in range(1500))
    assert 200 < n < 400
    state, exams = tenant.learner.exams()
    assert len(exams) == n
    assert state.learner.n_seen_ == 1500 - n
    found = tenant.champions.evaluate()
    assert (found.n_queries, found.n_judgements) == (n, n)
    assert sum(found.days.values()) == 1500


def test_a_query_that_was_decided_about_is_no_exam_question(tenant):
    before = tenant.champions.evaluate().n_queries
    _, exams = tenant.learner.exams()
    asked = Query(id=tenant.log.row(exams[0]).query.removeprefix("id:"), item="i3")
    (receipt,) = tenant.feedback([Triplet(query=asked, better="i1", worse="i2")])
    tenant.rank(asked, min_seq=receipt.seq)
    assert tenant.champions.evaluate().n_queries == before - 1
    tenant.retract(receipt.id)
    assert tenant.champions.evaluate().n_queries == before


def test_a_retracted_exam_question_does_not_count(tenant):
    before, learnt = tenant.champions.evaluate().n_queries, bits(learner(tenant))
    _, exams = tenant.learner.exams()
    tenant.retract(tenant.log.row(exams[5]).id)
    assert bits(learner(tenant)) == learnt
    assert tenant.champions.evaluate().n_queries == before - 1


def test_what_is_better_is_promoted_and_ranks_as_the_champion(tenant, tmp_path):
    found = tenant.champions.evaluate()
    assert found.means["live"] > found.means["base"] + 0.1
    assert found.means["champion"] == found.means["base"]
    assert found.interval[0] < found.difference < found.interval[1]
    start = datetime.now(UTC)
    verdict = tenant.champions.promote()
    assert verdict.promoted, verdict.reason
    assert verdict.generation == tenant.status().generation == 1
    asked = Query(vectors={"noise": [1.0] * WIDTH, "truth": [-1.0, 1.0, 0.5, 0.0]})
    champion = tenant.rank(asked, 10, model="champion")
    assert champion.results == tenant.rank(asked, 10, model="live").results
    assert champion.results != tenant.rank(asked, 10, model="base").results
    # What is learnt from now on does not touch the champion.
    told = [Triplet(query=asked, better=f"i{i}", worse=f"i{i + 1}") for i in range(30)]
    seq = tenant.feedback(told)[-1].seq
    assert tenant.rank(asked, 10, model="live", min_seq=seq).results != champion.results
    assert tenant.rank(asked, 10, model="champion").results == champion.results
    assert [(model.generation, model.current) for model in tenant.champions.models()] == [
        (0, False),
        (1, True),
    ]
    with reopened(tenant, tmp_path) as again:
        assert again.rank(asked, 10, model="champion").results == champion.results
        assert again.champions.rollback().generation == 0
        base = again.rank(asked, 10, model="base").results
        assert again.rank(asked, 10, model="champion").results == base
        assert again.champions.history(datetime.now(UTC)).generation == 0
        promoted = again.champions.models()[1].time
        assert again.champions.history(promoted).generation == 1
        assert again.champions.history(start).generation == 0
        assert again.champions.rollback(to=1).generation == 1
        assert again.rank(asked, 10, model="champion").results == champion.results
    tenant = Tenant.open(tmp_path, "acme")
    tenant.close()


def test_a_lost_generation_is_made_again_from_the_log(tenant, tmp_path):
    tenant.champions.promote()
    champion = bits(tenant.champions.state().learner)
    asked = Query(item="i3")
    tenant.feedback([Triplet(query=asked, better=f"i{i}", worse=f"i{i + 1}") for i in range(30)])
    (path,) = (tmp_path / "acme" / "generations").glob("*.safetensors")
    path.unlink()
    with reopened(tenant, tmp_path) as again:
        assert bits(again.champions.state().learner) == champion
        assert path.exists()


def test_what_is_no_better_is_refused_and_the_refusal_recorded(tmp_path):
    tenant = taught(tmp_path, n=60)
    tenant.delete_items(["i39"])
    verdict = tenant.champions.promote()
    assert not verdict.promoted
    assert verdict.reason.startswith("Kept the base")
    assert tenant.status().generation == 0
    assert [row.kind for row in tenant.log.rows(others=True)][-1] == "decision"
    with pytest.raises(Invalid, match="rollback"):
        tenant.champions.rollback()
    with pytest.raises(Invalid):
        tenant.champions.rollback(to=5)
    tenant.close()


def test_without_exam_questions_nothing_is_promoted(tmp_path):
    tenant = taught(tmp_path, n=40, exam_sources=["other"])
    tenant.feedback([Grades(query=Query(item="i3"), grades={"i1": 1.0, "i2": 1.0}, source="exam")])
    learner(tenant)
    assert len(tenant.learner.exams()[1]) == 1
    assert "differ in grade: upload some, or answer" in tenant.champions.evaluate().note
    with pytest.raises(Invalid, match="upload judged"):
        tenant.champions.promote()
    tenant.close()


def test_questions_are_about_two_items_and_some_are_random(tenant):
    found = [question for _ in range(10) for question in tenant.next(5)]
    assert {question.source for question in found} == {"random", "suggested"}
    assert all(question.left != question.right for question in found)
    assert len({question.id for question in found}) == 50
    with pytest.raises(Invalid):
        tenant.next(0)
