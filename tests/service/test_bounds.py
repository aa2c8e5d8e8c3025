"""Nothing that a client sends, or fails to send, makes a service grow, hang or fall."""

import asyncio
import contextlib
import json
import socket
import threading
from functools import partial

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.service.errors import Gone, Problem
from similia.service.http.budgets import Budget, Lane, Rates
from similia.service.log.records import Triplet, written
from similia.service.schemas import NewJudgement
from tests.service.conftest import PATIENCE, WIDTH, triplet, until

FEEDBACK = "/v1/default/feedback"


def connect(running):
    return socket.create_connection(("127.0.0.1", running.port), PATIENCE)


def answer_of(connection):
    """Everything until the service closes; a reset after the answer is an end, too."""
    parts = []
    try:
        while part := connection.recv(65536):
            parts.append(part)
    except ConnectionResetError:
        pass
    return b"".join(parts)


def head(running, length=None, path=FEEDBACK):
    more = "transfer-encoding: chunked" if length is None else f"content-length: {length}"
    lines = [f"POST {path} HTTP/1.1", f"host: localhost:{running.port}"]
    lines += ["content-type: application/json", more]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def is_alive(running):
    return httpx.get(f"{running.url}/livez", timeout=PATIENCE).status_code == 200


def status_of(answer):
    return int(answer.split()[1])


# -- bodies --------------------------------------------------------------------------------------


def test_an_announced_oversize_body_is_refused(start):
    running = start(max_body=2048)
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        answer = client.post(FEEDBACK, json=triplet(source="x" * 10**6))
        assert answer.status_code == 413
        assert "at most 2048 bytes" in answer.json()["error"]
        assert client.post(FEEDBACK, json=triplet()).status_code == 200
    assert running.service.received.taken == 0


def test_an_endless_body_is_refused_and_cut_off(start):
    """Memory stays within the limit: the service reads on only to be heard, and keeps nothing."""
    running = start(max_body=2048)
    with connect(running) as connection:
        connection.sendall(head(running))
        piece = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
        try:
            for _ in range(100_000):
                connection.sendall(piece)
            pytest.fail("the service reads for ever")
        except OSError:
            pass
    until(lambda: running.service.calls.taken == 0)
    assert running.service.received.taken == 0
    assert is_alive(running)


def test_an_endless_body_where_none_is_read_is_cut_off(start):
    running = start()
    with connect(running) as connection:
        connection.sendall(head(running, path="/v1/default/nothing"))
        try:
            for _ in range(100_000):
                connection.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
            pytest.fail("the service reads for ever")
        except OSError:
            pass
    assert is_alive(running)


def test_a_slow_body_is_given_up(start):
    running = start(body_timeout=0.3)
    with connect(running) as connection:
        connection.sendall(head(running, 100) + b'{"kind"')
        answer = answer_of(connection)
    assert status_of(answer) == 408
    assert b"within 0.3 seconds" in answer
    assert is_alive(running)


def test_a_client_that_leaves_in_the_middle_stores_nothing(start):
    running = start()
    tenant = running.service.tenants.get("default")
    before = tenant.status().seq
    body = json.dumps(triplet()).encode()
    with connect(running) as connection:
        connection.sendall(head(running, len(body)) + body[:-5])
    until(lambda: running.service.calls.taken == 0)
    assert tenant.status().seq == before


AMOUNTS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 60)), max_size=60)


@given(AMOUNTS, st.integers(4, 200))
def test_a_budget_is_kept_in_all_and_by_each_caller(asked, total):
    """But for the first thing that somebody asks for when there is nothing, which may be large."""
    budget, held = Budget("things", total), []
    for caller, amount in asked:
        own = sum(n for who, n in held if who == caller)
        everything = sum(n for _, n in held)
        if (own and own + amount > budget.quota) or (everything and everything + amount > total):
            with pytest.raises(Problem) as refused:
                budget.take(caller, amount)
            assert refused.value.status == (429 if own and own + amount > budget.quota else 503)
            assert int(refused.value.headers["retry-after"]) >= 1
            budget.give(*held.pop(0))
        else:
            budget.take(caller, amount)
            held.append((caller, amount))
        assert budget.taken == sum(n for _, n in held)
        assert budget.taken <= max(total, max((n for _, n in held), default=0))
    for each in held:
        budget.give(*each)
    assert budget.taken == 0


