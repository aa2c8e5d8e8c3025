"""Text, dates and masked entries are refused, never taken as numbers."""

import datetime as dt

import numpy as np
import pandas as pd
import pytest

from similia import JudgedTransformer, JudgementEstimator, Views, scaled_like
from similia.adapters import Adapters
from similia.constraints.pairs import DistanceConstraints
from similia.constraints.sets import MatrixConstraints, RankOneConstraints
from similia.distance.meg import MEG
from similia.distance.pola import POLA
from similia.feedback.grades import RelevanceTriplets
from similia.feedback.sampling import UniformTriplets
from similia.filtering import RelevanceFilter
from similia.index import build_index
from similia.neighbors.gerrymandering import NeighborhoodGerrymandering
from similia.registry import LEARNERS, learner_class
from similia.retrieval import evaluate, top_k
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.safety.bounds import check_numeric
from tests.cases import case_of

DAY = np.datetime64("2024-01-01")


def masked(X):
    wrong = np.ma.masked_array(np.array(X), mask=np.zeros(np.shape(X), bool))
    wrong[0, 0] = np.ma.masked
    return wrong


def one_text(X):
    wrong = np.array(X, dtype=object)
    wrong[-1, -1] = "7"
    return wrong


def one_date(X):
    wrong = np.array(X, dtype=object)
    wrong[-1, -1] = dt.date(2024, 1, 1)
    return wrong


WRONG = {
    "text": lambda X: np.asarray(X).astype(str),
    "bytes": lambda X: np.asarray(X).round(2).astype("S8"),
    "lists of text": lambda X: np.asarray(X).astype(str).tolist(),
    "one text": one_text,
    "dates": lambda X: DAY + np.asarray(X).astype(int),
    "durations": lambda X: np.asarray(X).astype(int).astype("timedelta64[D]"),
    "one date": one_date,
    "a table with text": lambda X: pd.DataFrame(np.asarray(X)).astype({0: str}),
    "a table with dates": lambda X: (
        pd.DataFrame(np.asarray(X)).assign(**{"0": DAY}).drop(columns=0)
    ),
    "masked entries": masked,
}
REFUSED = "must be (numbers|an array of numbers|a vector of numbers)|no masked entries"


@pytest.fixture
def X(rng):
    return rng.normal(size=(30, 6))


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("name", LEARNERS)
def test_learners_refuse_it_in_every_call_and_stay_as_they_were(name, kind):
    case = case_of(learner_class(name))
    wrong = WRONG[kind](case.X)
    with pytest.raises(ValueError, match=f"^{name}: X must (be numbers|have no masked)"):
        case.learner.fit(wrong, case.y)
    assert not case.learner.__sklearn_is_fitted__()
    learner, stream = case.learn(), case.stream
    before = {name: np.copy(value) for name, value in learner.get_state().items()}
    calls = [lambda: case.output(X=wrong), lambda: learner.partial_fit(wrong, case.y)]
    if learner.learns_from != "labels":
        calls.append(lambda: learner.learn(wrong, *stream))
        calls.append(lambda: learner.pairwise_score(case.X, wrong))
        calls.append(lambda: learner.query_vectors(wrong))
        calls.append(lambda: learner.item_vectors(wrong))
    for call in calls:
        with pytest.raises(ValueError, match=REFUSED):
            call()
    for attribute, value in learner.get_state().items():
        np.testing.assert_array_equal(value, before[attribute])


SIGNS = np.arange(30) % 2
CALLS = {
    "evaluate": lambda X, wrong: evaluate("cosine", wrong, labels=SIGNS),
    "top_k": lambda X, wrong: top_k("inner_product", X, wrong, 3),
    "an index": lambda X, wrong: build_index(wrong),
    "a search": lambda X, wrong: build_index(X).search(wrong, 3),
    "a filter": lambda X, wrong: RelevanceFilter(POLA()).learn(wrong, SIGNS),
    "adapters": lambda X, wrong: Adapters().learn("me", wrong, [[0, 1, 2]]),
    "distances": lambda X, wrong: DistanceConstraints([[0, 1]], [1.0], X=wrong),
    "neighbors": lambda X, wrong: NeighborhoodGerrymandering().fit(wrong, SIGNS),
    "items of neighbors": lambda X, wrong: NeighborhoodGerrymandering().fit(
        X, SIGNS, items=wrong, item_labels=SIGNS
    ),
    "views": lambda X, wrong: Views(a=X, b=wrong),
    "a scale": lambda X, wrong: scaled_like(PLAIN_SCORERS["cosine"], "euclidean", wrong),
    "judgements": lambda X, wrong: JudgementEstimator(POLA(), wrong).fit([[0, 1]], [1]),
    "a judged step": lambda X, wrong: JudgedTransformer(POLA()).fit(
        wrong, judgements=[[0, 1]], feedback=[1]
    ),
}


@pytest.mark.parametrize("kind", WRONG)
@pytest.mark.parametrize("call", CALLS)
def test_functions_refuse_it(call, kind, X):
    with pytest.raises(ValueError, match=REFUSED):
        CALLS[call](X, WRONG[kind](X))


MASKED = {
    "triplets": lambda X: Adapters().learn("me", X, masked([[0, 1, 2]])),
    "pairs": lambda X: POLA().learn(X, masked([[0, 1]]), [1]),
    "signs": lambda X: POLA().learn(X, [[0, 1]], masked([[1]])[0]),
    "labels": lambda X: POLA().fit(X, masked(SIGNS[None])[0]),
    "labels of a sampler": lambda X: UniformTriplets(masked(SIGNS[None])[0]),
    "grades": lambda X: RelevanceTriplets(masked(abs(X))),
    "relevance": lambda X: evaluate("inner_product", X, X[:6], relevance=masked(abs(X))),
    "vectors of constraints": lambda X: RankOneConstraints(masked(X), 0.0),
    "matrices": lambda X: MatrixConstraints([masked(X @ X.T)]),
    "instances": lambda X: MEG().learn_matrices(masked(X), np.ones(30)),
    "a single query": lambda X: POLA().fit(X, SIGNS).pairwise_score(masked(X)[0], X),
    "a single search": lambda X: build_index(X).search(masked(X)[0], 3),
}


@pytest.mark.parametrize("call", MASKED)
def test_masked_entries_are_refused_in_judgements_too(call, X):
    with pytest.raises(ValueError, match=r"must have no masked entries, got 1; fill"):
        MASKED[call](X)


GOOD = {
    "objects": lambda X: np.array(X, dtype=object),
    "integers": lambda X: X.astype(int),
    "lists": lambda X: X.tolist(),
    "a table": lambda X: pd.DataFrame(X).convert_dtypes(),
    "nothing masked": np.ma.masked_array,
}


@pytest.mark.parametrize("form", GOOD)
def test_numbers_in_any_form_are_taken(form, X):
    check_numeric("test", "X", GOOD[form](X))
    assert np.isfinite(POLA().fit(GOOD[form](X), SIGNS).pairwise_score(X)).all()
