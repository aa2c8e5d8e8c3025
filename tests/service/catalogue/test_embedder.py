"""Typed queries: an endpoint or a model on the disk; nothing is downloaded."""

import asyncio
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from similia.service.catalogue.embedder import LOCAL, HttpEmbedder, open_embedder
from similia.service.errors import Unavailable
from similia.service.settings import Settings
from tests.service.conftest import PATIENCE, WIDTH


class Endpoint:
    """An endpoint of the /v1/embeddings form on a free port."""

    def __init__(self):
        self.requests, self.answer = [], None
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                outer.requests.append((body, self.headers.get("authorization")))
                vector = [float(len(text)) for text in body["input"]] * WIDTH
                status, text = outer.answer or (
                    200,
                    json.dumps({"data": [{"embedding": vector, "index": 0}], "model": "m"}),
                )
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/v1/embeddings"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join(PATIENCE)


@pytest.fixture
def endpoint():
    found = Endpoint()
    yield found
    found.close()


def test_texts_are_ranked_by_the_endpoints_vectors(start, endpoint):
    running = start(embedder=endpoint.url, embedder_model="small", embedder_key="hush")
    with httpx.Client(base_url=running.url, timeout=PATIENCE) as client:
        body = {"query": {"text": "red"}, "k": 2, "model": "base"}
        typed = client.post("/v1/default/rank", json=body).json()
        vectors = {"vectors": {"vectors": [3.0] * WIDTH}}
        same = client.post("/v1/default/rank", json={**body, "query": vectors}).json()
        assert typed["results"] == same["results"]
        judged = {"kind": "triplet", "query": {"text": "red"}, "better": "i1", "worse": "i2"}
        seqs = {
            client.post("/v1/default/feedback", json=judged).json()["results"][0]["seq"]
            for _ in range(2)
        }
        assert len(seqs) == 1
        logged = client.get("/v1/default/feedback").json()["judgements"][0]["record"]
        assert logged["query"]["vectors"]["vectors"] == [3.0] * WIDTH
    assert endpoint.requests == [({"input": ["red"], "model": "small"}, "Bearer hush")]


@pytest.mark.parametrize(
    "answer",
    [
        (500, "broken"),
        (200, "not JSON"),
        (200, "{}"),
        (200, '{"data": []}'),
        (200, '{"data": [{"embedding": []}]}'),
        (200, "[" + "1," * 3_000_000),
    ],
)
def test_an_endpoint_that_fails_is_not_an_error_of_ours(endpoint, answer):
    endpoint.answer = answer
    with pytest.raises(Unavailable, match="the embedder"):
        asyncio.run(HttpEmbedder(endpoint.url, "").embed("red"))


def test_without_an_embedder_a_text_is_ranked_by_the_words_of_the_items(http):
    answer = http.post("/v1/default/rank", json={"query": {"text": "item 17"}, "k": 3})
    assert answer.json()["results"][0]["id"] == "i17"


def test_models_are_taken_from_the_disk_only(tmp_path):
    with pytest.raises(ValueError, match="nothing is downloaded"):
        open_embedder(Settings(embedder=f"{LOCAL}all-MiniLM-L6-v2"))
    with pytest.raises(ValueError, match="embedder must be a URL, "):
        open_embedder(Settings(embedder="all-MiniLM-L6-v2"))
    assert open_embedder(Settings()) is None


def test_a_local_model_is_asked_in_a_thread(tmp_path, monkeypatch):
    """With a stand-in for the library, which is large and optional."""
    import sys
    import types

    import numpy as np

    opened = []

    class Model:
        def __init__(self, folder, local_files_only):
            opened.append((folder, local_files_only))

        def encode(self, texts, show_progress_bar):
            return np.array([[len(text), 1.0] for text in texts])

    module = types.ModuleType("sentence_transformers")
    module.SentenceTransformer = Model
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    embedder = open_embedder(Settings(embedder=f"{LOCAL}{tmp_path}"))

    async def twice():
        return [await embedder.embed("red"), await embedder.embed("red")]

    assert asyncio.run(twice()) == [[3.0, 1.0]] * 2
    assert opened == [(str(tmp_path), True)]
