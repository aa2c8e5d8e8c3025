"""Feedback on the short way is answered as on the long one."""

import gc
import json
import socket
import threading
import time

import httpx
import pytest
from similia.service.http.cycles import Brief

from similia.client import Client
from similia.service.errors import Full
from similia.service.http import direct, guard, protocol
from similia.service.log.writer import Request
from tests.service.conftest import PATIENCE, WIDTH, triplet, until

JSON = {"content-type": "application/json"}
GOOD = triplet(id="a")


def posted(body, path="/v1/default/feedback", headers=JSON):
    return path, body if isinstance(body, bytes) else json.dumps(body).encode(), headers


REQUESTS = {
    "one": [posted(GOOD)],
    "twice": [posted(GOOD), posted(GOOD)],
    "without an id": [posted(triplet())],
    "another body": [posted(GOOD), posted(triplet(id="a", better=3))],
    "a batch": [posted({"judgements": [triplet(id=str(i), query=i) for i in range(20)]})],
    "a batch with a known one": [posted(GOOD), posted({"judgements": [GOOD, triplet(id="b")]})],
    "a batch with a wrong one": [posted({"judgements": [GOOD, triplet(better=99)]})],
    "a vector": [posted({**GOOD, "query": {"vectors": {"vectors": [1.0] * WIDTH}}})],
    "a short vector": [posted({**GOOD, "query": {"vectors": {"vectors": [1.0]}}})],
    "a text": [posted({**GOOD, "query": {"text": "blue"}})],
    "an unknown item": [posted(triplet(worse=99))],
    "the same item": [posted(triplet(better=1, worse=1))],
    "no JSON": [posted(b"{")],
    "no body": [posted(b"")],
    "another form": [posted({"kind": "praise"})],
    "no type": [posted(GOOD, headers={})],
    "a parameter": [posted(GOOD, "/v1/default/feedback?a=1")],
    "no such tenant": [posted(GOOD, "/v1/nobody/feedback")],
    "a bad tenant": [posted(GOOD, "/v1/No%20body/feedback")],
    "a long body": [posted({**GOOD, "query": {"item": "i0", "text": "x" * 70_000}})],
    "an id of the request": [posted(GOOD, headers={**JSON, "x-request-id": "mine"})],
}


def told(client, requests):
    """Answers, without what differs from time to time."""
    found = []
    for path, body, headers in requests:
        answer = client.post(path, content=body, headers=headers)
        content = answer.json()
        if headers.get("x-request-id") is None:
            content.pop("request_id", None)
        headers = {k: v for k, v in answer.headers.items() if k not in ("date", "x-request-id")}
        if answer.status_code >= 400:
            del headers["content-length"]
        found.append((answer.status_code, content, headers))
    return found


@pytest.mark.parametrize("requests", REQUESTS.values(), ids=REQUESTS)
def test_both_ways_answer_alike(start, tmp_path, requests):
    answers = []
    for short in (True, False):
        running = start(store=str(tmp_path / str(short)))
        direct_of(running)._open = short
        with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
            # The second time heads are known, and bodies come after them.
            answers.append(told(client, requests) + told(client, requests))
        room = running.service.room
        assert (room.active, room.present, room.held) == (0, 0, 0)
    assert answers[0] == answers[1]


def test_a_batch_beyond_the_limit_is_refused_though_it_looks_plain(start):
    running = start(max_batch=2)
    judgements = [triplet(id=str(i)) for i in range(3)]
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        for _ in range(2):
            answer = client.post("/v1/default/feedback", json={"judgements": judgements})
            assert answer.status_code == 422
            assert "at most 2" in answer.json()["error"]
    status, answer = answer_to(running, json.dumps({"judgements": judgements}).encode())
    assert status == 422
    assert "at most 2" in answer["error"]


def direct_of(running):
    return running.server.config.http.direct


def test_what_is_ordinary_goes_the_short_way(http, monkeypatch):
    async def long_way(*_):
        raise AssertionError("the long way")

    monkeypatch.setattr(guard.Exchange, "run", long_way)
    status, answer = answer_to_good(http.running)
    assert status == 200
    assert answer["results"][0]["id"] == "a"


def answer_to_good(running):
    return answer_to(running, json.dumps(GOOD).encode())


def answer_to(running, body):
    """Answer to feedback that comes in one piece: a head that is new goes the short way so."""
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
        connection.sendall(raw(body))
        return answers_of(connection, 1)[0]


def raw(body, more=""):
    head = f"POST /v1/default/feedback HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}"
    return f"{head}\r\n{more}content-type: application/json\r\n\r\n".encode() + body


def answers_of(connection, n):
    """Bodies of n answers, in order."""
    data = b""
    found = []
    while len(found) < n:
        part = connection.recv(65_536)
        assert part, data
        data += part
        while b"\r\n\r\n" in data:
            head, _, rest = data.partition(b"\r\n\r\n")
            length = int(head.partition(b"content-length: ")[2].split(b"\r")[0])
            if len(rest) < length:
                break
            found.append((int(head[9:12]), json.loads(rest[:length])))
            data = rest[length:]
    return found


