"""What neighborhood gerrymandering refuses, and that a refusal changes nothing."""

import copy
import inspect
import sys

import numpy as np
import pytest
from numpydoc.docscrape import ClassDoc
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from similia import NeighborhoodGerrymandering
from similia.exceptions import MissingExtraError
from tests.gerrymandering_problems import clusters, quick


def attempts(X, y):
    bad = np.where(np.arange(X.size).reshape(X.shape) == 7, np.nan, X)
    return {
        "NaN": ({}, (bad, y), "NaN"),
        "large": ({}, (np.full_like(X, 1e200), y), "scale it down"),
        "small": ({}, (X.astype(np.float32) * 1e-15, y), "scale it up"),
        "nothing left": ({"validation_fraction": 0.99}, (X, y), "hold out fewer points"),
        "one class": ({}, (X, np.zeros(len(y))), "at least two classes"),
        "small classes": ({}, (X, np.arange(len(y)) // 2), "enough points to win a vote of 5"),
        "k": ({"n_neighbors": 120}, (X, y), "n_neighbors must be at most the 119 items"),
        "cost shape": ({"cost": np.eye(2)}, (X, y), r"cost must be an array of shape \(3, 3\)"),
        "cost sign": ({"cost": np.eye(3) - 1.0}, (X, y), "cost must be an array"),
        "components": ({"n_components": 7, "init": "pca"}, (X, y), "n_components must be at most"),
        "classes": ({"n_components": 2, "init": "classes"}, (X, y), "n_components must be None or"),
        "init shape": ({"init": np.eye(4)}, (X, y), "init must be finite arrays of shape"),
        "init zero": ({"init": np.zeros((2, 6))}, (X, y), "init must be nonzero"),
        "two maps": (
            {"init": (np.eye(6), 2 * np.eye(6)), "asymmetric": False},
            (X, y),
            "init must be one array unless asymmetric",
        ),
        "rate": (
            {"optimizer": "sgd", "learning_rate": 1e9, "C": 1e-9, "early_stopping": False},
            (X, y),
            "learning_rate must be small enough",
        ),
    }


@pytest.mark.parametrize("case", list(attempts(np.ones((120, 6)), np.ones(120))))
def test_bad_input_is_named_and_changes_nothing(case, rng):
    X, y = clusters(rng)
    parameters, given, words = attempts(X, y)[case]
    fresh = quick(**parameters)
    before = dict(vars(fresh))
    with pytest.raises(ValueError, match=words):
        fresh.fit(*given)
    assert vars(fresh) == before
    fitted = quick().fit(X, y)
    state = copy.deepcopy(fitted.get_state())
    fitted.set_params(**parameters)
    with pytest.raises(ValueError, match=words):
        fitted.fit(*given)
    for name, value in fitted.get_state().items():
        for one, other in zip(np.atleast_1d(value), np.atleast_1d(state[name]), strict=True):
            np.testing.assert_array_equal(one, other)


def test_bad_pieces_and_items_are_named_and_change_nothing(rng):
    X, y = clusters(rng)
    learner = quick(asymmetric=True).fit(X, y)
    tied = copy.deepcopy(learner).set_params(asymmetric=False)
    before = vars(learner).copy()
    for call, words in (
        (lambda: learner.partial_fit(X, y + 1), "labels must be among the classes"),
        (lambda: learner.partial_fit(X, y, classes=[0, 1]), "classes must be"),
        (lambda: learner.partial_fit(X[:, :4], y), "features"),
        (lambda: learner.partial_fit(X, y, items=X, item_labels=y), "items must be None"),
        (lambda: tied.partial_fit(X, y), "asymmetric must be as in fit"),
        (lambda: learner.fit(X, y, items=X), "item_labels must be given with items"),
        (lambda: learner.fit(X, y, item_labels=y), "items must be given with item_labels"),
        (lambda: learner.fit(X, y, items=X, item_labels=y[1:]), "inconsistent"),
        (
            lambda: learner.fit(X, y, items=X, item_labels=np.array(["a", "b", "c"])[y]),
            "item_labels must be of the kind of y",
        ),
        (lambda: learner.kneighbors(X, 121), "n_neighbors must be at most the 120 items"),
        (lambda: learner.kneighbors(X, 0), "n_neighbors must be a positive integer"),
        (lambda: learner.item_vectors(X[:, :4]), "items must have 6 features"),
    ):
        with pytest.raises(ValueError, match=words):
            call()
        assert all(vars(learner)[key] is before[key] for key in before)
    tied = quick(asymmetric=False)
    with pytest.raises(ValueError, match="unless asymmetric is True"):
        tied.fit(X, y, items=X[:, :4], item_labels=y)
    with pytest.raises(ValueError, match="init must be 'classes' or a pair of arrays"):
        quick(init="pca").fit(X, y, items=X[:, :4], item_labels=y)


def test_large_points_are_refused_by_the_precision_of_the_maps(rng):
    X, y = clusters(rng)
    learner = quick().fit(X.astype(np.float32), y)
    for call in (learner.predict, learner.item_vectors, lambda Z: learner.partial_fit(Z, y)):
        with pytest.raises(ValueError, match=r"for float32, got .*; scale it down"):
            call(X * 1e30)


def test_a_search_that_does_not_exist_or_is_not_installed_is_named(rng, monkeypatch):
    X, y = clusters(rng)
    learner = quick().fit(X, y).set_params(search="fais")
    with pytest.raises(ValueError, match="search must be one of 'exact', 'faiss', got 'fais'"):
        learner.predict(X)
    monkeypatch.setitem(sys.modules, "faiss", None)
    before = vars(learner.set_params(search="faiss")).copy()
    for call in (
        lambda: learner.predict(X),
        lambda: learner.partial_fit(X, y),
        lambda: quick(search="faiss").fit(X, y),
    ):
        with pytest.raises(MissingExtraError, match=r'pip install "similia\[faiss\]"'):
            call()
    assert all(vars(learner)[key] is before[key] for key in before)
    assert (learner.set_params(search="exact").predict(X) == quick().fit(X, y).predict(X)).all()


def test_using_before_learning_says_so():
    with pytest.raises(NotFittedError):
        quick().predict(np.ones((2, 3)))


def test_every_parameter_has_a_rule_and_a_broken_one_is_named(rng):
    X, y = clusters(rng)
    rules = NeighborhoodGerrymandering._rules
    assert set(rules) == set(quick().get_params())
    for name in rules:
        for call in ("fit", "partial_fit"):
            with pytest.raises(ValueError, match=f"^NeighborhoodGerrymandering: {name} must be "):
                getattr(quick().set_params(**{name: object()}), call)(X, y)


def test_documented_parameters_are_the_signature():
    documented = [p.name for p in ClassDoc(NeighborhoodGerrymandering)["Parameters"]]
    assert documented == list(inspect.signature(NeighborhoodGerrymandering).parameters)


@parametrize_with_checks([quick(), quick(asymmetric=False, optimizer="sgd")])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)
