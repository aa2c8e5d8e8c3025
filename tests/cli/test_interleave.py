"""``similia interleave``: lists from two rankings, and whose items are clicked."""

import csv
import json

import numpy as np
import pytest

from similia import OASIS, save


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def write(path, rows):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)


@pytest.fixture
def drafted(run, tmp_path):
    """Lists of a model that knows what is wanted, interleaved with cosine."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 8)) * np.array([4.0] * 4 + [1.0] * 4)
    wanted = X[:, 4:] @ X[:, 4:].T
    query, a, b = rng.integers(60, size=(3, 3000))
    first = wanted[query, a] > wanted[query, b]
    rows = np.column_stack([query, np.where(first, a, b), np.where(first, b, a)])
    np.save(tmp_path / "X.npy", X)
    save(OASIS().learn(X, rows), tmp_path / "model.safetensors")
    searches = [
        {"search": f"s{i}", "query": int(q)} for i, q in enumerate(rng.integers(60, size=150))
    ]
    write(tmp_path / "searches.csv", searches)
    lists = tmp_path / "lists.csv"
    arguments = ["interleave", "draft", tmp_path / "model.safetensors", "cosine", "-o", lists]
    vectors = ["--vectors", tmp_path / "X.npy", "--searches", tmp_path / "searches.csv"]
    assert "150 lists, 1500 items" in run(*arguments, *vectors, "--seed", 0).stdout
    shown = read(lists)
    for row in shown:
        liked = wanted[int(row["query"]), int(row["item"])] > 3
        row["click"] = int(liked and rng.random() < 1 / int(row["position"]))
    write(lists, shown)
    return lists


def test_lists_name_search_team_and_champion(drafted):
    rows = read(drafted)
    assert list(rows[0])[:5] == ["search", "query", "item", "position", "team"]
    assert {row["team"] for row in rows} == {"challenger", "champion"}
    assert {row["champion"] for row in rows} == {"0"}
    first = [row for row in rows if row["search"] == "s0"]
    assert [int(row["position"]) for row in first] == list(range(1, 11))
    assert len({row["item"] for row in first} | {first[0]["query"]}) == 11


def test_a_better_challenger_is_preferred_and_promoted(run, drafted):
    folder, model = drafted.parent / "generations", drafted.parent / "model.safetensors"
    found = json.loads(run("interleave", "judge", drafted, "--json").stdout)
    assert found["wins"] > 2 * found["losses"]
    assert found["evidence"] > found["needed"] == pytest.approx(20)
    assert not folder.exists()
    challenge = ("interleave", "judge", drafted, "--folder", folder, "--model", model)
    text = run(*challenge).stdout
    assert "Promoted: better than the base" in text
    assert "preference on" in text
    again = run(*challenge, code=1)  # the lists were drafted with another champion
    assert "interleaving must be with the champion, generation 1, got generation 0" in again.output


def test_clicks_may_come_in_a_file_of_their_own(run, drafted):
    wanted = run("interleave", "judge", drafted).stdout
    rows = read(drafted)
    clicks = [{"item": r["item"], "search": r["search"]} for r in rows if r["click"] == "1"]
    write(drafted.parent / "clicks.csv", [*clicks, {"item": "99", "search": "s0"}])
    write(drafted, [{**row, "click": 0} for row in rows])
    found = run("interleave", "judge", drafted, "--clicks", drafted.parent / "clicks.csv")
    assert found.stdout == wanted
    assert "1 clicks are on what was not in their list" in found.stderr


def test_rankings_in_files_are_interleaved_without_vectors(run, tmp_path):
    (tmp_path / "a.run").write_text("q1 Q0 x 1 0.9 a\nq1 Q0 y 2 0.5 a\nq2 Q0 x 1 0.3 a\n")
    write(
        tmp_path / "b.csv",
        [{"query": "q1", "item": i, "score": s} for i, s in (("z", 2), ("y", 1))],
    )
    out = tmp_path / "lists.csv"
    result = run("interleave", "draft", tmp_path / "a.run", tmp_path / "b.csv", "-o", out)
    assert "1 lists, 3 items" in result.stdout
    assert "1 searches have no ranking by both" in result.stderr
    assert {row["item"]: row["team"] for row in read(out)}["x"] == "challenger"
    assert "wins 0 and loses 0 of 0 searches" in run("interleave", "judge", out).stdout
    error = run(
        "interleave",
        "judge",
        out,
        "--folder",
        tmp_path / "g",
        "--model",
        tmp_path / "a.run",
        code=1,
    )
    assert "the challenger of these lists must be the model" in error.output


@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        ({"team": "ours"}, 3, "row 2: not one of champion, challenger: 'ours' in column team"),
        ({"click": "maybe"}, 3, "not a number 'maybe' in column click"),
        ({"champion": 3}, 1, "champion must be the same in all rows"),
        ({"challenger": "else"}, 1, "challenger must be the same in all rows"),
    ],
)
def test_bad_lists_are_answered(run, drafted, change, code, message):
    rows = read(drafted)
    write(drafted, [{**rows[0], **change}, *rows[1:]])
    assert message in run("interleave", "judge", drafted, code=code).output


def test_misuse_is_answered(run, drafted):
    out = drafted.parent
    assert "go together" in run("interleave", "judge", drafted, "--folder", out, code=2).output
    (out / "empty.csv").write_text("search,item\n")
    found = run("interleave", "judge", drafted, "--clicks", out / "empty.csv", code=1).output
    assert "must have at least one row, got none" in found
    found = run("interleave", "judge", out / "searches.csv", code=1).output
    assert "must have the columns search,item,team" in found
