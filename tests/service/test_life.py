"""How a service begins, ends, and begins again: nothing is lost, nothing is doubled."""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from similia.client import Client
from similia.service.errors import Full, Unavailable
from similia.service.http import app
from similia.service.http.app import Service
from similia.service.http.server import listen
from similia.service.log.sqlite import LOG_FILE
from similia.service.settings import Settings
from tests.service.conftest import PATIENCE, Running, some_items, triplet, until


def test_requests_wait_for_the_replay_but_life_is_shown_at_once(settings, monkeypatch):
    """Replay takes long for a long log; meanwhile there is an honest answer."""
    service, gate = Service(Settings(**settings)), threading.Event()
    replay = service._open_tenants
    monkeypatch.setattr(service, "_open_tenants", lambda: (gate.wait(PATIENCE), replay()))
    running = Running(service)
    running.thread.start()
    try:
        until(lambda: running.server.started)
        with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
            assert client.get("/livez").status_code == 200
            for path in ("/readyz", "/v1/default/status"):
                answer = client.get(path)
                assert answer.status_code == 503
                assert answer.headers["retry-after"] == "1"
            gate.set()
            until(lambda: client.get("/readyz").status_code == 200)
            assert client.get("/v1/default/status").status_code == 200
    finally:
        gate.set()
        running.__exit__()


@pytest.mark.parametrize("when", ["first", "beside"])
def test_what_the_first_judgement_needs_is_compiled_before_or_beside(settings, monkeypatch, when):
    """Whoever asks for readiness first waits for the compiler; life is shown at once."""
    gate, warm = threading.Event(), threading.Event()
    monkeypatch.setattr(app, "warm_up", lambda: (gate.wait(PATIENCE), warm.set(), 1.0)[-1])
    service = Service(Settings(**{**settings, "warm_up": when}))
    running = Running(service)
    running.thread.start()
    try:
        until(lambda: service.tenants.opened() and running.server.started)
        with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
            assert client.get("/livez").status_code == 200
            if when == "first":
                assert client.get("/readyz").status_code == 503
            else:
                until(lambda: client.get("/readyz").status_code == 200)
                assert not warm.is_set()
            gate.set()
            until(lambda: client.get("/readyz").status_code == 200)
            assert warm.wait(PATIENCE)
    finally:
        gate.set()
        running.__exit__()


def test_a_service_whose_logs_another_one_has_says_so_and_takes_over_from_it(settings):
    second = Service(Settings(**settings))
    running = Running(second)
    with Running(Service(Settings(**settings))):
        running.thread.start()
        until(lambda: second.failure is not None)
        answer = httpx.get(f"{running.url}/readyz", timeout=PATIENCE)
        assert answer.status_code == 503
        assert "could not be opened" in answer.json()["error"]
    try:
        until(lambda: second.ready)
        assert second.failure is None
        assert httpx.get(f"{running.url}/v1/default/status", timeout=PATIENCE).status_code == 200
    finally:
        running.__exit__()


def test_a_service_ends_while_it_waits_for_its_logs(settings):
    with Running(Service(Settings(**settings))):
        second = Running(Service(Settings(**settings)))
        second.thread.start()
        until(lambda: second.service.failure is not None)
        second.__exit__()


@pytest.mark.parametrize("sharer", ["first", "zeroth"])
def test_a_damaged_log_does_not_keep_other_tenants_from_being_served(
    settings, start, caplog, sharer
):
    """Those that share its items wait for it, whichever is opened first."""
    with Running(Service(Settings(**settings))) as running:
        running.service.create("other")
        running.service.create(sharer, shares="other")
    log = Path(settings["store"]) / "other" / LOG_FILE
    log.write_bytes(b"no log" + log.read_bytes()[6:])
    running = start()
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get("/readyz").status_code == 200
        assert client.post("/v1/default/feedback", json=triplet()).status_code == 200
        answer = client.get("/v1/other/status")
        assert answer.status_code == 503
        assert "restore it from a backup" in answer.json()["error"]
        assert client.get(f"/v1/{sharer}/status").status_code == 503
        assert client.put("/v1/other").status_code == 503
        page = client.get("/metrics").text
    assert 'similia_usable{tenant="other"} 0.0' in page
    assert 'similia_usable{tenant="default"} 1.0' in page
    assert "a log cannot be used" in caplog.text
    assert log.read_bytes().startswith(b"no log")


