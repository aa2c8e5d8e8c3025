"""Judgements in tables are taken by the names of their columns, whatever their order."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from similia import (
    OASIS,
    POLA,
    Blend,
    DistanceConstraints,
    Impressions,
    JudgementEstimator,
    feedback_report,
)
from similia.exceptions import BadRowError
from similia.feedback import FeedbackFile, UbiLog, read_impressions, read_run
from similia.files import Ids, Source, VectorFile
from similia.stream import learn_file
from similia.trust import Promotion, evaluate_file, pairs_as_triplets, triplet_evaluation

TRIPLETS = np.array([[0, 1, 2], [3, 4, 5], [1, 0, 3], [2, 2, 4]])
FORMS = [pd.DataFrame, pl.DataFrame, pa.table]


def shuffled(form, names, tuples):
    """The same judgements with the columns in another order, and one more."""
    columns = dict(zip(names, tuples.T, strict=True))
    return form({"note": np.arange(len(tuples)), **dict(reversed(columns.items()))})


@pytest.fixture
def X(rng):
    return rng.normal(size=(6, 3))


@pytest.mark.parametrize("form", FORMS)
def test_triplets(form, X):
    table = shuffled(form, ["query", "better", "worse"], TRIPLETS)
    one, other = OASIS().learn(X, TRIPLETS), OASIS().learn(X, table)
    np.testing.assert_array_equal(one.W_, other.W_)
    assert one.score(X, TRIPLETS) == one.score(X, table)
    assert feedback_report(table) == feedback_report(TRIPLETS)
    found, wanted = (triplet_evaluation("cosine", X, given) for given in (table, TRIPLETS))
    np.testing.assert_array_equal(
        found.per_query["pairwise_accuracy"], wanted.per_query["pairwise_accuracy"]
    )


@pytest.mark.parametrize("form", FORMS)
def test_blends_take_triplets_and_lists(form, X):
    table = shuffled(form, ["query", "better", "worse"], TRIPLETS)
    one, other = Blend().learn(X, TRIPLETS), Blend().learn(X, table)
    np.testing.assert_array_equal(one.pairwise_score(X, X), other.pairwise_score(X, X))
    rows = np.array([[0, 1, 0, 1], [0, 2, 1, 2], [0, 3, 0, 3], [4, 5, 1, 1], [4, 1, 0, 2]])
    lists = Impressions.from_rows(*rows[:, :3].T, position=rows[:, 3])
    log = shuffled(form, ["query", "item", "click", "position"], rows)
    one, other = Blend().learn(X, lists), Blend().learn(X, log)
    assert one.n_seen_ == other.n_seen_ == 2
    assert one.nuisances_ == other.nuisances_ == ["position"]
    np.testing.assert_array_equal(one.pairwise_score(X, X), other.pairwise_score(X, X))
    with pytest.raises(ValueError, match=r"Blend.learn: feedback must be .* query,better,worse"):
        Blend().learn(X, shuffled(form, ["query", "item", "grade"], TRIPLETS))


@pytest.mark.parametrize("form", FORMS)
def test_lists(form):
    columns = {
        "position": [2, 1, 1, 1],
        "click": [True, False, True, False],
        "visit": ["a", "a", "b", "b"],
        "weight": [2.0, 2.0, 3.0, 1.0],
        "item": [1, 2, 3, 1],
        "query": [0, 0, 0, 4],
    }
    found = Impressions.from_table(form(columns))
    assert found.queries.tolist() == [0, 0, 4]
    assert found.starts.tolist() == [0, 2, 3, 4]
    assert found.items.tolist() == [1, 2, 3, 1]
    assert found.gains.tolist() == [1, 0, 1, 0]
    assert found.weights.tolist() == [2, 3, 1]
    np.testing.assert_allclose(np.exp(found.nuisance["position"]), columns["position"])
    together = Impressions.from_table(form({**columns, "impression": [7, 8, 8, 9]}))
    assert together.starts.tolist() == [0, 1, 3, 4]
    assert len(Impressions.from_table(form({name: [] for name in ("query", "item", "click")}))) == 0
    with pytest.raises(ValueError, match="must have the columns query,item,click, got 'query'"):
        Impressions.from_table(form({"query": [0]}))
    table = shuffled(form, ["query", "better", "worse"], TRIPLETS)
    np.testing.assert_array_equal(
        Impressions.from_triplets(table).items, Impressions.from_triplets(TRIPLETS).items
    )


@pytest.mark.parametrize("form", FORMS)
def test_constraints(form):
    pairs = TRIPLETS[:, 1:]
    one = DistanceConstraints(pairs, np.ones(4))
    other = DistanceConstraints(shuffled(form, ["a", "b"], pairs), np.ones(4))
    assert one.n_objects == other.n_objects
    np.testing.assert_array_equal(one.first, other.first)


@pytest.mark.parametrize("form", FORMS)
def test_judgements_for_a_service(form, tmp_path):
    from similia.service.client.calls import feedback
    from similia.service.client.sending import judgements_in

    columns = {"worse": ["c", "a"], "note": [1.5, None], "better": ["b", "b"], "query": ["q", "q"]}
    sent = feedback(form(columns)).body.judgements
    (tmp_path / "f.csv").write_text("query,better,worse\nq,b,c\nq,b,a\n")
    assert sent == list(judgements_in(tmp_path / "f.csv"))
    graded = feedback(form({"relevance": [2, 0], "item": [7, 8], "query": [1, 1]})).body.judgements
    assert [(one.query.item, one.grades) for one in graded] == [("1", {"7": 2.0, "8": 0.0})]
    with pytest.raises(BadRowError, match=r"row 2: column better is missing"):
        feedback(form({**columns, "better": ["b", None]}))
    with pytest.raises(ValueError, match="must have the columns query,better,worse or"):
        feedback(form({"query": ["q"]}))


@pytest.mark.parametrize("form", FORMS)
def test_pairs(form, X):
    pairs, y = TRIPLETS[:3, :2], [1, -1, 1]
    table = shuffled(form, ["a", "b"], pairs)
    one, other = POLA().learn(X, pairs, y), POLA().learn(X, table, y)
    np.testing.assert_array_equal(one.pairwise_distance(X), other.pairwise_distance(X))
    assert one.score(X, table, y) == one.score(X, pairs, y)
    twice = np.array([[0, 1], [0, 2]])
    np.testing.assert_array_equal(
        pairs_as_triplets(shuffled(form, ["a", "b"], twice), [1, -1]),
        pairs_as_triplets(twice, [1, -1]),
    )


def test_cross_validation(X, rng):
    triplets = rng.integers(6, size=(40, 3))
    frame = shuffled(pd.DataFrame, ["query", "better", "worse"], triplets)
    scores = [cross_val_score(JudgementEstimator(OASIS(), X), given) for given in (frame, triplets)]
    np.testing.assert_array_equal(*scores)


@pytest.mark.parametrize("form", FORMS)
def test_promotion(form, tmp_path, rng):
    triplets = rng.integers(60, size=(400, 3))
    frame = shuffled(form, ["query", "better", "worse"], triplets)
    recorded = [
        Promotion(tmp_path / name).record_split(given)
        for name, given in (("a", frame), ("b", triplets))
    ]
    assert recorded[0] == recorded[1]
    X = rng.normal(size=(60, 4))
    model = OASIS().learn(X, triplets)
    names = ["worse", "better", "query"]  # three columns of integers, as an array would have
    frame = form({name: triplets[:, 2 - place] for place, name in enumerate(names)})
    outcomes = [
        str(Promotion(tmp_path / name).challenge(model, X, given))
        for name, given in (("c", frame), ("d", triplets))
    ]
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("form", FORMS)
def test_files_and_tables_teach_the_same(form, X, tmp_path):
    vectors = VectorFile(X, Ids([f"n{i}" for i in range(6)], 6))
    names = ["query", "better", "worse"]
    rows = np.array([vectors.ids.names(row) for row in TRIPLETS])
    frame = form({name: rows[:, names.index(name)] for name in names[::-1]})
    pd.DataFrame(rows, columns=names).to_csv(tmp_path / "f.csv", index=False)
    models = [OASIS(), OASIS()]
    for model, given in zip(models, (frame, tmp_path / "f.csv"), strict=True):
        learn_file(model, vectors, given)
    np.testing.assert_array_equal(models[0].W_, models[1].W_)
    found = [evaluate_file({"x": models[0]}, vectors, g)["x"] for g in (frame, tmp_path / "f.csv")]
    np.testing.assert_array_equal(*(e.per_query["pairwise_accuracy"] for e in found))


LOG = {
    "position": [1, 2, 3, 1, 2],
    "click": [0, 1, 0, 1, 0],
    "weight": [2.0, 2.0, 2.0, 1.0, 1.0],
    "when": ["2026-01-01T00:00:00Z"] * 5,
    "item": ["b", "a", "c", "a", "b"],
    "shown in": ["x", "x", "x", "y", "y"],
    "query": ["shoes", "shoes", "shoes", "hats", "hats"],
}


@pytest.mark.parametrize("form", FORMS)
def test_logs(form, X):
    queries, items = Ids(["shoes", "hats"], 2), Ids(["a", "b", "c"], 3)
    named = {"impression": "shown in", "timestamp": "when"}
    lists = read_impressions(form(LOG), queries, items, columns=named, times=True)
    assert lists.queries.tolist() == [0, 1]
    assert lists.items.tolist() == [1, 0, 2, 0, 1]
    assert lists.gains.tolist() == LOG["click"]
    assert lists.weights.tolist() == [2, 1]
    np.testing.assert_allclose(np.exp(lists.nuisance["position"]), LOG["position"])
    model = Blend()
    sides = VectorFile(X[:2], queries), VectorFile(X[2:5], items)
    learn_file(model, sides[0], Source(form(LOG), named), items=sides[1])
    assert model.n_seen_ == 2


@pytest.mark.parametrize("form", [pl.DataFrame, pa.Table.from_pylist])
def test_ubi(form):
    searches = [{"query_id": "s1", "user_query": "hats", "query_response_hit_ids": ["b", "a"]}]
    place = {"position": {"ordinal": 2}, "object": {"object_id": "a"}}
    events = [{"action_name": "click", "query_id": "s1", "event_attributes": place}]
    ids = Ids(["shoes", "hats"], 2), Ids(["a", "b", "c"], 3)
    (lists,) = UbiLog(form(searches), form(events), *ids)
    assert lists.items.tolist() == [1, 0]
    assert lists.gains.tolist() == [0, 1]


@pytest.mark.parametrize("form", FORMS)
def test_grades_and_runs(form, X):
    ids = Ids([f"n{i}" for i in range(6)], 6)
    graded = form({"score": [1, 0, 2], "corpus-id": ["n1", "n2", "n3"], "query-id": ["n0"] * 3})
    (found,) = FeedbackFile(graded, "grades", ids)
    assert found.tuples.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert found.values.tolist() == [1, 0, 2]
    run = form({"score": [0.1, 0.9], "item": ["n1", "n2"], "query": ["n0", "n0"]})
    assert read_run(run, ids).item.tolist() == [2, 1]


def test_other_columns_are_refused_and_no_names_are_no_names(X):
    with pytest.raises(
        ValueError, match=r"OASIS.learn: triplets must be .* columns query,better,wo"
    ):
        OASIS().learn(X, pd.DataFrame(TRIPLETS, columns=["a", "b", "c"]))
    np.testing.assert_array_equal(
        OASIS().learn(X, pd.DataFrame(TRIPLETS)).W_, OASIS().learn(X, TRIPLETS).W_
    )
