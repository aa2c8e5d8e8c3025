"""Requests that are stored together fare as if each had come alone."""

import asyncio
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.service.committing import Committer
from similia.service.errors import Conflict, Full, Invalid
from similia.service.records import Query, Receipt, Triplet
from similia.service.work import Pool


class Naive:
    """The rules of a log, one request at a time."""

    def __init__(self):
        self.rows, self.lock, self.calls = {}, threading.Lock(), 0
        self.full = False

    def feedback(self, judgements):
        with self.lock:
            self.calls += 1
            if self.full:
                raise Full("full")
            if any(row.better == row.worse for row in judgements):
                raise Invalid("equal")
            new, found = {}, []
            for row in judgements:
                known = self.rows.get(row.id) or new.get(row.id)
                if known is not None and known[1] != row:
                    raise Conflict("taken")
                if known is None:
                    new[row.id] = (len(self.rows) + len(new) + 1, row)
                found.append(Receipt(row.id, (known or new[row.id])[0], known is not None))
            self.rows |= new
            return found


def row(name, worse):
    return Triplet(id=name, query=Query(item="q"), better="a", worse=worse)


def answers(requests):
    """What each request gets when all are sent at once."""
    tenant, pool = Naive(), Pool("test", 4, 1000)

    async def send():
        committer = Committer(tenant, pool)
        return await asyncio.gather(*map(committer.store, requests), return_exceptions=True)

    found = asyncio.run(send())
    pool.close()
    return tenant, found


ROWS = st.builds(row, st.sampled_from("xyz"), st.sampled_from("abc"))


@settings(max_examples=30)
@given(st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=12))
def test_each_request_is_stored_whole_or_refused_for_its_own_faults(requests):
    tenant, found = answers(requests)
    for request, answer in zip(requests, found, strict=True):
        if isinstance(answer, Invalid):
            assert any(judgement.better == judgement.worse for judgement in request)
        elif isinstance(answer, Conflict):
            bodies = {}
            own = any(bodies.setdefault(each.id, each) != each for each in request)
            taken = any(tenant.rows.get(each.id, (0, each))[1] != each for each in request)
            assert own or taken
        else:
            assert [receipt.id for receipt in answer] == [each.id for each in request]
            for receipt, judgement in zip(answer, request, strict=True):
                assert tenant.rows[judgement.id] == (receipt.seq, judgement)


def test_many_requests_need_few_trips():
    requests = [[row(str(i), "b")] for i in range(200)]
    random.Random(0).shuffle(requests)
    tenant, found = answers(requests)
    assert sorted(receipt[0].seq for receipt in found) == list(range(1, 201))
    assert tenant.calls <= 10


def test_a_full_disk_is_told_to_all_at_once():
    tenant, pool = Naive(), Pool("test", 4, 1000)
    tenant.full = True

    async def send():
        committer = Committer(tenant, pool)
        rows = [[row(str(i), "b")] for i in range(50)]
        found = await asyncio.gather(*map(committer.store, rows), return_exceptions=True)
        assert all(isinstance(each, Full) for each in found)
        tenant.full = False
        return await committer.store([row("later", "b")])

    assert asyncio.run(send())[0].seq == 1
    assert tenant.calls <= 10
    pool.close()


def test_a_client_that_gives_up_disturbs_nobody():
    tenant, pool = Naive(), Pool("test", 4, 1000)

    async def send():
        committer = Committer(tenant, pool)
        tasks = [asyncio.create_task(committer.store([row(str(i), "b")])) for i in range(20)]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return found[1::2]

    assert all(isinstance(each, list) for each in asyncio.run(send()))
    pool.close()
    with pytest.raises(RuntimeError):
        asyncio.run(Committer(tenant, pool).store([row("a", "b")]))