def test_requests_sent_in_one_go_are_answered_in_order(http):
    bodies = [json.dumps(triplet(id=f"p{i}")).encode() for i in range(4)]
    bodies[2] = b"{"
    with socket.create_connection(("127.0.0.1", http.running.port), PATIENCE) as connection:
        connection.sendall(b"".join(map(raw, bodies)))
        found = answers_of(connection, 4)
    assert [status for status, _ in found] == [200, 200, 400, 200]
    assert [found[i][1]["results"][0]["id"] for i in (0, 1, 3)] == ["p0", "p1", "p3"]


def test_what_is_answered_is_forgotten_at_once(http):
    """No circles of references, which only a collector of garbage would find."""

    def left():
        kinds = (Brief, direct.Sent, guard.Exchange, Request)
        return sum(isinstance(each, kinds) for each in gc.get_objects())

    with socket.create_connection(("127.0.0.1", http.running.port), PATIENCE) as connection:
        gc.collect()
        gc.disable()
        try:
            before = left()
            for i in range(20):
                connection.sendall(raw(json.dumps(triplet(id=f"p{i:02d}")).encode()))
                assert answers_of(connection, 1)[0][0] == 200
            until(lambda: left() <= before + 8)  # the last one, and its time limit
        finally:
            gc.enable()


def test_a_body_may_come_in_parts(http):
    request = raw(json.dumps(GOOD).encode())
    with socket.create_connection(("127.0.0.1", http.running.port), PATIENCE) as connection:
        connection.sendall(request[:-30])
        until(lambda: http.running.service.room.active == 1)
        connection.sendall(request[-30:] + request)
        found = answers_of(connection, 2)
    assert [answer["results"][0]["duplicate"] for _, answer in found] == [False, True]


@pytest.fixture
def gate(start):
    """A service whose log writes only while its gate is open, with a second for each request."""
    running = start(timeout=1.0)
    log, open_ = running.service.tenants.get("default").log, threading.Event()
    insert = log._store.insert

    def wait(rows):
        open_.wait()
        return insert(rows)

    log._store.insert = wait
    yield running, open_
    open_.set()


def test_what_takes_too_long_gets_an_answer_and_may_be_sent_again(gate):
    running, open_ = gate
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        late = client.post("/v1/default/feedback", json=GOOD)
        assert late.status_code == 503
        assert late.headers["retry-after"] == "1"
        assert late.headers["x-request-id"] == late.json()["request_id"]
        open_.set()
        until(
            lambda: client.post("/v1/default/feedback", json=GOOD).json()["results"][0]["duplicate"]
        )
    room = running.service.room
    until(lambda: (room.active, room.present, room.held) == (0, 0, 0))


def test_a_client_that_leaves_takes_its_room_with_it(gate):
    running, open_ = gate
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
        connection.sendall(raw(json.dumps(GOOD).encode()))
        until(lambda: running.service.room.active == 1)
    open_.set()
    room = running.service.room
    until(lambda: (room.active, room.present, room.held) == (0, 0, 0))


def test_a_disk_that_was_full_for_a_moment_is_no_error(http):
    store = http.running.service.tenants.get("default").log._store
    insert = store.insert

    def fail(rows):
        store.insert = insert
        raise Full("log: the disk is full")

    store.insert = fail
    status, answer = answer_to_good(http.running)
    assert status == 200
    assert answer["results"][0]["duplicate"] is False


# -- heads that are known ------------------------------------------------------------------------


@pytest.fixture
def known(http):
    """A connection to a service that knows the head of its requests, and their head and body."""
    with socket.create_connection(("127.0.0.1", http.running.port), PATIENCE) as connection:
        connection.sendall(raw(judged("k0")))
        assert answers_of(connection, 1)[0][0] == 200
        yield http.running, connection


def judged(id):
    return json.dumps(triplet(id=id)).encode()


def is_empty(room):
    return (room.active, room.present, room.held) == (0, 0, 0)


@pytest.fixture
def only_short(monkeypatch):
    """Nothing is parsed, and nothing goes the long way, once this is called."""

    def begin():
        async def long_way(*_):
            raise AssertionError("the long way")

        def parsed(*_):
            raise AssertionError("parsed")

        monkeypatch.setattr(guard.Exchange, "run", long_way)
        monkeypatch.setattr(protocol.BoundedProtocol, "_parse", parsed)

    return begin


def test_a_known_head_is_not_parsed_again(known, only_short):
    _, connection = known
    only_short()
    for id in ("k0", "k1", "k2"):
        connection.sendall(raw(judged(id)))
        assert answers_of(connection, 1)[0][1]["results"][0]["duplicate"] is (id == "k0")


