"""Columns of a served table are the views that `similia learn` makes of them, and stay so."""

import csv
import json
from datetime import date, timedelta

import numpy as np
import pytest
from msgspec import structs

from similia.cli.serve import _embedder_of
from similia.client import Client, ServiceProblem
from similia.service.errors import Invalid
from similia.service.http.app import Service
from similia.service.log.records import Query, Triplet
from similia.service.settings import Settings
from similia.service.tenants import files
from similia.service.tenants.files import TableFile
from similia.service.tenants.tenants import Tenants
from similia.tabular.columns import read_table
from similia.tabular.layout import ViewLayout
from tests.service.conftest import PATIENCE, Running, until
from tests.service.problems import bits, learner

BRANDS = ["Acme", "Blue Sky", "Zenith"]
COLUMNS = ("id", "title", "brand", "price", "added")
MADE = ["brand", "price", "added"]


def lamps(n=60, seed=0):
    """Lamps whose prices are skewed; some know no price, brand or date."""
    rng = np.random.default_rng(seed)
    prices = rng.lognormal(3, 2, n).round(2)
    prices[0] = 20 * float(np.median(prices)) + 1000
    days = [date(2020, 1, 1) + timedelta(int(day)) for day in rng.integers(1500, size=n)]
    rows = [
        [f"p{i}", f"desk lamp number{i}", BRANDS[i % 3], price, day.isoformat()]
        for i, (price, day) in enumerate(zip(prices, days, strict=True))
    ]
    rows[7][2:] = "", "", ""
    return rows


def write(path, rows, header=COLUMNS):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def served(path, **given):
    return TableFile(path, layout=ViewLayout.found_in(path, given))


@pytest.fixture
def table(tmp_path):
    return served(write(tmp_path / "lamps.csv", lamps()))


@pytest.fixture
def tenants(tmp_path):
    found = Tenants(tmp_path / "store")
    yield found
    found.close()


def loaded(tenants, table, name="shop"):
    """A tenant with the items of a table."""
    tenant = tenants.get_or_create(name)
    table.load(tenant)
    tenant.learner.wait(tenant.log.last, PATIENCE)
    return tenant


def views_of(tenant, ids):
    """Views of items, as they are learnt and ranked by."""
    state = tenant.learner.live
    _, rows = state.snapshot.newest(ids)
    return state.layout.items(rows)


def dense(matrix):
    return matrix.toarray() if hasattr(matrix, "toarray") else matrix


# -- the same views ----------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".csv", ".jsonl", ".parquet"])
def test_learn_and_serve_make_the_same_views_of_a_table(tenants, tmp_path, suffix):
    path = write(tmp_path / "lamps.csv", lamps())
    if suffix != ".csv":
        rows = [
            {n: v if v != "" else None for n, v in zip(COLUMNS, row, strict=True)}
            for row in lamps()
        ]
        path = tmp_path / f"lamps{suffix}"
        if suffix == ".jsonl":
            path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
        else:
            import pandas

            pandas.DataFrame(rows).to_parquet(path)
    asked, items = ViewLayout.found_in(path).both(path)
    tenant = loaded(tenants, served(path))
    found = views_of(tenant, items.ids.names())
    assert list(found)[1:] == [name for name in items.X if name in MADE] == MADE
    for name in MADE:
        assert np.array_equal(found[name], dense(items.X[name])), name
    assert np.log1p(float(lamps()[0][3])) == pytest.approx(found["price"][0, 0], rel=1e-6)
    assert not found["brand"][7].any()
    # Queries that are items have the same views, too, and fields are of items alone.
    state = tenant.learner.live
    _, rows = state.snapshot.newest(items.ids.names())
    ours = state.layout.queries(rows)
    assert set(ours) - {"vectors"} == set(asked.X) - {"words", "title"} == {"brand"}
    assert np.array_equal(ours["brand"], dense(asked.X["brand"]))


