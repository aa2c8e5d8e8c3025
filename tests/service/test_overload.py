"""One caller never stops another: those without a key, slow ones, greedy ones, and bulk work."""

import contextlib
import json
import socket
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from similia.service.engine import learner as learning
from similia.service.http import calls, keys
from similia.service.http.app import ENDPOINTS
from similia.service.http.keys import Keys
from similia.service.http.server import Door
from similia.service.settings import Settings
from tests.service.conftest import PATIENCE, WIDTH, some_items, triplet, until

RANK = {"query": {"item": "i0"}, "k": 3}
FEEDBACK = "/v1/default/feedback"


@pytest.fixture
def tokens(tmp_path):
    """Keys of two callers; the service needs keys from the start."""
    file = Keys(tmp_path / "store" / "keys.json")
    return [file.add("default", ("admin",))[1] for _ in range(2)]


@contextlib.contextmanager
def client_of(running, token):
    headers = {"authorization": f"Bearer {token}"}
    with httpx.Client(base_url=running.url, headers=headers, timeout=PATIENCE) as client:
        yield client


def connect(running, buffer=None):
    connection = socket.socket()
    if buffer is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
    connection.settimeout(PATIENCE)
    connection.connect(("127.0.0.1", running.port))
    return connection


def request(method, path, token=None, body=b"", length=None):
    lines = [f"{method} {path} HTTP/1.1", "host: x", f"content-length: {length or len(body)}"]
    lines += ["content-type: application/json"]
    lines += [f"authorization: Bearer {token}"] if token else []
    return "\r\n".join([*lines, "", ""]).encode() + body


def works(client):
    """Whether ranking, feedback and a sign of life are had."""
    assert client.get("/livez").status_code == 200
    assert client.post("/v1/default/rank", json=RANK).status_code == 200
    assert client.post(FEEDBACK, json=triplet()).status_code == 200
    return True


# -- callers without a key -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /", request("POST", FEEDBACK, length=9000, body=b"{"), request("GET", "/livez")],
    ids=["nothing", "half a head", "half a body", "a sign of life"],
)
def test_connections_without_a_key_take_no_place_of_those_with_one(start, tokens, sent):
    running = start(max_requests=16)
    with contextlib.ExitStack() as stack:
        strangers = [stack.enter_context(connect(running)) for _ in range(520)]
        for stranger in strangers:
            stranger.sendall(sent)
        with client_of(running, tokens[0]) as client:
            assert works(client)
        assert running.service.calls.taken == running.service.received.taken == 0


def test_of_too_many_connections_without_a_key_the_oldest_goes(start, tokens):
    running = start()
    running.server.door.places = 20
    with client_of(running, tokens[0]) as client, contextlib.ExitStack() as stack:
        assert works(client)
        known = client._transport._pool.connections
        strangers = [stack.enter_context(connect(running)) for _ in range(50)]
        gone = 0
        for stranger in strangers[:30]:
            with contextlib.suppress(ConnectionResetError):
                assert stranger.recv(1) == b""
            gone += 1
        assert gone == 30
        assert works(client)
        assert client._transport._pool.connections == known  # the same connection as before
        strangers[-1].sendall(request("GET", "/livez"))
        assert strangers[-1].recv(12) == b"HTTP/1.1 200"


def test_of_too_many_connections_the_oldest_of_the_key_with_most_goes(start, tokens):
    running = start()
    door = running.server.door
    door.places = 20
    with client_of(running, tokens[1]) as modest, contextlib.ExitStack() as stack:
        assert works(modest)
        held = []
        for _ in range(30):
            held.append(stack.enter_context(connect(running)))
            held[-1].sendall(request("GET", "/v1/default/status", tokens[0]))
            assert held[-1].recv(12) == b"HTTP/1.1 200"
        for connection in held[:11]:
            with contextlib.suppress(ConnectionResetError):
                while connection.recv(65536):
                    pass
        assert works(modest)
        assert sorted(map(len, door.known.values())) == [1, 19]
        with connect(running) as stranger:
            stranger.sendall(request("GET", "/livez"))
            assert stranger.recv(12) == b"HTTP/1.1 200"
    until(lambda: not door.known and not door.unknown)


