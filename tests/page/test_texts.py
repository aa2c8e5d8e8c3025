"""A service of a table of texts, with nothing else: typed queries are ranked and learnt from."""

import csv

import numpy as np
import pytest
from typer.testing import CliRunner

from similia.cli.main import app
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

#: what people type, and click
ASKED = [("warm boot", "boot-snow"), ("something for the city", "boot-city")]


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "goods.csv"
    with open(path, "w", newline="") as file:
        rows = [(name, text, price) for name, (text, price) in GOODS.items()]
        csv.writer(file).writerows([("id", "text", "price"), *rows])
    layout = ViewLayout.found_in(path)
    return TableFile(path, layout=layout)


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


def test_a_category_is_found_by_its_name_and_a_missing_number_is_usual(tmp_path):
    path = tmp_path / "lamps.csv"
    rows = [(f"p{n}", f"desk lamp {n}", 10 + n, ["Acme", "Zenith"][n % 2]) for n in range(12)]
    rows[5] = (*rows[5][:2], "", rows[5][3])
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("id", "title", "price", "brand"), *rows])
    layout = ViewLayout.found_in(path)
    table = TableFile(path, layout=layout)
    items = list(table.items())
    assert "price" not in items[5].fields
    asked = WordVectors.load(table.words).queries(["zenith lamp"])[0]
    scores = [asked @ item.vectors["vectors"] for item in items]
    assert min(scores[1::2]) > max(scores[::2])
    assert "Zenith" not in items[1].text


def dated(path, dates):
    """Lamps that differ in their dates alone."""
    rows = [(f"p{n}", f"desk lamp {'abcdefghijkl'[n]}{n}", date) for n, date in enumerate(dates)]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([("id", "title", "added"), *rows])
    return TableFile(path, layout=ViewLayout.found_in(path, {"added": "date"}))


def test_newer_items_are_preferred_where_feedback_does(tmp_path):
    years = [2012, 2024, 2015, 2010, 2019, 2022, 2011, 2020, 2014, 2018, 2013]
    table = dated(tmp_path / "lamps.csv", [*(f"{year}-05-02" for year in years), ""])
    given = {"store": str(tmp_path / "store"), "port": 0, "warm_up": "never"}
    settings = Settings(**given, embedder=_embedder_of(table))
    pairs = [
        (b, w) for b, better in enumerate(years) for w, worse in enumerate(years) if better > worse
    ]
    with Running(Service(settings, items=table)) as running, Client(running.url) as client:
        assert [view.name for view in client.status().views] == ["vectors", "added"]
        (learnt,) = table.layout.items(table.path).X["added"].T  # as `similia learn` has it
        snapshot = running.service.tenants.get("default").learner.live.snapshot
        _, rows = snapshot.newest([f"p{n}" for n in range(12)])
        assert np.array_equal(rows[:, -1], learnt)
        assert client.item("p1").fields["added"] == "2024-05-02"
        assert "added" not in client.item("p11").fields
        client.feedback(
            {"kind": "triplet", "query": {"text": "lamp"}, "better": f"p{b}", "worse": f"p{w}"}
            for b, w in pairs
        )
        words = client.item("p3").vectors
        items = [("old", {"added": "2009-01-01"}), ("new", {"added": "2025-01-01"}), ("none", {})]
        put = client.put_items([{"id": i, "vectors": words, "fields": f} for i, f in items])
        found = client.rank("lamp", items=["old", "none", "new"], min_seq=put.seq).results
        assert [one.id for one in found] == ["new", "none", "old"]
        with pytest.raises(Exception, match=r"'added' must be a date such as .*, got 'soon'"):
            client.put_items([{"id": "bad", "vectors": words, "fields": {"added": "soon"}}])


def test_a_bad_date_or_number_is_named_with_its_row(tmp_path):
    path = tmp_path / "lamps.csv"
    table = dated(path, ["2024-05-02", "", "soon", "2023-01-01"])
    said = "added must be a date in every row, got 'soon' in row 3"
    with pytest.raises(ValueError, match=said):
        list(table.items())
    with pytest.raises(ValueError, match=said):
        table.layout.items(path)
    path.write_text("id,title,price\n1,a red lamp,10\n2,a blue lamp,cheap\n")
    table = TableFile(path, layout=ViewLayout.found_in(path, {"price": "number"}))
    with pytest.raises(ValueError, match="price must be a number in every row, got 'cheap' in row"):
        list(table.items())


def test_what_queries_of_files_are_is_found_out(table, tmp_path):
    def write(name, header, rows):
        with open(tmp_path / name, "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])

    def run(*words):
        words = [*map(str, words), "--url", running.url]
        found = CliRunner().invoke(app, words, prog_name="similia", catch_exceptions=False)
        assert found.exit_code == 0, found.output
        return found.output

    lists = [(q, item, item == liked) for q, liked in ASKED for item in list(GOODS)[:8]]
    write("log.csv", ("query", "sku", "clicked"), [(q, i, int(c)) for q, i, c in lists])
    write(
        "items.csv",
        ("query", "item", "click"),
        [("pole-carbon", i, int(c)) for _, i, c in lists[:8]],
    )
    grades = [("rain boot", "boot-marsh", 1), ("rain boot", "shoe-road", 0)]
    write("judged.csv", ("query", "item", "relevance"), grades)
    write("alike.csv", ("query", "item", "relevance"), [("snow", "boot-snow", 1)])
    given = {"store": str(tmp_path / "store"), "port": 0, "warm_up": "never"}
    settings = Settings(**given, embedder=_embedder_of(table))
    with Running(Service(settings, items=table)) as running, Client(running.url) as client:
        assert "sent as what people typed" in run("feedback", tmp_path / "log.csv")
        assert "typed" not in run("feedback", tmp_path / "items.csv")
        stored = [row.record.query for row in client.judgements().judgements]
        assert {query.text or query.item for query in stored} == {
            "pole-carbon",
            *(query for query, _ in ASKED),
        }
        assert "1 of 1 judged queries have one grade only" in run(
            "evaluate", tmp_path / "alike.csv"
        )
        assert "on 1 queries" in run("evaluate", tmp_path / "judged.csv")
        tenant = running.service.tenants.get("default")
        offered = running.service.queries["default"].some(tenant, 9)
        assert {query.text for query in offered} >= {query for query, _ in ASKED}
