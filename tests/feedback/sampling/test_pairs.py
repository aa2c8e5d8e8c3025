import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.feedback.sampling import PAIR_SAMPLERS, BalancedPairs, UniformPairs

from .strategies import chi_square_p, labels, seeds

ALL = sorted(PAIR_SAMPLERS)
Y = np.array([2, 0, 0, 1, 0, 1])


@pytest.mark.parametrize("name", ALL)
@settings(max_examples=60, deadline=None)
@given(y=labels(), seed=seeds, n=st.integers(0, 60))
def test_every_pair_is_valid(name, y, seed, n):
    pairs, signs = PAIR_SAMPLERS[name](y).draw(n, np.random.default_rng(seed))
    assert pairs.shape == (n, 2)
    assert (pairs.dtype, signs.dtype) == (np.intp, np.int8)
    first, second = pairs.T
    assert (first != second).all()
    assert np.array_equal(signs, np.where(y[first] == y[second], 1, -1))


@given(y=labels(), seed=seeds, n=st.integers(0, 60))
@settings(max_examples=60, deadline=None)
def test_balanced_pairs_show_both_signs_equally(y, seed, n):
    _, signs = BalancedPairs(y).draw(n, np.random.default_rng(seed))
    assert abs(int(signs.sum())) == n % 2


def test_the_odd_pair_of_balanced_has_a_fair_sign(rng):
    sampler = BalancedPairs(Y)
    total = sum(int(sampler.draw(1, rng)[1][0]) for _ in range(2000))
    assert abs(total) < 4 * np.sqrt(2000)


def test_balanced_signs_come_in_random_order(rng):
    signs = BalancedPairs(Y).draw(10_000, rng)[1].astype(int)
    assert abs(signs[:5000].sum()) < 4 * np.sqrt(5000)
    assert abs((signs[1:] * signs[:-1]).sum()) < 4 * np.sqrt(10_000)


def test_uniform_pairs_are_uniform_over_ordered_pairs(rng):
    points = range(len(Y))
    expected = {(i, j): 1 / 30 for i in points for j in points if i != j}
    assert chi_square_p(UniformPairs(Y).draw(50_000, rng)[0], expected) > 0.001


def test_balanced_pairs_have_the_documented_distribution(rng):
    points, sizes = range(len(Y)), np.bincount(Y)
    same = {
        (i, j): 0.5 / 5 / (sizes[Y[i]] - 1)
        for i in points
        for j in points
        if i != j and Y[i] == Y[j]
    }
    other = {(i, j): 0.5 / 6 / (6 - sizes[Y[i]]) for i in points for j in points if Y[i] != Y[j]}
    expected = {**same, **other}
    assert sum(expected.values()) == pytest.approx(1.0)
    assert chi_square_p(BalancedPairs(Y).draw(50_000, rng)[0], expected) > 0.001


@pytest.mark.parametrize("name", ALL)
def test_the_seed_decides_the_pairs_and_the_stream_goes_on(name):
    sampler, rng = PAIR_SAMPLERS[name](Y), np.random.default_rng(3)
    pairs, signs = sampler.draw(50, rng)
    again, signs_again = sampler.draw(50, np.random.default_rng(3))
    assert np.array_equal(pairs, again)
    assert np.array_equal(signs, signs_again)
    assert not np.array_equal(pairs, sampler.draw(50, rng)[0])
