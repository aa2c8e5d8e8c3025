"""``similia clicks``: what a log can tell, and the same log as CSV."""

import csv
import json

import numpy as np
import pytest


@pytest.fixture
def vectors(tmp_path):
    rng = np.random.default_rng(0)
    np.save(tmp_path / "Q.npy", rng.normal(size=(3, 4)))
    np.save(tmp_path / "Z.npy", rng.normal(size=(6, 4)))
    (tmp_path / "Q.npy.ids").write_text("red\nblue\ngreen\n")
    (tmp_path / "Z.npy.ids").write_text("\n".join("abcdef"))
    return tmp_path


def write_log(path, rng, n=4000, swapped=True):
    """Three items a list, looked at with probability 1, 1/2, 1/4."""
    with open(path, "w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["list", "query", "item", "rank", "click"])
        for number in range(n):
            items = rng.permutation(3) if swapped else np.arange(3)
            for place, item in enumerate(items):
                clicked = int(rng.random() < 0.5**place * (0.8, 0.4, 0.2)[item])
                table.writerow([number, "red", "abc"[item], place + 1, clicked])


def arguments(folder, path):
    sides = [folder / "Q.npy", path, "--items", folder / "Z.npy"]
    return ["clicks", *sides, "--columns", "impression=list", "--position", "rank"]


def test_the_effect_of_places_is_told_from_that_of_items(run, vectors, rng):
    write_log(vectors / "log.csv", rng)
    found = json.loads(run(*arguments(vectors, vectors / "log.csv"), "--json").stdout)
    assert (found["n_lists"], found["n_shown"]) == (4000, 12000)
    looks = [place["propensity"] for place in found["places"]]
    np.testing.assert_allclose(looks, [1, 0.5, 0.25], rtol=0.15)
    assert found["effective_sample_size"] < found["n_clicks"]
    text = run(*arguments(vectors, vectors / "log.csv")).stdout
    assert "clicks would count as" in text
    assert "propensity" in text


@pytest.mark.filterwarnings("default")
def test_an_order_that_never_changes_is_warned_of(run, vectors, rng):
    write_log(vectors / "log.csv", rng, 50, swapped=False)
    result = run(*arguments(vectors, vectors / "log.csv"))
    assert "the log cannot identify the effect of places 2, 3" in result.stderr
    assert "unknown" in result.stdout


@pytest.mark.filterwarnings("default")  # all lists are of one query
def test_a_corrected_log_is_one_to_learn_from(run, vectors, rng):
    write_log(vectors / "log.csv", rng, 300)
    out = vectors / "corrected.csv"
    assert (
        "add --output" in run(*arguments(vectors, vectors / "log.csv"), "--correct", code=2).output
    )
    run(*arguments(vectors, vectors / "log.csv"), "--correct", "-o", out)
    with open(out) as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["impression", "query", "item", "click"]
    assert len(rows) == 900
    assert {row["query"] for row in rows} == {"red"}
    assert max(float(row["click"]) for row in rows) > 1
    sides = [vectors / "Q.npy", out, "--items", vectors / "Z.npy"]
    run("learn", *sides, "-o", vectors / "m.safetensors")


@pytest.mark.filterwarnings("default")
def test_ubi_becomes_a_log_to_learn_from(run, vectors):
    queries = [
        {"query_id": f"s{i}", "user_query": "red", "query_response_hit_ids": list("abc")}
        for i in range(5)
    ]
    place = {"object": {"object_id": "b"}, "position": {"ordinal": 2}}
    clicks = [{"action_name": "click", "query_id": "s1", "event_attributes": place}]
    for name, rows in (("queries", queries), ("events", clicks)):
        (vectors / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    out = vectors / "log.csv"
    ubi = [vectors / "queries.jsonl", "--events", vectors / "events.jsonl", "-o", out]
    result = run("clicks", vectors / "Q.npy", *ubi, "--items", vectors / "Z.npy")
    assert "searches" in result.stdout
    with open(out) as file:
        rows = list(csv.DictReader(file))
    assert [row["item"] for row in rows if row["click"] == "1"] == ["b"]
    assert len(rows) == 15
    run(
        "learn",
        vectors / "Q.npy",
        out,
        "--items",
        vectors / "Z.npy",
        "-o",
        vectors / "m.safetensors",
    )


def test_bad_logs_are_answered(run, vectors):
    (vectors / "log.csv").write_text("query,item,click\nred,a,1\nred,nothing,0\n")
    sides = ["clicks", vectors / "Q.npy", vectors / "log.csv", "--items", vectors / "Z.npy"]
    assert "unknown id 'nothing' in column item" in run(*sides, code=3).output
    result = run(*sides, "--bad-rows", "skip", "-o", vectors / "out.csv")
    assert "has no places" in result.stderr
    assert result.stderr.count("skipped:") == 1
    error = run(*sides, "--bad-rows", "skip", "-o", vectors / "out.csv", "--correct", code=1)
    assert "--correct needs places" in error.output
    (vectors / "log.csv").write_text("query,item\nred,a\n")
    assert "must say what was shown, too" in run(*sides, code=1).output
    assert "--query must be" in run(*sides, "--query", "else", code=2).output