def test_typed_queries_name_categories_as_in_learn(tenants, table):
    typed = ["a blue sky lamp", "zenith", "blue lamp", "Acme or zenith"]
    layout = ViewLayout.found_in(table.path)
    layout.items(table.path)
    expected = dense(layout.queries(typed).X["brand"])
    tenant = loaded(tenants, table)
    zeros = [0.0] * len(BRANDS)
    found = [tenant.named(text).get("brand", zeros) for text in typed]
    assert np.array_equal(found, expected)
    assert expected.sum(axis=1).tolist() == [1, 1, 0, 2]


def test_columns_beside_vectors_are_views_too(tenants, tmp_path):
    vectors = np.random.default_rng(1).normal(size=(60, 4)).round(3)  # no floats of 32 bits
    rows = [
        [*row, json.dumps(vector)] for row, vector in zip(lamps(), vectors.tolist(), strict=True)
    ]
    path = write(tmp_path / "lamps.csv", rows, (*COLUMNS, "embedding"))
    table = served(path)
    assert _embedder_of(table) == ""
    tenant = loaded(tenants, table)
    found = views_of(tenant, [row[0] for row in rows])
    assert list(found) == ["vectors", "words", *MADE]
    assert np.array_equal(found["vectors"], vectors.astype(np.float32))
    last = tenant.log.last
    loaded(tenants, table)
    assert tenant.log.last == last  # nothing was put again
    rows[3][-1] = "[1.0"
    with pytest.raises(ValueError, match=r"embedding must be a vector in every row.*in row 4"):
        list(served(write(path, rows, (*COLUMNS, "embedding")), embedding="vector").items())


def test_the_weight_of_a_category_moves_with_feedback(table, tmp_path):
    settings = Settings(
        store=str(tmp_path / "store"), port=0, warm_up="never", embedder=_embedder_of(table)
    )
    rng = np.random.default_rng(2)
    judged = []
    for _ in range(150):  # people want the brand that they name, whatever the words
        brand = int(rng.integers(3))
        good, bad = (int(i) for i in rng.permutation(np.arange(9, 60))[:2])
        if (good % 3 == brand) == (bad % 3 == brand):
            continue
        good, bad = (good, bad) if good % 3 == brand else (bad, good)
        query = {"text": f"lamp {BRANDS[brand]}"}
        judged.append({"kind": "triplet", "query": query, "better": f"p{good}", "worse": f"p{bad}"})
    with Running(Service(settings, items=table)) as running, Client(running.url) as client:
        seq = client.feedback(judged[:1])[0].seq
        client.rank("lamp", min_seq=seq)
        before = client.status().weights["brand"]
        seq = client.feedback(judged)[-1].seq
        found = client.rank("Acme", k=19, min_seq=seq, explain=True).results
        assert client.status().weights["brand"] > before
        assert {int(one.id[1:]) % 3 for one in found} == {0}
        assert found[0].parts["brand"] > 0


# -- items that come later ---------------------------------------------------------------------


