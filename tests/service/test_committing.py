"""Requests that are stored together fare as if each had come alone."""

import asyncio
import gc
import random
import threading

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.service.errors import Conflict, Full, Unavailable
from similia.service.http.feedback import Commits
from similia.service.log.records import Query, Triplet, whole
from similia.service.log.writer import LogWriter, Request
from similia.service.tenants import tenants as opening
from similia.service.tenants.checks import judged_entry
from tests.service.conftest import until


class Rows:
    """A database in memory."""

    def __init__(self):
        self.rows, self.commits, self.full = [], 0, False
        self.gate = threading.Event()
        self.gate.set()

    def read(self, statement, *given):
        if "id IN" in statement:
            return [(row.id, row.seq, row.body) for row in self.rows if row.id in given]
        return []  # the last row at the start: none

    def insert(self, rows):
        self.gate.wait()
        if self.full:
            raise Full("full")
        self.commits += 1
        if {row.id for row in rows} & {row.id for row in self.rows}:
            return False
        self.rows += rows
        return True

    def announce(self):
        pass

    def reopen(self):
        pass

    def close(self):
        pass


@pytest.fixture
def store():
    return Rows()


@pytest.fixture
def log(store):
    writer = LogWriter(store, store, "test")
    yield writer
    writer.close()


def row(name, worse, better="a"):
    return Triplet(id=name, query=Query(item="q"), better=better, worse=worse)


def answers(log, requests):
    """What each request gets when all are sent at once."""

    async def send():
        commits = Commits(log)
        given = [[judged_entry(judgement) for judgement in request] for request in requests]
        return await asyncio.gather(*map(commits.append, given), return_exceptions=True)

    return asyncio.run(send())


ROWS = st.builds(row, st.sampled_from("xyz"), st.sampled_from("abc"))


@settings(max_examples=30)
@given(st.lists(st.lists(ROWS, min_size=1, max_size=3), min_size=1, max_size=12))
def test_each_request_is_stored_whole_or_refused_for_its_own_faults(requests):
    store = Rows()
    log = LogWriter(store, store, "test")
    found = answers(log, requests)
    log.close()
    stored = {row.id: (row.seq, whole(row.body)) for row in store.rows}
    for request, answer in zip(requests, found, strict=True):
        if isinstance(answer, Conflict):
            bodies = {}
            own = any(bodies.setdefault(each.id, each) != each for each in request)
            taken = any(stored.get(each.id, (0, each))[1] != each for each in request)
            assert own or taken
        else:
            for place, judgement in zip(answer, request, strict=True):
                assert stored[judgement.id] == (place.seq, judgement)


def test_many_requests_need_few_commits(store, log):
    requests = [[row(str(i), "b")] for i in range(200)]
    random.Random(0).shuffle(requests)
    store.gate.clear()

    async def send():
        commits = Commits(log)
        given = [[judged_entry(each) for each in request] for request in requests]
        tasks = [asyncio.create_task(commits.append(entries)) for entries in given]
        await asyncio.sleep(0)
        store.gate.set()  # by now all are in line, behind the first commit
        return await asyncio.gather(*tasks)

    found = asyncio.run(send())
    assert sorted(places[0].seq for places in found) == list(range(1, 201))
    assert store.commits <= 2


def test_bells_do_not_pile_up_while_the_writer_is_busy(store, log):
    for round in range(30):
        store.gate.clear()
        requests = [Request([judged_entry(row(f"{round}-{i}", "b"))], list) for i in range(20)]
        for request in requests:
            log.send(request)
        store.gate.set()
        assert log._bell.qsize() <= 1
    log.close()
    assert len(store.rows) == 600


def test_a_full_disk_is_told_to_all(store, log):
    store.full = True
    found = answers(log, [[row(str(i), "b")] for i in range(50)])
    assert all(isinstance(each, Full) for each in found)
    store.full = False
    assert answers(log, [[row("later on", "b")]])[0][0].seq == 1


def test_a_client_that_gives_up_disturbs_nobody(log):
    async def send():
        commits = Commits(log)
        given = [[judged_entry(row(str(i), "b"))] for i in range(20)]
        tasks = [asyncio.create_task(commits.append(entries)) for entries in given]
        await asyncio.sleep(0)
        for task in tasks[::2]:
            task.cancel()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return found[1::2]

    assert all(isinstance(each, list) for each in asyncio.run(send()))


def test_a_log_that_is_closed_says_so(log):
    log.close()
    assert isinstance(answers(log, [[row("a", "b")]])[0], Unavailable)


def test_answers_to_a_loop_that_has_ended_are_dropped(log):
    async def leave():
        task = asyncio.create_task(Commits(log).append([judged_entry(row("a", "b"))]))
        await asyncio.sleep(0)
        task.cancel()

    asyncio.run(leave())
    assert all(isinstance(each, list) for each in answers(log, [[row("b", "b")], [row("c", "b")]]))


def test_a_service_keeps_nothing_of_tenants_that_are_closed(start, monkeypatch):
    monkeypatch.setattr(opening, "MAX_OPEN", 3)
    monkeypatch.setattr(opening, "MIN_IDLE_SECONDS", 0.0)
    running = start()
    body = {"kind": "triplet", "query": {"item": "i0"}, "better": "i1", "worse": "i2"}
    with httpx.Client(base_url=running.url, timeout=60) as http:
        for name in [f"team-{number}" for number in range(8)]:
            assert http.put(f"/v1/{name}", json={"shares": "default"}).status_code < 300
            assert http.post(f"/v1/{name}/feedback", json=body).status_code == 200

    def kept():
        gc.collect()
        return len(running.service.commits)

    until(lambda: kept() <= len(running.service.tenants.opened()) < 8)
