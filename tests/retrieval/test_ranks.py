import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from similia.retrieval import relevant_ranks
from similia.retrieval.ranks import _ranks_by_comparison, _ranks_by_grid, _ranks_by_sorting
from similia.retrieval.selection import best_first
from tests.retrieval import naive


@st.composite
def rows(draw):
    """Scores with many or few ties, at any scale; relevant items; an item to leave out."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(1, 300))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    levels = draw(st.sampled_from([1, 2, 5, 50, 10**6]))
    limits = np.finfo(dtype)
    scale = draw(st.sampled_from([1, limits.max / 2 / levels, limits.smallest_subnormal]))
    scores = (rng.integers(-levels, levels + 1, n) * dtype(scale)).astype(dtype)
    items = np.flatnonzero(rng.random(n) < draw(st.floats(0, 1)))
    return scores, items, draw(st.integers(-1, n - 1))


@settings(max_examples=200, deadline=None)
@given(rows())
def test_compiled_ranks_equal_those_of_a_full_sort(row):
    ranks, order = relevant_ranks(*row)
    assert (ranks.tolist(), order.tolist()) == naive.relevant_ranks(*row)


@settings(max_examples=100, deadline=None)
@given(rows())
def test_all_ways_of_ranking_agree(row):
    scores, items, _ = row
    if len(items):
        expected = _ranks_by_sorting(scores, items).tolist()
        assert _ranks_by_comparison(scores, items).tolist() == expected
        order = best_first(scores[items])
        assert _ranks_by_grid(scores, items, order).tolist() == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_relevant", [3, 300, 9000])
def test_ranks_are_exact_beyond_one_tile(rng, dtype, n_relevant):
    scores = np.round(rng.normal(size=10_000), 3).astype(dtype)
    items = np.sort(rng.choice(10_000, n_relevant, replace=False))
    ranks, order = relevant_ranks(scores, items, 17)
    assert (ranks.tolist(), order.tolist()) == naive.relevant_ranks(scores, items, 17)


@pytest.mark.parametrize("draw", ["normal", "standard_cauchy"])
def test_best_first_is_the_stable_decreasing_order(rng, draw):
    values = np.round(getattr(rng, draw)(size=2000), 2)
    assert best_first(values).tolist() == np.argsort(-values, kind="stable").tolist()


def test_inputs_are_left_alone(rng):
    scores, items = rng.normal(size=500), np.arange(0, 500, 7)
    before = scores.copy(), items.copy()
    relevant_ranks(scores, items, 7)
    assert np.array_equal(scores, before[0])
    assert np.array_equal(items, before[1])
