"""Merging learners that went on from a common start."""

import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia import AROW, LEGO, OASIS, POLA, DiagonalAROMA, FactoredAROMA, KernelPOLA
from similia.linalg.gaussian import mean_posterior, mean_variances
from similia.retrieval.evaluation import gain_over_best
from tests.problems import labelled, triplets_of
from tests.reference.merging import merged_average, merged_covariance, merged_mean

BILINEAR = [FactoredAROMA, DiagonalAROMA, OASIS]


def new(cls, **parameters):
    """A learner whose parts are merged however little they have learnt."""
    learner = cls(**parameters) if cls is OASIS else cls(update_on="margin", **parameters)
    learner._steps_to_merge = int  # none
    return learner


class Shares:
    """Unit vectors in classes, with triplets that the classes imply."""

    def __init__(self, seed, n=300, d=12, n_classes=4):
        self.rng = np.random.default_rng(seed)
        self.X, self.y = labelled(self.rng, n=n, d=d, n_classes=n_classes)
        self.X /= np.linalg.norm(self.X, axis=1, keepdims=True)

    def draw(self, n):
        triplets = self.rng.integers(len(self.y), size=(6 * n, 3))
        same = self.y[triplets] == self.y[triplets[:, :1]]
        return triplets[same[:, 1] & ~same[:, 2]][:n]

    def taught(self, start, sizes):
        return [
            part.learn(self.X, self.draw(size))
            for part, size in zip(start.split(len(sizes)), sizes, strict=True)
        ]


def hinge(W, X, triplets):
    query, better, worse = triplets.T
    return np.maximum(0.0, 1.0 - np.vecdot(X[query] @ W, X[better] - X[worse])).mean()


# -- what a merge is -------------------------------------------------------------------------------


@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("cls", BILINEAR)
def test_a_merge_is_what_the_reference_writes_out(cls, average):
    problem, counts = Shares(0), [400, 500, 700]
    start = new(cls, average=average).learn(problem.X, problem.draw(0))
    parts = problem.taught(start, counts)
    merged = start.merge(parts)
    lasts = [part.W_ for part in parts]
    np.testing.assert_allclose(merged.W_, merged_mean(lasts, counts), rtol=1e-9, atol=1e-12)
    if average:
        averages = [part.W_average_ for part in parts]
        expected = merged_average(lasts, averages, counts)
        np.testing.assert_allclose(merged.W_average_, expected, rtol=1e-7, atol=1e-10)
    for name in ("Lambda_", "Omega_") if cls is FactoredAROMA else ():
        expected = merged_covariance([getattr(part, name) for part in parts])
        np.testing.assert_allclose(getattr(merged, name), expected, rtol=1e-7, atol=1e-10)
    if cls is DiagonalAROMA:
        inverses = [1 / part.Sigma_ for part in parts]
        np.testing.assert_allclose(merged.Sigma_, 1 / np.mean(inverses, axis=0), rtol=1e-9)
    assert merged.n_seen_ == 1600
    assert merged.get_params() == start.get_params()


@pytest.mark.parametrize("cls", BILINEAR)
def test_equal_parts_merge_to_the_part(cls):
    problem = Shares(1)
    start = new(cls, average=False).learn(problem.X, problem.draw(0))
    (part,) = problem.taught(start, [800])
    merged = start.merge([part, copy.deepcopy(part), copy.deepcopy(part)])
    for name, value in part.get_state().items():
        if name not in ("n_seen_", "n_updates_"):
            np.testing.assert_allclose(merged.get_state()[name], value, rtol=1e-7, atol=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from(BILINEAR), st.integers(2, 6))
def test_a_merge_loses_no_more_than_its_parts_on_average(seed, cls, k):
    """The hinge loss is convex, so that of a mean is at most the mean, on any judgements at all."""
    problem = Shares(seed % 1000, n=60, d=4, n_classes=3)
    start = new(cls, average=False).learn(problem.X, problem.draw(0))
    sizes = problem.rng.integers(150, 300, size=k)
    parts = problem.taught(start, sizes)
    merged = start.merge(parts)
    judged = triplets_of(problem.rng, 60, 60, 200)
    losses = [hinge(part.W_, problem.X, judged) for part in parts]
    assert hinge(merged.W_, problem.X, judged) <= np.average(losses, weights=sizes) + 1e-9


# -- what a part is --------------------------------------------------------------------------------


def test_exact_posteriors_of_shares_that_count_k_times_merge_to_the_posterior_of_all(rng):
    """Linear regression: nothing is lost by splitting."""
    X, y = rng.normal(size=(30, 4)), rng.normal(size=30)
    B = rng.normal(size=(4, 4))
    prior, mean = B @ B.T + np.eye(4), rng.normal(size=4)

    def posterior(rows, count):
        precision = prior + count * X[rows].T @ X[rows]
        natural = prior @ mean + count * X[rows].T @ y[rows]
        return np.linalg.solve(precision, natural), np.linalg.inv(precision)

    found = mean_posterior([posterior(slice(i, None, 3), 3) for i in range(3)])
    for actual, expected in zip(found, posterior(slice(None), 1), strict=True):
        np.testing.assert_allclose(actual, expected, atol=1e-10)


