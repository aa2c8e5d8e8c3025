"""Learners in several processes: prefork servers, multiprocessing, joblib."""

import multiprocessing
import os
import signal
import threading

import numpy as np
import pytest
from joblib import Parallel, delayed

from similia.registry import learner_class
from tests.cases import case_of

#: seconds after which a process that waits for ever is ended
PATIENCE = 120
NAMES = ["FactoredAROMA", "OASIS", "LEGO", "POLA", "AROW", "SLNDClassifier"]


def learnt(name):
    """What a learner has learnt from a stream that is long enough to be shared out."""
    case = case_of(learner_class(name), n=300)
    return case.learn().get_state()


def assert_the_same(found, expected):
    """Compare states bit for bit."""
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


@pytest.fixture(scope="module")
def expected():
    """States learnt while nothing else runs."""
    return {name: learnt(name) for name in NAMES}


@pytest.fixture
def learning(expected):
    """Keep a thread of this process learning."""
    done, begun = threading.Event(), threading.Event()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 200))
    triplets = rng.integers(300, size=(256, 3))

    def learn():
        learner = learner_class("FactoredAROMA")()
        while not done.is_set():
            learner.learn(X, triplets)
            begun.set()

    thread = threading.Thread(target=learn)
    thread.start()
    begun.wait(PATIENCE)
    yield
    done.set()
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_server_that_forks_while_it_learns_has_children_that_learn(learning, expected):
    for round_ in range(30):
        name = NAMES[round_ % len(NAMES)]
        child = os.fork()
        if child == 0:
            signal.alarm(PATIENCE)
            try:
                assert_the_same(learnt(name), expected[name])
            except AssertionError:
                os._exit(1)
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_processes_of_every_kind_learn_the_same(method, learning, expected):
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.map_async(learnt, NAMES[:3]).get(PATIENCE)
    for name, output in zip(NAMES, found, strict=False):
        assert_the_same(output, expected[name])


@pytest.mark.parametrize("backend", ["loky", "multiprocessing", "threading"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_jobs_learn_the_same(backend, learning, expected):
    found = Parallel(n_jobs=2, backend=backend)(delayed(learnt)(name) for name in NAMES[:3])
    for name, output in zip(NAMES, found, strict=False):
        assert_the_same(output, expected[name])
