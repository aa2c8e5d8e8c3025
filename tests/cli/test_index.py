"""Commands around an index: index, search, promote, rollback."""

import csv
import io
import json

import numpy as np
import pytest
from scipy import sparse

from similia import LEGO, FactoredAROMA, load, save


@pytest.fixture
def model(files):
    path = files / "model.safetensors"
    save(FactoredAROMA().learn(np.load(files / "X.npy"), np.load(files / "feedback.npy")), path)
    return path


def rows_of(text):
    return list(csv.DictReader(io.StringIO(text)))


@pytest.mark.parametrize("backend", ["exact", "faiss", "usearch"])
def test_one_index_is_searched_before_and_after_learning(backend, run, files, model):
    if backend != "exact":
        pytest.importorskip(backend)
    (files / "X.npy.ids").write_text("".join(f"v{i}\n" for i in range(40)))
    path = files / "index"
    built = json.loads(
        run("index", files / "X.npy", "-o", path, "--backend", backend, "--json").stdout
    )
    assert built["n_items"] == 40
    assert built["recall"] > 0.9
    X = np.load(files / "X.npy")
    for options, scores in (
        ((), X @ X.T),
        (("--model", model), load(model).pairwise_score(X)),
    ):
        found = rows_of(run("search", path, files / "X.npy", "-k", 3, *options).stdout)
        assert len(found) == 120
        assert list(found[0]) == ["query", "rank", "item", "score"]
        for i, row in enumerate(found[::3]):
            assert row["query"] == f"v{i}"
            assert row["rank"] == "1"
            assert float(row["score"]) == pytest.approx(scores[i].max(), rel=1e-3)


def test_sparse_vectors_are_indexed_searched_and_evaluated(run, files):
    rng = np.random.default_rng(4)
    X = sparse.csr_array(np.load(files / "X.npy") * (rng.random((40, 6)) < 0.7))
    vectors, feedback, model = files / "X.npz", files / "feedback.csv", files / "m"
    sparse.save_npz(vectors, X)
    run("learn", vectors, feedback, "-o", model, "--learner", "DiagonalAROMA")
    built = run("index", vectors, "-o", files / "index", "--queries", vectors, "--model", model)
    assert "exact: 40 items of 6 features" in built.stdout
    found = rows_of(run("search", files / "index", vectors, "-k", 2, "--model", model).stdout)
    scores = load(model).pairwise_score(X)
    assert [float(row["score"]) for row in found[::2]] == pytest.approx(
        scores.max(axis=1), rel=1e-4
    )
    told = json.loads(run("evaluate", model, vectors, feedback, "--json").stdout)
    assert told["measures"]["pairwise_accuracy"]["difference"] > 0
    refused = run("index", vectors, "-o", files / "i", "--backend", "faiss", code=1)
    assert "backend must be 'exact' for sparse items, got 'faiss'" in refused.stderr


def test_a_metric_is_built_into_its_index(run, files):
    X = np.load(files / "X.npy")
    pairs = np.random.default_rng(0).integers(40, size=(200, 2))
    save(LEGO().learn(X, pairs, np.where((pairs[:, 0] - pairs[:, 1]) % 2 == 0, 1, -1)), files / "m")
    result = run("index", files / "X.npy", "-o", files / "index", "--model", files / "m")
    assert "l2" in result.stdout
    assert "recall" in result.stdout
    lines = run("search", files / "index", files / "X.npy", "-k", 1, "--format", "jsonl").stdout
    found = [json.loads(line) for line in lines.splitlines()]
    assert [row["item"] for row in found] == list(range(40))


def test_recall_is_measured_with_given_queries_and_options(run, files, model):
    pytest.importorskip("faiss")
    arguments = ("index", files / "X.npy", "-o", files / "i", "--backend", "faiss", "--json")
    asked = ("--queries", files / "X.npy", "--model", model, "--recall-at", 5)
    found = json.loads(run(*arguments, *asked).stdout)
    assert found["n_queries"] == 40
    assert found["k"] == 5
    result = run(*arguments, "--set", "nonsense=1", code=1)
    assert "options must be some of" in result.stderr


def test_queries_come_from_standard_input(run, files, model):
    run("index", files / "X.npy", "-o", files / "i")
    x = np.load(files / "X.npy")[7].tolist()
    text = json.dumps({"id": "q", "vector": x}) + "\n"
    found = rows_of(run("search", files / "i", "-", "-k", 100, stdin=text).stdout)
    assert len(found) == 40
    assert {row["query"] for row in found} == {"q"}


def test_what_is_no_index_is_refused(run, files, model):
    assert "no index" in run("search", model, files / "X.npy", code=1).stderr
    run("index", files / "X.npy", "-o", files / "i")
    text = run("info", files / "i").stdout
    assert "n_items" in text or "backend" in text


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
    run("promote", folder, vectors, clicks, "--base", "inner_product")
    run("index", vectors, "-o", files / "i")
    found = rows_of(run("search", files / "i", vectors, "-k", 1, "--model", folder).stdout)
    scores = load(folder / "generation-000001.safetensors").pairwise_score(np.load(files / "V.npy"))
    assert [float(row["score"]) for row in found] == pytest.approx(scores.max(axis=1), rel=1e-4)


def test_a_better_challenger_is_promoted_searched_by_and_rolled_back(run, files, clicks):
    folder = files / "generations"
    arguments = ("promote", folder, files / "V.npy", clicks, "--base", "inner_product")
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
    assert result.stdout == "Generation 0 is in use; before, 1 was.\n"
    plain = run("search", files / "i", files / "V.npy").stdout
    assert run("search", files / "i", files / "V.npy", "--model", folder).stdout == plain
    assert "the base is in use" in run("apply", folder, files / "V.npy", code=1).stderr
    assert json.loads(run("rollback", folder, "--to", 1, "--json").stdout) == {"from": 0, "to": 1}


def test_the_champion_goes_on_learning(run, files, clicks):
    folder = files / "generations"
    base = ("--base", "inner_product")
    few = files / "few.csv"
    few.write_text("\n".join(clicks.read_text().splitlines()[:1500]) + "\n")
    run("promote", folder, files / "V.npy", few, *base)
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
    arguments = ("promote", files / "h", files / "V.npy", files / "g.csv", "--json")
    result = run(*arguments, "--items", files / "V.npy", "--measure", "ndcg@10")
    assert json.loads(result.stdout)["measure"] == "ndcg@10"
    result = run(*arguments, "--measure", "ndcg@10", code=1)
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
