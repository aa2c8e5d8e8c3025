"""Judgements in tables are taken by the names of their columns, whatever their order."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from sklearn.model_selection import cross_val_score

from similia import OASIS, POLA, JudgementEstimator, feedback_report
from similia.files import Ids, VectorFile
from similia.stream import evaluate_file, learn_file
from similia.trust import Promotion, pairs_as_triplets, triplet_evaluation

TRIPLETS = np.array([[0, 1, 2], [3, 4, 5], [1, 0, 3], [2, 2, 4]])
FORMS = [pd.DataFrame, pa.table]


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


def test_promotion(tmp_path, rng):
    triplets = rng.integers(60, size=(400, 3))
    frame = shuffled(pd.DataFrame, ["query", "better", "worse"], triplets)
    recorded = [
        Promotion(tmp_path / name).record_split(given)
        for name, given in (("a", frame), ("b", triplets))
    ]
    assert recorded[0] == recorded[1]


def test_files_and_tables_teach_the_same(X, tmp_path):
    vectors = VectorFile(X, Ids([f"n{i}" for i in range(6)], 6))
    names = ["query", "better", "worse"]
    frame = pd.DataFrame([vectors.ids.names(row) for row in TRIPLETS], columns=names)[names[::-1]]
    frame.to_csv(tmp_path / "f.csv", index=False)
    models = [OASIS(), OASIS()]
    for model, given in zip(models, (frame, tmp_path / "f.csv"), strict=True):
        learn_file(model, vectors, given)
    np.testing.assert_array_equal(models[0].W_, models[1].W_)
    found = [evaluate_file({"x": models[0]}, vectors, g)["x"] for g in (frame, tmp_path / "f.csv")]
    np.testing.assert_array_equal(*(e.per_query["pairwise_accuracy"] for e in found))


def test_other_columns_are_refused_and_no_names_are_no_names(X):
    with pytest.raises(
        ValueError, match=r"OASIS.learn: triplets must be .* columns query,better,wo"
    ):
        OASIS().learn(X, pd.DataFrame(TRIPLETS, columns=["a", "b", "c"]))
    np.testing.assert_array_equal(
        OASIS().learn(X, pd.DataFrame(TRIPLETS)).W_, OASIS().learn(X, TRIPLETS).W_
    )
