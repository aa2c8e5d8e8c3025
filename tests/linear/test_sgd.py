"""SGD, the plain-step case of SLND's loop."""

import numpy as np
import pytest
from scipy import sparse

from similia import SGDOneVsRest, SLNDClassifier
from tests.problems import labelled
from tests.reference.slnd import slnd_step


@pytest.mark.parametrize("pieces", [1, 2, 5])
def test_sgd_is_the_printed_step_without_a_hessian(rng, pieces):
    """So are its average and its last state, in however many calls."""
    X, y = labelled(rng)
    learner = SGDOneVsRest(eta=0.03, schedule="constant", fit_intercept=False, average=True)
    for some in np.array_split(np.arange(len(X)), pieces):
        learner.partial_fit(X[some], y[some], classes=[0, 1, 2])
    states = [np.zeros((3, X.shape[1]))]
    for x, label in zip(X, y, strict=True):
        w = states[-1].copy()
        for c in range(3):
            sign = 1 if label == c else -1
            w[c] = slnd_step(w[c], x, sign, 0.03, np.eye(len(x)), "logistic")
        states.append(w)
    np.testing.assert_allclose(learner.w_, states[-1], atol=1e-12)
    np.testing.assert_allclose(learner.coef_, np.mean(states, axis=0), atol=1e-12)


def test_a_hessian_that_is_the_identity_makes_slnd_sgd(rng):
    """A full-rank Hessian of whitened rows is F''(0)·I, so η of SGD is η/F''(0) of SLND."""
    X, y = labelled(rng, n=300)
    values, vectors = np.linalg.eigh(X.T @ X / len(X))
    X = X @ vectors / np.sqrt(values)
    shared = {"schedule": "constant", "fit_intercept": False}
    newton = SLNDClassifier(eta=0.01, damping=0, hessian_samples=300, random_state=0, **shared)
    plain = SGDOneVsRest(eta=0.04, **shared)
    newton.fit(X, y)  # for the Hessian alone
    newton.w_[:] = 0.0
    newton.partial_fit(X, y)
    plain.partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_allclose(newton.coef_, plain.coef_, atol=1e-9)


def check_it_learns(cls, rng, sampling, form):
    X, y = labelled(rng, n=400)
    learner = cls(sampling=sampling, random_state=0).fit(form(X[:300]), y[:300])
    assert learner.score(form(X[300:]), y[300:]) > 0.75


def check_it_stops_early_and_continues(cls, rng):
    X, y = labelled(rng, n=200)
    learner = cls(early_stopping=True, max_iter=50, warm_start=True, random_state=0).fit(X, y)
    passes = learner.n_iter_
    assert passes < 50
    assert learner.fit(X, y).n_iter_ > passes


@pytest.mark.parametrize("sampling", ["full", "balanced"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_sgd_learns(rng, sampling, form):
    check_it_learns(SGDOneVsRest, rng, sampling, form)


def test_sgd_stops_early_and_continues(rng):
    check_it_stops_early_and_continues(SGDOneVsRest, rng)
