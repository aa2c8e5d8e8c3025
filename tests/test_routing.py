"""Judgements and their weights as metadata that scikit-learn routes."""

import numpy as np
import pytest
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from similia import OASIS, POLA, JudgedTransformer, JudgementEstimator
from tests.problems import labelled


@pytest.fixture(autouse=True)
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


@pytest.fixture
def told(rng):
    """Rows, classes, and what is said about pairs of rows."""
    X, y = labelled(rng)
    pairs = rng.integers(len(y), size=(400, 2))
    return X, y, pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


def step(**asked):
    requests = {"judgements": True, "feedback": True, "rows": True, **asked}
    return JudgedTransformer(POLA()).set_fit_request(**requests)


def test_a_weight_is_how_often_a_judgement_is_told(told, rng):
    X, _, pairs, signs = told
    weights = rng.integers(4, size=len(pairs))
    weighted = JudgementEstimator(POLA(), X).fit(pairs, signs, sample_weight=weights)
    again, answers = np.repeat(pairs, weights, axis=0), np.repeat(signs, weights)
    repeated = JudgementEstimator(POLA(), X).fit(again, answers)
    np.testing.assert_array_equal(weighted.learner_.A_, repeated.learner_.A_)
    assert weighted.score(pairs, signs, sample_weight=weights) == repeated.score(again, answers)
    through = JudgedTransformer(POLA()).fit(
        X, judgements=pairs, feedback=signs, sample_weight=weights
    )
    np.testing.assert_array_equal(through.learner_.A_, repeated.learner_.A_)
    assert through.n_judgements_ == weights.sum()


def test_weights_are_split_with_judgements(told, rng):
    X, _, pairs, signs = told
    weights, folds = rng.integers(1, 4, size=len(pairs)), KFold(3)
    estimator = JudgementEstimator(POLA(), X)
    estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    routed = {"sample_weight": weights}
    found = cross_validate(estimator, pairs, signs, cv=folds, params=routed)["test_score"]
    expected = []
    for train, test in folds.split(pairs):
        part = JudgementEstimator(POLA(), X).fit(pairs[train], signs[train], weights[train])
        expected.append(part.score(pairs[test], signs[test], weights[test]))
    assert found.tolist() == expected
    search = GridSearchCV(estimator, {"learner__gamma": [0.5, 2.0]}, cv=folds)
    search.fit(pairs, signs, sample_weight=weights)
    assert search.best_estimator_.learner_.gamma == search.best_params_["learner__gamma"]


def test_judgements_reach_their_step_of_a_pipeline(told):
    X, y, pairs, signs = told
    model = make_pipeline(StandardScaler(), step(rows=False), KNeighborsClassifier())
    model.fit(X, y, judgements=pairs, feedback=signs)
    scaled = StandardScaler().fit_transform(X)
    expected = POLA().learn(scaled, pairs, signs)
    np.testing.assert_array_equal(model[1].learner_.A_, expected.A_)
    np.testing.assert_array_equal(model[:2].transform(X), expected.transform(scaled))


def test_a_fold_learns_only_from_judgements_on_its_own_rows(told):
    X, y, pairs, signs = told
    rows, folds = np.arange(len(X)), KFold(4, shuffle=True, random_state=0)
    model = make_pipeline(StandardScaler(), step(), KNeighborsClassifier())
    routed = {"judgements": pairs, "feedback": signs, "rows": rows}
    found = cross_validate(model, X, y, cv=folds, params=routed, return_estimator=True)
    for (train, _), fitted in zip(folds.split(X), found["estimator"], strict=True):
        inside = np.isin(pairs, train).all(axis=1)
        new = np.searchsorted(train, pairs[inside])
        expected = POLA().learn(StandardScaler().fit_transform(X[train]), new, signs[inside])
        np.testing.assert_array_equal(fitted[1].learner_.A_, expected.A_)
    search = GridSearchCV(model, {"judgedtransformer__learner__gamma": [0.5, 2.0]}, cv=folds)
    search.fit(X, y, **routed)
    assert search.best_estimator_[1].n_judgements_ == len(pairs)


def test_rows_may_come_in_any_order(told, rng):
    X, _, pairs, signs = told
    rows = rng.permutation(len(X))[: len(X) // 2]
    found = JudgedTransformer(POLA()).fit(X[rows], judgements=pairs, feedback=signs, rows=rows)
    inside = np.isin(pairs, rows).all(axis=1)
    place = {row: i for i, row in enumerate(rows.tolist())}
    new = [[place[a], place[b]] for a, b in pairs[inside].tolist()]
    expected = POLA().learn(X[rows], new, signs[inside])
    np.testing.assert_array_equal(found.learner_.A_, expected.A_)


def test_triplets_names_frames_and_pictures(rng):
    X, y = labelled(rng)
    triplets = rng.integers(len(y), size=(50, 3))
    transformer = JudgedTransformer(OASIS()).set_output(transform="pandas")
    frame = transformer.fit(X, judgements=triplets).transform(X)
    names = [f"judgedtransformer{i}" for i in range(X.shape[1])]
    assert list(frame.columns) == transformer.get_feature_names_out().tolist() == names
    plain = OASIS().learn(X, triplets).query_vectors(X)
    np.testing.assert_array_equal(frame.to_numpy(), plain)
    assert clone(transformer).get_params()["learner__C"] == OASIS().C
    for shown in (transformer, JudgementEstimator(OASIS(), X), make_pipeline(transformer)):
        assert "OASIS" in shown._repr_html_()


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sample_weight": [1.5, 1]}, "sample_weight must be whole numbers"),
        ({"sample_weight": [-1, 1]}, "sample_weight must be whole numbers"),
        ({"sample_weight": [1]}, "one for each judgement"),
        ({"rows": [0, 0, 1, 2]}, "rows must be different row numbers"),
        ({"rows": [4, 5, 6, 7]}, "some of the 2 judgements must lie within rows"),
        ({"feedback": None}, "y must be feedback on each pair"),
    ],
)
def test_bad_metadata_is_refused(given, words, rng):
    X = rng.normal(size=(4, 2))
    good = {"judgements": [[0, 1], [2, 3]], "feedback": [1, -1]}
    with pytest.raises(ValueError, match=words):
        JudgedTransformer(POLA()).fit(X, **{**good, **given})