def test_items_that_come_later_are_measured_as_the_first(table, tmp_path):
    settings = Settings(
        store=str(tmp_path / "store"), port=0, warm_up="never", embedder=_embedder_of(table)
    )
    with Running(Service(settings, items=table)) as running, Client(running.url) as client:
        vectors = client.item("p3").vectors
        assert list(vectors) == ["vectors"]
        fields = {
            "whole": {"brand": "Zenith", "price": 9.0, "added": "2024-05-02", "color": "red"},
            "text": {"price": "9.00"},
            "unknown": {"brand": "Nobody"},
            "none": {},
            "empty": {"brand": "", "price": "", "added": ""},
        }
        put = client.put_items(
            [{"id": id, "vectors": vectors, "fields": some} for id, some in fields.items()]
        )
        client.rank("lamp", min_seq=put.seq)
        found = views_of(running.service.tenants.get("default"), list(fields))
        rows = list(read_table(table.path))
        layout = ViewLayout.found_in(table.path)
        layout.items(table.path)
        later = layout.views_of([{**rows[3], **dict.fromkeys(MADE), **f} for f in fields.values()])
        for name in MADE:
            assert np.array_equal(found[name], dense(later[1][name])), name
        assert found["brand"].sum(axis=1).tolist() == [1, 0, 0, 0, 0]
        assert found["price"][0] == found["price"][1] == np.float32(np.log1p(9.0))
        median = np.median([float(row[3]) for row in lamps() if row[3] != ""])
        assert found["price"][3] == found["price"][4] == np.float32(np.log1p(median))
        assert client.item("whole").fields == fields["whole"]
        row = rows[9]  # put again by its text, an item of the table is what it was
        same = {"text": row["title"], "fields": {**client.item("p9").fields}}
        put = client.put_items([{"id": "again", **same}])
        client.rank("lamp", min_seq=put.seq)
        pair = views_of(running.service.tenants.get("default"), ["again", "p9"])
        for name in pair:
            assert np.allclose(pair[name][0], pair[name][1], atol=1e-6), name
        bad = [
            ({"brand": 3.0}, "'brand' must be a text, got 3.0"),
            ({"brand": True}, "'brand' must be a text, got True"),
            ({"price": "cheap"}, "'price' must be a number, got 'cheap'"),
            ({"added": 56.0}, "'added' must be a date such as 2024-05-02, got 56.0"),
            ({"added": "soon"}, "'added' must be a date such as 2024-05-02, got 'soon'"),
        ]
        for wrong, says in bad:
            with pytest.raises(ServiceProblem, match=says) as problem:
                client.put_items([{"id": "bad", "vectors": vectors, "fields": wrong}])
            assert problem.value.status == 422
        with pytest.raises(ServiceProblem, match="vectors must be 'vectors'"):
            client.put_items([{"id": "bad", "vectors": {**vectors, "brand": [1.0, 0.0, 0.0]}}])
        # A query may bring the view itself, of its width.
        asked = {"vectors": {**vectors, "brand": [0.0, 0.0, 1.0]}}
        judged = {"kind": "triplet", "query": asked, "better": "p2", "worse": "p3"}
        client.rank("lamp", min_seq=client.feedback([judged])[0].seq)
        with pytest.raises(ServiceProblem, match="brand must be 3 numbers"):
            client.rank({"vectors": {**vectors, "brand": [1.0]}})


def test_a_number_too_large_to_learn_from_is_refused(tenants, tmp_path):
    rows = [[f"p{n}", f"desk lamp number{n}", 100 + n] for n in range(12)]
    tenant = loaded(tenants, served(write(tmp_path / "l.csv", rows, ("id", "title", "price"))))
    item = tenant.item("p1")
    with pytest.raises(Invalid, match=r"'price' must be at most .*, got 1e\+30"):
        tenant.put_items([structs.replace(item, id="x", fields={"price": 1e30})])


# -- restarts, other tables --------------------------------------------------------------------


def judge(tenant, n=200):
    rng = np.random.default_rng(5)
    told = []
    for number in range(n):
        asked, better, worse = (f"p{i}" for i in rng.choice(60, 3, replace=False))
        told.append(Triplet(query=Query(item=asked), better=better, worse=worse, id=f"t{number}"))
    tenant.feedback(told)
    return learner(tenant)


def test_a_restart_gives_the_same_bits(tenants, table, tmp_path):
    tenant = loaded(tenants, table)
    before, views = bits(judge(tenant)), views_of(tenant, ["p0", "p7", "p9"])
    last = tenant.log.last
    tenants.close()
    again = Tenants(tmp_path / "store")
    try:
        tenant = loaded(again, table)
        assert tenant.log.last == last  # nothing was put again
        assert bits(learner(tenant)) == before
        found = views_of(tenant, ["p0", "p7", "p9"])
        assert all(np.array_equal(found[name], views[name]) for name in views)
    finally:
        again.close()


