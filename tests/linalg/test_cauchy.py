"""Products with Cauchy-like matrices: the plain product, whatever the structure."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg import cauchy
from similia.linalg.cauchy import ACCURACY, crosses, turn_rows

SEED = st.integers(0, 2**32 - 1)


def cauchy_matrix(rng, k, tiny):
    """Interlacing poles and roots, and rows of length one, as eigenvectors have it."""
    ends = np.cumsum(10.0 ** rng.uniform(-3.0, 0.0, size=2 * k))
    weights = rng.normal(size=k) * (10.0 ** rng.uniform(-8.0, 0.0, size=k) if tiny else 1.0)
    turn = weights / (ends[::2] - ends[1::2, None])
    return turn / np.linalg.norm(turn, axis=1, keepdims=True)


@pytest.mark.parametrize("k", [192, 300, 700])
@pytest.mark.parametrize("tiny", [True, False])
def test_the_product_is_the_plain_one_to_rounding(rng, k, tiny):
    turn, before, after = cauchy_matrix(rng, k, tiny), rng.normal(size=(k, 50)), np.empty((k, 50))
    turn_rows(turn, before, after)
    np.testing.assert_allclose(after, turn @ before, atol=1e-13)


def test_a_matrix_without_structure_is_multiplied_all_the_same(rng):
    turn, before, after = (
        rng.normal(size=(250, 250)),
        rng.normal(size=(250, 30)),
        np.empty((250, 30)),
    )
    turn_rows(turn, before, after)
    np.testing.assert_allclose(after, turn @ before, atol=1e-12)


def test_structure_is_found_where_there_is_some(rng, monkeypatch):
    """Ranks stay far below the size of the blocks, so that the work is less."""
    ranks, multiply = [], cauchy._multiply

    def noted(turn, leaves, blocks, *rest):
        ranks.extend(len(U) for *_, U, _ in blocks)
        multiply(turn, leaves, blocks, *rest)

    monkeypatch.setattr(cauchy, "_multiply", noted)
    turn = cauchy_matrix(rng, 800, False)
    turn_rows(turn, np.eye(800), np.empty((800, 800)))
    assert all(0 < rank < 60 for rank in ranks)


@given(SEED, st.integers(1, 40), st.integers(1, 40), st.integers(0, 12))
def test_crosses_find_any_low_rank(seed, n, m, rank):
    """Also in blocks that fall apart, where following the largest entries sees one part only."""
    rng = np.random.default_rng(seed)
    left, right = rng.normal(size=(n, rank)), rng.normal(size=(rank, m))
    left[rng.random(left.shape) < 0.6] = 0.0
    right[rng.random(right.shape) < 0.6] = 0.0
    A = left @ right / 20.0
    U, V = np.empty((20, n)), np.empty((20, m))
    found = crosses(A, int(rng.integers(n)), U, V)
    assert found >= 0
    assert np.abs(U[:found].T @ V[:found] - A).max(initial=0.0) <= ACCURACY


def test_a_block_of_zeros_needs_no_terms():
    assert crosses(np.zeros((5, 4)), 0, np.empty((3, 5)), np.empty((3, 4))) == 0


def test_a_block_of_full_rank_is_given_up(rng):
    assert crosses(rng.normal(size=(30, 30)), 0, np.empty((9, 30)), np.empty((9, 30))) == -1
