"""Passes: when each step counts for the mean of the states, however the rows are visited."""

import numpy as np
import pytest

from similia.linear import frames
from similia.linear.examples import Examples, TrainingSplit
from similia.linear.frames import Descent, Scaling
from similia.linear.passes import Passes
from similia.losses import LOSSES
from similia.updates.balanced import CONSTANT

N, D = 120, 5


def passes(rng_of_data, n_classes, sampling, start=None, **state):
    """Passes of constant steps over random rows, from `start` or zero."""
    X, y = rng_of_data.normal(size=(N, D)), np.arange(N) % n_classes
    examples = Examples("test", X, y, intercept=False)
    split = TrainingSplit(examples, np.arange(N), np.arange(0))
    balanced = sampling == "balanced"
    descent = Descent(LOSSES["logistic"], CONSTANT, 2 * N, True, balanced, None)
    w, moment = np.zeros((2, examples.n_vectors, D)) if start is None else start
    run = Passes(split, descent, w, moment, **state)
    run.rescale(Scaling(np.eye(D), 0.1, 1.0))
    return run


@pytest.fixture(params=["stored", "projected by blocks"])
def stored(request, monkeypatch):
    monkeypatch.setattr(frames, "MAX_STORED_BYTES", 2**31 if request.param == "stored" else 0)


#: two classes and three are learnt class by class, twelve in pairs
KINDS = [(n, sampling) for n in (2, 3, 12) for sampling in ("full", "balanced")]


@pytest.mark.parametrize(("n_classes", "sampling"), KINDS)
@pytest.mark.usefixtures("stored")
def test_steps_after_more_examples_count_for_later_times(n_classes, sampling):
    """Σ (s + t)Δw = s·(w_T - w_0) + Σ t Δw, for any number s of examples seen before."""
    states = []
    for n_seen in (0, 1000):
        run = passes(np.random.default_rng(1), n_classes, sampling, n_seen=n_seen)
        for seed in (2, 3):
            run.make(np.random.default_rng(seed))
        states.append(run.state())
    (w, moment), (same, later) = states
    np.testing.assert_array_equal(same, w)
    assert np.abs(w).max() > 0.1
    np.testing.assert_allclose(later, moment + 1000 * w, atol=1e-8)


@pytest.mark.parametrize(("n_classes", "sampling"), KINDS)
@pytest.mark.usefixtures("stored")
def test_two_passes_are_one_and_then_another(n_classes, sampling):
    """A pass begins when the one before has ended: the second counts from N on."""
    whole = passes(np.random.default_rng(1), n_classes, sampling, n_seen=0)
    first = passes(np.random.default_rng(1), n_classes, sampling, n_seen=0)
    for run in (whole, first):
        run.make(np.random.default_rng(2))
    state = first.state()
    second = passes(np.random.default_rng(1), n_classes, sampling, state, n_seen=N, number=1)
    for run in (whole, second):
        run.make(np.random.default_rng(3))
    for one, other in zip(whole.state(), second.state(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-9)
