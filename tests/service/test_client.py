"""The client: the library's words over HTTP, retried without repeating anything."""

import asyncio
import subprocess
import sys
from datetime import UTC, datetime

import httpx
import numpy as np
import pytest

from similia.client import AsyncClient, Client, ServiceProblem, as_query, items_of
from similia.service.log.records import Query, Triplet
from tests.service.conftest import WIDTH, some_items, triplet


@pytest.fixture
def client(start):
    running = start(items=False)
    with Client(running.url) as found:
        found.running = running
        yield found


def test_a_session_from_items_to_rankings(client, rng):
    X = rng.normal(size=(20, WIDTH))
    ids = [f"a/b c?{i}" for i in range(20)]
    client.put_items(items_of(ids, X, texts=[f"text {i}" for i in range(20)]))
    assert client.item(ids[3]).text == "text 3"
    receipt = client.prefer({"item": ids[0]}, better=ids[1], worse=ids[2])
    ranking = client.rank({"item": ids[0]}, k=5, min_seq=receipt.seq)
    assert ranking.seq >= receipt.seq
    assert len(ranking.results) == 5
    again = client.rank(X[0], k=5, model="base")
    assert again.results[0].score == pytest.approx(
        float(max(np.float32(X) @ np.float32(X[0]))), rel=1e-4
    )
    found = client.query_vectors([X[0], {"item": ids[1]}])
    assert len(found.vectors) == 2
    assert client.retract(receipt.id).seq > receipt.seq
    logged = client.judgements().judgements
    assert [(row.record.id, row.retracted) for row in logged] == [(receipt.id, True)]
    client.delete_item(ids[3])
    with pytest.raises(ServiceProblem, match="no item") as caught:
        client.item(ids[3])
    assert caught.value.status == 404
    assert client.status().items == 19
    assert client.models()
    assert client.evaluate().measure
    assert client.history(datetime.now(UTC)).seq > 0
    with pytest.raises(ServiceProblem, match="nothing has been learnt yet"):
        client.promote()
    assert client.next(2)


def test_the_same_over_asyncio(start, rng):
    running = start()

    async def session():
        async with AsyncClient(running.url) as client:
            receipts = await asyncio.gather(
                *(client.prefer({"item": "i0"}, "i1", "i2", judge=f"j{i}") for i in range(8))
            )
            last = max(receipt.seq for receipt in receipts)
            ranking = await client.rank(rng.normal(size=WIDTH), k=3, min_seq=last)
            await client.retract(receipts[0].id)
            assert (await client.status()).judgements == 8
            return ranking

    assert len(asyncio.run(session()).results) == 3


def test_two_equal_judgements_are_two_but_one_sent_twice_is_one(client):
    client.put_items(some_items())
    first, second = (client.prefer({"item": "i0"}, "i1", "i2") for _ in range(2))
    assert first.id != second.id
    one = Triplet(id="mine", query=Query(item="i0"), better="i1", worse="i2")
    receipts = [client.feedback([one])[0] for _ in range(2)]
    assert [receipt.duplicate for receipt in receipts] == [False, True]
    assert receipts[0].seq == receipts[1].seq
    with pytest.raises(ServiceProblem) as caught:
        client.feedback([triplet(id="mine", better=3)])
    assert caught.value.status == 409


def test_bad_rows_of_a_batch_are_named(client):
    client.put_items(some_items())
    with pytest.raises(ServiceProblem) as caught:
        client.feedback([triplet(), triplet(better=99), triplet(worse=99)])
    assert caught.value.status == 422
    assert list(caught.value.rows) == [1, 2]


class Flaky(httpx.BaseTransport):
    """Fails in given ways, then passes on; in some the service has already done its work."""

    def __init__(self, inner, ways):
        self.inner, self.ways = inner, list(ways)

    def handle_request(self, request):
        way = self.ways.pop(0) if self.ways else None
        if way == "refused":
            raise httpx.ConnectError("refused")
        if way == "lost":
            self.inner.handle_request(request).read()
            raise httpx.ReadError("lost")
        if way == "proxy":
            return httpx.Response(502, text="bad gateway")
        return self.inner.handle_request(request)

    def close(self):
        self.inner.close()


def flaky(client, *ways):
    client._http._transport = Flaky(client._http._transport, ways)


def test_lost_answers_are_asked_for_again_without_repeating(client):
    client.put_items(some_items())
    flaky(client, "lost", "refused", "proxy")
    receipt = client.prefer({"item": "i0"}, "i1", "i2")
    assert receipt.duplicate  # it was stored the first time
    assert client.status().judgements == 1


def test_what_must_not_be_repeated_is_not(client):
    client.put_items(some_items())
    for call in (client.promote, client.rollback):
        flaky(client, "lost")
        with pytest.raises(httpx.ReadError):
            call()


def test_refusals_are_not_retried(client):
    flaky(client)
    with pytest.raises(ServiceProblem) as caught:
        client.item("nothing")
    assert caught.value.status == 404
    client.retries = 1
    flaky(client, "proxy", "proxy")
    with pytest.raises(ServiceProblem, match="Bad Gateway") as caught:
        client.status()
    assert caught.value.status == 502


def test_a_query_can_be_many_things():
    assert as_query("red shoes") == Query(text="red shoes")
    assert as_query({"item": "a"}) == Query(item="a")
    assert as_query({"id": "q", "vectors": np.ones(2)}) == Query(
        id="q", vectors={"vectors": [1.0, 1.0]}
    )
    assert as_query({"title": [1], "body": [2]}) == Query(vectors={"title": [1.0], "body": [2.0]})
    assert as_query(np.ones(2)) == Query(vectors={"vectors": [1.0, 1.0]})


def test_the_client_needs_nothing_of_the_library():
    program = (
        "import sys, similia.client; "
        "heavy = ('scipy', 'sklearn', 'apsw', 'starlette', 'uvicorn'); "
        "print([name for name in heavy if name in sys.modules])"
    )
    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert out.stdout.strip() == "[]"
