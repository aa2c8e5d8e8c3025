"""PAUM: its pass against the paper, the Perceptron as a special case, the bound on its steps."""

import doctest
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.linear_model import Perceptron

from experiments.contenders import paum
from experiments.contenders.paum import PAUM, largest_squares, paum_pass, with_squared_radius
from tests.problems import FORMS, blocks, labelled
from tests.reference.paum import paum_step

PLAIN = {"tau_positive": 0.0, "tau_negative": 0.0, "radius": 1.0}
TAUS = st.tuples(*[st.sampled_from([0.0, 0.3, 7.0])] * 2)
ETA = st.sampled_from([0.1, 1.0])
FORM = st.sampled_from([np.asarray, sparse.csr_array])


@pytest.fixture
def data(rng):
    return labelled(rng, n=60, d=4, n_classes=2)


def test_its_example_prints_what_it_says():
    assert doctest.testmod(paum).failed == 0


@given(blocks(largest=1), TAUS, ETA, FORM, st.integers(1, 40))
def test_blocks_equal_the_paper_one_example_at_a_time(block, taus, eta, form, size):
    X, signs = block[0], np.where(block[1][:, 0] >= 0, 1.0, -1.0)
    n, d = X.shape
    w, b, R = np.zeros(d), 0.0, 0.0
    expected, total, steps = [], np.zeros(d + 1), 0
    for x, y in zip(X, signs, strict=True):
        R = max(R, np.linalg.norm(x))
        gap = y * (w @ x + b) - taus[0 if y > 0 else 1]
        assume(abs(gap) > 1e-10 or not steps)  # on its margin to rounding: either way is right
        before = w
        w, b = paum_step(w, b, x, y, R, eta, *taus)
        steps += w is not before
        expected.append(R**2)
        total += [*w, b]
    learnt, moment, R2, taken = np.zeros(d + 1), np.zeros(d + 1), 0.0, 0
    for start in range(0, n, size):
        rows = np.hstack([X, np.ones((n, 1))])[start : start + size]
        squares = largest_squares(form(rows), R2)
        np.testing.assert_allclose(squares, expected[start : start + size], rtol=1e-12)
        R2, moves = squares[-1], with_squared_radius(form(rows), squares)
        part = signs[start : start + size]
        taken += paum_pass(learnt, moment, start, form(rows), moves, part, eta, taus)
    scale = 1 + np.abs(learnt).max()
    np.testing.assert_allclose(learnt, [*w, b], atol=1e-10 * scale)
    np.testing.assert_allclose((n + 1) * learnt - moment, total, atol=1e-8 * scale)
    assert taken == steps


@given(blocks(), FORM)
def test_only_the_margins_relative_to_the_step_matter(block, form):
    X, signs = block[0], np.where(block[1][:, 0] >= 0, 1.0, -1.0)
    one, four = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    none = np.zeros((0, 0))
    paum_pass(one, none, 0, form(X), form(X), signs, 1.0, (3.0, 0.5))
    # A power of two: the same sums, rounded in the same way.
    paum_pass(four, none, 0, form(X), form(X), signs, 4.0, (12.0, 2.0))
    np.testing.assert_array_equal(four, 4 * one)


@given(blocks())
def test_rows_that_keep_their_margin_change_nothing(block):
    X = block[0]
    w = np.ones(X.shape[1])
    signs = np.where(X @ w >= 0, 1.0, -1.0)
    margin = np.abs(X @ w).min() * (1 - 1e-9)
    kept = np.abs(X @ w) > margin
    assert paum_pass(w, np.zeros((0, 0)), 0, X[kept], X[kept], signs[kept], 1.0, (margin,) * 2) == 0
    np.testing.assert_array_equal(w, 1.0)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("radius", ["auto", 3.0])
def test_two_classes_are_the_binary_learner_of_the_paper(data, form, radius):
    X, y = data
    parameters = {"eta": 0.5, "tau_positive": 4.0, "tau_negative": 1.0}
    learner = PAUM(radius=radius, **parameters).partial_fit(form(X), y, classes=[0, 1])
    w, b, R = np.zeros(4), 0.0, 0.0
    for x, label in zip(X, y, strict=True):
        R = 3.0 if radius == 3.0 else max(R, np.linalg.norm(x))
        w, b = paum_step(w, b, x, 2 * label - 1, R, **parameters)
    np.testing.assert_allclose(learner.coef_[0], w, atol=1e-10)
    np.testing.assert_allclose(learner.intercept_, b, atol=1e-10)
    np.testing.assert_allclose(learner.R_, R)


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("fit_intercept", [True, False])
def test_without_margins_and_with_radius_one_it_is_the_perceptron(rng, n_classes, fit_intercept):
    X, y = labelled(rng, n_classes=n_classes)
    classes = np.unique(y)
    ours = PAUM(fit_intercept=fit_intercept, **PLAIN)
    theirs = Perceptron(fit_intercept=fit_intercept, shuffle=False)
    for rows in np.array_split(rng.permutation(len(y)), 3):
        ours.partial_fit(X[rows], y[rows], classes=classes)
        theirs.partial_fit(X[rows], y[rows], classes=classes)
        np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-10)
        np.testing.assert_allclose(ours.intercept_, np.atleast_1d(theirs.intercept_), atol=1e-10)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", ["csr_array", "csr_matrix"])
