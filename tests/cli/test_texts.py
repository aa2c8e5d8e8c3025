"""From two files, items with texts and a log, to a model that carries all it needs."""

import csv
import json
import sqlite3
import warnings

import numpy as np
import pytest

from similia import load
from similia.tabular.columns import column_kinds, read_table
from similia.tabular.layout import ViewLayout

WORDS = ["red", "blue", "green", "small", "large", "old", "new", "round", "square", "flat"]
THINGS = ["lamp", "chair", "table", "shelf", "bowl", "clock", "mirror", "basket"]


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Items with texts, a category, a price and a date; clicks favour cheap items."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    items = []
    for number in range(200):
        words = rng.choice(WORDS, 3, replace=False)
        title = f"{words[0]} {rng.choice(THINGS)}"
        items.append(
            {
                "sku": f"p{number}",
                "title": title,
                "body": f"a {' and '.join(words)} thing, said to be, in a word, {title}\nnew line",
                "price": str(rng.integers(5, 500)),
                "brand": str(rng.choice(["Acme", "Blue Sky", "Zen"])),
                "added": f"20{rng.integers(10, 25)}-0{rng.integers(1, 9)}-15",
            }
        )
    write("items.csv", items)
    log = []
    for _ in range(300):
        thing = str(rng.choice(THINGS))
        shown = [item for item in items if thing in item["title"]][:8]
        cheapest = min(shown, key=lambda item: int(item["price"]))
        for place, item in enumerate(shown, 1):
            row = {"query": thing, "product_id": item["sku"], "clicked": int(item is cheapest)}
            log.append({**row, "rank": place})
    write("log.csv", log)
    write(
        "clicks.csv", [{"query": r["query"], "item": r["product_id"]} for r in log if r["clicked"]]
    )
    judged = [
        {"query": r["query"], "item": r["product_id"], "relevance": r["clicked"]} for r in log
    ]
    write("judged.csv", [row for row in judged if row["relevance"]])
    return items


def write(path, rows):
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_two_files_are_enough_and_the_model_is_whole(run, shop):
    result = run("learn", "items.csv", "log.csv")
    expected = "sku: id; title, body: text; brand: category; price: number; added: date"
    assert expected in result.stderr
    assert "item is product_id, click is clicked, position is rank" in result.stdout
    found = run("search", "items.csv", "-q", "lamp", "-q", "Acme chair", "--model", MODEL).stdout
    assert len(found.splitlines()) == 1 + 2 * 10
    run("index", "items.csv", "--model", MODEL, "-o", "items.index")
    with open("queries.txt", "w") as file:
        file.write("lamp\nAcme chair\n")
    assert run("search", "items.index", "queries.txt", "--model", MODEL).stdout == found
    built = ("index", "items.csv", "--model", MODEL, "-o", "items.index", "--queries")
    run(*built, "queries.txt")
    run(*built, "absent.txt", code=1)
    run("apply", MODEL, "queries.txt", "-o", "q.npz")
    assert run("suggest", MODEL, "items.csv", "-n", 2).stdout.count("\n") == 3
    told = json.loads(run("evaluate", MODEL, "items.csv", "judged.csv", "--json").stdout)
    ranked = told["measures"]["ndcg@10"]
    assert ranked["base"]["mean"] < ranked["adapted"]["mean"]
    arguments = ("promote", "g", "items.csv", "judged.csv", "--model", MODEL, "--unseen", "--json")
    found = json.loads(run(*arguments).stdout)
    # One base, one start: the same figures as evaluate shows.
    assert found["base"] == pytest.approx(ranked["base"]["mean"])
    assert found["start"] == pytest.approx(ranked.get("start", ranked["base"])["mean"])
    assert found["challenger"] == pytest.approx(ranked["adapted"]["mean"])
    assert run("learn", "items.csv", "log.csv", code=2).stderr.count("exists already") == 1


MODEL = "model.safetensors"


def test_clicks_alone_are_refused_or_completed_by_todays_ranking(run, shop):
    error = run("learn", "items.csv", "clicks.csv", code=1).stderr
    assert "must say what was shown" in error
    assert "--shown base:10" in error
    run("learn", "items.csv", "clicks.csv", "--shown", "base:5")
    assert "the best 5 of today's ranking" in run("info", MODEL).stdout
    assert "base:N" in run("learn", "items.csv", "clicks.csv", "--shown", "5", code=2).stderr


