"""SLNDClassifier: against the paper's own loop, its options, and odd data."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_multilabel_classification
from sklearn.linear_model import LogisticRegression
from sklearn.multiclass import OneVsRestClassifier

from similia import SGDOneVsRest, SLNDClassifier, load, save
from similia.base import generator
from similia.linear import frames
from similia.losses import LOSSES
from tests.problems import labelled
from tests.reference.slnd import hessian, low_rank_inverse, risk, slnd_step


@pytest.fixture
def problem(rng):
    return labelled(rng, n=120)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


BALANCED_MEAN = {"sampling": "balanced", "average": True, "schedule": "sqrt"}
PAPER = {"damping": 0, "schedule": "constant", "eta": 0.05, "fit_intercept": False}


@pytest.mark.parametrize("loss", ["logistic", "hinge", "squared"])
@pytest.mark.parametrize("stored", [True, False])
def test_fit_is_the_printed_update_over_random_orders(problem, loss, stored, monkeypatch):
    X, y = problem
    monkeypatch.setattr(frames, "MAX_STORED_BYTES", 2**31 if stored else 0)
    learner = SLNDClassifier(loss=loss, rank=4, max_iter=2, random_state=0, **PAPER).fit(X, y)
    inverse = low_rank_inverse(hessian(X, loss), 4)
    again = SLNDClassifier(loss=loss, rank=4, random_state=0, **PAPER)
    again.n_seen_ = 0
    rng = again._rng()
    rng.integers(2**31)  # the solver's seed
    w = np.zeros((3, X.shape[1]))
    for _ in range(2):
        for i in rng.permutation(len(X)):
            for c in range(3):
                w[c] = slnd_step(w[c], X[i], 1 if y[i] == c else -1, 0.05, inverse, loss)
    np.testing.assert_allclose(learner.coef_, w, atol=1e-10)


def test_balanced_passes_see_all_of_a_class_and_as_many_others(problem):
    X, y = problem
    learner = SLNDClassifier(sampling="balanced", max_iter=1, random_state=0).fit(X, y)
    assert learner.n_updates_ == 2 * len(X)
    np.testing.assert_array_equal(learner.class_counts_, [[40, 80]] * 3)


@pytest.mark.parametrize("classes", [2, 3, 12])
def test_stored_and_streamed_projections_learn_the_same(problem, monkeypatch, classes):
    X, y = problem[0], np.arange(120) % classes
    for options in ({"sampling": "full"}, {"sampling": "balanced"}, BALANCED_MEAN):
        weights = []
        for limit in (2**31, 0):
            monkeypatch.setattr(frames, "MAX_STORED_BYTES", limit)
            weights.append(SLNDClassifier(random_state=0, **options).fit(X, y).coef_)
        np.testing.assert_allclose(*weights, atol=1e-10)


@pytest.mark.parametrize("stored", [True, False])
def test_average_is_the_mean_of_all_states_over_passes_and_calls(problem, stored, monkeypatch):
    """Two calls of two passes each, against the printed update in the order that `fit` draws."""
    X, y = problem
    monkeypatch.setattr(frames, "MAX_STORED_BYTES", 2**31 if stored else 0)
    shared = {"rank": 4, "random_state": 0, **PAPER}
    learner = SLNDClassifier(max_iter=2, warm_start=True, average=True, **shared)
    inverse = low_rank_inverse(hessian(X, "logistic"), 4)
    states = [np.zeros((3, X.shape[1]))]
    for n_seen in (0, 2 * len(X)):
        learner.fit(X, y)
        rng = generator(0, n_seen)
        rng.integers(2**31)  # the solver's seed
        for i in np.concatenate([rng.permutation(len(X)) for _ in range(2)]):
            signs = np.where(y[i] == np.arange(3), 1, -1)
            steps = zip(states[-1], signs, strict=True)
            states.append(
                np.array([slnd_step(w, X[i], s, 0.05, inverse, "logistic") for w, s in steps])
            )
    np.testing.assert_allclose(learner.w_, states[-1], atol=1e-10)
    np.testing.assert_allclose(learner.coef_, np.mean(states, axis=0), atol=1e-10)


def test_average_does_not_change_the_last_state(problem):
    X, y = problem
    averaged, last = (
        SLNDClassifier(rank=3, average=average, random_state=0).fit(X, y)
        for average in (True, False)
    )
    np.testing.assert_allclose(averaged.w_, last.w_, atol=1e-12)
    assert np.linalg.norm(averaged.coef_ - last.coef_) > 1e-3


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_the_theorem_lets_the_risk_fall_with_every_pass(problem, loss):
    X, y = problem
    risks = []
    for passes in range(1, 4):
        learner = SLNDClassifier(
            loss=loss, schedule="theorem", damping=0, fit_intercept=False, max_iter=passes,
            random_state=0,
        ).fit(X, y)  # fmt: skip
        signs = np.where(y == 0, 1, -1)
        risks.append(risk(learner.coef_[0], X, signs, loss))
    assert risks[2] < risks[1] < risks[0] < risk(np.zeros(X.shape[1]), X, signs, loss)


def test_visits_that_break_the_separability_assumption_take_no_step(digits):
    """`n_updates_` counts the others: most of the visits, but not all."""
    X, y = digits[0][:200], digits[1][:200]
    options = {"schedule": "theorem", "damping": 0, "max_iter": 2, "random_state": 0}
    learner = SLNDClassifier(rank=16, **options).fit(X, y)
    visits = 2 * 10 * len(X)
    assert 0.5 * visits < learner.n_updates_ < visits


def test_steps_do_not_shrink_where_features_are_far_from_zero(rng):
    """Damping counts variance: integers around 30 are learnt nearly as well as around 0."""
    y = rng.integers(5, size=1500)
    centers = rng.normal(size=(5, 8))
    X = np.round(4 * (centers[y] + 0.5 * rng.normal(size=(1500, 8))))
    near, far = (
        SLNDClassifier(random_state=0).fit(some[:1000], y[:1000]).score(some[1000:], y[1000:])
        for some in (X, X + 30.0)
    )
    assert far > near - 0.05


OPTIONS = [
    {},
    {"loss": "hinge"},
    {"loss": "squared"},
    {"rank": 20},
    {"rank": 0.98},
    {"rank": "held-out"},
    {"hessian": "diagonal"},
    {"hessian_samples": 200},
    {"shared": False},
    {"refresh": True},
    {"refresh": True, "shared": False, "sampling": "balanced"},
    {"sampling": "balanced"},
    {"sampling": "balanced", "rank": "held-out"},
    {"schedule": "constant"},
    {"schedule": "sqrt"},
    {"schedule": "inverse", "average": True},
    {"early_stopping": True, "max_iter": 20},
    {"fit_intercept": False},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_every_option_learns_digits(digits, options, form):
    X, y = digits
    X = form(X.astype(np.float32))
    learner = SLNDClassifier(random_state=0, **options).fit(X[:1200], y[:1200])
    assert learner.score(X[1200:], y[1200:]) > 0.85
    assert learner.w_.dtype == np.float32


@pytest.mark.parametrize("options", [{}, {"sampling": "balanced"}, {"hessian": "diagonal"}])
def test_a_stream_of_batches_learns_digits(digits, options):
    X, y = digits
    learner = SLNDClassifier(random_state=0, **options)
    for batch in np.array_split(np.arange(1200), 9):
        learner.partial_fit(X[batch], y[batch], classes=np.arange(10))
    assert learner.score(X[1200:], y[1200:]) > 0.85
    assert learner.n_hessian_ > 1000


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
def test_nearly_empty_rows_get_a_diagonal_hessian_unless_a_rank_is_named(rng, learn, tmp_path):
    """In whichever form they come; few features, or rows that are not empty, get a low rank."""
    X = rng.random((79, 600)) * (rng.random((79, 600)) < 0.05)  # too few rows for trials
    y, known = np.arange(79) % 3, {} if learn == "fit" else {"classes": np.arange(3)}

    def learnt(rows, **options):
        return getattr(SLNDClassifier(random_state=0, **options), learn)(rows, y, **known)

    empty, same = learnt(X), learnt(sparse.csr_array(X))
    assert empty.rank_ == same.rank_ == 601
    assert empty.hessian_vectors_.shape == (601, 0)
    np.testing.assert_allclose(empty.coef_, same.coef_, atol=1e-10)
    np.testing.assert_array_equal(empty.coef_, learnt(X, hessian="diagonal").coef_)
    save(empty, tmp_path / "empty.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "empty.safetensors").coef_, empty.coef_)
    for rows, options in ((X, {"rank": 9}), (X[:, :300], {}), (X + 0.01, {}), (X, {"rank": 0.9})):
        low_rank = learnt(rows, **options)
        assert low_rank.hessian_vectors_.shape == (rows.shape[1] + 1, low_rank.rank_)
        assert 0 < low_rank.rank_ <= 80


def test_the_hessian_of_a_stream_stops_at_its_samples_unless_refreshed(digits):
    X, y = digits
    for refresh in (False, True):
        learner = SLNDClassifier(hessian_samples=100, refresh=refresh, random_state=0)
        learner.partial_fit(X, y, classes=np.arange(10))
        assert (learner.n_hessian_ > 1000) == refresh


def test_balanced_streams_keep_the_same_examples_in_pieces(digits):
    X, y = digits
    whole, pieces = (SLNDClassifier(sampling="balanced", random_state=1) for _ in range(2))
    whole.partial_fit(X[:300], y[:300], classes=np.arange(10))
    for some in (slice(0, 7), slice(7, 200), slice(200, 300)):
        pieces.partial_fit(X[some], y[some], classes=np.arange(10))
    np.testing.assert_allclose(pieces.w_, whole.w_, atol=1e-9)
    assert whole.n_updates_ < 0.35 * 10 * 300


def test_memory_mapped_rows_are_learnt_as_those_in_memory(digits, tmp_path):
    X, y = digits
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    there = SLNDClassifier(random_state=0).fit(mapped, y)
    np.testing.assert_array_equal(there.w_, SLNDClassifier(random_state=0).fit(mapped[:], y).w_)


def test_several_labels_a_row():
    X, y = make_multilabel_classification(400, 12, n_classes=4, random_state=0)
    X = X / 10
    batch = OneVsRestClassifier(LogisticRegression()).fit(X, y)
    reached = np.mean(batch.predict(X) == y)
    for form in (np.asarray, sparse.csr_array):
        learner = SLNDClassifier(random_state=0).fit(X, form(y))
        assert learner.predict(X).shape == y.shape
        assert np.mean(learner.predict(X) == y) > reached - 0.02
        p = learner.predict_proba(X)
        np.testing.assert_array_equal(p > 0.5, learner.predict(X) == 1)
        np.testing.assert_allclose(p.mean(axis=0), y.mean(axis=0), atol=0.1)
    streamed = SLNDClassifier(random_state=0).partial_fit(X[:200], y[:200])
    streamed.partial_fit(X[200:], y[200:])
    assert np.mean(streamed.predict(X) == y) > reached - 0.05
    with pytest.raises(ValueError, match="y must have the classes"):
        streamed.partial_fit(X, y[:, :2])


def test_one_vs_rest_of_two_classes_has_one_weight_vector(problem):
    X, y = problem
    learner = SLNDClassifier(random_state=0).fit(X, np.where(y == 0, "a", "b"))
    assert learner.coef_.shape == (1, X.shape[1])
    assert learner.decision_function(X).ndim == 1
    np.testing.assert_allclose(learner.predict_proba(X).sum(axis=1), 1.0)
    assert learner.predict_top_k(X, 2)[0].tolist() in (["a", "b"], ["b", "a"])


def test_balanced_probabilities_are_corrected_for_the_prior(rng):
    """Overlapping classes, one in ten positive: the mean probability is the share of positives."""
    y = rng.random(4000) < 0.1
    X = rng.normal(size=(4000, 3)) + 0.7 * y[:, None]
    for loss, sampling in (("logistic", "balanced"), ("logistic", "full"), ("hinge", "balanced")):
        learner = SLNDClassifier(loss=loss, sampling=sampling, random_state=0).fit(X, y)
        p = learner.predict_proba(X)[:, 1]
        assert p.mean() == pytest.approx(0.1, abs=0.03)
        highest = np.argsort(p)[-400:]
        assert y[highest].mean() == pytest.approx(p[highest].mean(), abs=0.1)


def test_top_k_is_the_order_of_the_scores(digits):
    X, y = digits
    learner = SLNDClassifier(random_state=0).fit(X, y)
    best = learner.predict_top_k(X, 3)
    np.testing.assert_array_equal(best[:, 0], learner.predict(X))
    expected = np.argsort(-learner.decision_function(X), axis=1)[:, :3]
    np.testing.assert_array_equal(best, expected)
    with pytest.raises(ValueError, match=r"k must be .*at most the number of classes, 10, got 11"):
        learner.predict_top_k(X, 11)


def test_rows_of_weight_zero_are_left_out(problem):
    X, y = problem
    weights = np.repeat([1.0, 0.0], 60)
    weighted = SLNDClassifier(random_state=0).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(weighted.w_, SLNDClassifier(random_state=0).fit(X[:60], y[:60]).w_)


def test_a_larger_weight_counts_more(rng):
    X, y = rng.normal(size=(400, 3)), np.arange(400) % 2
    heavy = SLNDClassifier(random_state=0).fit(X, y, sample_weight=np.where(y == 1, 5.0, 1.0))
    assert heavy.predict(X).mean() > 0.8


def test_warm_start_goes_on(digits):
    X, y = digits
    learner = SLNDClassifier(max_iter=1, warm_start=True, random_state=0).fit(X, y)
    before = learner.w_.copy()
    learner.fit(X, y)
    assert learner.n_iter_ == 2
    assert learner.n_seen_ == 2 * len(X)
    assert not np.array_equal(before, learner.w_)
    with pytest.raises(ValueError, match="y must have the classes"):
        learner.fit(X, y % 3)


def test_early_stopping_keeps_the_best_weights_and_stops(problem):
    X, y = problem
    learner = SLNDClassifier(early_stopping=True, max_iter=100, random_state=0).fit(X, y)
    assert learner.n_iter_ < 100


def test_early_stopping_keeps_the_average_that_was_best(problem):
    """Passes without gain leave the average as it was: that of a learner that made none of them."""
    X, y = problem
    options = {"early_stopping": True, "average": True, "schedule": "constant", "random_state": 0}
    learner = SLNDClassifier(max_iter=100, n_iter_no_change=3, **options).fit(X, y)
    shorter = SLNDClassifier(max_iter=learner.n_iter_ - 3, **options).fit(X, y)
    np.testing.assert_allclose(learner.coef_, shorter.coef_, atol=1e-10)


def test_a_refreshed_hessian_has_the_curvature_of_the_present_weights(problem):
    """The energy after two passes is the mean of F''/F''(0)·|x|² at the weights after one."""
    X, y = problem
    options = {"schedule": "constant", "fit_intercept": False, "random_state": 0}
    once, twice = (SLNDClassifier(max_iter=n, refresh=True, **options).fit(X, y) for n in (1, 2))
    loss = LOSSES["logistic"]
    curvatures = loss.curvature(once.decision_function(X)).mean(axis=1) / loss.steepest
    assert twice.energy_ == pytest.approx(np.mean(curvatures * (X**2).sum(axis=1)))


# -- odd data ----------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"sampling": "balanced"}, {"shared": False}], ids=str)
def test_odd_data_is_learnt_from(rng, options):
    X, y = labelled(rng, n=90)
    X *= 2.0
    single = np.concatenate([y, [3]])
    cases = {
        "a class with one example": (np.vstack([X, X[:1] * -3]), single),
        "more classes than features": (rng.normal(size=(60, 3)), np.arange(60) % 12),
        "constant features": (np.hstack([X, np.ones((90, 2)), np.zeros((90, 2))]), y),
        "rank-deficient data": (np.hstack([X, X, X @ rng.normal(size=(6, 3))]), y),
        "fewer examples than features": (rng.normal(size=(8, 30)), np.arange(8) % 2),
        "all rows the same": (np.ones((10, 3)), np.arange(10) % 2),
        "only zeros": (np.zeros((10, 3)), np.arange(10) % 3),
        "huge and tiny features": (X * np.logspace(-8, 8, 6), y),
    }
    for words, (rows, labels) in cases.items():
        learner = SLNDClassifier(random_state=0, **options).fit(rows, labels)
        assert np.isfinite(learner.decision_function(rows)).all(), words
        p = learner.predict_proba(rows)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9, err_msg=words)
        if words in ("constant features", "rank-deficient data", "a class with one example"):
            assert learner.score(rows, labels) > 0.75, words


def test_one_class_is_refused_but_one_in_a_batch_of_a_stream_is_not(rng):
    X = rng.normal(size=(20, 3))
    with pytest.raises(ValueError, match="only one class"):
        SLNDClassifier().fit(X, np.zeros(20))
    learner = SLNDClassifier(sampling="balanced", random_state=0)
    learner.partial_fit(X, np.zeros(20), classes=[0, 1])
    assert (learner.predict(X) == 0).mean() > 0.5
    with pytest.raises(ValueError, match="y must be among the classes"):
        learner.partial_fit(X, np.full(20, 7))


def test_what_a_stream_cannot_follow_is_refused(problem):
    X, y = problem
    for options in ({"schedule": "theorem"}, {"shared": False}):
        with pytest.raises(ValueError, match="use fit"):
            SLNDClassifier(**options).partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(ValueError, match="average must be False"):
        SLNDClassifier(schedule="theorem", average=True).fit(X, y)


def test_wrong_weights_are_refused(problem):
    X, y = problem
    for weights in (np.ones(3), -np.ones(len(y)), np.zeros(len(y)), np.full(len(y), np.nan)):
        with pytest.raises(ValueError, match=r"SLNDClassifier\.fit: sample_weight must be"):
            SLNDClassifier().fit(X, y, sample_weight=weights)


WEIGHTED = [
    SLNDClassifier,
    SGDOneVsRest,
    partial(SLNDClassifier, sampling="balanced"),
    partial(SLNDClassifier, rank="held-out", average=True),
    partial(SGDOneVsRest, early_stopping=True),
    partial(SGDOneVsRest, schedule="theorem"),
]


@pytest.mark.parametrize("make", WEIGHTED)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_weight_and_copies_are_the_same_wherever_they_stand(problem, rng, make, form):
    X, y = problem
    weights = rng.integers(4, size=len(y))
    copies, order = np.repeat(np.arange(len(y)), weights), rng.permutation(len(y))
    weighted = make(random_state=0).fit(form(X[order]), y[order], sample_weight=weights[order])
    repeated = make(random_state=0).fit(form(X[copies]), y[copies])
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)
    np.testing.assert_array_equal(weighted.class_counts_, repeated.class_counts_)


def test_copies_in_a_stream_follow_one_another(problem):
    X, y = problem
    weights = np.arange(len(y)) % 3
    weighted = SLNDClassifier().partial_fit(X, y, classes=range(3), sample_weight=weights)
    copies = np.repeat(np.arange(len(y)), weights)
    repeated = SLNDClassifier().partial_fit(X[copies], y[copies], classes=range(3))
    np.testing.assert_array_equal(weighted.coef_, repeated.coef_)


def test_part_of_a_weight_shortens_a_step():
    X, y = np.eye(2), [0, 1]
    plain = {"fit_intercept": False, "max_iter": 1, "eta": 0.5, "schedule": "constant"}
    half = SGDOneVsRest(**plain).fit(X, y, sample_weight=[1.0, 0.5])
    np.testing.assert_allclose(half.coef_, [[-0.25, 0.125]])


def test_a_weight_that_would_not_fit_is_refused(problem):
    X, y = problem
    with pytest.raises(ValueError, match=r"fit: sample_weight must be small enough for .*1e\+15"):
        SGDOneVsRest().fit(X, y, sample_weight=np.full(len(y), 1e15))
