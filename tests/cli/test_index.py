"""Commands around an index: index, search."""

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
    thin = sparse.random(40, 90, 0.02, format="csr", random_state=0)
    sparse.save_npz(files / "thin.npz", thin)
    refused = run("index", files / "thin.npz", "-o", files / "i", "--backend", "faiss", code=1)
    assert "backend must be 'exact' for items that have sparse features only" in refused.stderr


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
    text = run("info", files / "i", "--verbose").stdout
    assert "n_items" in text or "backend" in text
