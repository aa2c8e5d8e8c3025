from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.feedback import sampling as labels_module
from similia.feedback.sampling import (
    TRIPLET_SAMPLERS,
    BalancedTriplets,
    HardTriplets,
    UniformTriplets,
)

from .strategies import chi_square_p, labels, seeds

ALL = sorted(TRIPLET_SAMPLERS)
Y = np.array([2, 0, 0, 1, 0, 1, 3])  # sizes 3, 2, 1, 1


def zero_score(queries, items):
    return np.zeros(len(queries))


def allowed(y):
    points = range(len(y))
    return [(q, b, w) for q, b, w in product(points, repeat=3) if q != b and y[q] == y[b] != y[w]]


def uniform_probabilities(y):
    n_queries = sum((y == c).sum() for c in np.unique(y) if (y == c).sum() >= 2)
    sizes = {c: (y == c).sum() for c in np.unique(y)}
    return {
        (q, b, w): 1 / n_queries / (sizes[y[q]] - 1) / (len(y) - sizes[y[q]])
        for q, b, w in allowed(y)
    }


def balanced_probabilities(y):
    sizes = {c: (y == c).sum() for c in np.unique(y)}
    n_classes = sum(size >= 2 for size in sizes.values())
    return {
        (q, b, w): 1
        / (n_classes * sizes[y[q]] * (sizes[y[q]] - 1))
        / ((len(sizes) - 1) * sizes[y[w]])
        for q, b, w in allowed(y)
    }


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=60, deadline=None)
@given(y=labels(), seed=seeds, n=st.integers(0, 60))
def test_every_triplet_is_valid(name, y, seed, n):
    drawn = TRIPLET_SAMPLERS[name](y).draw(n, np.random.default_rng(seed), zero_score)
    assert drawn.shape == (n, 3)
    assert drawn.dtype == np.intp
    query, better, worse = drawn.T
    assert (query != better).all()
    assert (y[query] == y[better]).all()
    assert (y[query] != y[worse]).all()


@pytest.mark.parametrize("name", ALL)
def test_support_is_every_allowed_triplet(name, rng):
    drawn = TRIPLET_SAMPLERS[name](Y).draw(20_000, rng, lambda q, i: rng.random(len(q)))
    assert set(map(tuple, drawn.tolist())) == set(allowed(Y))


@pytest.mark.parametrize(
    ("sampler", "probabilities"),
    [
        (UniformTriplets, uniform_probabilities),
        (BalancedTriplets, balanced_probabilities),
    ],
)
def test_triplets_have_the_documented_distribution(sampler, probabilities, rng):
    expected = probabilities(Y)
    assert sum(expected.values()) == pytest.approx(1.0)
    assert chi_square_p(sampler(Y).draw(100_000, rng), expected) > 0.001


@pytest.mark.parametrize("name", ALL)
def test_the_seed_decides_the_triplets(name):
    sampler = TRIPLET_SAMPLERS[name](Y)
    one, two, other = (
        sampler.draw(50, np.random.default_rng(seed), zero_score) for seed in (3, 3, 4)
    )
    assert np.array_equal(one, two)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("name", ALL)
def test_a_second_draw_goes_on_with_the_stream(name, rng):
    sampler = TRIPLET_SAMPLERS[name](Y)
    first, second = sampler.draw(40, rng, zero_score), sampler.draw(70, rng, zero_score)
    assert len(second) == 70
    assert not np.array_equal(first, second[:40])
    assert set(map(tuple, second.tolist())) <= set(allowed(Y))


@pytest.mark.parametrize("name", ALL)
def test_labels_are_neither_changed_nor_kept(name):
    y = Y.copy()
    sampler = TRIPLET_SAMPLERS[name](y)
    assert np.array_equal(y, Y)
    before = sampler.draw(20, np.random.default_rng(1), zero_score)
    y[:] = 0
    assert np.array_equal(before, sampler.draw(20, np.random.default_rng(1), zero_score))


def test_hard_keeps_the_highest_scoring_candidate(rng):
    y = rng.integers(5, size=60)
    table = rng.normal(size=(60, 60))
    seen = []

    def score(queries, items):
        seen.append(np.column_stack([queries, items]))
        return table[queries, items]

    drawn = HardTriplets(y, n_candidates=4).draw(100, rng, score)
    candidates = np.concatenate(seen).reshape(100, 4, 2)
    assert np.array_equal(candidates[:, :, 0], np.repeat(drawn[:, :1], 4, axis=1))
    assert (y[candidates[:, :, 1]] != y[drawn[:, :1]]).all()
    for (query, _, worse), row in zip(drawn, candidates, strict=True):
        assert worse == max(row[:, 1], key=lambda item: table[query, item])


def test_hard_with_enough_candidates_finds_the_hardest_point(rng):
    table = rng.normal(size=(len(Y), len(Y)))
    drawn = HardTriplets(Y, n_candidates=200).draw(300, rng, lambda q, i: table[q, i])
    for query, _, worse in drawn:
        assert worse == max(np.flatnonzero(Y[query] != Y), key=lambda item: table[query, item])


def test_hard_with_one_candidate_is_uniform():
    hard = HardTriplets(Y, n_candidates=1).draw(500, np.random.default_rng(5), zero_score)
    assert np.array_equal(hard, UniformTriplets(Y).draw(500, np.random.default_rng(5)))


def test_hard_among_equal_scores_is_uniform(rng):
    drawn = HardTriplets(Y, n_candidates=3).draw(50_000, rng, zero_score)
    assert chi_square_p(drawn, uniform_probabilities(Y)) > 0.001


def test_hard_asks_for_scores_in_bounded_chunks(rng, monkeypatch):
    monkeypatch.setattr(labels_module, "_PAIRS_PER_CALL", 20)
    lengths = []

    def score(queries, items):
        lengths.append(len(queries))
        return (queries * 31 + items * 17) % 7

    chunked = HardTriplets(Y, n_candidates=3).draw(50, np.random.default_rng(2), score)
    assert lengths == [18] * 8 + [6]
    monkeypatch.undo()
    whole = HardTriplets(Y, n_candidates=3).draw(50, np.random.default_rng(2), score)
    assert np.array_equal(chunked, whole)


def test_hard_without_score_says_so(rng):
    with pytest.raises(ValueError, match=r"HardTriplets.draw: score must be .* got None; pass"):
        HardTriplets(Y).draw(3, rng)


@pytest.mark.parametrize(
    ("scores", "words"),
    [
        (lambda q, i: 1.0, r"got shape \(\) for 24 rows\."),
        (lambda q, i: np.full(len(q), np.nan), "24 rows with NaN"),
        (lambda q, i: np.zeros((len(q), 2)), r"got shape \(24, 2\)"),
    ],
)
def test_hard_refuses_scores_that_are_not_one_number_per_row(scores, words, rng):
    with pytest.raises(ValueError, match=words):
        HardTriplets(Y).draw(3, rng, scores)


@pytest.mark.parametrize("n_candidates", [0, -1, 2.5, True, None])
def test_n_candidates_must_be_a_positive_integer(n_candidates):
    with pytest.raises(ValueError, match="HardTriplets: n_candidates must be a positive integer"):
        HardTriplets(Y, n_candidates=n_candidates)
