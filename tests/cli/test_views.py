"""Views on the command line, from learning to search."""

import csv
import io
import json
import re
import subprocess
import sys

import numpy as np
import pytest

from similia import Blend, load, read_vectors

WORDS = ["red", "blue", "shoes", "hat", "old", "new", "cheap", "car", "tree", "house"]


@pytest.fixture
def shop(tmp_path):
    """Queries and items with titles, prices and a log in which the cheapest item is clicked."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "items.npy", rng.normal(size=(50, 6)).astype(np.float32))
    np.save(tmp_path / "queries.npy", rng.normal(size=(30, 6)).astype(np.float32))
    price = rng.uniform(1, 9, size=50)
    rows = [f'{i},"{" ".join(rng.choice(WORDS, 4))}",{price[i]}\n' for i in rng.permutation(50)]
    (tmp_path / "items.csv").write_text("id,title,price\n" + "".join(rows))
    texts = [" ".join(rng.choice(WORDS, 2)) + "\n" for _ in range(30)]
    (tmp_path / "queries.txt").write_text("".join(texts))
    lines = ["query,item,click,impression,rank"]
    for i in range(240):
        shown = rng.choice(50, 6, replace=False)
        best = shown[np.argmin(price[shown])]
        lines += [f"{i % 30},{z},{int(z == best)},{i},{p + 1}" for p, z in enumerate(shown)]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


@pytest.fixture
def views(shop):
    table = shop / "items.csv"
    texts = ("--text", f"title={table}", "--query-text", f"title={shop / 'queries.txt'}")
    return ("--items", shop / "items.npy", "--view", f"price={table}", *texts)


@pytest.fixture
def model(run, shop, views):
    path = shop / "model.safetensors"
    arguments = (shop / "queries.npy", shop / "log.csv", *views, "--position", "rank")
    run("learn", *arguments, "-o", path)
    return path


def test_learn_blends_by_default_and_info_tells_the_start_from_what_was_learnt(run, shop, model):
    blend = load(model)
    assert isinstance(blend, Blend)
    assert blend.names_ == ["vectors", "price", "title"]
    assert blend.nuisances_ == ["position"]
    assert blend.weights_[1] < -0.2
    text = run("info", model).stdout
    assert "vectors +1, price +0" in text
    assert "lists  count 100%" in text
    assert "does not count yet" in text
    found = json.loads(run("info", model, "--json").stdout)
    assert found["start"] == dict(zip(blend.names_, blend.start_weights_.tolist(), strict=True))
    assert found["weights"] == dict(zip(blend.names_, blend.weights_.tolist(), strict=True))
    assert found["trust"] == blend.trust_


def test_a_blend_is_described_without_any_learner(model):
    code = (
        "import sys; from typer.testing import CliRunner; from similia.cli.main import app; "
        f"assert not CliRunner().invoke(app, ['info', {str(model)!r}]).exit_code; "
        "assert not {'sklearn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_blend_whose_weights_are_damaged_is_refused_in_words(run, model):
    weights = load(model).clicks_part_.ranks
    raw = model.read_bytes()
    assert weights.tobytes() in raw
    model.write_bytes(raw.replace(weights.tobytes(), (weights + 1).tobytes()))
    assert "clicks_ranks_ does not match its checksum" in run("info", model, code=1).stderr


def test_a_model_of_views_is_evaluated_compared_and_asked(run, shop, views, model):
    given = (shop / "queries.npy", shop / "log.csv", *views)
    found = json.loads(run("evaluate", model, *given, "--json").stdout)
    assert found["measures"]["pairwise_accuracy"]["better"] == "adapted"
    found = json.loads(run("compare", *given, "--position", "rank", "--json").stdout)
    assert [entry["learner"] for entry in found["learners"]] == ["Blend"]
    rows = run("suggest", model, shop / "queries.npy", *views, "-n", 3).stdout
    assert len(list(csv.DictReader(io.StringIO(rows)))) == 3


def test_a_blend_is_promoted_from_a_log_and_from_its_split(run, shop, views):
    given = (shop / "queries.npy", shop / "log.csv")
    options = ("--position", "rank", "--base", "inner_product", "--json")
    found = json.loads(run("promote", shop / "no", *given, *views, *options, code=4).stdout)
    assert found["clicks"]
    options = (*options, "--judgements")
    found = json.loads(run("promote", shop / "one", *given, *views, *options).stdout)
    assert found["promoted"]
    rest, model = shop / "rest.csv", shop / "rest.safetensors"
    run("split", shop / "two", *given, "--items", shop / "items.npy", "-o", rest)
    log = (shop / "log.csv").read_text().splitlines()
    kept = rest.read_text().splitlines()
    assert kept == [line for line in log if line in set(kept)]
    held = {line.split(",")[0] for line in log[1:]} - {line.split(",")[0] for line in kept[1:]}
    assert held
    assert len(kept) == 1 + sum(line.split(",")[0] not in held for line in log[1:])
    run("learn", shop / "queries.npy", rest, *views, "--position", "rank", "-o", model)
    judged = ("promote", shop / "two", *given, *views, "--model", model, *options)
    again = json.loads(run(*judged).stdout)
    assert again["promoted"]
    assert again["challenger"] == found["challenger"]


def test_views_are_indexed_searched_and_applied(run, shop, views, model):
    table = shop / "items.csv"
    items = ("--view", f"price={table}", "--text", f"title={table}")
    asked = ("--text", f"title={table}", "--query-text", f"title={shop / 'queries.txt'}")
    index = shop / "index"
    run("index", shop / "items.npy", "--model", model, *items, "-o", index)
    text = run("search", index, shop / "queries.npy", "--model", model, *asked, "-k", 1).stdout
    best = [int(row["item"]) for row in csv.DictReader(io.StringIO(text))]
    for side, extra, name in (("queries", asked, "queries"), ("items", items, "items")):
        output = shop / f"{side}.jsonl"
        run("apply", model, shop / f"{name}.npy", "--as", side, *extra, "-o", output)
    Q, Z = (read_vectors(shop / f"{side}.jsonl").X for side in ("queries", "items"))
    assert (Q @ Z.T).argmax(axis=1).tolist() == best


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (("--view", "price"), 2, "--view must be NAME=FILE"),
        (("--view", "price=no.npy"), 1, "no.npy: No such file or directory."),
        (("--query-text", "title=items.csv"), 1, "texts of the items must be given"),
        (("--position", "place"), 1, "columns must be among"),
        (("--learner", "OASIS", "--view", "price=items.csv"), 1, "must be one matrix, got Views"),
    ],
)
def test_bad_views_give_one_line(options, code, message, run, shop, monkeypatch):
    monkeypatch.chdir(shop)
    given = ("queries.npy", "log.csv", "--items", "items.npy", "-o", "model.safetensors")
    result = run("learn", *given, *options, code=code)
    assert message in " ".join(result.output.split())
    assert not (shop / "model.safetensors").exists()


def test_texts_of_items_alone_are_refused_before_anything_is_read(run, shop):
    given = ("--items", shop / "items.npy", "--text", f"title={shop / 'items.csv'}")
    result = run("learn", shop / "queries.npy", shop / "log.csv", *given, "-o", "x", code=1)
    assert "texts of the queries must be given, too, for the view title" in result.stderr
    assert "--query-text title=FILE" in result.stderr


@pytest.mark.filterwarnings("default")
def test_a_log_without_a_click_is_warned_of(run, shop):
    rows = (shop / "log.csv").read_text().splitlines()
    none = [rows[0], *(re.sub(r"^(\d+,\d+),1", r"\1,0", row) for row in rows[1:])]
    (shop / "none.csv").write_text("\n".join(none) + "\n")
    given = ("--items", shop / "items.npy", "-o", shop / "m.safetensors")
    result = run("learn", shop / "queries.npy", shop / "none.csv", *given)
    assert "warning: " in result.stderr
    assert "nothing was clicked in 240 lists" in result.stderr
