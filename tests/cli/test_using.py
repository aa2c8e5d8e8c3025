"""Commands that use a model: evaluate, compare, suggest, apply."""

import csv
import io
import json

import numpy as np
import pytest

from similia import LEGO, OASIS, FactoredAROMA, load, save
from similia.files import read_vectors
from similia.registry import LEARNERS
from tests.fixtures.make import FOLDER


@pytest.fixture
def model(files):
    """A model of the first half of the feedback."""
    triplets = np.load(files / "feedback.npy")
    path = files / "model.safetensors"
    save(FactoredAROMA().learn(np.load(files / "X.npy"), triplets[:200]), path)
    np.save(files / "rest.npy", triplets[200:])
    return path


def test_evaluate_puts_the_base_beside_the_model(run, files, model):
    arguments = ("evaluate", model, files / "X.npy", files / "rest.npy")
    found = json.loads(run(*arguments, "--json").stdout)
    order = found["measures"]["pairwise_accuracy"]
    assert order["difference"] == pytest.approx(order["adapted"]["mean"] - order["base"]["mean"])
    low, high = order["interval"]
    assert low <= order["difference"] <= high
    assert order["wins"] + order["ties"] + order["losses"] == found["n_queries"]
    text = run(*arguments).stdout
    assert text.split()[:4] == ["measure", "today's", "ranking", "(base)"]
    for figure in (order["base"]["mean"], order["adapted"]["mean"]):
        assert f"{figure:.4f}" in text


