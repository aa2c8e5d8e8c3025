"""An exception from a signal finds every learner in a state that it would have had anyway."""

import copy
import signal
import sys
import threading

import numpy as np
import pytest

from similia.adapters import Adapters
from similia.index import build_index
from similia.registry import LEARNERS, learner_class
from similia.safety.whole import held_signals
from tests.cases import case_of

# Python itself ignores, and tells, what is raised while a generator is being closed.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


@pytest.fixture(autouse=True)
def _usual_handler():
    """Python's own handler of Ctrl-C, whatever other packages have put in its place."""
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, former)


def interrupted_at(k, call):
    """Run a call and raise SIGINT at its k-th Python function; whether it was interrupted."""
    seen = 0

    def count(frame, event, argument):
        nonlocal seen
        if event == "call" and seen >= 0:
            seen += 1
            if seen == k:
                seen = -1
                signal.raise_signal(signal.SIGINT)

    sys.setprofile(count)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.setprofile(None)
    return seen < 0


def calls_of(call):
    count = [0]
    sys.setprofile(
        lambda frame, event, argument: count.__setitem__(0, count[0] + (event == "call"))
    )
    try:
        call()
    finally:
        sys.setprofile(None)
    return count[0]


def places(total, n=60):
    return np.unique(np.linspace(1, total, n).astype(int)).tolist()


@pytest.mark.parametrize("name", LEARNERS)
def test_an_interrupted_learner_has_learnt_a_part_of_the_stream(name):
    case = case_of(learner_class(name), n=400)
    case.learn(0, 100)
    total = calls_of(lambda: case.learn(100, learner=case.fresh()))
    for k in places(total):
        learner = case.fresh()
        interrupted_at(k, lambda learner=learner: case.learn(100, learner=learner))
        expected = case.fresh()
        case.learn(100, learner.n_seen_, learner=expected)
        state = expected.get_state()
        state.pop("n_iter_", None)  # counts passes that ended
        for attribute, value in state.items():
            found = learner.get_state()[attribute]
            if np.asarray(value).dtype.kind not in "bfiu":
                assert found == value
                continue
            np.testing.assert_allclose(found, value, rtol=1e-9, atol=1e-12, err_msg=attribute)


@pytest.mark.parametrize("name", LEARNERS)
def test_an_interrupted_fit_leaves_the_learner_as_it_was(name):
    case = case_of(learner_class(name))
    case.learn()
    before = copy.deepcopy(case.learner.get_state())
    total = calls_of(lambda: case.fresh().fit(case.X, case.y))
    for k in places(total, 25):
        learner = case.fresh()
        if interrupted_at(k, lambda learner=learner: learner.fit(case.X, case.y)):
            finished = learner.n_seen_ != case.learner.n_seen_
            for attribute, value in before.items():
                if not finished:
                    np.testing.assert_array_equal(learner.get_state()[attribute], value)


def test_an_interrupted_user_has_learnt_a_part_of_the_stream(rng):
    X, triplets = rng.normal(size=(30, 5)), rng.integers(30, size=(900, 3))
    begun = Adapters(rank=8).learn("me", X, triplets[:100])
    total = calls_of(lambda: copy.deepcopy(begun).learn("me", X, triplets[100:]))
    for k in places(total):
        adapters, expected = copy.deepcopy(begun), copy.deepcopy(begun)
        interrupted_at(k, lambda learner=adapters: learner.learn("me", X, triplets[100:]))
        expected.learn("me", X, triplets[100 : adapters._adapters["me"].n_seen])
        np.testing.assert_allclose(adapters.matrix("me"), expected.matrix("me"))


@pytest.mark.parametrize("backend", ["exact", "faiss", "usearch"])
def test_an_interrupted_addition_is_whole_or_has_not_happened(backend, rng):
    if backend != "exact":
        pytest.importorskip(backend)
    Z = rng.normal(size=(60, 4)).astype(np.float32)
    total = calls_of(lambda: build_index(Z[:50], backend=backend).add(Z[50:]))
    for k in places(total):
        index = build_index(Z[:50], backend=backend)
        interrupted_at(k, lambda index=index: index.add(Z[50:]))
        assert len(index.ids) == len(index.backend) in (50, 60)
        assert index.report.n_items == len(index)


def test_signals_wait_and_all_handlers_come_back():
    numbers = [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1]
    former = [signal.signal(number, lambda n, _: arrived.append(n)) for number in numbers]
    arrived = []
    try:
        handlers = [signal.getsignal(number) for number in numbers]
        with held_signals() as let_in:
            for number in numbers:
                signal.raise_signal(number)
            assert arrived == []
            let_in()
            assert arrived == numbers
            signal.raise_signal(signal.SIGINT)
        assert arrived == [*numbers, signal.SIGINT]
        assert [signal.getsignal(number) for number in numbers] == handlers
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)


def test_held_twice_they_wait_for_the_outer_block():
    order = []

    def hold_twice():
        with held_signals():
            with held_signals() as let_in:
                signal.raise_signal(signal.SIGINT)
                let_in()
                order.append("inner")
            order.append("outer")

    with pytest.raises(KeyboardInterrupt):
        hold_twice()
    assert order == ["inner", "outer"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_have_no_handlers_to_hold():
    seen = []

    def run():
        with held_signals() as let_in:
            let_in()
            seen.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert seen == [True]