def test_half_of_the_handles_or_more_are_for_connections(settings):
    for handles, places in ((1024, 256), (2048, 768), (20_000, 9744)):
        assert Door(Settings(**settings), handles).places == places


def test_signs_of_life_are_never_refused_and_a_flood_of_them_waits(start, tokens, monkeypatch):
    monkeypatch.setattr(keys, "STRANGERS_WAIT", PATIENCE)
    running = start(page_rate=0.001, drain=0.1)
    running.service.auth._signs.burst = 3.0
    with connect(running) as flood:
        flood.sendall(30 * request("GET", "/livez"))
        answers = b""
        while answers.count(b"alive") < 4:
            answers += flood.recv(65536)
        for _ in range(20):
            with connect(running) as probe:
                probe.sendall(request("GET", "/readyz"))
                assert probe.recv(12) == b"HTTP/1.1 200"
        flood.settimeout(0.1)
        with pytest.raises(TimeoutError):
            flood.recv(1)
        with client_of(running, tokens[0]) as client:
            assert client.post("/v1/default/rank", json=RANK).status_code == 200


def test_requests_that_are_sent_ahead_wait_as_bytes(start, tokens):
    """uvicorn keeps 3 KB for each head that it was given."""
    running = start(page_rate=0.0)
    ranked = request("POST", "/v1/default/rank", tokens[0], json.dumps(RANK).encode())
    lines = 40 * b"\r\n\r\n"  # between the numbers of a body
    spaced = request("POST", FEEDBACK, tokens[0], lines + json.dumps(triplet()).encode() + lines)
    ahead = 400 * request("GET", "/livez") + spaced + 400 * request("GET", "/livez")
    answers, longest = b"", 0
    with connect(running) as connection:
        connection.sendall(ranked)
        answers += connection.recv(65536)
        connection.sendall(ahead + ranked)
        while answers.count(b"HTTP/1.1 200") < 803 or not answers.endswith(b"]}"):
            answers += (received := connection.recv(65536))
            assert received, "the service has closed the connection"
            protocols = list(running.server.server_state.connections)
            longest = max([longest, *(len(each.pipeline) for each in protocols)])
    assert longest <= 2
    ends = [answers.find(b'"results"'), answers.find(b"alive"), answers.rfind(b'"results"')]
    assert ends == sorted(ends)


@pytest.mark.parametrize("path", [FEEDBACK, "/livez"])
def test_no_body_is_taken_from_callers_without_a_key(start, tokens, path):
    running = start()
    running.service.auth._wrong.rate, running.service.auth._wrong.burst = 0.001, 0.0  # they wait
    given = []
    with connect(running) as connection:
        until(lambda: running.server.server_state.connections)
        (protocol,) = running.server.server_state.connections
        take = protocol.data_received
        protocol.data_received = lambda data: given.append(len(data)) or take(data)
        with contextlib.suppress(ConnectionError):
            connection.sendall(request("POST", path, length=10**6, body=10_000 * b"x"))
            while connection.recv(65536):
                pass
    assert len(given) == 1
    with client_of(running, tokens[0]) as client:
        assert works(client)


def test_a_body_in_chunks_of_a_byte_is_a_body(start, tokens):
    running = start()
    chunks = request("POST", FEEDBACK, tokens[0]).replace(
        b"content-length: 0", b"transfer-encoding: chunked"
    )
    body = json.dumps(triplet()).encode()
    chunks += b"".join(b"1\r\n%c\r\n" % each for each in body.ljust(40_000)) + b"0\r\n\r\n"
    with connect(running) as connection:
        connection.sendall(chunks)
        assert connection.recv(12) == b"HTTP/1.1 200"


def test_pages_have_a_rate_and_requests_behind_it_are_dropped(start, tokens):
    running = start(page_rate=0.001)
    service = running.service
    service.auth._pages.burst = 5.0
    with connect(running) as connection:
        connection.sendall(20 * request("GET", "/"))
        answers = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(65536):
                answers += part
    assert answers.count(b"HTTP/1.1 200") == 5
    assert answers.count(b"HTTP/1.1 429") <= 1
    with client_of(running, tokens[0]) as client:
        assert works(client)