def test_one_caller_leaves_something_for_others():
    budget = Budget("things", 100)
    budget.take("a", 25)
    with pytest.raises(Problem) as refused:
        budget.take("a", 1)
    assert refused.value.status == 429
    for other in "bcd":
        budget.take(other, 25)
    with pytest.raises(Problem) as refused:
        budget.take("e", 1)
    assert refused.value.status == 503


def test_rates_remember_a_bounded_number_of_callers():
    rates = Rates(1.0, 1)
    for caller in range(20_000):
        rates.check(str(caller))
    assert len(rates._buckets) <= 10_000


# -- heads ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "start_of_it",
    [
        lambda running: b"GET /",
        lambda running: b"GET / HTTP/1.1\r\nx-one: ",
        lambda running: head(running) + b"1\r\n{\r\n0\r\nx-trailer: ",
        lambda running: head(running) + b"1;x=",
    ],
    ids=["address", "header", "trailer", "extension"],
)
def test_what_never_comes_to_a_point_is_cut_off(start, start_of_it):
    running = start()
    with connect(running) as connection:
        connection.sendall(start_of_it(running))
        try:
            for _ in range(2000):
                connection.sendall(b"a" * 2**16)
            pytest.fail("the service reads for ever")
        except OSError:
            pass
    assert is_alive(running)


def test_a_slow_head_is_given_up(start):
    running = start(header_timeout=0.3)
    with connect(running) as slow, connect(running) as silent:
        slow.sendall(b"GET /livez HTTP/1.1\r\nhost: ")
        assert status_of(answer_of(slow)) == 408
        assert answer_of(silent) == b""
    assert is_alive(running)


