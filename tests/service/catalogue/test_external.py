"""Items in another database: it proposes, the service learns and ranks, and the log is enough."""

import httpx
import numpy as np
import pytest

from similia.client import Client
from similia.service.catalogue import external
from similia.service.catalogue.external import open_external
from similia.service.http.app import Service
from similia.service.settings import Settings
from tests.service.conftest import PATIENCE

N, WIDTH, SAMPLE = 60, 8, 20


def vectors():
    rows = np.random.default_rng(3).normal(size=(N, WIDTH)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def in_qdrant(tmp_path, field):
    qdrant = pytest.importorskip("qdrant_client", reason="needs qdrant-client")
    models = pytest.importorskip("qdrant_client.models")
    folder = str(tmp_path / "qdrant")
    client = qdrant.QdrantClient(path=folder)
    params = models.VectorParams(size=WIDTH, distance=models.Distance.DOT)
    client.create_collection("things", {"meaning": params} if field else params)
    points = [
        models.PointStruct(
            id=number,
            vector={"meaning": row.tolist()} if field else row.tolist(),
            payload={"name": f"{number}"},
        )
        for number, row in enumerate(vectors())
    ]
    client.upsert("things", points)
    client.close()
    named = {"items_id": "name", "items_vector": "meaning"} if field else {}
    return {"items_at": f"qdrant:{folder}", "items_table": "things", **named}


def in_postgres(server, kind):
    psycopg = pytest.importorskip("psycopg")
    name = f"things_{kind}"
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        connection.execute(f"DROP TABLE IF EXISTS {name}")
        connection.execute(f"CREATE TABLE {name} (id {kind} PRIMARY KEY, v vector({WIDTH}))")
        for number, row in enumerate(vectors()):
            given = (str(number), str(row.tolist()))
            connection.execute(f"INSERT INTO {name} VALUES (%s::text::{kind}, %s::vector)", given)
        connection.execute(f"CREATE INDEX ON {name} USING hnsw (v vector_ip_ops)")
    return {"items_at": server.url, "items_table": f"public.{name}", "items_vector": "v"}


@pytest.fixture(params=["qdrant", "qdrant-fields", "text", "bigint"])
def place(request, tmp_path, monkeypatch):
    """Settings of a database with sixty items, of which a tenant begins with twenty."""
    monkeypatch.setattr(external, "N_COPIED", SAMPLE)
    if request.param.startswith("qdrant"):
        return in_qdrant(tmp_path, request.param == "qdrant-fields")
    return in_postgres(request.getfixturevalue("server"), request.param)


def ids(ranking):
    return [result.id for result in ranking.results]


def test_items_elsewhere_are_ranked_and_learnt_from(place, start, settings):
    running = start(items=False, **place)
    X = vectors()
    tenant = running.service.tenants.get("default")
    with Client(running.url, timeout=PATIENCE) as client:
        assert tenant.n_items == SAMPLE
        query = X[0] + 0.1
        expected = [str(i) for i in np.argsort(-X @ query, kind="stable")[:10]]
        assert ids(client.rank(query, k=10)) == expected

        unknown = [str(i) for i in range(N) if not tenant.has(str(i))]
        better, worse, asked = unknown[:3]
        assert asked not in ids(client.rank({"item": asked}, k=N))
        before = ids(client.rank({"item": asked}, items=[better, worse]))
        receipt = client.prefer({"item": asked}, before[1], before[0])
        assert tenant.n_items == SAMPLE + 3
        after = client.rank({"item": asked}, items=[better, worse], min_seq=receipt.seq)
        assert ids(after) == before[::-1]
        whole = ids(client.rank({"item": asked}, k=N, min_seq=receipt.seq))
        assert len(whole) == N - 1
        assert whole.index(before[1]) < whole.index(before[0])

        answer = httpx.post(
            f"{running.url}/v1/default/feedback",
            json={"kind": "triplet", "query": {"item": asked}, "better": "nowhere", "worse": worse},
            timeout=PATIENCE,
        )
        assert answer.status_code == 422
        assert "nowhere" in answer.json()["error"]
    running.__exit__()  # the log is enough: what was learnt is there without the database
    again = start(items=False)
    with Client(again.url, timeout=PATIENCE) as client:
        found = client.rank({"item": asked}, items=[better, worse])
        assert ids(found) == before[::-1]


def test_a_database_that_is_away_is_told_and_what_is_known_still_learnt(server, start, monkeypatch):
    monkeypatch.setattr(external, "N_COPIED", SAMPLE)
    running = start(items=False, **in_postgres(server, "text"))
    tenant = running.service.tenants.get("default")
    known = [str(i) for i in range(N) if tenant.has(str(i))][:3]
    with httpx.Client(base_url=f"{running.url}/v1/default", timeout=PATIENCE) as client:
        server.stop()
        try:
            answer = client.post("/rank", json={"query": {"item": known[0]}, "k": 3})
            assert answer.status_code == 503
            assert "items_at" in answer.json()["error"]
            told = {"kind": "triplet", "query": {"item": known[0]}}
            told |= {"better": known[1], "worse": known[2]}
            assert client.post("/feedback", json=told).status_code == 200
        finally:
            server.start()
        answer = client.post("/rank", json={"query": {"item": known[0]}, "k": 3})
        assert answer.status_code == 200


def test_settings_that_name_no_database_are_refused(tmp_path, settings):
    with pytest.raises(ValueError, match="items_at must be a postgresql:// URL or qdrant:"):
        open_external(Settings(items_at="mysql://somewhere"))
    shown = Settings(items_at="postgresql://me:secret@host/db", items_key="secret").shown()
    assert "secret" not in str(shown).replace("secret_", "")
    assert open_external(Settings()) is None
    pytest.importorskip("qdrant_client")
    with pytest.raises(ValueError, match="Qdrant did not answer"):
        open_external(Settings(items_at=f"qdrant:{tmp_path / 'none'}"))


def test_tables_that_are_not_there_are_told_before_anything_is_served(server, tmp_path):
    with pytest.raises(ValueError, match="no_such_table"):
        open_external(Settings(items_at=server.url, items_table="no_such_table"))
    nowhere = f"postgresql:///db?host={tmp_path}"
    with pytest.raises(ValueError, match="items_at: the database did not answer"):
        open_external(Settings(items_at=nowhere))


def test_distances_that_no_inner_product_orders_are_refused(tmp_path):
    qdrant = pytest.importorskip("qdrant_client", reason="needs qdrant-client")
    folder = str(tmp_path / "qdrant")
    client = qdrant.QdrantClient(path=folder)
    models = pytest.importorskip("qdrant_client.models")
    params = models.VectorParams(size=4, distance=models.Distance.EUCLID)
    client.create_collection("items", params)
    client.close()
    with pytest.raises(ValueError, match="distance Dot or Cosine"):
        Service(Settings(store=str(tmp_path / "store"), items_at=f"qdrant:{folder}"))
