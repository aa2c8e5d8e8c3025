"""Impressions: rows gathered into lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import Blend, Impressions
from similia.feedback.impressions import TIE_WEIGHT


@st.composite
def logs(draw):
    """Rows of several impressions in any order, each of one query."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(0, 30))
    impression = rng.integers(6, size=n)
    query = rng.integers(4, size=6)[impression]
    return query, rng.integers(9, size=n), rng.integers(3, size=n).astype(float), impression


@given(logs())
def test_rows_of_an_impression_become_one_list_in_their_order(log):
    query, item, gain, impression = log
    place = np.arange(1.0, len(query) + 1)
    lists = Impressions.from_rows(query, item, gain, impression=impression, position=place)
    groups = list(dict.fromkeys(impression.tolist()))
    assert len(lists) == len(groups)
    for t, name in enumerate(groups):
        rows, own = impression == name, slice(lists.starts[t], lists.starts[t + 1])
        assert lists.queries[t] == query[rows][0]
        np.testing.assert_array_equal(lists.items[own], item[rows])
        np.testing.assert_array_equal(lists.gains[own], gain[rows])
        np.testing.assert_array_equal(lists.nuisance["position"][own], np.log(place[rows]))


@given(logs())
def test_successive_rows_of_a_query_are_one_list_by_default(log):
    query, item, gain, _ = log
    lists = Impressions.from_rows(query, item, gain)
    np.testing.assert_array_equal(np.repeat(lists.queries, np.diff(lists.starts)), query)
    np.testing.assert_array_equal(lists.items, item)
    assert (lists.queries[1:] != lists.queries[:-1]).all()


@given(logs(), st.integers(0, 6), st.integers(0, 6))
def test_parts_put_together_are_the_whole(log, a, b):
    lists = Impressions.from_rows(*log[:3], impression=log[3], weight=1.0 + log[3])
    a, b = sorted((min(a, len(lists)), min(b, len(lists))))
    parts = [lists.part(chosen) for chosen in (slice(0, a), slice(a, b), slice(b, None))]
    for name in ("queries", "items", "gains", "weights", "trusted"):
        joined = np.concatenate([getattr(part, name) for part in parts])
        np.testing.assert_array_equal(joined, getattr(lists, name))
    sizes = np.concatenate([np.diff(part.starts) for part in parts])
    np.testing.assert_array_equal(sizes, np.diff(lists.starts))


def test_retracted_lists_are_left_out():
    lists = Impressions.from_rows([0, 0, 1, 2, 2], [5, 6, 7, 8, 9], [1, 0, 1, 0, 1])
    rest = lists.without([1])
    assert rest.queries.tolist() == [0, 2]
    assert rest.items.tolist() == [5, 6, 8, 9]


def test_weights_are_those_of_the_first_rows():
    lists = Impressions.from_rows([0, 0, 1], [1, 2, 3], [1, 0, 1], weight=[2, 9, 0])
    assert lists.weights.tolist() == [2, 0]


def test_triplets_are_lists_of_two():
    lists = Impressions.from_triplets(np.array([[0, 1, 2], [3, 4, 5]]), weights=[1, 2])
    assert lists.items.tolist() == [1, 2, 4, 5]
    assert lists.gains.tolist() == [1, 0, 1, 0]
    assert lists.weights.tolist() == [1, 2]
    assert lists.trusted.all()


def test_ties_count_a_little_in_each_direction_and_decide_nothing():
    lists = Impressions.from_triplets(np.array([[0, 1, 2], [3, 4, 5]]), alike=[False, True])
    assert lists.gains.tolist() == [1, 0, 1, 0, 0, 1]
    assert lists.weights.tolist() == [1, TIE_WEIGHT / 2, TIE_WEIGHT / 2]
    assert lists.trusted.tolist() == [True, False, False]


ROWS = {"query": [0, 0, 1], "item": [1, 2, 3], "gain": [1, 0, 1]}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"gain": [1, np.nan, 0]}, "gain must be finite numbers of shape .* with NaN or infinity"),
        ({"gain": [1, -1, 0]}, "gain must be at least 0, got -1"),
        ({"gain": [1, 0]}, r"gain must be finite numbers of shape \(3,\), got shape \(2,\)"),
        ({"gain": ["a", "b", "c"]}, "gain must be numbers"),
        ({"item": [1, 2]}, r"item must be of shape \(3,\), as query is, got \(2,\)"),
        ({"item": [1.5, 2, 3]}, "rows must be an integer array"),
        ({"item": [-1, 2, 3]}, "column 1 of rows must be row indices .* got -1 in row 0"),
        ({"query": [0, 0, -1]}, "column 0 of rows must be row indices .* got -1 in row 2"),
        ({"query": [[0, 0, 1]]}, "query must be a vector"),
        ({"position": [0, 1, 2]}, "position must be at least 1, got 0"),
        ({"position": [1, 2]}, "position must be finite numbers"),
        ({"weight": [-1, 1, 1]}, "weight must be at least 0, got -1"),
        ({"impression": [1, 1]}, r"impression must be of shape \(3,\)"),
        ({"impression": [7, 7, 7]}, "rows of one impression must have one query, got another in"),
        ({"nuisance": {"page": [1, 2]}}, "page must be finite numbers of shape"),
        ({"nuisance": {"position": [1, 2, 3]}, "position": [1, 2, 3]}, "nuisance must not have"),
    ],
)
def test_rows_that_are_no_lists_are_refused(change, words):
    with pytest.raises(ValueError, match=f"^Impressions: {words}"):
        Impressions.from_rows(**{**ROWS, **change})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"starts": np.array([0, 2])}, "starts must be 3 increasing numbers from 0 to 3"),
        ({"starts": np.array([0, 2, 4])}, "starts must be 3 increasing numbers from 0 to 3"),
        ({"starts": np.array([0, 0, 3])}, "starts must be 3 increasing numbers from 0 to 3"),
        ({"starts": np.array([1, 2, 3])}, "starts must be 3 increasing numbers from 0 to 3"),
        ({"gains": np.ones(2)}, "gains must be finite numbers of shape"),
        ({"gains": -np.ones(3)}, "gains must be at least 0"),
        ({"weights": np.ones(3)}, "weights must be finite numbers of shape"),
        ({"weights": np.array([1, np.inf])}, "weights must be finite numbers of shape"),
        ({"trusted": np.ones(1, bool)}, "trusted must be finite numbers of shape"),
        ({"nuisance": {"page": np.ones(2)}}, "page must be finite numbers of shape"),
    ],
)
def test_arrays_that_do_not_fit_together_are_refused(change, words):
    lists = Impressions.from_rows(**ROWS)
    with pytest.raises(ValueError, match=f"^Impressions: {words}"):
        Impressions(**{**vars(lists), **change})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"weights": [1, 2]}, "weights must be finite numbers"),
        ({"weights": [-1]}, "weights must be at least 0"),
        ({"alike": [1]}, "alike must be truth values"),
        ({"alike": [True, False]}, "alike must be truth values"),
    ],
)
def test_triplets_with_bad_options_are_refused(options, words):
    with pytest.raises(ValueError, match=f"^Impressions: {words}"):
        Impressions.from_triplets(np.array([[0, 1, 2]]), **options)


def test_no_rows_are_no_lists():
    lists = Impressions.from_rows([], [], [])
    assert len(lists) == 0
    X = np.eye(3)
    blend = Blend().learn(X, lists)
    assert blend.n_seen_ == 0
