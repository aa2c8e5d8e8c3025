import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.retrieval import top_k
from tests.retrieval import naive


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(2, 200),
    part=st.floats(0, 1),
    own=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    block_bytes=st.sampled_from([1, 2**20]),
)
def test_best_items_equal_those_of_a_full_sort(seed, n_items, part, own, dtype, block_bytes):
    rng = np.random.default_rng(seed)
    Q = rng.integers(-2, 3, size=(min(4, n_items), 3)).astype(dtype)
    Z = rng.integers(-2, 3, size=(n_items, 3)).astype(dtype)
    k = max(1, int(part * (n_items - own)))
    indices, scores = top_k("inner_product", Q, Z, k, exclude_self=own, block_bytes=block_bytes)
    exact = Q @ Z.T
    expected = [naive.ranking(row, i if own else -1)[:k] for i, row in enumerate(exact)]
    assert indices.tolist() == expected
    assert np.array_equal(scores, np.take_along_axis(exact, indices, axis=1))
    assert scores.dtype == dtype


def test_euclidean_score_is_the_negated_squared_distance():
    indices, scores = top_k("euclidean", np.array([[1.0]]), np.array([[0.0], [3], [1]]), 3)
    assert indices.tolist() == [[2, 0, 1]]
    assert scores.tolist() == [[0, -1, -4]]


def test_more_items_than_there_are_is_refused():
    with pytest.raises(ValueError, match="top_k: k must be at most the 2 items to rank, got 3"):
        top_k("cosine", np.eye(3), np.eye(3), 3, exclude_self=True)


def test_score_that_is_not_a_number_is_refused():
    with pytest.raises(ValueError, match="top_k: scores must be finite, got nan for query 1"):
        top_k(lambda Q, Z: np.array([[1.0, 2], [np.nan, 1]]), np.eye(2), np.eye(2), 1)
