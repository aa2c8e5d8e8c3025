import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from similia import AROW
from tests.problems import FORMS, labelled
from tests.reference.arow import arow_diagonal_step, arow_step

STEPS = {"full": arow_step, "diagonal": arow_diagonal_step}


@pytest.fixture
def data(rng):
    return labelled(rng, n=60, d=4, n_classes=2)


@pytest.mark.parametrize("covariance", STEPS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_two_classes_are_the_binary_learner_of_the_paper(data, covariance, form):
    X, y = data
    learner = AROW(covariance=covariance, r=0.5).partial_fit(form(X), y, classes=[0, 1])
    d = X.shape[1] + 1
    state = np.zeros(d), np.eye(d) if covariance == "full" else np.ones(d)
    for x, label in zip(np.hstack([X, np.ones((60, 1))]), y, strict=True):
        state = STEPS[covariance](*state, x, 2 * label - 1, 0.5)
    np.testing.assert_allclose(learner.w_[0], state[0], atol=1e-10)
    np.testing.assert_allclose(learner.Sigma_[0], state[1], atol=1e-10)
    np.testing.assert_allclose(learner.coef_[0], state[0][:-1], atol=1e-10)
    np.testing.assert_allclose(learner.intercept_, state[0][-1:], atol=1e-10)


@pytest.mark.parametrize("covariance", STEPS)
@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_std_is_that_of_a_linear_form(data, covariance, fit_intercept, form):
    X, y = data
    learner = AROW(covariance=covariance, fit_intercept=fit_intercept, random_state=0)
    learner.fit(form(X), y)
    rows = np.hstack([X, np.ones((60, 1))]) if fit_intercept else X
    S = learner.Sigma_[0] if covariance == "full" else np.diag(learner.Sigma_[0])
    expected = np.sqrt(np.einsum("ti,ij,tj->t", rows, S, rows))
    np.testing.assert_allclose(learner.decision_std(form(X)), expected, atol=1e-12)
    assert fit_intercept or learner.intercept_ == 0


def test_one_vs_rest_on_several_classes_is_several_binary_learners(rng):
    X, y = labelled(rng)
    learner = AROW(covariance="diagonal").partial_fit(X, y, classes=[0, 1, 2])
    for j in range(3):
        alone = AROW(covariance="diagonal").partial_fit(X, y == j, classes=[False, True])
        np.testing.assert_allclose(learner.coef_[j], alone.coef_[0])
    assert learner.decision_std(X).shape == learner.decision_function(X).shape == (80, 3)


@pytest.mark.parametrize("average", [True, False])
def test_digits_are_recognized(average):
    X, y = load_digits(return_X_y=True)
    X = normalize(X)
    learner = AROW(r=0.1, average=average, random_state=0).fit(sparse.csr_array(X[:900]), y[:900])
    assert learner.score(X[900:], y[900:]) > 0.88


def test_partial_fit_asks_for_classes_and_keeps_to_them(data):
    X, y = data
    with pytest.raises(ValueError, match="classes must be given in the first call"):
        AROW().partial_fit(X, y)
    learner = AROW()
    with pytest.raises(ValueError, match="y must be among the classes"):
        learner.partial_fit(X, y, classes=[0, 7])
    assert not hasattr(learner, "n_features_in_")
    learner.partial_fit(X, y, classes=[0, 1])
    with pytest.raises(ValueError, match="as before"):
        learner.partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="y must be among the classes"):
        learner.partial_fit(X, y + 1)