def test_strangers_who_ask_too_often_wait_and_are_disconnected(start, tokens):
    running = start(wrong_rate=0.001)
    running.service.auth._wrong.burst = 2.0
    wrong = request("GET", "/v1/default/status", "sk_no_such")
    with contextlib.ExitStack() as stack, client_of(running, tokens[0]) as client:
        strangers = [stack.enter_context(connect(running)) for _ in range(10)]
        for stranger in strangers[:2]:
            stranger.sendall(wrong)
            assert stranger.recv(12) == b"HTTP/1.1 401"
        for stranger in strangers[2:]:
            stranger.sendall(wrong)
        assert works(client)
        for stranger in strangers[2:]:
            assert stranger.recv(12) == b"HTTP/1.1 429"
            while stranger.recv(65536):
                pass
        assert works(client)


def test_a_flood_of_heads_in_one_piece_ends_the_connection(start, tokens):
    running = start()
    with connect(running) as connection, contextlib.suppress(ConnectionResetError):
        connection.sendall(1000 * request("GET", "/livez"))
        while connection.recv(65536):
            pass
    with client_of(running, tokens[0]) as client:
        assert works(client)


# -- bytes -----------------------------------------------------------------------------------------


def test_half_sent_bodies_of_one_key_do_not_stop_another(start, tokens):
    body = 16 * 1024
    running = start(max_body=body, max_buffered=8 * body)
    received = running.service.received
    with contextlib.ExitStack() as stack:
        greedy = [stack.enter_context(connect(running)) for _ in range(16)]
        for each in greedy:
            each.sendall(request("POST", FEEDBACK, tokens[0], b" " * (body - 1), length=body))
        until(lambda: received.taken > received.quota - body)
        with client_of(running, tokens[1]) as client:
            assert works(client)
        assert received.taken <= received.quota
        # What has no room is told so at once.
        answers = [each.recv(12) for each in greedy if _is_answered(each)]
        assert set(answers) == {b"HTTP/1.1 429"}
    until(lambda: received.taken == 0)


def _is_answered(connection):
    connection.settimeout(0.5)
    try:
        return bool(connection.recv(1, socket.MSG_PEEK))
    except TimeoutError:
        return False


@pytest.fixture
def long_log(start, tokens):
    """A service with a list of judgements that is longer than any buffer of a socket."""

    def started(**changes):
        running = start(**changes)
        rows = [
            triplet(id=f"{n}", query=n % 30, better=(n + 1) % 30, worse=(n + 2) % 30)
            | {"query": {"text": "x" * 30_000, "item": f"i{n % 30}"}}
            for n in range(300)
        ]
        with client_of(running, tokens[0]) as client:
            for place in range(0, 300, 100):
                batch = {"judgements": rows[place : place + 100]}
                assert client.post(FEEDBACK, json=batch).status_code == 200
        return running

    return started


def test_slow_readers_hold_little_and_stop_nobody(long_log, tokens):
    running = long_log(max_requests=32)
    calls, listing = running.service.calls, request("GET", f"{FEEDBACK}?limit=1000", tokens[0])
    with contextlib.ExitStack() as stack:
        slow = [stack.enter_context(connect(running, 4096)) for _ in range(20)]
        for each in slow:
            each.sendall(listing)
        until(lambda: calls.taken == calls.quota)
        with client_of(running, tokens[1]) as client:
            assert works(client)
            assert client.get(f"{FEEDBACK}?limit=1000").json()["judgements"][299]["record"]["id"]
        connections = list(running.server.server_state.connections)
        held = sum(each.transport.get_write_buffer_size() for each in connections)
        # Of 9 MB for each no more is made than one part of 50 rows.
        assert held < 20 * 2 * 50 * 31_000
    until(lambda: calls.taken == 0)


def test_a_list_that_nobody_reads_is_cut_off(long_log, tokens):
    running = long_log(write_timeout=0.3)
    with connect(running, 4096) as slow:
        slow.sendall(request("GET", f"{FEEDBACK}?limit=1000", tokens[0]))
        until(lambda: running.service.calls.taken == 1)
        until(lambda: running.service.calls.taken == 0)
    with client_of(running, tokens[0]) as client:
        assert works(client)


