"""AdaBoost is DefiniteBoost on diagonal matrices, up to a factor of two in what weights mean.

A weak hypothesis h with values ±1 on d samples is the constraint that its edge Σ w_i y_i h(x_i) be
at most zero: C = diag(y_i h(x_i)), with eigenvalues ±1, so that r = tr(WC) = 1 - 2 err. The step
½ log((1 + r)/(1 - r)) = ½ log((1 - err)/err) is both the approximate and the exact projection, and
half of scikit-learn's weight of an estimator; it raises the weights of wrong samples by exp of
that, where the paper also lowers the others, and divides by the sum.
"""

import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import make_classification
from sklearn.ensemble import AdaBoostClassifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.tree import DecisionTreeClassifier

from similia import ConstraintOracle, DefiniteBoost, MatrixConstraints

ROUNDS = 12


@pytest.fixture
def boosted():
    X, y = make_classification(60, 6, n_informative=4, flip_y=0.1, random_state=3)
    stump = DecisionTreeClassifier(max_depth=1)
    ada = AdaBoostClassifier(stump, n_estimators=ROUNDS, random_state=0).fit(X, y)
    assert len(ada.estimators_) == ROUNDS
    return X, 2 * y - 1, ada


def sample_weights(y, ada, X):
    """scikit-learn's weights after the last round: it keeps only those of the estimators."""
    w = np.full(len(y), 1 / len(y))
    for weight, h in zip(ada.estimator_weights_, ada.estimators_, strict=True):
        w = w * np.exp(weight * (h.predict(X) != ada.classes_[(y > 0).astype(int)]))
        w /= w.sum()
    return w


def fitted(constraints, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return DefiniteBoost(nearest=False, max_iter=ROUNDS, tol=1e-9, **parameters).fit(
            constraints
        )


@pytest.mark.parametrize("projection", ["approximate", "exact"])
def test_an_oracle_that_trains_weak_learners_is_adaboost(boosted, projection):
    X, y, ada = boosted
    rounds = iter(range(ROUNDS + 1))

    def train(W):
        stump = DecisionTreeClassifier(max_depth=1, random_state=0)
        stump.fit(X, y, sample_weight=np.diag(W))
        return next(rounds), sparse.diags_array(y * stump.predict(X).astype(float))

    boost = fitted(ConstraintOracle(len(y), train), projection=projection)
    np.testing.assert_allclose(2 * boost.alpha_[:ROUNDS], ada.estimator_weights_, rtol=1e-8)
    errors = (1 - boost.history_["value"]) / 2
    np.testing.assert_allclose(errors, ada.estimator_errors_, rtol=1e-8)
    np.testing.assert_allclose(np.diag(boost.W_), sample_weights(y, ada, X), rtol=1e-8)
    np.testing.assert_allclose(boost.W_, np.diag(np.diag(boost.W_)), atol=1e-15)


def test_going_through_the_same_weak_learners_in_turn_is_adaboost(boosted):
    X, y, ada = boosted
    edges = [sparse.diags_array(y * (2.0 * h.predict(X) - 1.0)) for h in ada.estimators_]
    boost = fitted(MatrixConstraints(edges), choice="cyclic")
    np.testing.assert_allclose(2 * boost.alpha_, ada.estimator_weights_, rtol=1e-8)
    np.testing.assert_allclose(np.diag(boost.W_), sample_weights(y, ada, X), rtol=1e-8)


def test_the_dual_value_is_the_exponential_loss(boosted):
    X, y, ada = boosted
    edges = np.array([y * (2.0 * h.predict(X) - 1.0) for h in ada.estimators_])
    boost = fitted(MatrixConstraints([np.diag(edge) for edge in edges]))
    loss = np.exp(-boost.alpha_ @ edges).mean()
    assert boost.dual_ == pytest.approx(-np.log(loss), abs=1e-10)
