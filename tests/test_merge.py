"""Merging learners that went on from a common start."""

import copy

import numpy as np
import pytest

from similia import AROW, OASIS, DiagonalAROMA, FactoredAROMA
from similia.linalg.gaussian import merged_diagonal, merged_factored, merged_full
from tests.problems import labelled, triplets_of


def covariance(rng, n):
    B = rng.normal(size=(n, n))
    return B @ B.T / n + np.eye(n)


def test_full_gaussians_merge_exactly(rng):
    """Linear regression: the posterior of all data is the merge of posteriors of its parts."""
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    start = rng.normal(size=4), covariance(rng, 4)

    def posterior(rows):
        precision = np.linalg.inv(start[1]) + X[rows].T @ X[rows]
        mean = np.linalg.solve(precision, np.linalg.solve(start[1], start[0]) + X[rows].T @ y[rows])
        return mean, np.linalg.inv(precision)

    parts = [posterior(slice(i, None, 3)) for i in range(3)]
    for actual, expected in zip(merged_full(start, parts), posterior(slice(None)), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-10)


def test_the_analysed_diagonal_covariance_merges_exactly_where_all_triplets_update(rng):
    """1/Σ gains (qpᵀ)²/r for each update, so precisions of shares add up to that of the whole."""
    X, _ = labelled(rng)
    X /= 100
    triplets = rng.permuted(np.tile(np.arange(80), (90, 1)), axis=1)[:, :3]
    paper = {"prior": "zero", "r": 1.0, "update_on": "margin"}
    start = DiagonalAROMA(update="analysed", **paper).learn(X, triplets[:0])
    whole = copy.deepcopy(start).learn(X, triplets)
    parts = [copy.deepcopy(start).learn(X, triplets[i::3]) for i in range(3)]
    assert whole.n_updates_ == 90
    merged = start.merge(parts)
    np.testing.assert_allclose(merged.Sigma_, whole.Sigma_, rtol=1e-9)
    np.testing.assert_allclose(merged.W_, whole.W_, rtol=1e-9, atol=1e-12)


def test_diagonal_merge_is_the_full_merge_of_diagonal_covariances(rng):
    means, variances = rng.normal(size=(3, 5)), rng.uniform(0.1, 1.0, size=(3, 5))
    variances[0] += 2.0
    states = list(zip(means, variances, strict=True))
    full = [(mean, np.diag(variance)) for mean, variance in states]
    mean, variance = merged_diagonal(states[0], states[1:])
    expected_mean, expected = merged_full(full[0], full[1:])
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-9)
    np.testing.assert_allclose(variance, np.diag(expected), rtol=1e-9)


def test_the_length_of_a_factored_merge_is_the_best_under_the_exact_product(rng):
    start = np.zeros((3, 2)), np.eye(3), np.eye(2)
    parts = [
        (rng.normal(size=(3, 2)), covariance(rng, 3) / 5, covariance(rng, 2) / 5) for _ in range(3)
    ]
    W, _, _ = merged_factored(start, parts)
    precision = sum(np.kron(*map(np.linalg.inv, part[1:])) for part in parts) - 2 * np.eye(6)
    natural = sum(np.kron(*map(np.linalg.inv, part[1:])) @ part[0].ravel() for part in parts)

    def distance(scale):
        w = scale * W.ravel()
        return 0.5 * w @ precision @ w - natural @ w

    assert distance(1.0) < min(distance(0.98), distance(1.02))


@pytest.mark.parametrize("cls", [FactoredAROMA, DiagonalAROMA, OASIS])
@pytest.mark.parametrize("average", [True, False])
def test_a_merged_similarity_beats_the_mean_of_its_parts(cls, average):
    """On held-out triplets, four workers with a quarter each, against one of them alone."""
    rng = np.random.default_rng(3)
    X, y = labelled(rng, n=300, d=12, n_classes=4)
    X /= np.linalg.norm(X, axis=1, keepdims=True)

    def draw(n):
        triplets = rng.integers(300, size=(6 * n, 3))
        same = y[triplets] == y[triplets[:, :1]]
        return triplets[same[:, 1] & ~same[:, 2]][:n]

    start = cls(average=average, prior="zero").learn(X, draw(0))
    parts = [copy.deepcopy(start).learn(X, draw(100)) for _ in range(4)]
    merged = start.merge(parts)
    held_out = draw(3000)
    right = [np.mean(m.triplet_scores(X, held_out) > 0) for m in (merged, *parts)]
    assert right[0] > np.mean(right[1:])


@pytest.mark.parametrize("kind", ["full", "diagonal"])
def test_arow_merges_natural_parameters(rng, kind):
    X, y = labelled(rng)
    learner = AROW(covariance=kind)
    start = learner.partial_fit(X[:20], y[:20], classes=[0, 1, 2])
    parts = [copy.deepcopy(start).partial_fit(X[20 + i :: 2], y[20 + i :: 2]) for i in range(2)]
    merged = start.merge(parts)
    assert merged.n_seen_ == 80
    assert merged.score(X, y) > 0.8


def test_parts_that_did_not_go_on_from_the_start_are_refused(rng):
    X, _ = labelled(rng)
    triplets = triplets_of(rng, len(X), len(X), 20)
    learner = OASIS().learn(X, triplets)
    with pytest.raises(ValueError, match="begin each as a copy of it"):
        learner.merge([OASIS().learn(X, triplets[:5])])
    with pytest.raises(ValueError, match="W_ of shape"):
        learner.merge([OASIS().learn(X[:, :3], triplets)])