def test_a_list_in_parts_is_the_list(long_log, tokens):
    running = long_log()
    with client_of(running, tokens[0]) as client:
        for limit in (1, 49, 50, 51, 300, 1000):
            found = client.get(f"{FEEDBACK}?limit={limit}").json()["judgements"]
            assert [row["record"]["id"] for row in found] == [
                str(n) for n in range(min(limit, 300))
            ]
        assert client.get(f"{FEEDBACK}?query=nobody").json() == {"judgements": []}
        assert client.get(f"{FEEDBACK}?limit=0").status_code == 422


# -- work ------------------------------------------------------------------------------------------


def test_threads_that_rank_are_taken_by_nothing_else():
    found = {each.handle.__name__ for each in ENDPOINTS if each.lane == "search"}
    assert found == {"rank", "query_vectors"}


def test_ranking_and_feedback_go_on_while_all_other_threads_are_at_work(start, tokens):
    running, gate = start(), threading.Event()
    others = [lane for name, lane in running.service.lanes.items() if name != "search"]
    try:
        for lane in others:
            for _ in range(lane._free):
                lane._executor.submit(gate.wait)
        with client_of(running, tokens[0]) as client:
            assert works(client)
    finally:
        gate.set()


def test_long_explanations_are_bulk_work(start, tokens):
    running, gate = start(), threading.Event()
    lane = running.service.lanes["bulk"]

    def explained(k):
        with client_of(running, tokens[0]) as client:
            return client.post("/v1/default/rank", json={**RANK, "k": k, "explain": True})

    with ThreadPoolExecutor(1) as pool:
        lane._executor.submit(gate.wait)
        long = pool.submit(explained, 51)
        until(lambda: not lane._free)
        assert explained(50).status_code == 200
        assert not long.done()
        gate.set()
        assert long.result(PATIENCE).status_code == 200


@pytest.mark.parametrize(
    ("body", "status"), [(triplet(), 200), (triplet(weight=-1), 422), ([], 422), (b"{", 400)]
)
def test_long_bodies_are_decoded_like_short_ones(http, monkeypatch, body, status):
    monkeypatch.setattr(calls, "MAX_PROMPT_BODY", 0)
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert http.post(FEEDBACK, content=content, headers=JSON).status_code == status


MANY = {"queries": [{"item": f"i{n % 30}"} for n in range(25)]}


def test_bulk_work_beyond_its_lane_is_refused_and_ranking_goes_on(start, tokens):
    running = start(threads=1, max_waiting=8)
    tenant = running.service.tenants.get("default")
    gate, inside, order = threading.Event(), threading.Event(), []
    transform = tenant.query_vectors

    def slowly(query, **named):
        inside.set()
        assert gate.wait(PATIENCE)
        order.append(query.id)
        return transform(query, **named)

    tenant.query_vectors = slowly
    lane = running.service.lanes["bulk"]

    def ask(token, name):
        queries = {"queries": [{**each, "id": name} for each in MANY["queries"]]}
        with client_of(running, token) as client:
            return client.post("/v1/default/query-vectors", json=queries)

    with ThreadPoolExecutor(16) as pool, client_of(running, tokens[1]) as other:
        asked = [pool.submit(ask, tokens[0], "greedy") for _ in range(8)]
        assert inside.wait(PATIENCE)
        until(lambda: sum(each.done() for each in asked) == 8 - 1 - lane.quota)
        for refused in (each.result() for each in asked if each.done()):
            assert refused.status_code == 429
            assert int(refused.headers["retry-after"]) >= 1
        modest = pool.submit(ask, tokens[1], "modest")
        until(lambda: len(lane._queues) == 2)
        assert works(other)
        gate.set()
        assert modest.result(PATIENCE).status_code == 200
        assert sorted(each.result(PATIENCE).status_code for each in asked).count(200) == 5
    # The other key's pieces came in between, not after all that waited before it.
    assert order.index("modest") < 25
    assert max(place for place, name in enumerate(order) if name == "modest") < 4 * 25


def test_vectors_in_pieces_are_those_of_one_piece(http):
    whole = http.post("/v1/default/query-vectors", json=MANY).json()
    single = [
        http.post("/v1/default/query-vectors", json={"queries": [query]}).json()
        for query in MANY["queries"]
    ]
    assert whole["vectors"] == [found["vectors"][0] for found in single]
    assert whole["revision"] == single[0]["revision"]
    assert len(whole["vectors"][0]["vectors"]) == WIDTH


