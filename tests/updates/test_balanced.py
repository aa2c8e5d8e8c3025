"""Balanced passes: who is visited for whom, and that the steps are those of the block form."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.losses import LOSSES
from similia.updates.balanced import LINEAR, balanced_visits, paired_visits, visits_pass
from similia.updates.slnd import block_pass

labels = st.lists(st.integers(0, 3), min_size=1, max_size=40).map(np.array)
even = (
    st.lists(st.integers(3, 4), min_size=11, max_size=12)
    .flatmap(lambda counts: st.permutations(np.repeat(np.arange(len(counts)), counts).tolist()))
    .map(np.array)
)
seeds = st.integers(0, 2**63 - 1)


@given(
    codes=even, seed=seeds, loss=st.sampled_from(list(LOSSES)), weighted=st.booleans(),
    bounded=st.booleans(), cut=st.integers(0, 12),
)  # fmt: skip
def test_visits_are_a_block_pass_with_the_same_steps(codes, seed, loss, weighted, bounded, cut):
    """All classes at once, or in two ranges: a class knows nothing of the others."""
    rng, n = np.random.default_rng(seed), len(codes)
    U = rng.normal(size=(n, 5))
    code, steepest = LOSSES[loss].code, LOSSES[loss].steepest
    weights = rng.random(n) if weighted else np.zeros(0)
    norms2 = (U**2).sum(axis=1) if bounded else np.zeros(0)
    steps, clock = (LINEAR, 0.06, 50.0, 1.0, steepest), (2.0, 7.0, 1.5)
    Z, moment = np.zeros((2, 12, 5))
    visits = row, ours, others = paired_visits(codes, np.uint64(seed))
    for some in ((0, cut), (cut, 12)):
        visits_pass(Z, moment, (U, weights, norms2), visits, some, steps, clock, code)

    etas = 0.06 * np.maximum(1 - (2.0 + 1.5 * np.arange(n)) / 50.0, 0)
    etas = etas * weights[row] if weighted else etas
    etas = np.minimum(etas, 1 / (steepest * norms2[row])) if bounded else etas
    signs = (ours == np.arange(12)[:, None]) * 1.0 - (others == np.arange(12)[:, None])
    expected, times = np.zeros((2, 12, 5)), 7.0 + 1.5 * np.arange(1, n + 1)
    block_pass(
        *expected, U[row], np.zeros((12, n)), np.where(signs == 0, 1.0, signs),
        np.where(signs == 0, 0.0, etas), times, code,
    )  # fmt: skip
    np.testing.assert_allclose(Z, expected[0], atol=1e-9)
    np.testing.assert_allclose(moment, expected[1], atol=1e-7)


@given(codes=even, seed=seeds)
def test_pairs_visit_every_row_once_and_give_each_class_as_many_others(codes, seed):
    row, ours, others = paired_visits(codes, np.uint64(seed))
    np.testing.assert_array_equal(np.sort(row), np.arange(len(codes)))
    np.testing.assert_array_equal(ours, codes[row])
    assert not (ours == others).any()
    np.testing.assert_array_equal(np.bincount(others), np.bincount(codes))


@pytest.mark.parametrize("counts", [[3] * 8, [3] * 7 + [2, 1]])
def test_pairs_choose_evenly_and_in_random_order(counts):
    """40,000 deals: a class's negatives are of all others alike, and each row comes first alike."""
    codes, draws = np.repeat(np.arange(len(counts)), counts), 40_000
    chosen, first = np.zeros((len(counts), 24)), np.zeros(24)
    for seed in range(draws):
        row, _, others = paired_visits(codes, np.uint64(seed * 7919))
        chosen[others, row] += 1
        first[row[0]] += 1
    for c, own in enumerate(counts):
        others = chosen[c, codes != c]
        # The largest share of all, an eighth, takes a little from the smallest classes.
        np.testing.assert_allclose(others, draws * own / (24 - own), rtol=0.15)
    np.testing.assert_allclose(first, draws / 24, atol=5 * np.sqrt(draws / 24))


@given(codes=labels, seed=seeds)
def test_balanced_visits_are_the_class_and_as_many_others_without_repetition(codes, seed):
    order = np.random.default_rng(seed).permutation(len(codes))
    for j in range(4):
        ours = np.flatnonzero(codes == j)
        visits = balanced_visits(order, codes, j, ours, np.uint64(seed))
        assert sorted(v for v in visits if v >= 0) == ours.tolist()
        others = [~v for v in visits if v < 0]
        assert len(set(others)) == len(others) == min(len(ours), len(codes) - len(ours))
        assert all(codes[i] != j for i in others)


def test_balanced_visits_choose_and_order_evenly():
    """20,000 draws of 3 of 12 others: each is chosen, and stands first, as often as the rest."""
    rng, codes = np.random.default_rng(0), np.repeat([1, 0], [3, 12])
    chosen, first = np.zeros(15), np.zeros(2)
    for _ in range(20_000):
        order, seed = rng.permutation(15), rng.integers(2**63, dtype=np.uint64)
        visits = balanced_visits(order, codes, 1, np.arange(3), seed)
        chosen[~visits[visits < 0]] += 1
        first[int(visits[0] >= 0)] += 1
    np.testing.assert_allclose(chosen[3:], 5000, atol=5 * np.sqrt(5000))
    np.testing.assert_allclose(first, 10_000, atol=5 * np.sqrt(5000))
