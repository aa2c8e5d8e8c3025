"""The recipe through the real clients, against a stand-in that ranks by inner product.

It holds what the clients send to the shapes that the servers document; it is not a server.
"""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from similia.retrieval import top_k
from tests.stores.page import run

pytest.importorskip("elasticsearch", reason="needs elasticsearch: make integrations")
pytest.importorskip("opensearchpy", reason="needs opensearch-py: make integrations")
pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries' own making


class StandIn(BaseHTTPRequestHandler):
    """Three requests: create an index, put a document, search by a vector."""

    vectors: dict[str, np.ndarray]
    mapping: dict

    def do_PUT(self):
        body = self.body()
        if self.path == "/items":
            type(self).mapping = body["mappings"]["properties"]["vector"]
            return self.answer({"acknowledged": True, "index": "items"})
        assert self.path.startswith("/items/_doc/")
        vector = np.array(body["vector"])
        assert vector.shape == (self.mapping["dims"],)
        self.vectors[self.path.rpartition("/")[2]] = vector
        return self.answer({"result": "created"})

    def do_POST(self):
        assert self.path.split("?")[0] == "/items/_search"
        body = self.body()
        if "knn" in body:
            asked, query = body["knn"], body["knn"]["query_vector"]
            assert asked["field"] == "vector"
            assert asked["k"] <= asked["num_candidates"]
        else:
            asked = body["query"]["knn"]["vector"]
            query = asked["vector"]
        scores = {name: float(np.dot(query, x)) for name, x in self.vectors.items()}
        best = sorted(scores, key=scores.get, reverse=True)[: asked["k"]]
        self.answer({"hits": {"hits": [{"_id": name, "_score": scores[name]} for name in best]}})

    def body(self):
        return json.loads(self.rfile.read(int(self.headers["Content-Length"])))

    def answer(self, values):
        text = json.dumps(values).encode()
        self.send_response(200)
        self.send_header("X-Elastic-Product", "Elasticsearch")
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_):
        pass


@pytest.fixture
def stand_in(monkeypatch):
    handler = type("Handler", (StandIn,), {"vectors": {}})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for name in ("ELASTICSEARCH_URL", "OPENSEARCH_URL"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.server_port}")
    yield handler
    server.shutdown()
    server.server_close()


def test_the_recipe_finds_what_exact_search_finds(stand_in):
    names = run("elasticsearch.md")
    model, items = names["model"], names["items"]
    expected = [f"item-{i}" for i in top_k(model, items[:1], items, 10)[0][0]]
    assert names["after"] == names["found"] == expected
    assert stand_in.mapping["similarity"] == "max_inner_product"
    for i, x in enumerate(items):
        np.testing.assert_array_equal(stand_in.vectors[f"item-{i}"].astype(np.float32), x)
