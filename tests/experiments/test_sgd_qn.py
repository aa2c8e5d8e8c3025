"""SGD-QN: against the corrected algorithm, its gains, and the input that SLND's loop accepts."""

import numpy as np
import pytest
from scipy import sparse

from experiments.contenders.sgd_qn import SGDQN, sgd_qn_pass
from similia.losses import LOSSES
from tests.linear import test_slnd_input as laws
from tests.linear.test_sgd import check_it_learns, check_it_stops_early_and_continues
from tests.problems import labelled
from tests.reference.sgd_qn import BinarySGDQN
from tests.reference.slnd import SLOPES

BAD = [
    *laws.BAD,
    ({"alpha": 0.0}, "alpha"),
    ({"skip": 0}, "skip"),
    ({"schedule": "sqrt"}, "schedule"),
]


@pytest.fixture
def problem(rng):
    return labelled(rng, n=120)


@pytest.mark.parametrize("loss", LOSSES)
def test_it_equals_the_corrected_algorithm_one_example_at_a_time(rng, loss):
    X, y = labelled(rng, n=200)
    signs, d, alpha, skip = np.where(y == 0, 1.0, -1.0), X.shape[1], 0.02, 5
    naive = BinarySGDQN(d, 0.1, alpha, skip, SLOPES[loss])
    w, B, v, clock = np.zeros(d), np.full(d, 0.1), np.zeros(d), np.array([skip, 0])
    for i in range(len(X)):
        one = slice(i, i + 1)
        rows = (X[one], signs[one], np.ones(1), np.ones(1))
        sgd_qn_pass(w, B, v, np.zeros(0), clock, *rows, alpha, skip, LOSSES[loss].code)
        naive.learn(X[i], signs[i])
        np.testing.assert_allclose(w, naive.w, atol=1e-10 * max(1.0, np.abs(w).max()))
        np.testing.assert_allclose(B, naive.B, rtol=1e-9)


def test_average_in_fit_is_the_mean_of_the_states(problem):
    """Two passes over two classes, in the order that `fit` draws."""
    X, y = problem[0], problem[1] == 0
    parameters = {"eta": 0.1, "alpha": 0.02, "skip": 5, "fit_intercept": False}
    learner = SGDQN(average=True, max_iter=2, random_state=0, **parameters).fit(X, y)
    draw = SGDQN(random_state=0)
    draw.n_seen_ = 0
    rng = draw._rng()
    naive = BinarySGDQN(X.shape[1], 0.1, 0.02, 5, SLOPES["logistic"])
    states = [naive.w]
    for _ in range(2):
        order = rng.permutation(len(X))
        for i in order:
            naive.learn(X[i], 1.0 if y[i] else -1.0)
            states.append(naive.w)
    np.testing.assert_allclose(learner.w_[0], states[-1], atol=1e-10)
    np.testing.assert_allclose(learner.coef_[0], np.mean(states, axis=0), atol=1e-10)


def test_gains_only_shrink_and_stay_between_their_bounds(rng):
    """1/B grows by skip·r with λ <= r <= 100 λ, once in `skip` examples."""
    X, y = labelled(rng, n=160)
    learner = SGDQN(alpha=0.01, skip=8, eta=0.5).partial_fit(X, y, classes=[0, 1, 2])
    grown = (1.0 / learner.B_ - 1.0 / 0.5) / (8 * 0.01)
    rounds = (160 - 1) // 8
    assert (grown >= rounds - 1e-6).all()
    assert (grown <= 100 * rounds + 1e-6).all()


@pytest.mark.parametrize("parameters", [{"eta": 1e300}, {"alpha": 1e300}, {"eta": 0.0}])
def test_steps_that_no_weight_survives_are_refused(parameters, rng):
    learner = SGDQN(**parameters)
    with pytest.raises(ValueError, match=r"must be .*a number between 0 and 1e\+15, got"):
        learner.partial_fit(rng.normal(size=(6, 2)), [0, 1] * 3)
    assert not hasattr(learner, "w_")


@pytest.mark.parametrize("sampling", ["full", "balanced"])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_it_learns(rng, sampling, form):
    check_it_learns(SGDQN, rng, sampling, form)


def test_it_stops_early_and_continues(rng):
    check_it_stops_early_and_continues(SGDQN, rng)


def test_batches_of_a_parquet_file_are_learnt_as_the_array(problem, tmp_path):
    laws.test_batches_of_a_parquet_file_are_learnt_as_the_array(problem, SGDQN, tmp_path)


@pytest.mark.parametrize(("options", "name"), BAD, ids=str)
def test_bad_parameters_are_refused_by_name_and_change_nothing(problem, options, name):
    laws.test_bad_parameters_are_refused_by_name_and_change_nothing(problem, SGDQN, options, name)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_finite_are_refused_and_change_nothing(problem, bad):
    laws.test_rows_that_are_not_finite_are_refused_and_change_nothing(problem, SGDQN, bad)


def test_labels_that_are_neither_classes_nor_zeros_and_ones_are_refused(problem):
    laws.test_labels_that_are_neither_classes_nor_zeros_and_ones_are_refused(problem, SGDQN)
