"""Views and lists through everything above a learner."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.model_selection import cross_val_score

from similia import OASIS, Adapters, Blend, Impressions, JudgementEstimator, Views, load
from similia.contract import Posterior
from similia.feedback import FeedbackFile, joined
from similia.feedback.clicks import click_preferences
from similia.files import Ids, VectorFile
from similia.retrieval import evaluate, top_k
from similia.stream import learn_file, lessons_for, suggest_questions
from similia.trust import evaluate_model, triplet_margins


@pytest.fixture
def sides(rng):
    """Queries and items with dense vectors, sparse words and a price."""

    def views(n, **fields):
        words = sparse.random(n, 30, 0.2, format="csr", random_state=n)
        return Views(vectors=rng.normal(size=(n, 5)), words=words, **fields)

    queries, items = views(20), views(40, price=rng.uniform(size=40))
    return VectorFile(queries, Ids(None, 20)), VectorFile(items, Ids(None, 40))


@pytest.fixture
def log(rng, sides, tmp_path):
    """Lists of six in which the cheapest item is clicked."""
    _, items = sides
    lines = ["query,item,click,impression,position"]
    for i in range(200):
        shown = rng.choice(40, 6, replace=False)
        best = shown[np.argmin(items.X["price"][shown, 0])]
        lines += [f"{i % 20},{z},{int(z == best)},{i},{p + 1}" for p, z in enumerate(shown)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_log_is_learnt_as_lists_with_their_places(sides, log, tmp_path):
    queries, items = sides
    output = tmp_path / "model.safetensors"
    found = learn_file(Blend(), queries, log, items=items, output=output)
    lists = joined(list(FeedbackFile(log, "lists", queries.ids, items.ids))).lists
    expected = Blend().learn(queries.X, lists, items=items.X)
    assert found.model.nuisances_ == ["position"]
    np.testing.assert_array_equal(found.model.weights_, expected.weights_)
    np.testing.assert_array_equal(load(output).weights_, expected.weights_)
    assert found.feedback == {"n": 200, "n_queries": 20, "n_shown": 1200, "n_chosen": 200}
    assert "200 lists of 20 queries" in found.in_words()["feedback"]
    assert found.tally.progressive > found.tally.at_start


def test_the_mark_of_a_list_is_the_share_of_its_pairs_in_order(sides, log):
    queries, items = sides
    model = Blend().learn(queries.X, np.empty((0, 3), int), items=items.X)
    lessons = lessons_for(model, queries.X, items.X)
    lessons.start(model)
    part = joined(list(FeedbackFile(log, "lists", queries.ids, items.ids)))
    margins = model.triplet_scores(queries.X, click_preferences(part.lists).triplets, items=items.X)
    marks = lessons.right(model, part)
    assert len(marks) == 200
    assert marks.mean() == pytest.approx((margins > 0).mean())


def test_evaluation_search_and_questions_take_views(sides, log):
    queries, items = sides
    model = learn_file(Blend(), queries, log, items=items).model
    scores = model.pairwise_score(queries.X, items.X)
    best, found = top_k(model, queries.X, items.X, 3)
    np.testing.assert_array_equal(best, np.argsort(-scores, axis=1, kind="stable")[:, :3])
    np.testing.assert_allclose(found, np.take_along_axis(scores, best, 1))
    relevance = np.eye(20, 40)
    by_views = evaluate(model, queries.X, items.X, relevance=relevance).means
    assert by_views == evaluate(lambda Q, Z: scores[: len(Q)], np.zeros((20, 1)), np.zeros((40, 1)),
                                relevance=relevance).means  # fmt: skip
    plain = evaluate("cosine", queries.X, items.X, relevance=relevance).means
    vectors = queries.X["vectors"], items.X["vectors"]
    assert plain == evaluate("cosine", *vectors, relevance=relevance).means
    measures = evaluate_model(model, queries, log, items=items).to_dict()["measures"]
    assert measures["pairwise_accuracy"]["better"] == "adapted"
    assert isinstance(model, Posterior)
    questions = suggest_questions(model, queries, 5, items=items)
    assert questions.tuples.shape == (5, 3)
    assert (questions.std > 0).all()


def test_margins_of_sparse_vectors_are_those_of_dense_ones(sides, rng):
    queries, items = sides
    model = Blend(memory=0).learn(queries.X, [[0, 1, 2]], items=items.X)
    triplets = rng.integers(20, size=(50, 3))
    found = triplet_margins(model, queries.X, triplets, items=items.X)
    np.testing.assert_allclose(found, model.triplet_scores(queries.X, triplets, items=items.X))


def test_a_number_is_a_field_where_queries_are_the_items(sides):
    _, items = sides
    blend = Blend().learn(items.X, [[0, 1, 2]])
    assert blend.widths_ == [["vectors", 5, 5], ["words", 30, 30], ["price", 0, 1]]
    assert blend.names_ == ["vectors", "words", "price"]


def test_learners_of_one_matrix_refuse_views_in_words(sides, tmp_path):
    _, items = sides
    path = tmp_path / "one.csv"
    path.write_text("query,better,worse\n0,1,2\n")
    for call in (
        lambda: learn_file(OASIS(), items, path),
        lambda: OASIS().learn(items.X, [[0, 1, 2]]),
        lambda: Adapters().learn("ann", items.X, [[0, 1, 2]]),
    ):
        with pytest.raises(ValueError, match="must be one matrix, got Views"):
            call()


def test_judgements_about_views_are_cross_validated(sides, rng):
    queries, items = sides
    triplets = rng.integers(20, size=(30, 3))
    scores = cross_val_score(JudgementEstimator(Blend(), queries.X, items=items.X), triplets, cv=3)
    assert scores.shape == (3,)


def test_some_lists_by_mask_and_by_slice_are_the_same():
    lists = Impressions.from_rows(
        [0, 0, 1, 2, 2, 2], range(6), [1, 0, 1, 0, 1, 0], position=[1, 2, 1, 1, 2, 3]
    )
    for chosen in (slice(1, 3), np.array([False, True, True]), np.array([1, 2])):
        part = lists.part(chosen)
        assert part.items.tolist() == [2, 3, 4, 5]
        assert part.starts.tolist() == [0, 1, 4]


def test_labels_of_two_sides_of_the_same_rows_are_evaluated(sides, tmp_path):
    _, items = sides
    path = tmp_path / "labels.csv"
    path.write_text("row,label\n" + "".join(f"{i},{i % 2}\n" for i in range(40)))
    asked = VectorFile(Views(vectors=items.X["vectors"], words=items.X["words"]), items.ids)
    model = Blend().learn(asked.X, [[0, 1, 2]], items=items.X)
    found = evaluate_model(model, asked, path, items=items).adapted
    scores = model.pairwise_score(asked.X, items.X)
    labels = np.arange(40) % 2
    expected = evaluate(lambda Q, Z: scores, np.zeros((40, 1)), labels=labels)
    assert found.means["map"] == expected.means["map"]