@pytest.mark.parametrize("suffix", [".jsonl", ".parquet", ".db", ".tsv"])
def test_every_kind_of_table_has_the_same_columns(shop, suffix, tmp_path):
    path = tmp_path / f"items{suffix}"
    if suffix == ".tsv":
        with open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, list(shop[0]), delimiter="\t")
            writer.writeheader()
            writer.writerows(shop)
    elif suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(item)}\n" for item in shop))
    elif suffix == ".db":
        with sqlite3.connect(path) as database:
            database.execute(f"CREATE TABLE things ({', '.join(shop[0])})")
            rows = [tuple(item.values()) for item in shop]
            database.executemany(f"INSERT INTO things VALUES ({','.join('?' * 6)})", rows)
        database.close()
    else:
        import pandas

        pandas.DataFrame(shop).to_parquet(path)
    assert list(read_table(path)) == shop
    assert column_kinds(path) == column_kinds(tmp_path / "items.csv")


def test_a_column_found_wrong_is_said(run, shop):
    assert "brand, body: text" not in run("learn", "items.csv", "log.csv").stderr
    told = run(
        *("learn", "items.csv", "log.csv", "-o", "m"),
        *("--item-column", "brand=text", "--item-column", "price=unused"),
    ).stderr
    assert "title, body, brand: text" in told
    assert "price: unused" in told
    assert load("m").layout_.columns("number") == []
    wrong = ("learn", "items.csv", "log.csv", "-o", "m", "--item-column")
    assert "columns must be among" in run(*wrong, "cost=number", code=1).stderr
    assert "one of id, text" in run(*wrong, "price=money", code=1).stderr


def test_logs_that_say_little_are_warned_of(run, shop):
    rows = [{"query": "lamp", "item": f"p{n % 40}", "click": int(n % 4 == 0)} for n in range(400)]
    for number, row in enumerate(rows):
        row["impression"] = number // 4
    write("thin.csv", rows)
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        error = run("learn", "items.csv", "thin.csv").stderr
    assert "every click is on the first place" in error
    assert "all 100 lists are of one query" in error


def test_items_are_queries_where_the_log_says_so(run, shop):
    pairs = [{"query": "p1", "item": f"p{n}", "click": int(n == 3)} for n in range(2, 6)]
    write("like.csv", pairs)
    run("learn", "items.csv", "like.csv")
    found = run("search", "items.csv", "items.csv", "--model", MODEL, "-k", 1).stdout
    assert len(found.splitlines()) == 201


def test_what_cannot_be_read_is_said_in_a_sentence(run, shop, tmp_path):
    (tmp_path / "bad.csv").write_text("id,title\n1,a lamp\n2\n")
    assert "2 fields, as the header does" in run("learn", "bad.csv", "log.csv", code=1).stderr
    (tmp_path / "numbers.csv").write_text("id,price\n1,2\n2,3\n")
    error = run("learn", "numbers.csv", "log.csv", code=1).stderr
    assert "column of texts or of vectors" in error
    (tmp_path / "empty.csv").write_text("id,title\n")
    assert "at least one row" in run("learn", "empty.csv", "log.csv", code=1).stderr


def test_numbers_of_parquet_may_be_nan(tmp_path):
    import pandas

    path = tmp_path / "items.parquet"
    columns = {"id": ["a", "b", "c"], "title": ["a lamp", "a chair", "a bowl"]}
    pandas.DataFrame({**columns, "price": [1.0, np.nan, 3.0]}).to_parquet(path)
    assert column_kinds(path)["price"] == "number"
    assert ViewLayout.found_in(path).items(path).X["price"].ravel().tolist() == [1, 2, 3]


@pytest.mark.parametrize("unit", ["s", "us"])
def test_a_date_that_python_cannot_hold_is_named_with_its_row(tmp_path, unit):
    import pyarrow
    from pyarrow import parquet

    path, far = tmp_path / "items.parquet", {"s": 10**12, "us": -(10**17)}[unit]
    dates = pyarrow.array([0, 1, far], pyarrow.timestamp(unit))
    columns = {"id": ["a", "b", "c"], "title": ["a lamp", "a chair", "a bowl"], "added": dates}
    parquet.write_table(pyarrow.table(columns), path)
    said = "added must be a date of the years 1 to 9999, got another in row 3"
    with pytest.raises(ValueError, match=said):
        column_kinds(path)
