import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from similia import LEGO
from tests.problems import FORMS, labelled


def noisy(rng):
    X, y = labelled(rng, n=200, d=8)
    X[:, 4:] *= 4
    return X, y


def test_given_distances_are_approached(rng):
    """All distances under a hidden metric, over and over: the learnt ones come near."""
    X = rng.normal(size=(30, 4))
    hidden = X * [2.0, 1.0, 0.5, 0.1]
    pairs = rng.integers(30, size=(20_000, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    wanted = np.linalg.norm(hidden[pairs[:, 0]] - hidden[pairs[:, 1]], axis=1)
    learner = LEGO(feedback="distances", average=False).learn(X, pairs, wanted)
    found = learner.pairwise_distance(X)[pairs[:, 0], pairs[:, 1]]
    np.testing.assert_allclose(found, wanted, atol=0.05)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_distances_are_those_of_the_matrix_and_of_transformed_points(rng, form):
    X, y = labelled(rng)
    learner = LEGO(n_pairs=1000, random_state=0).fit(form(X), y)
    z = X[3] - X[7]
    A = learner.A_average_
    assert learner.pairwise_distance(form(X))[3, 7] == pytest.approx(np.sqrt(z @ A @ z))
    moved = learner.transform(form(X))
    assert np.linalg.norm(moved[3] - moved[7]) == pytest.approx(np.sqrt(z @ A @ z))
    np.testing.assert_allclose(learner.components_.T @ learner.components_, A, atol=1e-9)
    np.testing.assert_array_equal(np.diag(learner.pairwise_distance(form(X))), 0.0)


def test_neighbors_follow_the_labels_in_a_pipeline(rng):
    X, y = noisy(rng)
    plain = KNeighborsClassifier(3).fit(X[:100], y[:100]).score(X[100:], y[100:])
    learner = LEGO(n_pairs=5000, random_state=0)
    adapted = make_pipeline(learner, KNeighborsClassifier(3)).fit(X[:100], y[:100])
    assert adapted.score(X[100:], y[100:]) > plain + 0.05


def test_fit_with_distances_aims_at_the_bounds(rng):
    X, y = labelled(rng)
    learner = LEGO(feedback="distances", bounds=(0.5, 6.0), n_pairs=500, random_state=0).fit(X, y)
    np.testing.assert_array_equal(learner.bounds_, [0.5, 6.0])
    assert learner.n_updates_ == 500


def test_a_sampler_of_ones_own_is_called(rng):
    X, y = labelled(rng)

    def sampler(y, n, rng):
        return np.tile([0, 3], (n, 1)), np.ones(n)

    learner = LEGO(sampler=sampler, n_pairs=100, eta=10.0).fit(X, y)
    distance = learner.pairwise_distance(X)
    assert distance[0, 3] < np.linalg.norm(X[0] - X[3])


@pytest.mark.parametrize(
    ("parameters", "y", "words"),
    [
        ({}, [0.5], r"y must be an array of \+1 \(similar\) and -1"),
        ({"feedback": "distances"}, [-1.0], "y must be an array of distances between 0 and"),
        ({"feedback": "distances"}, [np.nan], "y must be an array of distances between 0 and"),
        ({"bounds": (2.0, 1.0)}, [1], "bounds must be .* a pair of increasing positive numbers"),
    ],
)
def test_wrong_feedback_is_refused(rng, parameters, y, words):
    learner = LEGO(**parameters)
    with pytest.raises(ValueError, match=words):
        learner.learn(rng.normal(size=(4, 2)), [[0, 1]], y)
    assert not learner.__sklearn_is_fitted__()


@pytest.mark.parametrize("scale", [1e4, 1e8, 1e60, 1e70])
def test_long_steps_leave_the_state_finite_and_positive(rng, scale):
    X, pairs = scale * rng.normal(size=(20, 4)), rng.integers(20, size=(50, 2))
    learner = LEGO().learn(X, pairs, rng.choice([-1, 1], size=50))
    assert learner.n_updates_ > 10
    values = np.linalg.eigvalsh(learner.A_)
    assert 0 < values[0] < values[-1] < 1e3


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_units_of_data_bounds_and_rate_do_not_matter_together(rng, scale):
    X, pairs = rng.normal(size=(20, 4)), rng.integers(20, size=(50, 2))
    y = rng.choice([-1, 1], size=50)
    plain = LEGO(bounds=(0.5, 2.0), eta=0.1).learn(X, pairs, y)
    scaled = LEGO(bounds=(0.5 * scale, 2.0 * scale), eta=0.1 / scale**4).learn(scale * X, pairs, y)
    assert plain.n_updates_ > 0
    np.testing.assert_allclose(scaled.A_, plain.A_, rtol=1e-9)
