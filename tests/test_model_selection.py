"""Judgements as samples of scikit-learn's model selection."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score

from similia import MEG, OASIS, POLA, FactoredAROMA, JudgementEstimator
from tests.problems import FORMS, labelled


def judged_triplets(rng, n=600):
    X, y = labelled(rng)
    triplets = rng.integers(len(y), size=(20 * n, 3))
    query, better, worse = y[triplets].T
    return X, triplets[(query == better) & (query != worse)][:n]


def judged_pairs(rng, n=600):
    X, y = labelled(rng)
    pairs = rng.integers(len(y), size=(n, 2))
    return X, pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_fit_and_score_are_those_of_the_learner(rng, form):
    X, triplets = judged_triplets(rng)
    estimator = JudgementEstimator(OASIS(), form(X)).fit(triplets[:400])
    plain = OASIS().learn(form(X), triplets[:400])
    np.testing.assert_array_equal(estimator.learner_.W_, plain.W_)
    assert estimator.score(triplets[400:]) == plain.score(form(X), triplets[400:])

    X, pairs, signs = judged_pairs(rng)
    estimator = JudgementEstimator(POLA(), form(X)).fit(pairs[:400], signs[:400])
    plain = POLA().learn(form(X), pairs[:400], signs[:400])
    np.testing.assert_array_equal(estimator.learner_.A_, plain.A_)
    assert estimator.score(pairs[400:], signs[400:]) == plain.score(
        form(X), pairs[400:], signs[400:]
    )


def test_folds_of_triplets_are_learnt_and_scored(rng):
    X, triplets = judged_triplets(rng)
    scores = cross_val_score(JudgementEstimator(FactoredAROMA(), X), triplets, cv=3)
    assert scores.shape == (3,)
    assert (scores > 0.7).all()


def test_judgements_of_one_query_stay_on_one_side_if_asked(rng):
    X, triplets = judged_triplets(rng)
    estimator, groups = JudgementEstimator(OASIS(), X), triplets[:, 0]
    folds = GroupKFold(3)
    scores = cross_val_score(estimator, triplets, groups=groups, cv=folds)
    expected = [
        OASIS().learn(X, triplets[train]).score(X, triplets[test])
        for train, test in folds.split(triplets, groups=groups)
    ]
    np.testing.assert_array_equal(scores, expected)


def test_items_are_handed_on(rng):
    X, items = rng.normal(size=(20, 4)), sparse.csr_array(rng.normal(size=(30, 6)))
    triplets = np.column_stack([rng.integers(20, size=90), rng.integers(30, size=(90, 2))])
    estimator = JudgementEstimator(OASIS(prior="zero"), X, items=items).fit(triplets)
    assert estimator.learner_.W_.shape == (4, 6)
    plain = OASIS(prior="zero").learn(X, triplets, items=items)
    assert estimator.score(triplets) == plain.score(X, triplets, items=items)


def test_a_grid_over_the_parameters_of_a_learner_is_searched(rng):
    X, pairs, signs = judged_pairs(rng)
    grid = GridSearchCV(JudgementEstimator(POLA(), X), {"learner__gamma": [1e-3, 1.0, 1e6]}, cv=3)
    grid.fit(pairs, signs)
    assert grid.best_params_["learner__gamma"] < 1e6
    best = POLA(gamma=grid.best_params_["learner__gamma"]).learn(X, pairs, signs)
    np.testing.assert_array_equal(grid.best_estimator_.learner_.A_, best.A_)


def test_objects_without_vectors_are_judged_too(rng):
    points = rng.normal(size=(12, 2))
    pairs = rng.integers(12, size=(900, 2))
    y = np.linalg.norm(points[pairs[:, 0]] - points[pairs[:, 1]], axis=1)
    scores = cross_val_score(JudgementEstimator(MEG(n_objects=12, trace=24.0), None), pairs, y)
    assert (scores > 0.9).all()


def test_workers_get_the_same_scores(rng):
    X, pairs, signs = judged_pairs(rng)
    estimator = JudgementEstimator(POLA(), X)
    alone = cross_val_score(estimator, pairs, signs, cv=2)
    np.testing.assert_array_equal(cross_val_score(estimator, pairs, signs, cv=2, n_jobs=2), alone)


def test_a_fitted_estimator_survives_pickling(rng):
    X, pairs, signs = judged_pairs(rng)
    estimator = JudgementEstimator(POLA(), X).fit(pairs, signs)
    again = pickle.loads(pickle.dumps(estimator))
    assert again.score(pairs, signs) == estimator.score(pairs, signs)


def test_clones_share_the_vectors_and_nothing_learnt(rng):
    X, items = rng.normal(size=(9, 4)), rng.normal(size=(9, 4))
    estimator = JudgementEstimator(OASIS(C=0.5), X, items=items).fit([[0, 1, 2]])
    twin = clone(estimator)
    assert twin.X is X
    assert twin.items is items
    assert twin.learner is not estimator.learner
    assert twin.learner.C == 0.5
    with pytest.raises(NotFittedError):
        twin.score([[0, 1, 2]])


def test_the_given_learner_is_left_alone(rng):
    X, pairs, signs = judged_pairs(rng)
    learner = POLA()
    JudgementEstimator(learner, X).fit(pairs, signs)
    assert not learner.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("learner", "items", "judgements", "y", "words"),
    [
        (OASIS(), None, [[0, 1, 2]], [1], r"^JudgementEstimator\.fit: y must be None for triplets"),
        (POLA(), None, [[0, 1]], None, r"^JudgementEstimator\.fit: y must be feedback on each"),
        (POLA(), np.eye(4), [[0, 1]], [1], "^JudgementEstimator: items must be None for pairs"),
        ("POLA", None, [[0, 1]], [1], "learner must be a learner of triplets or pairs, got str"),
        (POLA(), None, [[0, 1, 2]], [1], r"^POLA\.learn: pairs must be an integer array"),
        (OASIS(), None, [[0, 1, 9]], None, r"^OASIS\.learn: column 2 of triplets must be row"),
    ],
)
def test_wrong_judgements_are_refused(learner, items, judgements, y, words):
    estimator = JudgementEstimator(learner, np.eye(4), items=items)
    with pytest.raises(ValueError, match=words):
        estimator.fit(judgements, y)
    assert not hasattr(estimator, "learner_")


def test_a_score_needs_the_same_kind_of_judgements(rng):
    X, pairs, signs = judged_pairs(rng)
    estimator = JudgementEstimator(POLA(), X).fit(pairs, signs)
    with pytest.raises(ValueError, match=r"^JudgementEstimator\.score: y must be feedback"):
        estimator.score(pairs)
