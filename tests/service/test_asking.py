"""What people are asked: questions that teach most, and random ones about held-out queries."""

import numpy as np

from similia.service.records import Query, Settings, Triplet, query_key
from similia.service.tenant import Tenant
from similia.trust.split import held_out
from tests.service.conftest import WIDTH, some_items, until


def test_only_random_questions_are_about_held_out_queries(tmp_path):
    rng = np.random.default_rng(0)
    pool = [
        Query(id=f"q{i}", vectors={"vectors": row.tolist()})
        for i, row in enumerate(rng.normal(size=(40, WIDTH)))
    ]
    tenant = Tenant.create(tmp_path, "asked", settings=Settings(held_out=0.3))
    try:
        tenant.put_items(some_items())
        first = tenant.next(20, pool=pool)
        assert {question.source for question in first} == {"random"}
        judged = [Triplet(query=pool[i], better="i1", worse="i2") for i in range(3)]
        seq = tenant.feedback(judged)[-1].seq
        until(lambda: tenant.status().learnt_seq >= seq)
        found = [question for _ in range(5) for question in tenant.next(40, "ann", pool)]
    finally:
        tenant.close()
    keys = np.array([query_key(question.query) for question in found], object)
    held = held_out(keys, 0.3)
    sources = np.array([question.source for question in found])
    assert set(sources) == {"random", "suggested"}
    assert not held[sources == "suggested"].any()
    assert held[sources == "random"].all()
    assert all(question.left != question.right for question in found)
