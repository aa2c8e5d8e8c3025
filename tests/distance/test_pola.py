import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from similia import POLA
from similia.distance.pola import best_threshold
from similia.feedback.sampling import BalancedPairs
from tests.problems import FORMS, labelled

PRINTED = {"gamma": 0.0, "start": "zero", "unit": 1.0, "threshold_rate": 1.0, "average": False}


def noisy(rng, n=200):
    """Classes in four directions, under loud noise in four others."""
    X, y = labelled(rng, n=n, d=8)
    X[:, 4:] *= 4
    return X, y


def separable(rng, n=40, d=4, length=200):
    """Points and pairs that a metric of two directions separates with room to spare."""
    X = rng.normal(size=(n, d))
    hidden = X[:, :2] * 3.0
    pairs = rng.integers(n, size=(length, 2))
    squares = ((hidden[pairs[:, 0]] - hidden[pairs[:, 1]]) ** 2).sum(axis=1)
    pairs, squares = pairs[np.abs(squares - 6.0) > 3.0], squares[np.abs(squares - 6.0) > 3.0]
    A = np.zeros((d, d))
    A[[0, 1], [0, 1]] = 9.0
    return X, pairs, np.where(squares < 6.0, 1, -1), A, 6.0


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("average", [False, True])
def test_decisions_are_the_threshold_minus_the_squared_distance(rng, form, average):
    X, y = labelled(rng)
    learner = POLA(n_pairs=500, average=average, random_state=0).fit(form(X), y)
    pairs = rng.integers(len(X), size=(50, 2))
    squares = learner.pairwise_distance(form(X))[pairs[:, 0], pairs[:, 1]] ** 2
    decisions = learner.decision_function(form(X), pairs)
    np.testing.assert_allclose(decisions, learner.threshold_ - squares, atol=1e-9)
    np.testing.assert_array_equal(learner.predict(form(X), pairs), np.where(decisions < 0, -1, 1))
    differences = X[pairs[:, 0]] - X[pairs[:, 1]]
    np.testing.assert_allclose(learner.decision_function(form(differences)), decisions, atol=1e-9)
    assert learner.threshold_ == (learner.b_average_ if average else learner.b_)


def test_the_factor_gives_the_distances_and_components_are_its_first_rows(rng):
    X, y = labelled(rng)
    learner = POLA(n_pairs=500, random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.components_.T @ learner.components_, learner.A_average_)
    whole = learner.components_
    learner.set_params(n_components=2)
    np.testing.assert_allclose(np.abs(learner.components_), np.abs(whole[:2]), atol=1e-9)
    assert learner.transform(X).shape == (len(X), 2)
    moved = learner.transform(X)
    distances = np.linalg.norm(moved[:, None] - moved, axis=2)
    np.testing.assert_allclose(learner.pairwise_distance(X), distances, atol=1e-7)
    learner.set_params(n_components=100)
    assert learner.transform(X).shape == X.shape


def test_neighbors_and_clusters_follow_the_labels_in_pipelines(rng):
    X, y = noisy(rng)
    plain = KNeighborsClassifier(3).fit(X[:100], y[:100]).score(X[100:], y[100:])
    learner = POLA(n_pairs=5000, random_state=0)
    adapted = make_pipeline(learner, KNeighborsClassifier(3)).fit(X[:100], y[:100])
    assert adapted.score(X[100:], y[100:]) > plain + 0.05

    clusters = KMeans(3, n_init=5, random_state=0)
    before = adjusted_rand_score(y, clusters.fit_predict(X))
    after = adjusted_rand_score(y, clusters.fit_predict(adapted[0].transform(X)))
    assert after > before + 0.2


def test_unseen_pairs_are_told_apart(rng):
    X, y = noisy(rng)
    learner = POLA(n_pairs=5000, random_state=0).fit(X[:100], y[:100])
    pairs = rng.integers(100, 200, size=(1000, 2))
    truth = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    similar, apart = (np.mean(learner.predict(X, pairs[truth == s]) == s) for s in (1, -1))
    assert (similar + apart) / 2 > 0.75


@pytest.mark.parametrize("unit", [1e-3, 1.0, 50.0])
def test_by_default_the_units_of_the_data_do_not_matter(rng, unit):
    X, y = labelled(rng)
    one = POLA(n_pairs=300, random_state=0).fit(X, y)
    other = POLA(n_pairs=300, random_state=0).fit(X * unit, y)
    np.testing.assert_allclose(other.pairwise_score(X * unit), one.pairwise_score(X), atol=1e-6)
    assert other.unit_ == pytest.approx(one.unit_ * unit)


def test_it_starts_from_the_distance_that_is_there(rng):
    X, _ = labelled(rng)
    learner = POLA().learn(X, [], [])
    euclidean = np.linalg.norm(X[:, None] - X, axis=2)
    ratio = learner.pairwise_distance(X)[euclidean > 0] / euclidean[euclidean > 0]
    np.testing.assert_allclose(ratio, ratio[0])
    assert learner.b_ == 30.0
    given = POLA(start=np.diag([4.0, 1.0, 1.0, 1.0, 0.0, 0.0])).learn(X, [], [])
    np.testing.assert_array_equal(np.diag(given.A_), [4.0, 1.0, 1.0, 1.0, 0.0, 0.0])
    assert given.b_ > 1.0
    nothing = POLA(**PRINTED).learn(X, [], [])
    assert not nothing.A_.any()
    assert nothing.b_ == 1.0
    assert POLA(**PRINTED, start_threshold=7.0).learn(X, [], []).b_ == 7.0
    assert POLA(start_threshold=1).learn(X, [], []).b_ == 1.0


