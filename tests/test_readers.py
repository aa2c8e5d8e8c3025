"""A learner that is read while another thread teaches it: nobody sees it between two states."""

import copy
import math
import re
import threading
import time
from functools import partial

import numpy as np
import pytest

from similia import OASIS, POLA
from similia.adapters import Adapters
from similia.index import build_index
from similia.registry import LEARNERS, learner_class
from similia.retrieval import evaluate, top_k
from similia.safety.turns import CHANGES
from similia.trust.agreement import triplet_margins
from similia.views import as_views
from tests.cases import case_of

#: what `answer` makes of an exception
ERROR = re.compile(r"\w+Error: ")
NOTHING = ("embedding", "get_state", "metric_matrix", "query_matrix", "revision")
POINTS = (
    *("decision_std", "item_keys", "item_vectors", "pairwise_distance", "pairwise_score"),
    *("predict_proba", "query_vectors", "transform"),
)
#: how public methods that read are called, with points X, two of them, and judgements
CALLS = {
    **dict.fromkeys(NOTHING, lambda m, *_: m()),
    **dict.fromkeys(POINTS, lambda m, X, two, told: m(two)),
    **dict.fromkeys(("score", "triplet_scores"), lambda m, X, two, told: m(X, *told)),
    **dict.fromkeys(
        ("decision_function", "predict"),
        lambda m, X, two, told: m(X, told[0]) if told[0].ndim > 1 else m(X),
    ),
    **dict.fromkeys(
        ("deviations", "margins"),
        lambda m, X, two, told: m(sides(m, X), sides(m, X), *told),
    ),
    "boosts": lambda m, X, two, told: m(two),
    "boosts_checked": lambda m, X, two, told: m(as_views(two)),
    "comparison_loss": lambda m, X, two, told: m(np.eye(X.shape[1]), X, *told),
    "explain": lambda m, X, two, told: m(two, X),
    "loss_bound": lambda m, X, two, told: m(np.eye(X.shape[1])),
    "merge": lambda m, X, two, told: m([copy.deepcopy(m.__self__)]).get_state(),
    "pair_scores": lambda m, X, two, told: m(X, told[0]),
    "predict_top_k": lambda m, X, two, told: m(X, 2),
    "query_vectors_checked": lambda m, X, two, told: m(as_views(two)),
    "sample_posterior": lambda m, X, two, told: m(random_state=0),
    "split": lambda m, X, two, told: m(2)[0].get_state(),
    "start": lambda m, X, two, told: m().get_state(),
    "suggest": lambda m, X, two, told: m(X, *told, 3),
}


#: searches that ask a learner several times
SEARCHES = {
    "top_k": lambda learner, X, index: top_k(learner, X[:5], X, 3),
    "evaluate": lambda learner, X, index: (
        evaluate(learner, X[:5], X, labels=(np.arange(5) % 2, np.arange(len(X)) % 2)).means
    ),
    "triplet_margins": lambda learner, X, index: triplet_margins(learner, X, [[0, 1, 2]]),
    "index": lambda learner, X, index: build_index(X, learner).search(X[:5], 3),
}


def sides(method, X):
    return as_views(X) if hasattr(method.__self__, "names_") else X


def reads(learner, X, told):
    """Calls of all public methods and properties of ours that read a learner, by name."""
    names = {}
    for base in type(learner).__mro__:
        if base.__module__.startswith("similia."):
            names |= {name: vars(base)[name] for name in vars(base).keys() - names.keys()}
    calls = {}
    for name, value in names.items():
        if isinstance(value, property):
            calls[name] = lambda name=name: getattr(learner, name)
        elif callable(value) and not isinstance(value, staticmethod) and name not in CHANGES:
            calls[name] = lambda name=name: CALLS[name](getattr(learner, name), X, X[:2], told)
    return {name: call for name, call in calls.items() if not name.startswith(("_", "set_"))}


