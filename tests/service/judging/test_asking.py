"""What people are asked: questions that teach most, and random ones about held-out queries."""

import numpy as np

from similia.service.judging import questions as asking
from similia.service.log.provenance import is_held_out
from similia.service.log.records import Query, TenantSettings, Triplet, query_key
from similia.service.tenants.tenant import Tenant
from similia.similarity.blend import Blend
from tests.service.conftest import WIDTH, some_items, until


def asked_by(tmp_path, n_queries, n, monkeypatch):
    """Candidates that a learner was given to choose n questions from."""
    rng, given = np.random.default_rng(0), []
    pool = [
        Query(id=f"q{i}", vectors={"vectors": row.tolist()})
        for i, row in enumerate(rng.normal(size=(n_queries, WIDTH)))
    ]
    suggest = Blend.suggest

    def noted(self, X, candidates, *rest, **options):
        given.append(np.asarray(candidates))
        return suggest(self, X, candidates, *rest, **options)

    tenant = Tenant.create(tmp_path, "asked", settings=TenantSettings(held_out=0.001))
    try:
        tenant.put_items(some_items())
        seq = tenant.feedback([Triplet(query=pool[0], better="i1", worse="i2")])[-1].seq
        until(lambda: tenant.status().learnt_seq >= seq)
        monkeypatch.setattr(asking, "RANDOM_ONE_IN", 10**9)
        monkeypatch.setattr(Blend, "suggest", noted)
        found = tenant.next(n, "ann", pool)
    finally:
        tenant.close()
    assert len(found) == n
    return given[-1]


def test_questions_are_chosen_from_a_hundred_comparisons_each(tmp_path, monkeypatch):
    candidates = asked_by(tmp_path, 20, 5, monkeypatch)
    assert 500 <= len(candidates) < 600
    assert len({(q, *sorted(pair)) for q, *pair in candidates.tolist()}) == len(candidates)
    assert len(set(candidates[:, 0])) > 10


def test_no_more_queries_are_searched_for_than_candidates_need(tmp_path, monkeypatch):
    candidates = asked_by(tmp_path, 100, 30, monkeypatch)
    assert len(candidates) == asking.MAX_CHOICES
    assert len(set(candidates[:, 0])) == asking.MAX_CHOICES // asking.CHOICES_A_QUERY


def test_only_random_questions_are_about_held_out_queries(tmp_path):
    rng = np.random.default_rng(0)
    pool = [
        Query(id=f"q{i}", vectors={"vectors": row.tolist()})
        for i, row in enumerate(rng.normal(size=(40, WIDTH)))
    ]
    tenant = Tenant.create(tmp_path, "asked", settings=TenantSettings(held_out=0.3))
    try:
        tenant.put_items(some_items())
        first = tenant.next(20, pool=pool)
        assert {question.source for question in first} == {"random"}
        judged = [Triplet(query=pool[i], better="i1", worse="i2") for i in range(3)]
        seq = tenant.feedback(judged)[-1].seq
        until(lambda: tenant.status().learnt_seq >= seq)
        found = [question for _ in range(5) for question in tenant.next(40, "ann", pool)]
        chosen = tenant.learner.settings
    finally:
        tenant.close()
    held = np.array([is_held_out(query_key(question.query), chosen) for question in found])
    sources = np.array([question.source for question in found])
    assert set(sources) == {"random", "suggested"}
    assert not held[sources == "suggested"].any()
    assert held[sources == "random"].all()
    assert all(question.left != question.right for question in found)
