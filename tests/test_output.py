"""`transform` and `query_vectors` return the kind of table that `set_output` asks for."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from sklearn.base import clone

from similia import JudgedTransformer, evaluate, scaled_like
from similia.index import build_index
from similia.registry import ALL_LEARNERS, learner_class
from similia.retrieval import top_k
from similia.trust.agreement import triplet_margins
from tests.cases import case_of

TRANSFORMERS = [name for name in ALL_LEARNERS if hasattr(learner_class(name), "transform")]


def learnt(name):
    """A learner, its data, and labels."""
    if name == "NeighborhoodGerrymandering":
        case = case_of(learner_class("OASIS"))
        case.learner = learner_class(name)(random_state=0)
    else:
        case = case_of(learner_class(name))
    return case.learner.fit(case.X, case.y), np.asarray(case.X), case.y


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_tables_have_the_values_names_and_index(name):
    learner, X, y = learnt(name)
    frame = pd.DataFrame(X, columns=[f"x{i}" for i in range(X.shape[1])])
    frame.index = np.arange(len(X)) + 7
    learner = clone(learner).fit(frame, y)
    vectors = learner.query_vectors(frame)
    assert isinstance(vectors, np.ndarray)
    learner.set_output(transform="pandas")
    for found in (learner.transform(frame), learner.query_vectors(frame)):
        assert list(found.columns) == list(learner.get_feature_names_out())
        assert list(found.index) == list(frame.index)
        np.testing.assert_array_equal(found, vectors)
    found = learner.set_output(transform="polars").query_vectors(frame)
    assert isinstance(found, pl.DataFrame)
    np.testing.assert_array_equal(found.to_numpy(), vectors)


@pytest.mark.parametrize("name", TRANSFORMERS)
@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_whatever_searches_and_judges_finds_the_same(name, kind):
    learner, X, y = learnt(name)
    triplets = np.random.default_rng(1).integers(len(X), size=(40, 3))

    def results():
        return (
            evaluate(learner, X, labels=y).means["map"],
            top_k(learner, X, X, 3)[0],
            build_index(X, learner).search(X, 3, model=learner).ids,
            triplet_margins(learner, X, triplets),
            scaled_like(learner, "euclidean", X).factor,
            learner.query_vectors(X[0]),
        )

    plain = results()
    with sklearn.config_context(transform_output=kind):
        for found, expected in zip(results(), plain, strict=True):
            np.testing.assert_array_equal(found, expected)


def test_a_judged_step_has_its_own_names():
    learner, X, _ = learnt("OASIS")
    step = JudgedTransformer(learner).set_output(transform="pandas")
    with sklearn.config_context(transform_output="pandas"):
        found = step.fit(X, judgements=[[0, 1, 2]]).transform(X)
    assert list(found.columns) == [f"judgedtransformer{i}" for i in range(X.shape[1])]