def test_theorem_1_can_be_followed_on_the_stream(rng):
    X, pairs, y, A, b = separable(rng)
    learner = POLA(**PRINTED).learn(X, pairs, y)
    longest = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1).max()
    assert 0 < learner.total_loss_ <= (longest**2 + 1.0) * (np.sum(A**2) + (b - 1.0) ** 2)


# -- batch form ------------------------------------------------------------------------------------


def test_the_batch_form_satisfies_all_pairs_to_beta_within_its_bound(rng):
    X, pairs, y, A, b = separable(rng)
    beta = 0.5
    learner = POLA(**PRINTED, beta=beta, max_passes=100_000).fit_pairs(X, pairs, y)
    assert learner.largest_loss_ <= beta
    losses = np.maximum(0.0, 1.0 - y * learner.decision_function(X, pairs))
    assert losses.max() == pytest.approx(learner.largest_loss_, abs=1e-9)
    longest = ((X[pairs[:, 0]] - X[pairs[:, 1]]) ** 2).sum(axis=1).max()
    D = np.sum(A**2) + (b - 1.0) ** 2
    assert learner.n_passes_ <= np.ceil((longest**2 + 1.0) * D / beta**2)
    assert learner.n_seen_ == learner.n_passes_ * len(pairs)


def test_a_believed_separator_stands_where_there_is_one(rng):
    X, pairs, y, A, b = separable(rng)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        learner = POLA(**PRINTED, beta=0.5, max_passes=100_000).fit_pairs(
            X, pairs, y, separator=float(np.sum(A**2) + (b - 1.0) ** 2)
        )
    assert learner.largest_loss_ <= 0.5


def test_contradictory_pairs_stop_with_a_warning_that_says_how_far_a_separator_is(rng):
    X = rng.normal(size=(10, 3))
    pairs, y = [[0, 1], [0, 1], [2, 3]], [1, -1, 1]
    learner = POLA(**PRINTED, beta=0.1, max_passes=20)
    with pytest.warns(ConvergenceWarning, match="after 20 passes a pair still loses .* has"):
        learner.fit_pairs(X, pairs, y)
    assert learner.n_passes_ == 20
    assert learner.largest_loss_ > 0.1
    with pytest.warns(ConvergenceWarning, match="No metric with .* separates these pairs"):
        learner.set_params(max_passes=10**6).fit_pairs(X, pairs, y, separator=10.0)
    assert learner.n_passes_ < 10**4


def test_equal_points_called_dissimilar_are_left_out_and_named(rng):
    X = rng.normal(size=(4, 3))
    X[1] = X[0]
    learner = POLA(**PRINTED, beta=0.1)
    with pytest.warns(ConvergenceWarning, match="1 pairs of equal points are called dissimilar"):
        learner.fit_pairs(X, [[0, 1], [2, 3]], [-1, -1])
    assert learner.largest_loss_ <= 0.1


def test_fit_draws_its_pairs_once_and_passes_over_them(rng):
    X, y = labelled(rng, n=30, n_classes=2)
    X[y == 1] += 20.0
    learner = POLA(**PRINTED, beta=0.5, n_pairs=60, random_state=0).fit(X, y)
    assert learner.largest_loss_ <= 0.5
    assert learner.n_seen_ == 60 * learner.n_passes_
    learner.set_params(beta=None).fit(X, y)
    assert not hasattr(learner, "n_passes_")
    assert learner.n_seen_ == 60


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"gamma": -1.0}, "gamma must be a number of at least 0, got -1.0"),
        ({"start": "one"}, "start must be one of 'identity', 'zero' or an array, got 'one'"),
        (
            {"start": np.eye(3)},
            r"start must be an array of real numbers of shape \(2, 2\), got shape \(3, 3\)",
        ),
        ({"start": np.array([[1.0, 2.0], [0.0, 1.0]])}, "start must be symmetric"),
        ({"start": -np.eye(2)}, "start must be positive semidefinite"),
        ({"start": np.full((2, 2), np.nan)}, "start must be finite"),
        ({"unit": 0.0}, "unit must be 'auto' or a number between 0 and 1e.70, got 0.0"),
        (
            {"start_threshold": 0.5},
            r"start_threshold must be 'auto' or a number from 1 to 1e\+70, got 0.5",
        ),
        ({"share": 1.5}, "share must be 'auto' or a number from 0 to 1, got 1.5"),
        ({"beta": 0.0}, "beta must be None or a positive number, got 0.0"),
        ({"max_passes": 0}, "max_passes must be an integer between 1 and 1000000000, got 0"),
        ({"n_components": 0}, "n_components must be None or a positive integer, got 0"),
    ],
)
def test_wrong_parameters_are_refused(rng, parameters, words):
    learner = POLA(**parameters)
    with pytest.raises(ValueError, match=rf"^POLA: {words}"):
        learner.learn(rng.normal(size=(4, 2)), [[0, 1]], [1])
    assert not learner.__sklearn_is_fitted__()
    assert not hasattr(learner, "n_features_in_")