def test_the_log_of_the_first_tenant_may_be_damaged_too(settings, start):
    with Running(Service(Settings(**settings))) as running:
        running.service.create("other")
    log = Path(settings["store"]) / "default" / LOG_FILE
    log.write_bytes(b"no log" + log.read_bytes()[6:])
    running = start(items=False)
    running.service.tenants.get("other").put_items(some_items())
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/default/status").status_code == 503
        assert client.post("/v1/other/feedback", json=triplet()).status_code == 200
        assert client.post("/v1/other/rank", json={"query": {"item": "i0"}}).status_code == 200
        assert 'similia_usable{tenant="default"} 0.0' in client.get("/metrics").text


def test_a_drain_finishes_what_is_under_way(start):
    """Requests under way when the end is asked for are answered, and what they stored is there."""
    running = start()
    service, gate, inside = running.service, threading.Event(), threading.Event()
    tenant = service.tenants.get("default")
    insert = tenant.log.writer.database.insert

    def slowly(rows):
        inside.set()
        assert gate.wait(PATIENCE)
        return insert(rows)

    tenant.log.writer.database.insert = slowly
    with ThreadPoolExecutor(1) as pool, httpx.Client(timeout=PATIENCE) as client:
        sent = pool.submit(client.post, f"{running.url}/v1/default/feedback", json=triplet(id="a"))
        assert inside.wait(PATIENCE)
        running.server.handle_exit(15, None)
        assert service.draining
        until(lambda: not _accepts(running.port))
        gate.set()
        answer = sent.result(PATIENCE)
    assert answer.status_code == 200
    running.thread.join(PATIENCE)
    with Running(Service(service.settings)) as again:
        logged = httpx.get(f"{again.url}/v1/default/feedback", timeout=PATIENCE).json()
        assert [row["record"]["id"] for row in logged["judgements"]] == ["a"]


def _accepts(port):
    try:
        listen("127.0.0.1", port).close()
    except OSError:
        return True
    return False


def test_sigterm_ends_a_process_cleanly(process):
    served = process()
    assert served.stop() == 0
    lines = [json.loads(line) for line in served.lines if line.startswith("{")]
    assert lines[0]["message"] == "listening"
    assert all({"time", "level", "message"} <= line.keys() for line in lines)


def test_clients_retry_through_a_crash_and_nothing_is_doubled_or_lost(process, tmp_path):
    """The port stays, the process does not; four clients just go on."""
    folder = tmp_path / "store"
    first = process("--log-level", "warning", folder=folder)
    port = first.url.rpartition(":")[2]
    with Client(first.url) as client:
        client.put_items(some_items())
    receipts, stop = [], threading.Event()

    def judge(worker):
        with Client(first.url, retries=100) as client:
            n = 0
            while not stop.is_set() or n < 10:
                body = triplet(n % 5, 5 + n % 5, 10 + n % 5, judge=f"w{worker}")
                receipts.extend(client.feedback([body]))
                n += 1

    with ThreadPoolExecutor(4) as pool:
        working = [pool.submit(judge, worker) for worker in range(4)]
        until(lambda: len(receipts) > 20)
        before = len(receipts)
        first.stop("kill")
        again = process("--log-level", "warning", "--port", port, folder=folder)
        until(lambda: len(receipts) > before + 20)
        stop.set()
        for each in working:
            each.result(PATIENCE)
    with Client(again.url) as client:
        logged, after = [], 0
        while page := client.judgements(after=after, limit=1000).judgements:
            logged += page
            after = page[-1].seq
    ids = [row.record.id for row in logged]
    assert len(set(ids)) == len(ids)
    assert {receipt.id for receipt in receipts} == set(ids)
    assert {receipt.id: receipt.seq for receipt in receipts} == {
        row.record.id: row.seq for row in logged
    }


def test_what_is_written_is_read_by_the_next_ranking(http):
    """Every ranking that asks for a sequence number has learnt it, whatever else goes on."""
    body = {"query": {"item": "i0"}, "k": 3}
    for n in range(20):
        row = triplet(0, 1 + n % 3, 4 + n % 3, id=f"own-{n}")
        seq = http.post("/v1/default/feedback", json=row).json()["results"][0]["seq"]
        ranking = http.post("/v1/default/rank", json={**body, "min_seq": seq}).json()
        assert ranking["seq"] >= seq


