import numpy as np
import pytest

from similia import LEGO
from similia.distributed import export_items
from similia.persistence import save
from similia.retrieval import top_k
from tests.distributed.conftest import Inline
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


@pytest.mark.parametrize("named", [False, True])
def test_items_exported_in_batches_are_found_as_by_exact_search(tmp_path, rng, named):
    """Twice, as after a failure: the second time replaces what the first has written."""
    from qdrant_client import QdrantClient

    X = rng.normal(size=(300, 8)).astype(np.float32)
    np.save(tmp_path / "items.npy", X)
    if named:
        (tmp_path / "items.npy.ids").write_text("".join(f"item {i}\n" for i in range(300)))
    metric = LEGO().learn(X, rng.integers(300, size=(99, 2)), rng.choice([-1, 1], size=99))
    save(metric, tmp_path / "m.safetensors")
    to, given = f"qdrant:{tmp_path / 'db'}", {"batch": 64, "executor": Inline()}
    for work in ("first", "second"):
        export_items(tmp_path / "items.npy", to, "plain", work=tmp_path / work, **given)
    path = tmp_path / "m.safetensors"
    export_items(tmp_path / "items.npy", to, "moved", path, work=tmp_path / "moved", **given)
    with pytest.raises(ValueError, match="export_items: table must be a collection of"):
        export_items(tmp_path / "items.npy", to, "plain", path, work=tmp_path / "no", **given)
    client = QdrantClient(path=str(tmp_path / "db"))
    for table, scorer in {"plain": "inner_product", "moved": metric}.items():
        asked = X[0] if table == "plain" else metric.query_vectors(X[:1])[0]
        found = client.query_points(table, query=asked.tolist(), limit=10).points
        rows = top_k(scorer, X[:1], X, 10)[0][0].tolist()
        expected = [f"item {i}" if named else i for i in rows]
        assert [point.payload["id"] for point in found] == expected
        assert client.count(table).count == 300
    client.close()