def test_wrong_pairs_are_refused_and_change_nothing(rng):
    X, y = labelled(rng)
    learner = POLA(n_pairs=50, random_state=0).fit(X, y)
    A = learner.A_.copy()
    with pytest.raises(ValueError, match=r"^POLA.decision_function: column 1 of pairs must be row"):
        learner.decision_function(X, [[0, 80]])
    with pytest.raises(ValueError, match=r"^POLA.fit_pairs: y must be an array of \+1"):
        learner.fit_pairs(X, [[0, 1]], [2])
    with pytest.raises(ValueError, match=r"^POLA.fit_pairs: separator must be None or a number"):
        learner.fit_pairs(X, [[0, 1]], [1], separator=-1.0)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        learner.learn(X, [[0, 1], [1, 2]], [1])
    np.testing.assert_array_equal(learner.A_, A)
    assert learner.n_seen_ == 50


def test_an_average_that_was_not_kept_is_not_made_up(rng):
    learner = POLA(average=False).learn(rng.normal(size=(4, 2)), [[0, 1]], [1])
    with pytest.raises(AttributeError, match="the average is kept with average=True"):
        learner.b_average_  # noqa: B018


def test_points_too_near_for_their_precision_are_refused(rng):
    X = 1e-10 * rng.normal(size=(10, 3))
    pairs, y = rng.integers(10, size=(20, 2)), rng.choice([-1, 1], size=20)
    learner = POLA()
    with pytest.raises(ValueError, match=r"typically differ by at least 2.0e-08 for float32"):
        learner.learn(X.astype("float32"), pairs, y)
    assert not hasattr(learner, "n_seen_")
    for parameters, points in (({}, X), (PRINTED, X.astype("float32"))):
        assert np.isfinite(POLA(**parameters).learn(points, pairs, y).A_).all()


# -- how far `fit` goes ----------------------------------------------------------------------------


def misled(labels, n, rng):
    """Pairs of which all that is said is wrong."""
    pairs, signs = BalancedPairs(labels).draw(n, rng)
    return pairs, -signs


def test_fit_goes_a_part_of_the_way_where_all_of_it_classifies_worse(rng):
    X, y = labelled(rng, n=150)
    settings = {"n_pairs": 1000, "sampler": misled, "random_state": 0}
    whole, kept = (POLA(share=share, **settings).fit(X, y) for share in (1.0, "auto"))
    assert (whole.share_, kept.share_) == (1.0, 0.25)
    start = POLA().learn(X, [], []).A_
    np.testing.assert_allclose(kept.A_, 0.75 * start + 0.25 * whole.A_)
    np.testing.assert_allclose(kept.A_average_, 0.75 * start + 0.25 * whole.A_average_)
    assert kept.b_average_ == kept.b_ >= 1.0


def test_fit_keeps_everything_where_that_classifies_no_worse(rng):
    X, y = noisy(rng)
    chosen, whole = (
        POLA(n_pairs=3000, random_state=0, share=share).fit(X, y) for share in ("auto", 1.0)
    )
    assert chosen.share_ == 1.0
    np.testing.assert_array_equal(chosen.A_average_, whole.A_average_)
    assert chosen.threshold_ == whole.threshold_


def test_no_share_is_chosen_without_a_start_to_go_back_to_or_for_later_labels(rng):
    X, y = labelled(rng, n=150)
    assert POLA(**PRINTED, n_pairs=300, sampler=misled, random_state=0).fit(X, y).share_ == 1.0
    learner = POLA(n_pairs=300, sampler=misled, random_state=0).fit(X, y)
    assert learner.share_ == 0.25
    A, b = learner.A_.copy(), learner.b_
    drawn = []

    def remember(labels, n, rng):
        drawn.append(BalancedPairs(labels).draw(n, rng))
        return drawn[-1]

    learner.set_params(sampler=remember).partial_fit(X, y)
    again = POLA().learn(X, [], [])
    again.A_, again.b_ = A, b
    again.learn(X, *drawn[0])
    np.testing.assert_allclose(learner.A_, again.A_)
    assert learner.b_ == pytest.approx(again.b_)


def test_a_given_share_of_zero_is_the_start(rng):
    X, y = noisy(rng)
    learner = POLA(n_pairs=500, share=0.0, random_state=0).fit(X, y)
    np.testing.assert_allclose(learner.A_average_, POLA().learn(X, [], []).A_)


def test_the_best_threshold_counts_both_kinds_of_pairs_alike():
    squares = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    signs = np.array([1, 1, -1, 1, -1, -1])
    assert best_threshold(squares, signs) in (2.5, 4.5)
    assert best_threshold(squares, np.array([1, -1, -1, -1, -1, -1])) == 1.5
    assert best_threshold(squares, np.ones(6)) is None