def test_to_wait_for_what_is_learnt_costs_no_thread(start, tokens):
    running = start(threads=1)
    learner = running.service.tenants.get("default").learner

    def wait_for(seq):
        with client_of(running, tokens[0]) as client:
            return client.post("/v1/default/rank", json={**RANK, "min_seq": seq}).json()["seq"]

    with client_of(running, tokens[1]) as client, ThreadPoolExecutor(20) as pool:
        with learner._folding:  # nothing is learnt
            answer = client.post(FEEDBACK, content=json.dumps(triplet()), headers=JSON)
            seq = answer.json()["results"][0]["seq"]
            waiting = [pool.submit(wait_for, seq) for _ in range(20)]
            until(lambda: len(learner._waiters) == 20)
            for _ in range(3):
                assert client.post("/v1/default/rank", json=RANK).status_code == 200
            assert not any(each.done() for each in waiting)
        assert all(each.result(PATIENCE) >= seq for each in waiting)


@pytest.fixture
def behind(start, tokens, monkeypatch):
    """A service with two tenants, of which the first learns nothing for a while."""
    running = start(threads=1)
    tenants = running.service.tenants
    tenants.create("other").put_items(some_items())
    file = running.service.keys
    other = file.add("other", ("admin",))[1]
    learner = tenants.get("default").learner
    with client_of(running, tokens[0]) as here, client_of(running, other) as there:
        here.tenant, there.tenant = "default", "other"
        with learner._folding:
            assert here.post(FEEDBACK, json=triplet()).status_code == 200
            until(lambda: not learner._rows)  # taken, and not learnt
            assert here.post(FEEDBACK, json=triplet(id="more")).status_code == 200
            yield running, here, there


UNKNOWN = {"item": "nobody"}
#: requests about what was perhaps put just now, and how they end once that is known
PERHAPS = [
    ("POST", "rank", {"query": UNKNOWN}, 422),
    ("POST", "query-vectors", {"queries": [UNKNOWN]}, 422),
    ("POST", "feedback", triplet() | {"query": UNKNOWN}, 422),
    ("POST", "feedback", {"judgements": 200 * [triplet() | {"query": UNKNOWN}]}, 422),
    ("GET", "items/i1", None, 200),
]


@pytest.mark.parametrize(("method", "path", "body", "status"), PERHAPS)
def test_to_wait_for_what_was_put_just_now_costs_no_thread(
    behind, tokens, method, path, body, status
):
    running, here, there = behind
    learner = running.service.tenants.get("default").learner

    def ask(client):
        return client.request(method, f"/v1/{client.tenant}/{path}", json=body).status_code

    with ThreadPoolExecutor(12) as pool:
        waiting = [pool.submit(ask, here) for _ in range(12)]
        until(lambda: len(learner._waiters) == 12)
        assert ask(there) == status
        assert there.post("/v1/other/rank", json=RANK).status_code == 200
        assert here.post("/v1/default/rank", json=RANK).status_code == 200
        assert not any(each.done() for each in waiting)
        learner._folding.release()  # learning goes on
        try:
            assert {each.result(PATIENCE) for each in waiting} == {status}
        finally:
            learner._folding.acquire()


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("PUT", "items/i1", {"vectors": {"vectors": WIDTH * [1.0]}}),
        ("DELETE", "items/i1", None),
        ("POST", "feedback/more/retract", None),
    ],
)
def test_a_log_that_waits_for_its_learner_holds_no_thread(behind, monkeypatch, method, path, body):
    running, here, there = behind
    monkeypatch.setattr(learning, "MAX_UNLEARNT_ROWS", 0)
    learner = running.service.tenants.get("default").learner
    until(lambda: learner.is_far_behind)  # it hears of a row after the sender
    answer = here.request(method, f"/v1/default/{path}", json=body)
    assert answer.status_code == 503
    assert int(answer.headers["retry-after"]) >= 1
    assert there.delete("/v1/other/items/i1").status_code == 200


JSON = {"content-type": "application/json"}
