"""Several processes on one database: one writes, any number rank, each takes every request."""

import os
import signal
from contextlib import ExitStack, closing

import httpx
import pytest

pytest.importorskip("psycopg", reason="needs psycopg")

from similia.client import Client
from similia.service.http.app import Service
from similia.service.http.keys import Keys
from similia.service.log.postgres import postgres_log
from similia.service.log.records import Item
from similia.service.settings import Settings
from tests.service.conftest import PATIENCE, WIDTH, Process, some_items, triplet, until

ITEMS = [{"id": item.id, "vectors": item.vectors} for item in some_items()]


@pytest.fixture
def database(server, name):
    return server.database(name.replace("-", "_"))


@pytest.fixture
def writer(start, database, tmp_path):
    """A service that writes, and what its followers share with it."""
    return start(store=database, cache=str(tmp_path / "w"), keys=str(tmp_path / "keys.json"))


@pytest.fixture
def follow(start, database, tmp_path, writer):
    def started(**changes):
        options = {"cache": str(tmp_path / "f"), "keys": str(tmp_path / "keys.json")}
        return start(items=False, store=database, follow=True, **options, **changes)

    return started


@pytest.fixture
def clients():
    """A client of each."""
    with ExitStack() as stack:

        def made(*runnings):
            options = {"timeout": PATIENCE}
            return [
                stack.enter_context(httpx.Client(base_url=each.url, **options)) for each in runnings
            ]

        yield made


def test_a_client_may_talk_to_any_of_them(writer, follow, clients):
    ends = clients(writer, follow(), follow())
    rank = {"query": {"item": "i0"}, "k": 10}
    for turn in range(9):
        told = ends[turn % 3].post("/v1/default/feedback", json=triplet(0, 1 + turn, 20))
        assert told.is_success, told.text
        seq = told.json()["results"][0]["seq"]
        for end in ends:
            found = end.post("/v1/default/rank", json={**rank, "min_seq": seq})
            assert found.json()["seq"] >= seq
    found = [end.post("/v1/default/rank", json={**rank, "min_seq": seq}).json() for end in ends]
    assert found[0] == found[1] == found[2]
    again = ends[1].post("/v1/default/feedback", json=triplet(0, 1, 20)).json()
    assert again["results"][0]["duplicate"]


def test_what_changes_a_log_is_done_by_the_process_that_writes_it(writer, follow, clients):
    (end,) = clients(follow())
    put = end.put("/v1/default/items/a%2Fb", json={"vectors": {"vectors": [1.0] * WIDTH}})
    assert put.is_success, put.text
    assert end.get("/v1/default/items/a/b").json()["id"] == "a/b"
    told = end.post("/v1/default/feedback", json=triplet(0, 1, 2, id="one")).json()
    assert end.post("/v1/default/feedback/one/retract").json()["seq"] > told["results"][0]["seq"]
    assert end.get("/v1/default/next?n=2").json()["questions"]
    assert end.delete("/v1/default/items/a/b").is_success
    assert end.get("/v1/default/items/a/b").status_code == 404
    assert end.put("/v1/other").is_success
    assert end.get("/v1").json()["tenants"] == ["default", "other"]
    assert end.get("/v1/other/status").json()["items"] == 0
    assert end.post("/v1/default/promote").status_code == 422  # nothing to decide by
    wrong = end.post("/v1/default/feedback", json={"kind": "triplet"})
    assert wrong.status_code == 422
    assert "error" in wrong.json()


def test_keys_are_asked_for_by_each_of_them(start, database, tmp_path, clients):
    keys = Keys(tmp_path / "keys.json")
    _, judge = keys.add("default", ("feedback",), judge="anna")
    _, reader = keys.add("default", ("read",))
    options = {"store": database, "keys": str(tmp_path / "keys.json")}
    start(cache=str(tmp_path / "w"), **options)
    follower = start(items=False, follow=True, cache=str(tmp_path / "f"), **options)
    (end,) = clients(follower)

    def post(token, **more):
        headers = {"authorization": f"Bearer {token}"} if token else {}
        return end.post("/v1/default/feedback", json=triplet(0, 1, 2, **more), headers=headers)

    assert post(None).status_code == 401
    assert post("sk_wrong_key").status_code == 401
    assert post(reader).status_code == 403
    assert post(judge, judge="bert").status_code == 403
    assert post(judge).is_success
    found = end.get("/v1/default/feedback", headers={"authorization": f"Bearer {reader}"}).json()
    assert [each["record"]["judge"] for each in found["judgements"]] == ["anna"]


def test_health_and_numbers_of_a_follower(writer, follow, clients):
    (end,) = clients(follow())
    ready = end.get("/readyz").json()
    assert ready["status"] == "ready"
    assert ready["behind"] == 0
    assert 0 <= ready["heard"] < PATIENCE
    assert 'similia_heard_seconds{tenant="default"}' in end.get("/metrics").text
    (end,) = clients(writer)
    assert end.get("/readyz").json() == {"status": "ready"}