def test_what_is_not_http_gets_one_answer(start):
    running = start()
    with connect(running) as connection:
        connection.sendall(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n")
        assert status_of(answer_of(connection)) == 400
    assert is_alive(running)


def test_a_reader_that_stops_reading_is_cut_off(start):
    running = start(write_timeout=0.3)
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.settimeout(PATIENCE)
    with connection:
        connection.connect(("127.0.0.1", running.port))
        try:
            for _ in range(2000):
                connection.sendall(b"GET /openapi.json HTTP/1.1\r\nhost: x\r\n\r\n")
        except OSError:
            pass
        until(lambda: running.service.calls.taken == 0)
        until(lambda: not running.server.server_state.connections)
    assert is_alive(running)


# -- contents ------------------------------------------------------------------------------------

VECTOR = [0.0] * WIDTH


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 415),
        (b"{", 400),
        (b"\xff\xfe", 400),
        (b"[" * 100_000, 422),
        (b'{"a":' * 100_000, 400),
        (b'{"kind": "triplet"}', 422),
        (b'{"kind": "nothing", "query": {}}', 422),
        (b'{"judgements": []}', 422),
        (b'{"judgements": [1]}', 422),
        (b'{"judgements": [], "more": 1}', 422),
        (b'{"kind": "triplet", "query": {"vectors": {"vectors": [NaN]}}}', 400),
    ],
)
def test_bodies_that_do_not_fit_are_refused(shared, body, status):
    headers = {"content-type": "application/json"} if body else {}
    answer = shared.post(FEEDBACK, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    assert answer.json().keys() <= {"error", "status", "request_id", "rows"}


@pytest.mark.parametrize(
    "change",
    [
        {"query": {"vectors": {"vectors": [1e300] * WIDTH}}},
        {"query": {"vectors": {"vectors": [1.0] * (WIDTH + 1)}}},
        {"query": {"vectors": {"vectors": []}}},
        {"query": {"vectors": {f"v{i}": VECTOR for i in range(100)}}},
        {"query": {"vectors": {"vectors": [1.0] * 10_000}}},
        {"query": {"item": "nobody"}},
        {"query": {"item": ""}},
        {"query": {"text": "x" * 40_000}},
        {"query": {}},
        {"better": "nobody"},
        {"better": "i2"},
        {"id": ""},
        {"id": "x" * 1000},
        {"wieght": 1},
        {"query": {"item": "i0", "itme": "i1"}},
        {"weight": -1},
        {"weight": 1e300},
        {"judge": "x" * 1000},
        {"source": "x" * 1000},
        {"kind": "grades", "grades": {f"i{i}": 1 for i in range(5000)}},
        {"kind": "grades", "grades": {"i1": -1}},
        {"kind": "clicks", "shown": [f"i{i}" for i in range(5000)], "clicked": []},
        {"kind": "clicks", "shown": ["i1"], "clicked": ["i2"]},
        {"kind": "clicks", "shown": ["i1"], "clicked": [], "positions": [0]},
        {"kind": "none", "shown": []},
        {"kind": "skip", "shown": ["i1"], "query": {"vectors": {"vectors": [1e39] * WIDTH}}},
    ],
)
def test_judgements_that_do_not_fit_are_refused_and_nothing_is_stored(shared, change):
    before = shared.get("/v1/default/status").json()["seq"]
    row = {k: v for k, v in (triplet() | change).items() if v is not None}
    if change.get("kind"):
        del row["better"], row["worse"]
    answer = shared.post(FEEDBACK, json=row)
    assert answer.status_code == 422, answer.text
    batch = shared.post(FEEDBACK, json={"judgements": [triplet(id="fine"), row]})
    assert batch.status_code == 422
    assert list(batch.json()["rows"]) == ["1"]
    assert shared.get("/v1/default/status").json()["seq"] == before


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("rank", {"query": {"item": "i0"}, "k": 0}),
        ("rank", {"query": {"item": "i0"}, "k": 10**5}),
        ("rank", {"query": {"item": "i0"}, "k": 10**18}),
        ("rank", {"query": {"item": "i0"}, "model": "best"}),
        ("rank", {"query": {"item": "i0"}, "min_seq": 10**9}),
        ("rank", {"query": {"item": "i0"}, "kk": 3}),
        ("rank", {"query": {"item": "i0", "itme": "i1"}}),
        ("items", {"items": [{"id": "a", "vectors": {"vectors": VECTOR}, "txt": "x"}]}),
        ("query-vectors", {"queries": []}),
        ("query-vectors", {"queries": [{"item": "i0"}] * 2000}),
        ("items", {"items": []}),
        ("items", {"items": [{"id": "a", "vectors": {"vectors": [1]}}]}),
        ("items", {"items": [{"id": "a", "vectors": {"other": VECTOR}}]}),
        ("items", {"items": [{"id": "", "vectors": {"vectors": VECTOR}}]}),
        ("items", {"items": [{"id": "a", "vectors": {"vectors": [1e39] * WIDTH}}]}),
    ],
)
def test_requests_that_do_not_fit_are_refused(shared, path, body):
    answer = shared.post(f"/v1/default/{path}", json=body)
    assert answer.status_code == 422, answer.text


def test_misspelt_parameters_are_told(shared):
    assert "limt" in shared.get(f"{FEEDBACK}?limt=3").json()["error"]
    assert shared.get(f"{FEEDBACK}?limit=3&limit=4").status_code == 422
    assert shared.get("/v1/default/status?x=1").status_code == 422