def test_a_table_that_changes_keeps_the_views_of_the_first_start(tenants, table, caplog):
    tenant = loaded(tenants, table)
    views = {name: views_of(tenant, ["p1"])[name] for name in MADE}
    rows = lamps()
    for row in rows:  # prices in another currency, no longer skewed for their median
        row[3] = row[3] and float(row[3]) * 50 + 5000
    rows[1] = lamps()[1]
    rows[2][2] = "Moonlight"
    rows.append(["p60", "desk lamp lantern", "Acme", 3.5, "2024-01-01"])
    header = ("id", "title", "brand", "price", "color")
    write(table.path, [[*row[:4], ["red", "blue"][i % 2]] for i, row in enumerate(rows)], header)
    caplog.clear()
    loaded(tenants, served(table.path))
    assert [each.name for each in tenant.columns] == MADE
    found = views_of(tenant, ["p1", "p2", "p60"])
    for name in ("brand", "price"):
        assert np.array_equal(found[name][:1], views[name])
    assert not found["brand"][1].any()
    assert found["price"][2] == np.float32(np.log1p(3.5))
    said = caplog.text
    assert "values of brand that are new count as none: Moonlight (1 in all)" in said
    assert "color was no view when this store began, and is only shown" in said
    assert "added is a view, but no column any more" in said
    assert "so words that are new count for nothing: lantern, moonlight, red (3 in all)" in said
    caplog.clear()
    write(table.path, lamps())
    loaded(tenants, served(table.path))
    assert "earlier" not in caplog.text


def test_a_column_found_of_another_kind_later_keeps_its_kind(tenants, table):
    tenant = loaded(tenants, table)
    expected = {name: views_of(tenant, ["p9"])[name] for name in MADE}
    rows = lamps()
    for number, row in enumerate(rows[20:]):
        row[2] += str(number)
    again = served(write(table.path, rows))
    assert again.layout.kinds["brand"] != "category"
    loaded(tenants, again)
    found = views_of(tenant, ["p9"])
    assert all(np.array_equal(found[name], expected[name]) for name in MADE)
    rows[5][3] = "cheap"
    again = served(write(table.path, rows))
    with pytest.raises(ValueError, match=r"price must be a number .* got 'cheap' in row 6"):
        again.load(tenant)


def test_a_category_of_many_values_is_only_shown(tenants, table, monkeypatch, caplog):
    monkeypatch.setattr(files, "MAX_VALUES", 2)
    tenant = loaded(tenants, table)
    assert [each.name for each in tenant.columns] == ["price", "added"]
    assert "brand must have 1 to 2 values to be a view, got 3; it is only shown" in caplog.text
    assert tenant.item("p1").fields["brand"] == "Blue Sky"
    caplog.clear()
    loaded(tenants, table)
    assert "brand" not in caplog.text


def test_a_team_and_a_follower_see_the_same_views(tenants, table, server, name, tmp_path):
    pytest.importorskip("psycopg", reason="needs psycopg")
    settings = {
        "store": server.database(name.replace("-", "_")),
        "port": 0,
        "rate": 0.0,
        "warm_up": "never",
        "keys": str(tmp_path / "keys.json"),
        "embedder": _embedder_of(table),
    }
    writes = Service(Settings(**settings, cache=str(tmp_path / "w")), items=table)
    follows = Service(Settings(**settings, cache=str(tmp_path / "f"), follow=True))
    with (
        Running(writes) as one,
        Running(follows) as other,
        Client(one.url) as writer,
        Client(other.url) as follower,
        Client(other.url, "team") as team,
    ):
        team.create(shares="default")
        asked = {"kind": "triplet", "query": {"text": "lamp zenith"}}
        pairs = [(f"p{i}", f"p{i + 1}") for i in range(8, 50, 3)]
        for client in (follower, team):
            judged = [{**asked, "better": better, "worse": worse} for better, worse in pairs]
            seq = client.feedback(judged)[-1].seq
            until(lambda client=client, seq=seq: client.status().learnt_seq >= seq)
        for tenant in ("default", "team"):
            states = [each.tenants.get(tenant).learner.live for each in (writes, follows)]
            assert bits(states[0].learner) == bits(states[1].learner)
            assert states[1].learner.names_ == ["vectors", *MADE]
            assert states[1].layout.named("zenith") == {"brand": [0.0, 0.0, 1.0]}
        found = [client.rank("acme lamp", k=9) for client in (writer, follower)]
        assert found[0] == found[1]
