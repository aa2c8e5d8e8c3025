"""SGD and SGD-QN, the contenders of SLND."""

import numpy as np
import pytest
from scipy import sparse

from similia import SGDQN, SGDOneVsRest, SLNDClassifier
from similia.losses import LOSSES
from similia.updates.sgd_qn import sgd_qn_pass
from tests.problems import labelled
from tests.reference.sgd_qn import SGDQN as NaiveSGDQN
from tests.reference.slnd import SLOPES, slnd_step


def test_sgd_is_the_printed_step_without_a_hessian(rng):
    X, y = labelled(rng)
    learner = SGDOneVsRest(eta=0.03, schedule="constant", fit_intercept=False)
    learner.partial_fit(X, y, classes=[0, 1, 2])
    w = np.zeros((3, X.shape[1]))
    for x, label in zip(X, y, strict=True):
        for c in range(3):
            sign = 1 if label == c else -1
            w[c] = slnd_step(w[c], x, sign, 0.03, np.eye(len(x)), "logistic")
    np.testing.assert_allclose(learner.coef_, w, atol=1e-12)


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


@pytest.mark.parametrize("loss", LOSSES)
def test_sgd_qn_equals_the_corrected_algorithm_one_example_at_a_time(rng, loss):
    X, y = labelled(rng, n=200)
    signs, d, alpha, skip = np.where(y == 0, 1.0, -1.0), X.shape[1], 0.02, 5
    naive = NaiveSGDQN(d, 0.1, alpha, skip, SLOPES[loss])
    w, B, v, clock = np.zeros(d), np.full(d, 0.1), np.zeros(d), np.array([skip, 0])
    for i in range(len(X)):
        one = slice(i, i + 1)
        rows = (X[one], signs[one], np.ones(1), np.ones(1))
        sgd_qn_pass(w, B, v, np.zeros(0), clock, *rows, alpha, skip, LOSSES[loss].code)
        naive.learn(X[i], signs[i])
        np.testing.assert_allclose(w, naive.w, atol=1e-10 * max(1.0, np.abs(w).max()))
        np.testing.assert_allclose(B, naive.B, rtol=1e-9)


def test_gains_of_sgd_qn_only_shrink_and_stay_between_their_bounds(rng):
    """1/B grows by skip·r with λ <= r <= 100 λ, once in `skip` examples."""
    X, y = labelled(rng, n=160)
    learner = SGDQN(alpha=0.01, skip=8, eta=0.5).partial_fit(X, y, classes=[0, 1, 2])
    grown = (1.0 / learner.B_ - 1.0 / 0.5) / (8 * 0.01)
    rounds = (160 - 1) // 8
    assert (grown >= rounds - 1e-6).all()
    assert (grown <= 100 * rounds + 1e-6).all()


@pytest.mark.parametrize("cls", [SGDOneVsRest, SGDQN])
@pytest.mark.parametrize("sampling", ["full", "balanced"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_contenders_learn(rng, cls, sampling, form):
    X, y = labelled(rng, n=400)
    learner = cls(sampling=sampling, random_state=0).fit(form(X[:300]), y[:300])
    assert learner.score(form(X[300:]), y[300:]) > 0.75


@pytest.mark.parametrize("cls", [SGDOneVsRest, SGDQN])
def test_contenders_stop_early_and_go_on(rng, cls):
    X, y = labelled(rng, n=200)
    learner = cls(early_stopping=True, max_iter=50, warm_start=True, random_state=0).fit(X, y)
    passes = learner.n_iter_
    assert passes < 50
    assert learner.fit(X, y).n_iter_ > passes


@pytest.mark.parametrize("parameters", [{"eta": 1e300}, {"alpha": 1e300}, {"eta": 0.0}])
def test_sgd_qn_refuses_steps_that_no_weight_survives(parameters, rng):
    learner = SGDQN(**parameters)
    with pytest.raises(ValueError, match=r"must be .*a number between 0 and 1e\+15, got"):
        learner.partial_fit(rng.normal(size=(6, 2)), [0, 1] * 3)
    assert not hasattr(learner, "w_")