def answer(call):
    """What a call returns, as plain values; or what it raises."""

    def plain(value):
        if hasattr(value, "judgements"):
            return plain([value.parts, value.judgements])
        if isinstance(value, dict):
            return {name: plain(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [plain(each) for each in value]
        return value.tolist() if isinstance(value, np.ndarray | np.generic) else value

    try:
        return plain(copy.deepcopy(call()))
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def same(found, expected):
    """Whether answers are the same but for rounding, which depends on who else uses the BLAS."""
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-7, abs_tol=1e-9)
    if isinstance(found, list) and isinstance(expected, list) and len(found) == len(expected):
        return all(map(same, found, expected))
    if isinstance(found, dict):
        return found.keys() == expected.keys() and all(same(found[n], expected[n]) for n in found)
    return found == expected


def beside(monkeypatch, learner, teach, calls, *, name="_learn_block", at=2):
    """Answers of calls made while a learner stands before such a call of its own."""
    there, go, number = threading.Event(), threading.Event(), iter(range(1, 10**6))
    method, answers = getattr(type(learner), name), {}

    def stopping(self, *arguments, **options):
        if self is learner and next(number) == at:
            there.set()
            assert go.wait(60)
        return method(self, *arguments, **options)

    def ask(name, call):
        answers[name] = answer(call)

    monkeypatch.setattr(type(learner), name, stopping)
    teacher = threading.Thread(target=teach)
    teacher.start()
    assert there.wait(60)
    askers = [threading.Thread(target=ask, args=each) for each in calls.items()]
    for asker in askers:
        asker.start()
    time.sleep(0.1)  # whoever does not wait has answered
    go.set()
    for thread in (teacher, *askers):
        thread.join(60)
    assert answers.keys() == calls.keys()
    return answers


@pytest.mark.parametrize("name", LEARNERS)
def test_a_reader_sees_the_state_before_or_after(name, monkeypatch):
    case = case_of(learner_class(name), n=600)
    case.learn(0, 100)
    X, told = case.X, tuple(column[:50] for column in case.stream)
    if case.learner.learns_from == "labels":
        X, told = X[told[0]], told[1:]
    before, after = case.fresh(), case.fresh()
    case.learn(100, learner=after)
    ends = [
        {name: answer(call) for name, call in reads(each, X, told).items()}
        for each in (before, after)
    ]
    calls = reads(case.learner, X, told)
    found = beside(monkeypatch, case.learner, lambda: case.learn(100), calls)
    del found["revision"]  # is of this object
    assert [n for n in found if not any(same(found[n], end[n]) for end in ends)] == []
    failed = {name for name, value in ends[1].items() if ERROR.match(str(value))}
    assert failed <= {"A_average_", "merge", "split"}


@pytest.mark.parametrize("how", SEARCHES)
def test_a_search_sees_one_state_of_what_moves_queries_and_items(how, monkeypatch):
    case = case_of(POLA, n=600)
    case.learn(0, 100)
    index = build_index(case.X, case.learner)
    search = partial(SEARCHES[how], case.learner, case.X, index)
    expected, found = answer(search), []
    beside(
        monkeypatch,
        case.learner,
        lambda: found.append(answer(search)),
        {"learn": lambda: case.learn(100)},
        name="query_vectors" if how != "index" else "query_matrix",
        at=1,
    )
    assert same(found, [expected])
    assert not same(answer(search), expected)


def test_an_index_multiplies_by_a_matrix_that_is_not_learnt_meanwhile(monkeypatch):
    case = case_of(OASIS, n=600, average=False)
    case.learn(0, 100)
    index = build_index(case.X)
    before, after = case.fresh(), case.fresh()
    case.learn(100, learner=after)
    ends = [answer(partial(index.search, case.X, 5, model=model)) for model in (before, after)]
    calls = {"search": partial(index.search, case.X, 5, model=case.learner)}
    found = beside(monkeypatch, case.learner, lambda: case.learn(100), calls)["search"]
    assert any(same(found, end) for end in ends)


def test_adapters_are_read_before_or_after(rng, monkeypatch):
    X, triplets = rng.normal(size=(30, 5)), rng.integers(30, size=(900, 3))
    adapters = Adapters().learn("me", X, triplets[:100])
    adapter = adapters["me"]
    before, after = copy.deepcopy(adapters), copy.deepcopy(adapters)
    after.learn("me", X, triplets[100:])

    def calls_of(some):
        return {
            "score": partial(some.pairwise_score, "me", X),
            "matrix": partial(some.matrix, "me"),
        }

    calls = calls_of(adapters)
    ends = [{n: answer(call) for n, call in calls_of(a).items()} for a in (before, after)]
    found = beside(
        monkeypatch, adapter, lambda: adapters.learn("me", X, triplets[100:]), calls, name="learn"
    )
    assert [n for n in calls if not any(same(found[n], end[n]) for end in ends)] == []