def test_evaluate_gives_all_measures_for_grades_and_labels(run, files, model):
    (files / "g.csv").write_text("query,item,relevance\n0,2,1\n0,4,2\n1,3,1\n")
    (files / "l.csv").write_text("row,label\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    for name, n in (("g.csv", 2), ("l.csv", 40)):
        arguments = ("evaluate", model, files / "X.npy", files / name, "-k", 3, "--json")
        found = json.loads(run(*arguments).stdout)
        names = ["precision@3", "recall@3", "ndcg@3", "map", "mrr", "r_precision"]
        assert sorted(found["measures"]) == sorted(names)
        assert found["n_queries"] == n


def test_evaluate_shows_the_measures_asked_for(run, files, model):
    (files / "g.csv").write_text("query,item,relevance\n0,2,1\n0,4,2\n1,3,1\n")
    arguments = ("evaluate", model, files / "X.npy", files / "g.csv")
    asked = ("--measure", "nDCG@7", "--measure", "AP")
    found = json.loads(run(*arguments, *asked, "--json").stdout)
    assert list(found["measures"]) == ["ndcg@7", "map"]
    assert found["n_tests"] == 2
    result = run(*arguments, "--measure", "nDGC@7", code=1)
    assert "did you mean ndcg@7?" in result.stderr
    result = run(*arguments, "--measure", "pairwise_accuracy", code=1)
    assert "measures must be one of" in result.stderr


def test_evaluate_takes_another_base_and_standard_input(run, files, model):
    other = files / "other.safetensors"
    save(OASIS().learn(np.load(files / "X.npy"), np.load(files / "feedback.npy")), other)
    text = "query,better,worse\n0,2,1\n1,3,2\n5,7,2\n"
    means = []
    for base in ("cosine", "euclidean", other):
        arguments = ("evaluate", model, files / "X.npy", "-", "--base", base, "--json")
        means.append(
            json.loads(run(*arguments, stdin=text).stdout)["measures"]["pairwise_accuracy"]["base"]
        )
    result = run("evaluate", model, files / "X.npy", "-", "--base", "none", stdin=text, code=1)
    assert "none: No such file" in result.stderr


def test_a_base_that_is_as_good_is_said_so(run, files):
    path = files / "m"
    save(OASIS().learn(np.load(files / "X.npy"), np.zeros((0, 3), int)), path)
    result = run("evaluate", path, files / "X.npy", files / "feedback.npy")
    assert "The base is as good" in result.stdout


def test_compare_shows_every_learner_beside_the_base(run, files):
    arguments = ("compare", files / "X.npy", files / "feedback.csv", "--seed", 3)
    chosen = ("--learner", "OASIS,C=0.5", "--learner", "FactoredAROMA")
    found = json.loads(run(*arguments, *chosen, "--json").stdout)
    assert [row["learner"] for row in found["learners"]] == ["OASIS,C=0.5", "FactoredAROMA"]
    bases = {row["measures"]["pairwise_accuracy"]["base"]["mean"] for row in found["learners"]}
    assert len(bases) == 1
    text = run(*arguments, *chosen).stdout
    assert text.splitlines()[0].split() == ["measure", "base", "OASIS,C=0.5", "FactoredAROMA"]
    assert "\ntime " in text
    assert found["n_tests"] == 2
    for row in found["learners"]:
        low, high = row["measures"]["pairwise_accuracy"]["interval"]
        assert low <= row["measures"]["pairwise_accuracy"]["difference"] <= high
        assert f"({low:+.3f} to {high:+.3f})" in text
    assert len(json.loads(run(*arguments, "--json").stdout)["learners"]) >= 3
    result = run(*arguments, "--learner", "OASIS", "--measure", "map", code=1)
    assert "--measure must be one of pairwise_accuracy, got map" in result.stderr
    result = run(*arguments, "--learner", "OASIS", "--measure", "nDGC@20", code=1)
    assert "did you mean ndcg@20?" in result.stderr


def test_compare_learners_of_pairs(run, files):
    pairs = np.random.default_rng(0).integers(40, size=(400, 2))
    signs = np.where((pairs[:, 0] - pairs[:, 1]) % 2 == 0, 1, -1)
    np.save(files / "pairs.npy", np.column_stack([pairs, signs]))
    text = "a,b,label\n" + "".join(f"{a},{b},{s}\n" for (a, b), s in zip(pairs, signs, strict=True))
    arguments = ("compare", files / "X.npy", "-", "--learner", "LEGO", "--learner", "POLA")
    found = json.loads(run(*arguments, "--json", stdin=text).stdout)
    assert all("pairwise_accuracy" in row["measures"] for row in found["learners"])


def test_suggestions_are_feedback_to_be_filled_in(run, files, model):
    text = run("suggest", model, files / "X.npy", "-n", 5).stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert list(rows[0]) == ["query", "better", "worse", "score", "std"]
    assert len(rows) == 5
    learner, X = load(model), np.load(files / "X.npy")
    triplets = [[int(row[name]) for name in ("query", "better", "worse")] for row in rows]
    scores, std = learner.triplet_scores(X, triplets, return_std=True)
    np.testing.assert_allclose(scores, [float(row["score"]) for row in rows], rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(std, [float(row["std"]) for row in rows], rtol=1e-4)
    assert (scores >= 0).all()
    run("learn", files / "X.npy", "-", "-o", files / "next", "--from", model, stdin=text)
    assert load(files / "next").n_seen_ == learner.n_seen_ + 5


def test_suggestions_for_given_queries_by_their_ids(run, files, model):
    (files / "ids").write_text("".join(f"v{i}\n" for i in range(40)))
    (files / "asked").write_text("v7\nv9\n")
    options = ("--ids", files / "ids", "--queries", files / "asked", "--format", "jsonl")
    lines = run("suggest", model, files / "X.npy", *options).stdout.splitlines()
    assert {json.loads(line)["query"] for line in lines} <= {"v7", "v9"}
    assert len(lines) == 10


@pytest.mark.parametrize(("asked", "words"), [("99\n", "unknown id 99"), ("", "at least one")])
def test_queries_to_ask_about_must_be_known(asked, words, run, files, model):
    (files / "asked").write_text(asked)
    result = run("suggest", model, files / "X.npy", "--queries", files / "asked", code=1)
    assert "asked: " in result.stderr
    assert words in result.stderr


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_that_are_not_sure_say_so(name, run, tmp_path):
    path = FOLDER / f"{name}-float32.safetensors"
    np.save(tmp_path / "X.npy", np.random.default_rng(0).normal(size=(20, 4)).astype("float32"))
    sure = hasattr(load(path), "suggest")
    result = run("suggest", path, tmp_path / "X.npy", code=0 if sure else 1)
    if not sure:
        assert f"got {name}." in result.stderr
        assert "must know how sure it is" in result.stderr
        assert "FactoredAROMA" in result.stderr


@pytest.mark.parametrize("suffix", [".npy", ".parquet", ".jsonl", ".safetensors"])
def test_apply_writes_query_vectors(suffix, run, files, model):
    out = files / f"out{suffix}"
    run("apply", model, files / "X.npy", "-o", out)
    X = np.load(files / "X.npy")
    np.testing.assert_allclose(read_vectors(out).X, load(model).query_vectors(X), rtol=1e-6)
    run("apply", model, files / "X.npy", "-o", out, "--as", "items")
    np.testing.assert_allclose(read_vectors(out).X, X, rtol=1e-6)


def test_apply_reads_and_writes_streams(run, files, model):
    X = np.load(files / "X.npy")[:3]
    text = "".join(
        json.dumps({"id": f"q{i}", "vector": x}) + "\n" for i, x in enumerate(X.tolist())
    )
    lines = run("apply", model, "-", stdin=text).stdout.splitlines()
    assert [json.loads(line)["id"] for line in lines] == ["q0", "q1", "q2"]
    vectors = [json.loads(line)["vector"] for line in lines]
    np.testing.assert_allclose(vectors, load(model).query_vectors(X), rtol=1e-4, atol=1e-5)


def test_apply_of_a_classifier_is_refused(run, files):
    result = run("apply", FOLDER / "AROW-float32.safetensors", files / "X.npy", code=1)
    assert "AROW has no vectors" in result.stderr


def test_distances_are_used_by_the_same_commands(run, files):
    X = np.load(files / "X.npy")
    pairs = np.random.default_rng(0).integers(40, size=(200, 2))
    save(LEGO().learn(X, pairs, np.where((pairs[:, 0] - pairs[:, 1]) % 2 == 0, 1, -1)), files / "m")
    run("apply", files / "m", files / "X.npy", "-o", files / "out.npy", "--as", "items")
    (files / "g.csv").write_text("query,item,relevance\n0,2,1\n0,4,2\n1,3,1\n")
    found = json.loads(
        run("evaluate", files / "m", files / "X.npy", files / "g.csv", "--json").stdout
    )
    assert found["n_queries"] == 2


def test_queries_keep_the_scale_of_a_base_on_request(run, files, model):
    plain, scaled = files / "plain.npy", files / "scaled.npy"
    arguments = ("apply", model, files / "X.npy", "-o")
    run(*arguments, plain)
    assert "scores times" in run(*arguments, scaled, "--scale-like", "cosine").stderr
    factors = np.load(scaled) / np.load(plain)
    assert factors.min() == pytest.approx(factors.max(), rel=1e-5)
    X = np.load(files / "X.npy")
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    gap = [np.ptp(Q @ Z.T, axis=1).mean() for Q, Z in ((np.load(scaled), X), (unit, unit))]
    assert gap[0] == pytest.approx(gap[1], rel=0.3)
    run(*arguments, scaled, "--scale-like", "cosine", "--as", "items", code=2)
    metric = files / "metric.safetensors"
    save(LEGO().learn(X, [[0, 1]], [1]), metric)
    result = run("apply", metric, files / "X.npy", "-o", scaled, "--scale-like", "cosine", code=1)
    assert "must be left out for a distance" in result.stderr
