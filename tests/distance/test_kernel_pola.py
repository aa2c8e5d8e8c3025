import copy

import numpy as np
import pytest
from sklearn.datasets import make_circles
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from similia import POLA, KernelPOLA, load, save
from tests.problems import FORMS, labelled

PRINTED = {"gamma": 0.0, "start": "zero", "unit": 1.0, "threshold_rate": 1.0, "average": False}


def judgements(rng, y, n=200):
    pairs = rng.integers(len(y), size=(n, 2))
    return pairs, np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("parameters", [PRINTED, {"unit": 2.0, "gamma": 1.0}])
def test_with_a_linear_kernel_it_is_pola(rng, form, parameters):
    X, y = labelled(rng)
    pairs, signs = judgements(rng, y)
    plain = POLA(**parameters)
    kernel = KernelPOLA(kernel="linear", **parameters)
    if "start" not in parameters:  # scales are estimated from different points
        typical = plain._random_squares(X).mean() / kernel._random_squares(X).mean()
        kernel.set_params(start_scale=30.0 / typical)
        plain.set_params(start_scale=30.0)
    plain.learn(form(X), pairs[:0], signs[:0])
    kernel.learn(form(X), pairs[:0], signs[:0])
    kernel.b_ = plain.b_
    plain.learn(form(X), pairs, signs)
    kernel.learn(form(X), pairs, signs)
    assert kernel.n_basis_ == X.shape[1]
    assert kernel.n_updates_ == plain.n_updates_
    assert kernel.b_ == pytest.approx(plain.b_, rel=1e-8)
    new = rng.normal(size=(20, X.shape[1]))
    np.testing.assert_allclose(
        kernel.pairwise_score(form(new)), plain.pairwise_score(form(new)), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(
        kernel.decision_function(form(new), pairs % 20),
        plain.decision_function(form(new), pairs % 20),
        rtol=1e-6,
        atol=1e-7,
    )


def test_a_name_a_function_and_a_matrix_are_the_same_kernel(rng):
    X, y = labelled(rng)
    pairs, signs = judgements(rng, y)
    K = pairwise_kernels(X, metric="polynomial", degree=2, gamma=0.5, coef0=1.0)
    named = KernelPOLA(kernel="polynomial", kernel_params={"degree": 2, "gamma": 0.5, "coef0": 1})
    called = KernelPOLA(kernel=lambda x, z: (0.5 * x @ z + 1.0) ** 2)
    given = KernelPOLA(kernel="precomputed")
    for learner, data in ((named, X), (called, X), (given, K)):
        learner.learn(data, pairs, signs)
        assert learner.n_basis_ == 28  # monomials of degree up to 2 in 6 variables
    expected = named.pairwise_score(X)
    np.testing.assert_allclose(called.pairwise_score(X), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(given.pairwise_score(K), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(given.transform(K[:7]), given.transform(K)[:7])


def test_rings_that_no_linear_metric_tells_apart_are_told_apart():
    X, y = make_circles(400, factor=0.5, noise=0.08, random_state=0)
    learner = KernelPOLA(kernel_params={"gamma": 1.0}, n_pairs=4000, budget=100, random_state=0)
    learner.fit(X[:200], y[:200])
    pairs, signs = judgements(np.random.default_rng(0), y[200:], 1000)
    assert np.mean(learner.predict(X[200:], pairs) == signs) > 0.9
    linear = POLA(n_pairs=4000, random_state=0).fit(X[:200], y[:200])
    assert np.mean(linear.predict(X[200:], pairs) == signs) < 0.7
    learner.set_params(n_components=1)
    pipeline = make_pipeline(learner, KNeighborsClassifier(3)).fit(X[:200], y[:200])
    assert pipeline.score(X[200:], y[200:]) > 0.9


def test_a_budget_bounds_the_basis_and_a_wide_one_changes_nothing(rng):
    X, y = labelled(rng)
    pairs, signs = judgements(rng, y)
    free = KernelPOLA(budget=None).learn(X, pairs, signs)
    assert free.n_basis_ == len(np.unique(pairs))
    wide = KernelPOLA(budget=1000).learn(X, pairs, signs)
    np.testing.assert_array_equal(wide.A_, free.A_)
    tight = KernelPOLA(budget=10).learn(X, pairs, signs)
    assert tight.A_.shape == (10, 10)
    assert tight.transform(X).shape == (len(X), 10)


def test_repeated_points_do_not_join_twice(rng):
    X, _ = labelled(rng)
    X[10:20] = X[:10]
    pairs = np.column_stack([np.arange(10), np.arange(10, 20)])
    learner = KernelPOLA().learn(X, pairs, np.ones(10))
    assert learner.n_basis_ == 10
    assert learner.n_updates_ == 0


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_it_is_saved_and_goes_on(rng, tmp_path, kernel):
    X, y = labelled(rng)
    X = pairwise_kernels(X, metric="rbf") if kernel == "precomputed" else X
    pairs, signs = judgements(rng, y)
    learner = KernelPOLA(kernel=kernel, kernel_params={"gamma": 0.3} if kernel == "rbf" else None)
    learner.learn(X, pairs[:100], signs[:100])
    save(learner, tmp_path / "model.safetensors")
    again = load(tmp_path / "model.safetensors")
    for one in (learner, again):
        one.learn(X, pairs[100:], signs[100:])
    np.testing.assert_array_equal(again.A_, learner.A_)


def test_merging_joins_the_bases(rng):
    X, y = labelled(rng)
    pairs, signs = judgements(rng, y)
    start = KernelPOLA().learn(X, pairs[:20], signs[:20])
    parts = [copy.deepcopy(start) for _ in range(2)]
    parts[0].learn(X[:40], pairs[pairs.max(1) < 40], signs[pairs.max(1) < 40])
    parts[1].learn(X[40:], pairs[pairs.min(1) >= 40] - 40, signs[pairs.min(1) >= 40])
    start._steps_to_merge = int  # none
    merged = start.merge(parts)
    assert merged.n_basis_ > max(part.n_basis_ for part in parts)
    shares = start._mean_over(parts, np.eye(len(parts)))
    expected = sum(s * p.pairwise_score(X) for s, p in zip(shares, parts, strict=True))
    seen = np.unique(pairs[:20])  # beyond the points of both parts each of them sees a part only
    np.testing.assert_allclose(
        merged.pairwise_score(X[seen]), expected[np.ix_(seen, seen)], rtol=0.05, atol=0.5
    )
    given = KernelPOLA(kernel="precomputed").learn(X @ X.T, pairs, signs)
    with pytest.raises(ValueError, match=r"^KernelPOLA.merge: kernel must be a name or a function"):
        given.merge([given])


def failing(after):
    calls = iter(range(10**9))

    def kernel(x, z):
        if next(calls) >= after:
            raise RuntimeError("no more")
        return x @ z

    return kernel


def test_a_kernel_that_fails_half_way_leaves_everything_as_it_was(rng):
    X, y = labelled(rng)
    pairs, signs = judgements(rng, y, 400)
    learner = KernelPOLA(kernel=failing(30_000)).learn(X, pairs[:20], signs[:20])
    before = copy.deepcopy(learner.get_state())
    with pytest.raises(RuntimeError, match="no more"):
        learner.learn(X, np.tile(pairs, (10, 1)), np.tile(signs, 10))
    for name, value in before.items():
        np.testing.assert_array_equal(getattr(learner, name), value, err_msg=name)


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"kernel": "nope"}, "kernel must be one of 'additive_chi2', .* or a function, got 'nope'"),
        ({"kernel": lambda x, z: np.nan}, "kernel must be finite, got NaN or infinity"),
        ({"kernel": lambda x, z: -1.0}, "kernel must be positive semidefinite, got -1"),
        ({"kernel_params": [1]}, "kernel_params must be None or a dictionary with strings as keys"),
        ({"tol": 0.0}, "tol must be a positive number"),
        ({"budget": 0}, "budget must be None or a positive integer"),
        ({"start": np.eye(2)}, "start must be one of 'identity', 'zero', got an array"),
    ],
)
def test_wrong_parameters_are_refused(rng, parameters, words):
    learner = KernelPOLA(**parameters)
    with pytest.raises(ValueError, match=rf"^KernelPOLA: {words}"):
        learner.learn(rng.normal(size=(4, 2)), [[0, 1]], [1])


def test_a_precomputed_kernel_must_be_square_while_learning(rng):
    learner = KernelPOLA(kernel="precomputed")
    with pytest.raises(
        ValueError, match=r"X must be a square kernel matrix while learning, got shape"
    ):
        learner.learn(rng.normal(size=(4, 2)), [[0, 1]], [1])
    with pytest.raises(
        ValueError, match=r"X must be a square kernel matrix while learning, got shape"
    ):
        learner.fit(rng.normal(size=(4, 3)), [0, 1, 0, 1])