def test_a_request_that_takes_too_long_gets_an_answer(start):
    running = start(timeout=0.2)
    tenant = running.service.tenants.get("default")
    gate = threading.Event()
    tenant.status = lambda: gate.wait(PATIENCE)
    answer = httpx.get(f"{running.url}/v1/default/status", timeout=PATIENCE)
    gate.set()
    assert answer.status_code == 503
    assert "within 0.2 seconds" in answer.json()["error"]


def test_an_error_of_ours_is_told_with_its_request_id_and_nothing_else(start):
    running = start()
    tenant = running.service.tenants.get("default")

    def broken():
        raise RuntimeError("secret words")

    tenant.status = broken
    headers = {"x-request-id": "mine-1"}
    answer = httpx.get(f"{running.url}/v1/default/status", headers=headers, timeout=PATIENCE)
    assert answer.status_code == 500
    assert answer.headers["x-request-id"] == answer.json()["request_id"] == "mine-1"
    assert "secret words" not in answer.text


def test_items_of_a_file_are_put_once(tmp_path, settings):
    import numpy as np

    from similia.service.tenants.files import ItemFile

    rows = np.random.default_rng(0).normal(size=(7, 4))
    np.save(tmp_path / "items.npy", rows)
    (tmp_path / "texts.txt").write_text("".join(f"text {i}\n" for i in range(7)))
    file = ItemFile(tmp_path / "items.npy", texts=tmp_path / "texts.txt")
    seqs = []
    for _ in range(2):
        with Running(Service(Settings(**settings), items=file)) as running:
            status = httpx.get(f"{running.url}/v1/default/status", timeout=PATIENCE).json()
            found = httpx.get(f"{running.url}/v1/default/items/3", timeout=PATIENCE).json()
        seqs.append(status["seq"])
        assert status["items"] == 7
        assert found["text"] == "text 3"
        assert found["vectors"]["vectors"] == pytest.approx(rows[3].tolist())
    assert seqs[0] == seqs[1]


@pytest.mark.parametrize(
    ("error", "status"),
    [(Full("full"), 507), (Unavailable("read-only"), 503)],
    ids=["full", "read-only"],
)
def test_a_disk_that_fails_is_told_and_feedback_goes_on_by_itself(start, error, status):
    running = start()
    tenant = running.service.tenants.get("default")
    send = tenant.log.writer.send
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:

        def failing(*requests):
            raise error

        tenant.log.writer.send = failing
        answer = client.post("/v1/default/feedback", json=triplet(id="a"))
        assert answer.status_code == status
        assert answer.json()["error"] == str(error)
        assert ("retry-after" in answer.headers) == (status == 503)
        tenant.log.writer.send = send
        again = client.post("/v1/default/feedback", json=triplet(id="a"))
        assert not again.json()["results"][0]["duplicate"]


def test_the_same_service_on_postgresql(server, tmp_path, start):
    store = server.database("life")
    running = start(store=store, cache=str(tmp_path / "cache"), keys=str(tmp_path / "k.json"))
    with Client(running.url) as client:
        receipt = client.prefer({"item": "i0"}, "i1", "i2")
        assert client.rank({"item": "i0"}, k=3, min_seq=receipt.seq).seq >= receipt.seq
        told = [client.feedback([triplet(id="again")])[0].duplicate for _ in range(2)]
        assert told == [False, True]
        assert client.status().judgements == 2
    assert "password" not in json.dumps(running.service.settings.shown())


def test_a_service_waits_for_a_database_that_starts_later(server, tmp_path, settings):
    store = server.database("later")
    places = {"store": store, "cache": str(tmp_path / "cache"), "keys": str(tmp_path / "k.json")}
    service = Service(Settings(**settings | places))
    running = Running(service)
    server.stop()
    try:
        running.thread.start()
        until(lambda: service.failure is not None)
    finally:
        server.start()
    until(lambda: service.ready)
    assert httpx.get(f"{running.url}/readyz", timeout=PATIENCE).status_code == 200
    running.__exit__()
