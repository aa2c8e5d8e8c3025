"""Directions that items have in common, and what a query's memory does to other items."""

import numpy as np
import pytest
from scipy import sparse

from similia import Blend, Impressions
from similia.similarity.blend.comparing import DIRECTIONS, SAMPLED_PAIRS, common_directions


def shape(items):
    a, A = common_directions(items)
    return a * (np.eye(len(A)) - A @ A.T)


@pytest.mark.parametrize("n", [3, 60, 1200])
def test_the_prior_is_small_where_items_differ_most(n, rng):
    """Against the precision itself, in the directions that are kept."""
    scales = np.linspace(3, 0.1, n) ** 2
    items = rng.normal(size=(300, n)) * scales + 5
    one, other = np.random.default_rng(2).integers(len(items), size=(2, SAMPLED_PAIRS))
    apart = (items[one] - items[other])[one != other]
    apart /= np.linalg.norm(apart, axis=1, keepdims=True)
    C = apart.T @ apart / len(apart)
    even = n / (len(items) + n)
    values, U = np.linalg.eigh((1 + even) * np.eye(n) + (1 - even) * n * C)
    values[: max(n - DIRECTIONS, 0)] = 1 + even
    S = (U / values) @ U.T
    np.testing.assert_allclose(shape(items), S / np.sum(S * C), atol=1e-8 * np.abs(S).max())


def test_length_dtype_and_form_of_the_items_make_no_difference(rng):
    items = rng.normal(size=(80, 6)) * [3, 1, 1, 1, 1, 0.2]
    expected = shape(items)
    for same in (1e150 * items, 1e-150 * items, sparse.csr_array(items), items + 7):
        np.testing.assert_allclose(shape(same), expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(shape(items.astype(np.float32)), expected, rtol=1e-4, atol=1e-5)
    items[3] *= 1e6  # one item among many
    assert np.linalg.cond(shape(items)) < 1.5 * np.linalg.cond(expected)


def test_items_that_do_not_differ_say_nothing():
    for items in (np.ones((5, 3)), np.zeros((1, 3)), np.full((2, 3), 1e308)):
        np.testing.assert_array_equal(shape(items), np.eye(3))


def test_what_is_remembered_moves_other_items_less_than_the_judged_ones(rng):
    """All items share one strong direction: a judgement about two is not one about all."""
    items = rng.normal(size=(200, 20)) * np.array([6.0] + [1.0] * 19)
    lists = Impressions.from_triplets([[0, 3, 4]], trusted=False)
    blend = Blend().learn(items, lists)
    moved = items @ blend.memory_part_.vectors[0]
    plain = items @ (items[3] - items[4])
    told = [abs(scores[3] - scores[4]) for scores in (moved, plain)]
    others = np.arange(200) > 4
    assert moved[others].std() / told[0] < plain[others].std() / told[1]
