"""Scores that are counted in passing give the measures of scores that are kept."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from similia.retrieval import evaluate, passing


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch):
    """Tiles of a few scores, for problems of any size."""
    monkeypatch.setattr(passing, "QUERIES", 8)
    monkeypatch.setattr(passing, "ITEMS", 16)
    monkeypatch.setattr(passing, "FEWEST", 1)


@pytest.fixture
def measured(monkeypatch):
    """For each block that went by, which of its queries were measured."""
    found, original = [], passing._measured
    monkeypatch.setattr(passing, "_measured", lambda *a: found.append(original(*a)) or found[-1])
    return found


def both(*arguments, **options):
    """Evaluate in passing, and from scores that are kept."""
    counted = evaluate(*arguments, **options)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(passing, "FEWEST", 10**9)
        return counted, evaluate(*arguments, **options)


def assert_same(counted, kept):
    assert_array_equal(counted.n_relevant, kept.n_relevant)
    for name, values in kept.per_query.items():
        assert_array_equal(counted.per_query[name], values, err_msg=name)


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_items=st.integers(2, 90),
    own=st.booleans(),
    dtype=st.sampled_from([np.float32, np.float64]),
    scorer=st.sampled_from(["inner_product", "euclidean"]),
    levels=st.sampled_from([2, 100]),
)
def test_measures_are_the_same_also_among_equal_scores(seed, n_items, own, dtype, scorer, levels):
    rng = np.random.default_rng(seed)
    n_queries = rng.integers(1, n_items + 1)
    # Whole numbers, so that every score is exact however the product is cut.
    Q, Z = (rng.integers(-levels, levels + 1, (n, 4)).astype(dtype) for n in (n_queries, n_items))
    grades = np.maximum(0, rng.integers(-6, 4, (n_queries, n_items)))
    grades[0, -1] = 1
    if own and n_queries == n_items == 1 + np.flatnonzero(grades.any(axis=0))[0]:
        return  # the only relevant item may be the query itself
    assert_same(*both(scorer, Q, Z, relevance=grades, exclude_self=own))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scorer", ["cosine", "euclidean"])
def test_real_scores_are_all_measured_in_passing(rng, measured, dtype, scorer):
    Q, Z = rng.normal(size=(20, 50)).astype(dtype), rng.normal(size=(400, 50)).astype(dtype)
    y_queries, y_items = rng.integers(50, size=20), rng.integers(50, size=400)
    counted, kept = both(scorer, Q, Z, labels=(y_queries, y_items))
    assert_same(counted, kept)
    assert [len(block) for block in measured] == [7, 7, 6]
    assert np.concatenate(measured).all()


def test_sparse_queries_are_counted_too(rng, measured):
    Q, Z = rng.integers(-3, 4, (9, 6)) * 1.0, rng.integers(-3, 4, (70, 6)) * 1.0
    grades = rng.random((9, 70)) < 0.1
    assert_same(*both("inner_product", sparse.csr_array(Q), Z, relevance=grades))
    assert np.concatenate(measured).all()


def test_queries_with_too_many_equal_scores_are_measured_by_row(rng, measured, monkeypatch):
    monkeypatch.setattr(passing, "ASIDE", 5)
    Q, Z = rng.normal(size=(12, 3)), rng.normal(size=(300, 3))
    Q[3:5] = 0.0
    grades = rng.random((12, 300)) < 0.05
    assert_same(*both("inner_product", Q, Z, relevance=grades))
    assert np.flatnonzero(~np.concatenate(measured)).tolist() == [3, 4]


def test_a_band_that_misses_the_score_leaves_the_query_to_the_rows(rng, measured, monkeypatch):
    original = passing._bands

    def astray(*given):
        low, high = original(*given)
        low[0], high[0] = low[0] + 1, high[0] + 1
        return low, high

    monkeypatch.setattr(passing, "_bands", astray)
    Q, Z = rng.normal(size=(12, 3)), rng.normal(size=(300, 3))
    grades = np.zeros((12, 300))
    grades[np.arange(12), np.arange(12)] = 1
    assert_same(*both("inner_product", Q, Z, relevance=grades))
    assert np.flatnonzero(~np.concatenate(measured)).tolist() == [0, 6]  # the first of each block


def test_queries_with_many_relevant_items_are_measured_by_row(rng, measured, monkeypatch):
    monkeypatch.setattr(passing, "MANY", 10)
    Q, Z = rng.normal(size=(20, 3)), rng.normal(size=(200, 3))
    grades = np.zeros((20, 200))
    grades[:, :10] = 1
    grades[5, :11] = 1
    assert_same(*both("inner_product", Q, Z, relevance=grades))
    assert sum(map(len, measured)) == 19


def test_a_score_that_is_not_finite_is_refused_with_its_query(rng, measured):
    class Scorer:
        geometry = "inner_product"

        def query_vectors(self, Q):
            return np.where(Q > 90, np.inf, Q)

        def item_vectors(self, Z):
            return Z

    Q, Z = rng.normal(size=(12, 3)), rng.normal(size=(300, 3))
    Q[7, 1] = 99.0
    grades = np.ones((12, 300)) * (np.arange(300) < 3)
    with pytest.raises(ValueError, match=r"evaluate: scores must be finite, got .* for query 7\."):
        evaluate(Scorer(), Q, Z, relevance=grades)
    assert sum(map(np.count_nonzero, measured)) == 11


def test_little_memory_is_respected(rng, measured):
    X, y = rng.normal(size=(40, 3)), rng.integers(4, size=40)
    evaluate("cosine", X, labels=y, block_bytes=1000)
    assert not measured
