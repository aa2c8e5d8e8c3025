import numpy as np
import pytest

from similia import AROW, LEGO, OASIS, FactoredAROMA
from similia.feedback import Judgements
from similia.files import BadRows, Ids, VectorFile
from similia.retrieval import evaluate
from similia.stream import base_of
from similia.trust import contest, evaluate_file, held_out, order_evaluations
from tests.problems import labelled, triplets_of


@pytest.fixture
def vectors(rng):
    return VectorFile(rng.normal(size=(40, 5)), Ids(None, 40))


def csv(path, header, rows):
    path.write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")
    return path


@pytest.mark.parametrize("learner", [OASIS, LEGO])
def test_the_base_is_the_learner_before_it_learnt(learner, vectors, rng):
    rows = rng.integers(40, size=(50, 3 if learner is OASIS else 2))
    y = () if learner is OASIS else (rng.choice([-1, 1], 50),)
    model = learner().learn(vectors.X, rows, *y)
    base = base_of(model, vectors.X)
    scores = base.pairwise_score(vectors.X)
    plain = vectors.X @ vectors.X.T
    if learner is OASIS:
        np.testing.assert_allclose(scores / base.prior_scale_, plain)
    else:
        squares = np.diag(plain)[:, None] + np.diag(plain) - 2 * plain
        np.testing.assert_allclose(scores, -squares, atol=1e-10)


def test_a_classifier_has_no_base(vectors):
    with pytest.raises(ValueError, match="AROW is a classifier"):
        base_of(AROW(), vectors.X)


def test_order_is_the_share_of_right_triplets_by_query(vectors, rng):
    rows = triplets_of(rng, 40, 40, 300)
    part = Judgements(rows, None, np.arange(300))
    model = OASIS().learn(vectors.X, rows[:50])
    found = order_evaluations({"m": model}, vectors.X, None, [part])["m"]
    scores = model.triplet_scores(vectors.X, rows)
    marks = (scores > 0) + (scores == 0) / 2
    queries = np.unique(rows[:, 0])
    expected = [marks[rows[:, 0] == query].mean() for query in queries]
    np.testing.assert_allclose(found.per_query["pairwise_accuracy"], expected)
    assert found.n_relevant.sum() == 300


def test_grades_give_retrieval_measures_without_the_query_itself(vectors, rng, tmp_path):
    queries, items = rng.integers(30, size=(2, 200))
    grades = rng.integers(3, size=200)
    path = csv(tmp_path / "f.csv", "query,item,relevance", zip(queries, items, grades, strict=True))
    found = evaluate_file({"base": "cosine"}, vectors, path)["base"]
    relevance = np.zeros((40, 40))
    np.maximum.at(relevance, (queries, items), grades)
    expected = evaluate("cosine", vectors.X, relevance=relevance)
    for name, values in expected.per_query.items():
        np.testing.assert_allclose(found.per_query[name], values[np.unique(queries)])


def test_grades_of_separate_items(vectors, rng, tmp_path):
    items = VectorFile(rng.normal(size=(7, 5)), Ids(np.array(list("abcdefg"), dtype=object), 7))
    path = csv(tmp_path / "f.csv", "query,item,relevance", [[3, "g", 1], [5, "a", 2], [5, "b", 1]])
    found = evaluate_file({"base": "cosine"}, vectors, path, items=items)["base"]
    relevance = [[0, 0, 0, 0, 0, 0, 1], [2, 1, 0, 0, 0, 0, 0]]
    expected = evaluate("cosine", vectors.X[[3, 5]], items.X, relevance=relevance)
    assert found.means == expected.means


def test_labels_and_pairs_are_evaluated(vectors, rng, tmp_path):
    labels = rng.integers(3, size=40)
    path = csv(tmp_path / "l.csv", "row,label", enumerate(labels))
    found = evaluate_file({"base": "euclidean"}, vectors, path)["base"]
    assert found.means == evaluate("euclidean", vectors.X, labels=labels).means
    distances = np.linalg.norm(vectors.X[:, None] - vectors.X, axis=2)
    pairs = rng.integers(40, size=(300, 2))
    near = np.where(distances[tuple(pairs.T)] < 3, 1, -1)
    for values in (near, distances[tuple(pairs.T)]):
        path = csv(tmp_path / "p.csv", "a,b,label", np.column_stack([pairs, values]).tolist())
        path.write_text(path.read_text().replace(".0,", ","))
        found = evaluate_file({"base": "euclidean"}, vectors, path)["base"]
        assert found.means == {"pairwise_accuracy": 1.0}


def test_learners_are_compared_on_queries_they_have_not_seen(rng, tmp_path):
    X, y = labelled(rng, n=120)
    vectors = VectorFile(X, Ids(None, 120))
    query, a, b = rng.integers(120, size=(3, 4000))
    right = y[a] == y[query]
    keep = right != (y[b] == y[query])
    better, worse = np.where(right, a, b)[keep], np.where(right, b, a)[keep]
    rows = np.column_stack([query[keep], better, worse])
    path = csv(tmp_path / "f.csv", "query,better,worse", rows.tolist())
    base, oasis, aroma = contest(
        {"one": OASIS(), "two": FactoredAROMA()}, vectors, path, share=0.3, seed=5
    )
    assert [base.name, oasis.name, aroma.name] == ["base", "one", "two"]
    test = held_out(rows[:, 0], 0.3, 5)
    expected = OASIS().learn(X, rows[~test])
    np.testing.assert_allclose(oasis.model.W_, expected.W_)
    assert oasis.tally.n == (~test).sum()
    scores = expected.triplet_scores(X, rows[test])
    share = (
        sum(oasis.evaluation.per_query["pairwise_accuracy"] * oasis.evaluation.n_relevant)
        / test.sum()
    )
    assert share == pytest.approx(np.mean(scores > 0) + np.mean(scores == 0) / 2)
    assert base.evaluation.means["pairwise_accuracy"] < oasis.evaluation.means["pairwise_accuracy"]
    with pytest.raises(ValueError, match="one kind of feedback"):
        contest({"a": OASIS(), "b": LEGO()}, vectors, path)


def test_bad_rows_of_an_evaluation_are_counted(vectors, tmp_path):
    path = csv(tmp_path / "f.csv", "query,better,worse", [[0, 1, 2], [0, 1, 99]])
    bad = BadRows("skip")
    found = evaluate_file({"base": "cosine"}, vectors, path, bad_rows=bad)["base"]
    assert found.n_relevant.tolist() == [1]
    assert bad.n == 1
