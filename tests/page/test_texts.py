"""A service of a table of texts, with nothing else: typed queries are ranked and learnt from."""

import csv

import numpy as np
import pytest

from similia.cli.serve import _embedder_of
from similia.client import Client
from similia.service.http.app import Service
from similia.service.settings import Settings
from similia.service.tenants.files import TableFile
from similia.tabular.layout import ViewLayout
from similia.tabular.words import WordVectors
from similia.text import BM25
from tests.page.shop import GOODS
from tests.service.conftest import Running


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "goods.csv"
    with open(path, "w", newline="") as file:
        rows = [(name, text, price) for name, (text, price) in GOODS.items()]
        csv.writer(file).writerows([("id", "text", "price"), *rows])
    layout = ViewLayout.found_in(path)
    return TableFile(path, layout=layout, numbers=layout.columns("number"))


def test_typed_queries_are_ranked_and_learnt_without_an_embedder(table, tmp_path):
    given = {"store": str(tmp_path / "store"), "port": 0, "warm_up": "never"}
    settings = Settings(**given, embedder=_embedder_of(table))
    with Running(Service(settings, items=table)) as running, Client(running.url) as client:
        found = client.rank("hiking boot", k=3).results
        assert found[0].id == "boot-ridge"
        status = client.status()  # the words, and what is learnt of the price
        assert [view.name for view in status.views] == ["vectors", "price"]
        judgement = {"kind": "triplet", "query": {"text": "hiking boot"}}
        better, worse = found[1].id, found[0].id
        receipt = client.feedback([{**judgement, "better": better, "worse": worse}])[0]
        again = [one.id for one in client.rank("hiking boot", k=3, min_seq=receipt.seq).results]
        assert again.index(better) < again.index(worse)


def test_word_vectors_are_close_to_bm25(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{n}" for n in range(60)]
    texts = [" ".join(rng.choice(words, 8)) for _ in range(300)]
    found = WordVectors.fit(texts)
    bm25 = BM25().fit(texts)
    exact = (bm25.queries(texts[:20]) @ bm25.items(texts).T).toarray()
    near = found.queries(texts[:20]) @ found.items(texts).T
    assert np.corrcoef(exact.ravel(), near.ravel())[0, 1] > 0.999
    found.save(tmp_path / "w.npz")
    again = WordVectors.load(tmp_path / "w.npz")
    assert np.array_equal(again.items(texts), found.items(texts))
    (tmp_path / "w.npz").write_bytes(b"PK damaged")
    with pytest.raises(ValueError, match="delete it"):
        WordVectors.load(tmp_path / "w.npz")
