"""Requests that are stored together fare as if each had come alone."""

import asyncio
import random
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from similia.service.http.committing import FEW, Committer
from similia.service.http.work import Pool

from similia.service.errors import Conflict, Full, Invalid, Unavailable
from similia.service.log.records import Query, Triplet, whole
from similia.service.log.writer import Head, Request, Writer
from similia.service.tenants.checks import judged_entry


class Rows:
    """A database in memory."""

    def __init__(self):
        self.rows, self.commits, self.full = [], 0, False
        self.gate = threading.Event()
        self.gate.set()

    def head(self):
        return Head()

    def known(self, ids):
        return {row.id: (row.seq, row.body) for row in self.rows if row.id in ids}

    def insert(self, rows):
        self.gate.wait()
        if self.full:
            raise Full("full")
        self.commits += 1
        if self.known([row.id for row in rows]):
            return False
        self.rows += rows
        return True

    def after(self, seq):
        return [row for row in self.rows if row.seq > seq]

    def reopen(self):
        pass

    def explained(self, error):
        return error if isinstance(error, Full) else None

    def close(self):
        pass


class Naive:
    """The rules of a tenant, one request at a time."""

    def __init__(self):
        self.store = Rows()
        self.log = Writer(self.store, "test")

    def entries(self, judgements, uploaded=False):
        if any(row.better == row.worse for row in judgements):
            raise Invalid("equal")
        return [judged_entry(judgement) for judgement in judgements]

    def entries_at_once(self, judgements, uploaded=False):
        if any(row.better == "later" for row in judgements):
            return None
        return self.entries(judgements)


def row(name, worse, better="a"):
    return Triplet(id=name, query=Query(item="q"), better=better, worse=worse)


def answers(requests, tenant=None):
    """What each request gets when all are sent at once."""
    tenant, pool = tenant or Naive(), Pool("test", 4, 1000)

    async def send():
        committer = Committer(tenant, pool)
        return await asyncio.gather(*map(committer.store, requests), return_exceptions=True)

    found = asyncio.run(send())
    pool.close()
    return tenant, found


ROWS = st.builds(
    row, st.sampled_from("xyz"), st.sampled_from("abc"), st.sampled_from(["a", "later"])
)


@settings(max_examples=30)
@given(st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=12))
def test_each_request_is_stored_whole_or_refused_for_its_own_faults(requests):
    tenant, found = answers(requests)
    tenant.log.close()
    stored = {row.id: (row.seq, whole(row.body)) for row in tenant.store.rows}
    for request, answer in zip(requests, found, strict=True):
        if isinstance(answer, Invalid):
            assert any(judgement.better == judgement.worse for judgement in request)
        elif isinstance(answer, Conflict):
            bodies = {}
            own = any(bodies.setdefault(each.id, each) != each for each in request)
            taken = any(stored.get(each.id, (0, each))[1] != each for each in request)
            assert own or taken
        else:
            assert [receipt.id for receipt in answer] == [each.id for each in request]
            for receipt, judgement in zip(answer, request, strict=True):
                assert stored[judgement.id] == (receipt.seq, judgement)


def test_large_requests_and_small_ones_are_stored_alike():
    requests = [[row(f"{n}-{i}", "b") for i in range(n)] for n in (1, FEW, FEW + 1, 100)]
    tenant, found = answers(requests)
    tenant.log.close()
    seqs = [receipt.seq for answer in found for receipt in answer]
    assert sorted(seqs) == list(range(1, len(seqs) + 1))
    assert [len(answer) for answer in found] == [len(request) for request in requests]


def test_many_requests_need_few_commits():
    requests = [[row(str(i), "b")] for i in range(200)]
    random.Random(0).shuffle(requests)
    tenant, pool = Naive(), Pool("test", 4, 1000)
    tenant.store.gate.clear()

    async def send():
        committer = Committer(tenant, pool)
        tasks = [asyncio.create_task(committer.store(request)) for request in requests]
        await asyncio.sleep(0)
        tenant.store.gate.set()  # by now all are in line, behind the first commit
        return await asyncio.gather(*tasks)

    found = asyncio.run(send())
    tenant.log.close()
    pool.close()
    assert sorted(receipt[0].seq for receipt in found) == list(range(1, 201))
    assert tenant.store.commits <= 2


def test_bells_do_not_pile_up_while_the_writer_is_busy():
    tenant = Naive()
    for round in range(30):
        tenant.store.gate.clear()
        requests = [Request([judged_entry(row(f"{round}-{i}", "b"))], list) for i in range(20)]
        for request in requests:
            tenant.log.send(request)
        tenant.store.gate.set()
        assert tenant.log._bell.qsize() <= 1
    tenant.log.close()
    assert len(tenant.store.rows) == 600


def test_a_full_disk_is_told_to_all():
    tenant = Naive()
    tenant.store.full = True
    _, found = answers([[row(str(i), "b")] for i in range(50)], tenant)
    assert all(isinstance(each, Full) for each in found)
    tenant.store.full = False
    _, found = answers([[row("later on", "b")]], tenant)
    assert found[0][0].seq == 1
    tenant.log.close()


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
    tenant.log.close()

    async def late():
        await Committer(tenant, pool).store([row("a", "b")])

    with pytest.raises(Unavailable):
        asyncio.run(late())
    pool.close()


def test_answers_to_a_loop_that_has_ended_are_dropped():
    tenant, pool = Naive(), Pool("test", 4, 1000)

    async def leave():
        task = asyncio.create_task(Committer(tenant, pool).store([row("a", "b")]))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    pool.close()
    _, found = answers([[row("b", "b")], [row("c", "b")]], tenant)
    assert {receipt[0].id for receipt in found} == {"b", "c"}
    tenant.log.close()