@pytest.mark.parametrize("cuts", [(-67,), (-30,), (-67, -30, -1), (10,), (60, 80)])
def test_a_known_request_may_come_in_parts(known, cuts):
    running, connection = known
    request = raw(judged("k1"))
    for begin, end in zip((0, *cuts), (*cuts, None), strict=True):
        connection.sendall(request[begin:end])
        time.sleep(0.02)  # so that parts arrive apart, mostly
    assert answers_of(connection, 1)[0][1]["results"][0]["id"] == "k1"
    assert is_empty(running.service.room)


def test_a_body_after_a_known_head_takes_the_short_way(known, only_short):
    running, connection = known
    head, _, body = raw(judged("k1")).partition(b"\r\n\r\n")
    only_short()
    connection.sendall(head + b"\r\n\r\n")
    until(lambda: running.service.room.active == 1)
    assert running.service.room.held == len(body)
    connection.sendall(body)
    assert answers_of(connection, 1)[0][1]["results"][0]["id"] == "k1"
    assert is_empty(running.service.room)


def test_requests_behind_a_known_one_are_answered_in_order(known):
    _, connection = known
    requests = raw(judged("k1")), raw(judged("k2")), raw(b"{")
    connection.sendall(b"".join(requests)[:-40])
    connection.sendall(b"".join(requests)[-40:])
    assert [status for status, _ in answers_of(connection, 3)] == [200, 200, 400]


def test_a_body_that_never_comes_is_refused_and_gives_its_room_back(start):
    running = start(body_timeout=0.3)
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
        connection.sendall(raw(judged("k0")))
        answers_of(connection, 1)
        connection.sendall(raw(judged("k1"))[:-5])
        status, answer = answers_of(connection, 1)[0]
        assert status == 408
        assert "0.3 seconds" in answer["error"]
        assert connection.recv(1) == b""
    assert is_empty(running.service.room)


def test_a_client_that_leaves_before_its_body_gives_its_room_back(known):
    running, connection = known
    connection.sendall(raw(judged("k1"))[:-5])
    until(lambda: running.service.room.active == 1)
    connection.close()
    until(lambda: is_empty(running.service.room))


def test_what_has_no_room_to_wait_goes_the_long_way(known):
    running, connection = known
    request, running.service.room.size = raw(judged("k1")), 10
    connection.sendall(request[:-5])
    status, answer = answers_of(connection, 1)[0]
    assert status == 503
    assert "large" in answer["error"]


@pytest.mark.parametrize(
    "head",
    [
        b"x-request-id: a\r\n",
        b"x: a\r\n b\r\n",
        b"x: a\nb: c\r\n",
        b"x: \xff\r\n",
        b"x: a\r\nx: b\r\n",
        b"content-encoding: gzip\r\n",
        b"x: %s\r\n" % (b"a" * 3000),
    ],
)
def test_a_head_that_may_be_read_otherwise_is_not_remembered(http, head):
    heads = direct_of(http.running)._heads
    heads.clear()
    with socket.create_connection(("127.0.0.1", http.running.port), PATIENCE) as connection:
        request = raw(judged("k0")).replace(b"host:", head + b"host:")
        connection.sendall(request)
        answers_of(connection, 1)
    assert not heads


def test_heads_are_forgotten_before_there_are_too_many(known, monkeypatch):
    running, connection = known
    monkeypatch.setattr(direct, "MOST_HEADS", 5)
    for i in range(12):
        connection.sendall(raw(judged("k1"), f"x: {i}\r\n"))
        assert answers_of(connection, 1)[0][0] == 200
        assert len(direct_of(running)._heads) <= 5


def test_a_known_head_with_a_key_that_was_revoked_is_refused(start):
    running = start()
    keys = running.service.keys
    key, token = keys.add("default", ("feedback",))
    request = raw(judged("k0"), f"authorization: Bearer {token}\r\n")
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
        statuses = []
        for _ in range(2):
            connection.sendall(request)
            statuses.append(answers_of(connection, 1)[0][0])
        keys.revoke(key.id)
        connection.sendall(request)
        statuses.append(answers_of(connection, 1)[0][0])
    assert statuses == [200, 200, 401]


def test_our_own_client_takes_the_short_way_with_a_head_that_is_known(http, only_short):
    with Client(http.running.url) as client:
        client.prefer({"item": "i0"}, "i1", "i2", id="c0")
        only_short()
        for i in range(1, 5):
            receipt = client.prefer({"item": "i0"}, "i1", "i2", id=f"c{i}")
            assert (receipt.id, receipt.duplicate) == (f"c{i}", False)


def test_a_connection_in_use_is_not_idle(start):
    running = start(keep_alive=1)
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
        end = time.monotonic() + 2.5
        while time.monotonic() < end:
            connection.sendall(raw(judged("k0")))
            assert answers_of(connection, 1)[0][0] == 200
            time.sleep(0.1)
        assert connection.recv(1) == b""  # once it is
