"""Commands around a folder of generations: split, promote, rollback."""

import csv
import io
import json

import numpy as np
import pytest
from scipy import sparse

from similia import load

#: few queries are enough for it
LEARNER = ("--learner", "FactoredAROMA")
BASE = ("--base", "inner_product")


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.fixture
def clicks(files):
    """Judgements in the file that a base of inner products gets wrong: only one half matters."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 8)) * np.array([4.0] * 4 + [1.0] * 4)
    query, a, b = rng.integers(80, size=(3, 4000))
    gap = (X[query] * (X[a] - X[b]))[:, 4:].sum(axis=1)
    rows = np.column_stack([query, np.where(gap > 0, a, b), np.where(gap > 0, b, a)])
    np.save(files / "V.npy", X)
    path = files / "f.csv"
    np.savetxt(path, rows, "%d", delimiter=",", header="query,better,worse", comments="")
    return path


def test_a_challenger_on_sparse_vectors_is_promoted_and_searched_by(run, files, clicks):
    vectors, folder = files / "V.npz", files / "generations"
    sparse.save_npz(vectors, sparse.csr_array(np.load(files / "V.npy")))
    run("promote", folder, vectors, clicks, "--base", "inner_product", *LEARNER)
    run("index", vectors, "-o", files / "i")
    found = rows_of(run("search", files / "i", vectors, "-k", 1, "--model", folder).stdout)
    scores = load(folder / "generation-000001.safetensors").pairwise_score(np.load(files / "V.npy"))
    assert [float(row["score"]) for row in found] == pytest.approx(scores.max(axis=1), rel=1e-4)


def test_a_better_challenger_is_promoted_searched_by_and_rolled_back(run, files, clicks):
    folder = files / "generations"
    arguments = ("promote", folder, files / "V.npy", clicks, *BASE, *LEARNER)
    text = run(*arguments).stdout
    assert text.startswith("Promoted: better than the base")
    assert "against base" in text
    again = json.loads(run(*arguments, "--json", code=4).stdout)
    assert again["promoted"] is False
    assert again["generation"] == again["challenged"] == 1
    assert again["difference"] == 0
    run("index", files / "V.npy", "-o", files / "i")
    by_folder = run("search", files / "i", files / "V.npy", "--model", folder).stdout
    newest = folder / "generation-000001.safetensors"
    assert by_folder == run("search", files / "i", files / "V.npy", "--model", newest).stdout
    assert "promotion" in run("info", folder).stdout
    assert json.loads(run("info", folder, "--json").stdout)["current"] == 1
    result = run("rollback", folder)
    assert result.stdout == "Generation 0 is in use; it replaces generation 1.\n"
    plain = run("search", files / "i", files / "V.npy").stdout
    assert run("search", files / "i", files / "V.npy", "--model", folder).stdout == plain
    assert "the base is in use" in run("apply", folder, files / "V.npy", code=1).stderr
    assert json.loads(run("rollback", folder, "--to", 1, "--json").stdout) == {"from": 0, "to": 1}


def test_the_champion_goes_on_learning(run, files, clicks):
    folder = files / "generations"
    base = ("--base", "inner_product")
    few = files / "few.csv"
    few.write_text("\n".join(clicks.read_text().splitlines()[:1500]) + "\n")
    run("promote", folder, files / "V.npy", few, *base, *LEARNER)
    found = json.loads(
        run("promote", folder, files / "V.npy", clicks, "--continue", *base, "--json").stdout
    )
    assert found["generation"] == 2
    assert load(folder / "generation-000002.safetensors").n_seen_ > found["n_learnt"]
    run("promote", folder, files / "V.npy", clicks, "--continue", "--learner", "OASIS", code=2)


def test_a_base_that_is_as_good_stays(run, files):
    X = np.random.default_rng(0).normal(size=(60, 4))
    np.save(files / "V.npy", X)
    query, a, b = np.random.default_rng(1).integers(60, size=(3, 1500))
    gap = (X[query] * (X[a] - X[b])).sum(axis=1)
    rows = np.column_stack([query, np.where(gap > 0, a, b), np.where(gap > 0, b, a)])
    np.save(files / "f.npy", rows)
    base = ("--base", "inner_product")
    result = run("promote", files / "g", files / "V.npy", files / "f.npy", *base, code=4)
    assert result.stdout.startswith("Kept the base")


def test_pairs_and_grades_are_promoted_from(run, files):
    X = np.random.default_rng(0).normal(size=(80, 6)) * [9, 9, 9, 1, 1, 1]
    np.save(files / "V.npy", X)
    near = np.linalg.norm(X[:, None, 3:] - X[:, 3:], axis=2)
    pairs = np.random.default_rng(1).integers(80, size=(4000, 2))
    d = near[tuple(pairs.T)]
    rows = np.column_stack([pairs, np.where(d < 2, 1, -1)])
    np.savetxt(files / "p.csv", rows, "%d", delimiter=",", header="a,b,label", comments="")
    euclidean = ("--base", "euclidean")
    found = json.loads(
        run(
            *("promote", files / "g", files / "V.npy", files / "p.csv", *euclidean),
            *("--learner", "LEGO", "--json"),
        ).stdout
    )
    assert found["measure"] == "pairwise_accuracy"
    graded = np.column_stack([pairs, np.where(d < 2, 1, 0)])
    np.savetxt(
        files / "g.csv", graded, "%d", delimiter=",", header="query,item,relevance", comments=""
    )
    arguments = ("promote", files / "h", files / "V.npy", files / "g.csv", "--json", *LEARNER)
    arguments += ("--base", "cosine")
    result = run(*arguments, "--items", files / "V.npy", "--measure", "nDCG@10", code=4)
    assert json.loads(result.stdout)["measure"] == "ndcg@10"
    arguments = ("promote", files / "i", files / "V.npy", files / "g.csv", "--json", *LEARNER)
    arguments += ("--base", "cosine")
    # Of the vectors themselves; nDCG@10 by default.
    found = json.loads(run(*arguments, code=4).stdout)
    assert (found["measure"], found["beside"]["measure"]) == ("ndcg@10", "pairwise_accuracy")
    arguments = ("promote", files / "k", files / "V.npy", files / "p.csv", "--measure", "nDCG@10")
    result = run(*arguments, "--learner", "LEGO", code=1)
    assert "measure must be left out" in result.stderr


def test_rolling_back_nothing_is_an_error(run, tmp_path):
    assert "no folder" in run("rollback", tmp_path / "none", code=1).stderr
    assert "got the base already" in run("rollback", tmp_path, code=1).stderr


def test_only_what_ranks_is_promoted(run, files):
    (files / "l.csv").write_text("row,label\n1,a\n2,b\n")
    arguments = ("promote", files / "g", files / "X.npy", files / "l.csv", "--learner", "AROW")
    assert "got AROW, a classifier" in run(*arguments, code=1).stderr
    (files / "p.csv").write_text("a,b,label\n")
    arguments = ("promote", files / "g", files / "X.npy", files / "p.csv", "--learner", "POLA")
    assert "at least one judgement" in run(*arguments, code=1).stderr


def test_a_model_learnt_from_what_a_split_leaves_is_judged_as_promote_would(run, files, clicks):
    here, there = files / "here", files / "there"
    learning, model = files / "learning.csv", files / "model.safetensors"
    options = (*BASE, *LEARNER, "--json")
    expected = json.loads(run("promote", here, files / "V.npy", clicks, *options).stdout)
    told = json.loads(run("split", there, files / "V.npy", clicks, "-o", learning, "--json").stdout)
    assert told["n_learning"] == expected["n_learnt"] == len(learning.read_text().splitlines()) - 1
    assert (told["n_held_out"], told["n_queries"]) == (
        expected["n_held_out"],
        expected["n_queries"],
    )
    run("learn", files / "V.npy", learning, "-o", model, *LEARNER)
    judging = ("promote", there, files / "V.npy", clicks, *BASE, "--model", model)
    assert json.loads(run(*judging, "--json").stdout) == expected
    names = ("W_", "moment_")
    ours, theirs = load(model), load(here / "generation-000001.safetensors")
    for name in names:
        np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
    assert run(*judging, code=4).stdout.startswith("Kept generation 1")
    assert "Held out" in run("info", there).stdout


@pytest.mark.parametrize("kind", ["pairs", "grades"])
def test_pairs_and_grades_are_split_and_judged_alike(kind, run, files):
    X = np.random.default_rng(0).normal(size=(80, 6)) * [9, 9, 9, 1, 1, 1]
    np.save(files / "V.npy", X)
    pairs = np.random.default_rng(1).integers(80, size=(4000, 2))
    near = np.linalg.norm(X[pairs[:, 0], 3:] - X[pairs[:, 1], 3:], axis=1) < 2
    header = "a,b,label" if kind == "pairs" else "query,item,relevance"
    rows = np.column_stack([pairs, np.where(near, 1, -1 if kind == "pairs" else 0)])
    path, learning, model = files / "f.csv", files / "l.csv", files / "m"
    np.savetxt(path, rows, "%d", delimiter=",", header=header, comments="")
    learner = ("--learner", "LEGO" if kind == "pairs" else "FactoredAROMA")
    sides = () if kind == "pairs" else ("--items", files / "V.npy")
    options = ("--base", "euclidean") if kind == "pairs" else ("--measure", "ndcg@10")
    options += () if kind == "pairs" else ("--base", "cosine")
    options += ("--json", *sides)
    code = 0 if kind == "pairs" else 4  # too few queries for nDCG@10
    here = run("promote", files / "here", files / "V.npy", path, *learner, *options, code=code)
    run("split", files / "there", files / "V.npy", path, "-o", learning, *sides)
    run("learn", files / "V.npy", learning, "-o", model, *learner, *sides)
    arguments = ("promote", files / "there", files / "V.npy", path, *options, "--model", model)
    assert json.loads(run(*arguments, code=code).stdout) == json.loads(here.stdout)


@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "arrow", "npy"])
def test_a_split_copies_rows_as_they_are_in_any_format(suffix, run, files):
    rows = np.load(files / "feedback.npy")
    path, learning = files / f"f.{suffix}", files / f"learning.{suffix}"
    names = ["query", "better", "worse"]
    records = [
        dict(zip(names, row, strict=True)) | {"by": f"user {i}"}
        for i, row in enumerate(rows.tolist())
    ]
    if suffix == "csv":
        lines = ["", *(",".join(map(str, record.values())) for record in records)]
        path.write_bytes("\r\n".join(["query,better,worse,by", *lines]).encode())
    elif suffix == "jsonl":
        path.write_text("\n".join(map(json.dumps, records)))
    elif suffix == "npy":
        np.save(path, rows)
    else:
        arrow = pytest.importorskip("pyarrow")
        from pyarrow import feather, parquet

        table = arrow.Table.from_pylist(records)
        if suffix == "parquet":
            parquet.write_table(table, path, row_group_size=64)
        else:
            feather.write_feather(table, path, compression="uncompressed", chunksize=64)
    run("split", files / "g", files / "X.npy", path, "-o", learning, "--hold-out", 0.4)
    from similia.trust import held_out

    kept = ~held_out(rows[:, 0], 0.4)
    if suffix == "csv":
        assert learning.read_bytes().startswith(b"query,better,worse,by\r\n")
        found = rows_of(learning.read_text())
    elif suffix == "jsonl":
        found = [json.loads(line) for line in learning.read_text().splitlines()]
    elif suffix == "npy":
        np.testing.assert_array_equal(np.load(learning), rows[kept])
        return
    else:
        found = (parquet.read_table if suffix == "parquet" else feather.read_table)(
            learning
        ).to_pylist()
    expected = [record for record, keep in zip(records, kept, strict=True) if keep]
    assert [{n: str(v) for n, v in row.items()} for row in found] == [
        {n: str(v) for n, v in row.items()} for row in expected
    ]


def test_the_split_of_a_folder_is_kept_by_later_commands(run, files, clicks):
    folder, learning = files / "g", files / "learning.csv"
    split = ("split", folder, files / "V.npy", clicks, "-o", learning)
    told = run(*split, "--hold-out", 0.5, "--seed", 9).stdout
    assert "(share 0.5, seed 9)" in told
    assert str(learning) in told
    before = learning.read_bytes()
    options = (*BASE, *LEARNER, "--json")
    found = json.loads(run("promote", folder, files / "V.npy", clicks, *options).stdout)
    assert found["n_learnt"] == len(before.splitlines()) - 1
    for command in (split, ("promote", folder, files / "V.npy", clicks)):
        refused = run(*command, "--hold-out", 0.3, code=1).stderr
        assert "share and seed must be 0.5 and 9" in refused
    assert learning.read_bytes() == before


def test_a_model_that_may_have_seen_the_held_out_queries_is_refused(run, files, clicks):
    folder, model, learning = files / "g", files / "m", files / "learning.csv"
    run("learn", files / "V.npy", clicks, "-o", model)
    judging = ("promote", folder, files / "V.npy", "--model", model)
    assert "the split must be recorded before" in run(*judging, clicks, code=1).stderr
    assert not folder.exists()
    run("split", folder, files / "V.npy", clicks, "-o", learning)
    other = files / "other.csv"
    lines = clicks.read_text().splitlines()
    other.write_text("\n".join([lines[0], *lines[2:]]) + "\n")
    for path in (other, learning):
        refused = run(*judging, path, code=1).stderr
        assert "held-out judgements must be those of the recorded split" in refused
    assert json.loads(run("info", folder, "--json").stdout)["current"] == 0


def test_bad_splits_are_refused_and_leave_nothing(run, files, clicks):
    folder, V = files / "g", files / "V.npy"
    assert (
        "output must end in .csv" in run("split", folder, V, clicks, "-o", "l.npy", code=1).stderr
    )
    run("split", folder, V, clicks, "-o", clicks, code=2)
    (files / "l.csv").write_text("row,label\n1,a\n2,b\n")
    out = ("-o", files / "learning.csv")
    assert "got labels" in run("split", folder, V, files / "l.csv", *out, code=1).stderr
    (files / "none.csv").write_text("query,better,worse\n1,2,3\n")
    refused = run("split", folder, V, files / "none.csv", *out, code=1).stderr
    assert "held-out queries must be at least one" in refused
    (files / "one.csv").write_text("query,better,worse\n5,2,3\n")
    assert "left to learn from" in run("split", folder, V, files / "one.csv", *out, code=1).stderr
    (files / "bad.csv").write_text(clicks.read_text() + "1,2,99\n")
    run("split", folder, V, files / "bad.csv", *out, code=3)
    assert not folder.exists()
    assert not (files / "learning.csv").exists()
    told = run("split", folder, V, files / "bad.csv", *out, "--bad-rows", "skip", "--json").stdout
    assert json.loads(told)["bad_rows"]["n"] == 1
    model = ("--model", files / "m")
    for option in (("--continue",), ("--learner", "OASIS"), ("--set", "C=1")):
        run("promote", folder, V, clicks, *model, *option, code=2)


def test_a_matrix_of_pairs_is_split_by_kind(run, files):
    pairs = np.random.default_rng(1).integers(40, size=(400, 2))
    rows = np.column_stack([pairs, np.where((pairs[:, 0] - pairs[:, 1]) % 2 == 0, 1, -1)])
    np.save(files / "p.npy", rows)
    arguments = ("split", files / "g", files / "X.npy", files / "p.npy", "-o", files / "l.npy")
    run(*arguments, code=3)
    run(*arguments, "--kind", "pairs")
    run("learn", files / "X.npy", files / "l.npy", "-o", files / "m", "--learner", "LEGO")
    judging = ("promote", files / "g", files / "X.npy", files / "p.npy", "--model", files / "m")
    assert run(*judging, "--base", "euclidean", code=4).stdout.startswith("Kept the base")


def test_feedback_is_opened_once_even_from_standard_input(run, files, clicks, monkeypatch):
    import similia.files.source as module

    n_opened, opened = 0, module.opened

    def counted(path):
        nonlocal n_opened
        n_opened += 1
        return opened(path)

    monkeypatch.setattr(module, "opened", counted)
    folder = files / "g"
    from_file = run("promote", folder, files / "V.npy", clicks, *BASE, *LEARNER).stdout
    assert n_opened == 1
    text = clicks.read_text()
    piped = run("promote", files / "h", files / "V.npy", "-", *BASE, *LEARNER, stdin=text).stdout
    assert piped == from_file
    run("split", folder, files / "V.npy", "-", "-o", files / "l.csv", stdin=text)
    run("learn", files / "V.npy", files / "l.csv", "-o", files / "m", *LEARNER)
    n_opened = 0
    run("promote", folder, files / "V.npy", clicks, *BASE, "--model", files / "m", code=4)
    assert n_opened == 1


def test_a_log_with_bad_rows_is_not_split(run, files):
    rows = ["impression,query,item,click", "x,0,99,1"]
    rows += [f"{i},{i % 40},{(i + j) % 40},{int(j == 1)}" for i in range(80) for j in range(3)]
    (files / "log.csv").write_text("\n".join(rows))
    output = files / "rest.csv"
    given = ("split", files / "g", files / "X.npy", files / "log.csv", "-o", output)
    result = run(*given, "--bad-rows", "skip", code=1)
    assert "a log to split must have no bad rows, got 1" in result.stderr
    assert not output.exists()


def test_an_unseen_model_is_judged_on_every_query(run, files, clicks):
    learning, judging, model = files / "a.csv", files / "b.csv", files / "m"
    rows = clicks.read_text().splitlines()
    old = [row for row in rows[1:] if int(row.split(",")[0]) < 40]
    new = [row for row in rows[1:] if int(row.split(",")[0]) >= 40]
    learning.write_text("\n".join([rows[0], *old]) + "\n")
    judging.write_text("\n".join([rows[0], *new]) + "\n")
    run("learn", files / "V.npy", learning, "-o", model, *LEARNER)
    arguments = ("promote", files / "g", files / "V.npy", judging, *BASE)
    found = json.loads(run(*arguments, "--model", model, "--unseen", "--json").stdout)
    assert (found["n_queries"], found["n_held_out"]) == (40, len(new))
    run(*arguments, "--unseen", code=2)


def test_a_log_of_clicks_is_recognized_and_never_promotes(run, files):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 8)) * np.array([4.0] * 4 + [1.0] * 4)
    np.save(files / "V.npy", X)
    query, item = rng.integers(80, size=(2, 6000))
    liked = (X[query, 4:] * X[item, 4:]).sum(axis=1) > 1
    clicked = np.where(rng.random(6000) < 0.9, liked, ~liked)
    rows = np.column_stack([query, item, clicked])
    header = "query,item,relevance"
    np.savetxt(files / "c.csv", rows, "%d", delimiter=",", header=header, comments="")
    arguments = ("promote", files / "g", files / "V.npy", files / "c.csv", *BASE)
    text = run(*arguments, code=4).stdout
    assert text.startswith("Kept the base: clicks alone do not decide")
    assert "beside" in text
    assert "would do" in text or "is found" in text
    found = json.loads(run(*arguments, "--judgements", "--json").stdout)
    assert found["promoted"] is True
    assert found["clicks"] is False
