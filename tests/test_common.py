"""Every public learner against the house checks and scikit-learn's own."""

import inspect

import numpy as np
import pytest
from numpydoc.docscrape import ClassDoc
from sklearn.exceptions import NotFittedError
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import estimator_checks_generator, parametrize_with_checks

from similia import BM25, DefiniteBoost
from similia.registry import LEARNERS, learner_class
from tests.cases import case_of
from tests.checks import CHECKS

SMALL = {"n_triplets": 500, "n_pairs": 500}


def small(name):
    learner = learner_class(name)(random_state=0)
    return learner.set_params(**{k: v for k, v in SMALL.items() if k in learner.get_params()})


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_house_check(name, check):
    check(learner_class(name))


@parametrize_with_checks([small(name) for name in LEARNERS])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.parametrize("estimator", [BM25(), DefiniteBoost()])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.SkipTestWarning")
def test_scikit_learn_checks_of_what_takes_no_matrix(estimator):
    for instance, check in estimator_checks_generator(estimator):
        check(instance)


def test_tags_say_what_fit_takes():
    texts, boost = get_tags(BM25()).input_tags, get_tags(DefiniteBoost())
    assert texts.string
    assert texts.one_d_array
    assert not texts.two_d_array
    assert not boost.input_tags.two_d_array
    assert boost.transformer_tags is not None
    assert get_tags(DefiniteBoost(choice="random")).non_deterministic


@pytest.mark.parametrize("name", LEARNERS)
def test_documented_parameters_are_the_signature(name):
    cls = learner_class(name)
    documented = [part.strip() for p in ClassDoc(cls)["Parameters"] for part in p.name.split(",")]
    assert documented == list(inspect.signature(cls).parameters)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_parameter_has_a_rule_and_a_broken_one_is_named(name):
    learner = small(name)
    rules = learner._rules
    assert set(rules) == set(learner.get_params())
    case = case_of(learner_class(name))
    for parameter in rules:
        case.learner = small(name).set_params(**{parameter: object()})
        if rules[parameter].holds(case.learner.get_params()[parameter]):
            continue
        with pytest.raises(ValueError, match=f"^{name}: {parameter} must be "):
            case.learn()
        with pytest.raises(ValueError, match=f"^{name}: {parameter} must be "):
            case.learner.fit(case.X, case.y)


@pytest.mark.parametrize("name", LEARNERS)
def test_using_before_learning_says_so(name):
    case = case_of(learner_class(name))
    with pytest.raises(NotFittedError, match=name):
        case.output()


@pytest.mark.parametrize("name", [n for n in LEARNERS if learner_class(n).learns_from != "labels"])
@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda t: t[:, :1], "must be an integer array of shape"),
        (lambda t: t.astype(float), "must be an integer array of shape"),
        (lambda t: t + 10_000, "must be row indices between 0 and"),
        (lambda t: t - 10_000, "must be row indices between 0 and"),
        (lambda t: t.ravel(), "must be an integer array of shape"),
    ],
)
def test_wrong_tuples_are_refused_in_the_house_form(name, damage, words):
    case = case_of(learner_class(name))
    tuples, *rest = case.stream
    with pytest.raises(ValueError, match=words):
        case.learner.learn(case.X, damage(tuples), *rest)
    assert not case.learner.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    "name", [n for n in LEARNERS if hasattr(learner_class(n), "query_vectors")]
)
def test_vectors_and_geometry_are_all_that_an_index_needs(name):
    # What Blend remembers of pairs reaches an index nearly, and by `boosts` exactly.
    case = case_of(learner_class(name), **({"memory": 0} if name == "Blend" else {}))
    case.learn()
    Q, Z = case.X[:5], case.X[5:25]
    q, z = case.learner.query_vectors(Q), case.learner.item_vectors(Z)
    if case.learner.geometry == "inner_product":
        by_vectors = q @ z.T
        np.testing.assert_array_equal(z, Z)
    else:
        by_vectors = -((q[:, None] - z[None]) ** 2).sum(axis=2)
    np.testing.assert_allclose(case.learner.pairwise_score(Q, Z), by_vectors, atol=1e-8)
