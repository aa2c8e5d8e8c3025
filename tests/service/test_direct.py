"""Feedback on the short way is answered as on the long one."""

import json
import socket
import threading

import httpx
import pytest

from similia.service import guard
from similia.service.errors import Full
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
            answers.append(told(client, requests))
        room = running.service.room
        assert (room.active, room.present, room.held) == (0, 0, 0)
    assert answers[0] == answers[1]


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
    """Answer to a judgement that comes in one piece, as the short way asks for."""
    with socket.create_connection(("127.0.0.1", running.port), PATIENCE) as connection:
        connection.sendall(raw(json.dumps(GOOD).encode()))
        return answers_of(connection, 1)[0]


def raw(body):
    head = f"POST /v1/default/feedback HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}"
    return f"{head}\r\ncontent-type: application/json\r\n\r\n".encode() + body


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
