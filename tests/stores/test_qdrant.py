import numpy as np
import pytest

from similia.retrieval import top_k
from tests.stores.page import run

pytest.importorskip("qdrant_client", reason="needs qdrant-client")


def test_the_recipe_finds_what_exact_search_finds():
    names = run("qdrant.md")
    model, items = names["model"], names["items"]
    assert names["after"] == top_k(model, items[:1], items, 10)[0][0].tolist()
    assert names["nearest"] == top_k(names["metric"], items[:1], items, 10)[0][0].tolist()
    scores = [score for _, score in names["found"]]
    assert scores == sorted(scores, reverse=True)
    np.testing.assert_allclose(np.linalg.norm(items, axis=1), 1.0, rtol=1e-5)