def test_the_analysed_variances_of_shares_merge_to_those_of_all_where_all_triplets_update(rng):
    """1/Σ gains (qpᵀ)²/r for each update, and a part of three counts it three times."""
    X, _ = labelled(rng)
    X /= 100
    triplets = rng.permuted(np.tile(np.arange(80), (90, 1)), axis=1)[:, :3]
    paper = {"prior": "zero", "r": 1.0, "update_on": "margin", "update": "analysed"}
    start = DiagonalAROMA(**paper).learn(X, triplets[:0])
    whole = copy.deepcopy(start).learn(X, triplets)
    parts = [part.learn(X, triplets[i::3]) for i, part in enumerate(start.split(3))]
    assert whole.n_updates_ == 90
    np.testing.assert_allclose(start.merge(parts).Sigma_, whole.Sigma_, rtol=1e-9)


def test_arow_of_shares_merges_to_arow_of_all_where_all_examples_update(rng):
    X, y = labelled(rng)
    X /= 100
    start = AROW(average=False)
    start._steps_to_merge = int  # none
    start.partial_fit(X[:3], y[:3], classes=[0, 1, 2])
    whole = copy.deepcopy(start).partial_fit(X[3:75], y[3:75])
    parts = [
        part.partial_fit(X[3 + i : 75 : 3], y[3 + i : 75 : 3])
        for i, part in enumerate(start.split(3))
    ]
    assert whole.n_updates_ == 3 * 75
    merged = start.merge(parts)
    np.testing.assert_allclose(merged.w_, whole.w_, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(merged.Sigma_, whole.Sigma_, rtol=1e-8, atol=1e-10)


def test_variances_that_were_rounded_to_zero_merge_to_numbers():
    found = mean_variances([np.array([0.0, 1.0]), np.array([0.0, 0.5])])
    assert np.isfinite(found).all()
    assert found[1] == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("learner", "changed"),
    [
        (FactoredAROMA(), {"r": 0.25}),
        (DiagonalAROMA(r=2.0), {"r": 0.5}),
        (OASIS(C=0.1), {"C": 0.4}),
        (POLA(gamma=1.0), {"gamma": 0.25}),
        (LEGO(eta=0.1), {"eta": 0.4}),
    ],
)
def test_a_part_of_four_counts_its_judgements_four_times(rng, learner, changed):
    X, _ = labelled(rng)
    learner.begin(X)
    parts = learner.split(4)
    assert len(parts) == 4
    for part in parts:
        assert part.get_params() == {**learner.get_params(), **changed}
    with pytest.raises(ValueError, match="split: n must be a positive integer, got 0"):
        learner.split(0)


# -- what it is worth ------------------------------------------------------------------------------


@pytest.mark.parametrize("prior", ["zero", "identity"])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("cls", BILINEAR)
def test_rounds_of_merges_go_up_from_any_start(cls, average, prior):
    """Where all parts correct the same start, adding up their corrections would destroy it."""
    problem = Shares(3)
    start = new(cls, average=average, prior=prior).learn(problem.X, problem.draw(0))
    held_out = problem.draw(3000)

    def right(learner):
        return np.mean(learner.triplet_scores(problem.X, held_out) > 0)

    merged = start
    for _ in range(3):
        before, parts = merged, problem.taught(merged, [500] * 4)
        merged = before.merge(parts)
        assert right(merged) > max(map(right, parts)) - 0.01
    assert right(merged) > right(start)


# -- what is refused -------------------------------------------------------------------------------


@pytest.mark.parametrize("cls", [*BILINEAR, POLA, LEGO])
def test_parts_that_have_learnt_too_little_are_refused(rng, cls):
    X, y = labelled(rng, d=12)
    learner = cls()
    learner.begin(X)
    parts = learner.split(2)
    for part in parts:
        rows = rng.integers(80, size=(10, 3 if learner.learns_from == "triplets" else 2))
        same = np.where(y[rows[:, 0]] == y[rows[:, 1]], 1, -1)
        part.learn(X, rows, *([same] if learner.learns_from == "pairs" else []))
    with pytest.raises(ValueError, match=r"must have taken at least \d+ steps each, got \d"):
        learner.merge(parts)
    assert learner.merge(parts[:1]).n_seen_ == 10