def test_what_schemas_let_through_is_written_as_before():
    """The bytes of a row decide whether a judgement is known."""
    plain = {"item": "i0", "id": "q", "text": "blue"}
    row = {**triplet(id="a", judge="ann", weight=0.5, source="s", left="i1"), "query": plain}
    given = json.dumps({**row, "milliseconds": 3}).encode()
    taken, kept = (
        msgspec.json.decode(given, type=NewJudgement),
        msgspec.json.decode(given, type=Triplet),
    )
    assert written(taken) == written(kept)


# -- lanes ---------------------------------------------------------------------------------------


class Gate:
    """Work that waits until it is let go, and notes who was served."""

    def __init__(self):
        self.open, self.served = threading.Event(), []

    def work(self, caller):
        assert self.open.wait(PATIENCE)
        self.served.append(caller)


def crowd(lane, callers):
    """Who is served in which order, and how the others are refused, once all have asked."""

    async def ask():
        gate = Gate()
        tasks = [asyncio.create_task(lane.run(who, partial(gate.work, who))) for who in callers]
        await asyncio.sleep(0)
        gate.open.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
        return gate.served, [each.status for each in found if isinstance(each, Problem)]

    try:
        return asyncio.run(ask())
    finally:
        lane.close()


def test_callers_take_turns():
    served, refused = crowd(Lane("test", 1, 100), "aaaaaabcab")
    assert "".join(served) == "aabcabaaaa"
    assert refused == []


def test_work_that_waits_has_a_limit_for_each_caller_and_for_all():
    _, refused = crowd(Lane("test", 1, 4), "aaaa")
    assert refused == [429]
    _, refused = crowd(Lane("test", 1, 4), "aaabbbc")
    assert refused == [429, 503]


def test_work_that_nobody_waits_for_any_more_is_not_begun():
    lane = Lane("test", 1, 10)

    async def ask():
        gate = Gate()
        first = asyncio.create_task(lane.run("a", partial(gate.work, "first")))
        await asyncio.sleep(0)
        second = asyncio.create_task(lane.run("a", partial(gate.work, "second")))
        await asyncio.sleep(0)
        second.cancel()
        third = asyncio.create_task(lane.run("a", partial(gate.work, "third")))
        await asyncio.sleep(0)
        gate.open.set()
        await asyncio.gather(first, third)
        return gate.served

    assert asyncio.run(ask()) == ["first", "third"]
    lane.close()


def test_work_of_clients_that_left_is_not_begun():
    lane, is_there = Lane("test", 1, 10), [True]

    async def ask():
        gate = Gate()
        first = asyncio.create_task(lane.run("a", partial(gate.work, "first")))
        await asyncio.sleep(0)
        second = asyncio.create_task(
            lane.run("a", partial(gate.work, "second"), is_wanted=is_there.pop)
        )
        third = asyncio.create_task(
            lane.run("a", partial(gate.work, "third"), is_wanted=lambda: False)
        )
        await asyncio.sleep(0)
        gate.open.set()
        with pytest.raises(Gone):
            await third
        await asyncio.gather(first, second)
        return gate.served

    assert asyncio.run(ask()) == ["first", "second"]
    lane.close()


# -- connections ---------------------------------------------------------------------------------


def test_connections_that_do_nothing_disturb_nobody(http):
    """As many as the system lets both ends have in this process; 10,000 are a benchmark."""
    resource = pytest.importorskip("resource", reason="needs limits of open files")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    many = min(1000, (hard - 300) // 2)
    running = http.running
    connections = running.server.server_state.connections

    def works():
        for i in range(30):
            assert http.get("/livez").status_code == 200
            assert http.post(FEEDBACK, json=triplet(id=f"n{i}")).status_code == 200

    works()
    with contextlib.ExitStack() as idle:
        idle.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        for _ in range(many):
            idle.enter_context(connect(running))
        until(lambda: len(connections) > many)
        works()
        assert len(connections) > many
    until(lambda: len(connections) <= 1)
    works()