def test_a_follower_without_its_database(server, writer, follow, clients):
    ends = clients(follow(max_silence=0.5), follow())
    rank = {"query": {"item": "i0"}, "k": 3}
    server.stop()
    try:
        for end in ends:
            assert end.post("/v1/default/rank", json=rank).is_success
            told = end.post("/v1/default/feedback", json=triplet(0, 1, 2))
            assert told.status_code == 503
            assert told.headers["retry-after"]
            newer = end.post("/v1/default/rank", json={**rank, "min_seq": 10**6})
            assert newer.status_code == 503
        until(lambda: ends[0].get("/readyz").status_code == 503)
        assert ends[1].get("/readyz").is_success
    finally:
        server.start()
    until(lambda: ends[0].get("/readyz").is_success)
    until(lambda: ends[0].post("/v1/default/feedback", json=triplet(0, 1, 2)).is_success)


def test_a_tenant_may_live_on_some_of_them_only(start, database, tmp_path, clients):
    """Each request is answered by a process that has the tenant."""
    options = {"store": database, "keys": str(tmp_path / "no.json")}
    for name in ("a", "b"):
        start(tenant=name, tenants=name, cache=str(tmp_path / name), **options)
    follower = start(
        items=False, follow=True, tenant="a", tenants="a", cache=str(tmp_path / "f"), **options
    )
    (end,) = clients(follower)
    for name in ("a", "b"):
        told = end.post(f"/v1/{name}/feedback", json=triplet(0, 1, 2)).json()
        asked = {"query": {"item": "i0"}, "min_seq": told["results"][0]["seq"]}
        assert end.post(f"/v1/{name}/rank", json=asked).is_success
    assert [tenant.name for tenant in follower.service.tenants.opened()] == ["a"]
    missing = end.post("/v1/c/feedback", json=triplet(0, 1, 2))
    assert missing.status_code == 503
    assert "no process writes 'c'" in missing.json()["error"]


def test_requests_are_not_handed_round(writer, follow, clients):
    follower = follow()
    (end,) = clients(follower)
    found = end.post(
        "/v1/default/feedback", json=triplet(0, 1, 2), headers={"similia-process": "1"}
    )
    assert found.status_code == 503


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"follow": True, "store": "folder"}, "store must be a postgresql:// URL"),
        ({"tenants": "a,b", "tenant": "c"}, "tenant must be one of tenants, a, b, got 'c'"),
        ({"address": "somewhere"}, "address must be a URL"),
        ({"address": f"http://{'x' * 60}"}, "of at most 63 characters"),
    ],
)
def test_settings_of_several_processes_must_fit(given, message):
    with pytest.raises(ValueError, match=message):
        Settings(**given)


def test_a_follower_takes_no_items_at_the_start(tmp_path):
    settings = Settings(store="postgresql://nowhere", follow=True, keys=str(tmp_path / "keys"))
    with pytest.raises(ValueError, match="the process that writes"):
        Service(settings, items=object())


def test_another_process_takes_over_and_followers_find_it(server, name, database, tmp_path):
    """The writer is killed; the stand-by writes, and followers hand on to it."""
    flags = ["--keys", str(tmp_path / "keys.json")]
    ours = []

    def serve(*more):
        ours.append(Process(database, *flags, *more))
        return ours[-1]

    try:
        first = serve("--cache", str(tmp_path / "1"))
        with Client(first.url) as client:
            client.put_items([Item(id=i["id"], vectors=i["vectors"]) for i in ITEMS])
        follower = serve("--cache", str(tmp_path / "3"), "--follow")
        told = httpx.post(f"{follower.url}/v1/default/feedback", json=triplet(0, 1, 2))
        assert told.is_success
        first.stop("kill")
        refused = httpx.post(
            f"{follower.url}/v1/default/feedback", json=triplet(0, 3, 4), timeout=PATIENCE
        )
        assert refused.status_code == 503
        serve("--cache", str(tmp_path / "2"))
        with Client(follower.url) as client:  # which tries again
            receipt = client.prefer({"item": "i0"}, better="i5", worse="i6")
            assert client.rank({"item": "i0"}, min_seq=receipt.seq).seq >= receipt.seq
            assert receipt.seq == told.json()["results"][0]["seq"] + 1
    finally:
        for each in ours:
            if each.process.poll() is None:
                each.stop("kill")


def test_a_writer_that_was_replaced_while_the_database_was_away_ends(server, database, tmp_path):
    flags = ["--keys", str(tmp_path / "keys.json"), "--cache", str(tmp_path / "cache")]
    process = Process(database, *flags)
    try:
        os.kill(process.process.pid, signal.SIGSTOP)
        server.stop()
        server.start()
        with closing(postgres_log(database, "default")):
            os.kill(process.process.pid, signal.SIGCONT)
            assert process.process.wait(PATIENCE) == 1
            process.stop()
    finally:
        if process.process.poll() is None:
            process.stop("kill")
    assert "another process has it" in process.lines[-1]