@pytest.mark.parametrize("covariance", ["full", "diagonal"])
def test_parts_of_arow_need_six_steps_for_each_weight(rng, covariance):
    """Of 32 parts that had four, the mean was up to 0.011 behind the whole on MNIST."""
    X, y = labelled(rng, n=80, d=4)
    start = AROW(covariance=covariance).partial_fit(X[:9], y[:9], classes=np.unique(y))
    parts, needed = start.split(2), 6 * start.w_.size
    for part, n in zip(parts, (needed, needed - 1), strict=True):
        part.partial_fit(X, y)
        part.n_updates_ = n
    message = f"AROW.merge: .* at least {needed} steps each, got {needed - 1}"
    with pytest.raises(ValueError, match=message):
        start.merge(parts)
    parts[1].n_updates_ += 1
    assert start.merge(parts).n_seen_ == 9 + 2 * 80


def test_parts_that_hardly_needed_a_step_are_merged():
    """Where fewer than one judgement in a hundred is news, no order can differ more often."""
    X = np.eye(4)
    start = OASIS(prior_scale=2.0).learn(X, np.zeros((0, 3), int))
    parts = [
        part.learn(X, np.tile([[i, i, 3 - i]], (200, 1))) for i, part in enumerate(start.split(2))
    ]
    assert [part.n_updates_ for part in parts] == [0, 0]
    np.testing.assert_array_equal(start.merge(parts).W_, start.W_)


def test_parts_that_did_not_go_on_from_the_start_are_refused(rng):
    X, _ = labelled(rng)
    triplets = triplets_of(rng, len(X), len(X), 20)
    learner = OASIS().learn(X, triplets)
    with pytest.raises(ValueError, match="take them from its split"):
        learner.merge([OASIS().learn(X, triplets[:5])])
    with pytest.raises(ValueError, match="W_ of shape"):
        learner.merge([OASIS().learn(X[:, :3], triplets)])


# -- as good as the best part ----------------------------------------------------------------------


def marks_on(problem, n=400):
    """Whether each of some new judgements is in order."""
    query, better, worse = problem.draw(n).T
    X = problem.X

    def marks(learner):
        scores = learner.pairwise_score(X)
        return scores[query, better] > scores[query, worse]

    return marks


@pytest.mark.parametrize("cls", [*BILINEAR, KernelPOLA])
def test_a_part_among_liars_is_not_merged_with_them(cls):
    problem = Shares(3, n=100)
    lie = new(cls) if cls is not KernelPOLA else cls()
    lie._steps_to_merge = int
    if lie.learns_from == "triplets":
        start = lie.learn(problem.X, problem.draw(0))
        parts = problem.taught(start, [300])
        others = [part.learn(problem.X, problem.draw(300)[:, [0, 2, 1]]) for part in start.split(3)]
    else:
        pairs = problem.rng.integers(100, size=(300, 2))
        same = np.where(problem.y[pairs[:, 0]] == problem.y[pairs[:, 1]], 1, -1)
        start = lie.learn(problem.X, pairs[:1], same[:1])
        parts = [start.split(1)[0].learn(problem.X, pairs, same)]
        others = [part.learn(problem.X, pairs, -same) for part in start.split(3)]
    marks = marks_on(problem)
    assert start.merge(parts, marks).n_seen_ == parts[0].n_seen_
    with pytest.raises(ValueError, match=r"as good as its best part, got -0\.\d+ ± .* Part 0 has"):
        start.merge(parts + others, marks)
    assert start.merge(parts + others).n_seen_ > parts[0].n_seen_


def test_the_luckiest_of_many_equal_parts_is_rarely_a_reason_to_refuse(rng):
    """One in forty by chance; by the judgements that chose it, the luckiest part is often ahead."""
    refused, ahead = 0, 0
    for _ in range(300):
        merged, *parts = (rng.random((33, 400)) < 0.9).astype(float)
        gain = gain_over_best(merged, parts)
        refused += gain.mean < -2 * gain.error
        ahead += max(part.mean() for part in parts) - merged.mean() > 2 * gain.error
    assert refused <= 20
    assert ahead >= 60


def test_the_gain_is_that_over_what_the_other_half_chooses():
    """Written out: on even places the second is best, on odd ones the first."""
    merged = np.array([1.0, 0.0, 1.0, 1.0])
    first, second = np.array([0.0, 1.0, 0.0, 1.0]), np.array([1.0, 0.0, 1.0, 0.0])
    gain = gain_over_best(merged, [first, second])
    expected = np.array([1.0 - 0.0, 0.0 - 0.0, 1.0 - 0.0, 1.0 - 0.0])
    assert gain == (expected.mean(), expected.std(ddof=1) / 2)


@pytest.mark.parametrize("wrong", [lambda _: [1.0, 0.0, 1.0], lambda _: 1.0])
def test_marks_that_cannot_tell_are_refused(wrong):
    problem = Shares(4, n=60)
    start = new(OASIS).learn(problem.X, problem.draw(0))
    with pytest.raises(ValueError, match="marks must be at least 4 numbers"):
        start.merge(problem.taught(start, [50, 50]), wrong)