def test_on_sparse_rows_it_is_the_perceptron_with_a_smaller_radius(rng, form, fit_intercept):
    """scikit-learn moves the intercept a hundred times more slowly for sparse rows."""
    X, y = labelled(rng)
    rows = FORMS[form](X * (rng.random(X.shape) < 0.5))
    ours = PAUM(**{**PLAIN, "radius": 0.1}, fit_intercept=fit_intercept)
    theirs = Perceptron(fit_intercept=fit_intercept, shuffle=False)
    for learner in (ours, theirs):
        learner.partial_fit(rows, y, classes=[0, 1, 2])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=1e-10)
    np.testing.assert_allclose(ours.intercept_, np.atleast_1d(theirs.intercept_), atol=1e-10)
    np.testing.assert_equal(ours.R_, 0.1 if fit_intercept else 0.0)


def test_one_vs_rest_on_several_classes_is_several_binary_learners(rng):
    X, y = labelled(rng)
    learner = PAUM().partial_fit(X, y, classes=[0, 1, 2])
    for j in range(3):
        alone = PAUM().partial_fit(X, y == j, classes=[False, True])
        np.testing.assert_allclose(learner.w_[j], alone.w_[0])
        assert learner.R_ == alone.R_


@given(st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1.0, 30.0]), st.sampled_from([0.0, 2.0]))
def test_separable_examples_cost_no_more_steps_than_the_bound(seed, tau_positive, tau_negative):
    rng = np.random.default_rng(seed)
    w, b = rng.normal(size=5), rng.normal()
    w, b = w / np.linalg.norm(w), b / 4
    X = rng.normal(size=(60, 5))
    X += np.outer(np.sign(X @ w + b) * 0.2, w)
    y = X @ w + b > 0
    if y.all() or not y.any():
        return
    gamma, R = np.abs(X @ w + b).min(), np.linalg.norm(X, axis=1).max()
    bound = 4 * (R**2 + max(tau_positive, tau_negative)) / gamma**2
    learner = PAUM(
        tau_positive=tau_positive, tau_negative=tau_negative, radius=R, random_state=0, max_iter=1
    ).fit(X, y)
    for _ in range(2000):
        before = learner.n_updates_
        learner.partial_fit(X, y)
        if learner.n_updates_ == before:
            break
    assert learner.n_updates_ <= bound
    scores = learner.decision_function(X)
    assert scores[y].min() > tau_positive
    assert scores[~y].max() < -tau_negative


def test_a_wider_positive_margin_misses_fewer_of_the_rare_class(rng):
    y = rng.random(3000) < 0.1
    X = rng.normal(size=(3000, 20)) + y[:, None] * 0.3
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    found = [
        PAUM(tau_positive=tau, average=True, random_state=0).fit(X, y).predict(X)
        for tau in (0.0, 1.0, 5.0)
    ]
    for narrow, wide in pairwise(found):
        assert wide[y].mean() > narrow[y].mean()


def test_merged_learners_keep_the_largest_radius(rng):
    X, y = labelled(rng)
    start = PAUM().partial_fit(X[:20], y[:20], classes=[0, 1, 2])
    parts = [PAUM().set_state(dict(start.get_state())) for _ in range(2)]
    for part in parts:
        part.w_ = part.w_.copy()
    parts[0].partial_fit(X[20:40], y[20:40])
    parts[1].partial_fit(10 * X[40:60], y[40:60])
    assert start.merge(parts).R_ == parts[1].R_ > parts[0].R_


@pytest.mark.parametrize("parameters", [{"radius": 1e300}, {"eta": 1e300}, {"radius": 0.0}])
def test_a_radius_or_step_whose_square_is_no_number_is_refused(parameters, data):
    learner = PAUM(**parameters)
    with pytest.raises(ValueError, match=r"must be .*a number between 0 and 1e\+15, got"):
        learner.partial_fit(*data)
    assert not hasattr(learner, "w_")
