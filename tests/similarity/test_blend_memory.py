"""Neighbours of queries in Blend's memory, found by sketches."""

from copy import deepcopy
from functools import partial

import numpy as np
import pytest

from similia import Blend, Views
from similia.linalg.near_rows import NearRows
from similia.linalg.row_keys import row_keys
from tests.similarity.blend_cases import shown


@pytest.fixture
def alike():
    """Queries around five centres, of which neighbours like the same items, and lists of these."""
    rng = np.random.default_rng(6)
    centres = rng.normal(size=(5, 6))
    X = np.repeat(centres, 60, axis=0) + 0.3 * rng.normal(size=(300, 6))
    Z = rng.normal(size=(50, 6))
    follow = np.repeat(2 * rng.normal(size=(5, 6)) @ Z.T, 60, axis=0)
    queries, items = Views(vectors=X), Views(vectors=Z)
    lists = shown(rng, queries, items, 400, n_queries=250, follow=follow, trusted=0.0)
    return queries, items, lists


def learnt_with(monkeypatch, exact, alike, pieces, budget=200):
    """A blend that compares so many remembered queries one by one, and learns in pieces."""
    monkeypatch.setattr("similia.similarity.memory.NearRows", partial(NearRows, exact))
    queries, items, lists = alike
    blend = Blend(memory=budget)
    blend.begin(queries, items)
    blend.memory_part_.near = 0.8
    for part in np.array_split(np.arange(len(lists)), pieces):
        blend.learn(queries, lists.part(part), items=items)
    blend.published_part_.shares[1] = 0.25
    return blend


def test_what_sketches_miss_has_no_weight(monkeypatch, alike):
    queries, items, _ = alike
    new = queries[np.arange(250, 300)]
    plain, sketched = (learnt_with(monkeypatch, exact, alike, 4) for exact in (10**9, 0))
    base = plain.pairwise_score(new, items)
    moved, published = np.zeros_like(new["vectors"]), plain.published_part_
    asked = row_keys(new["vectors"]), new["vectors"]
    plain.memory_part_.recall(moved, *asked, published.shares, published.ranking)
    assert np.abs(moved).max() > 0.1
    np.testing.assert_allclose(sketched.pairwise_score(new, items), base, atol=0.01)
    evidence = [blend.memory_part_.totals for blend in (sketched, plain)]
    np.testing.assert_allclose(*evidence, atol=0.05)


@pytest.mark.parametrize("pieces", [3, 57, 400])
def test_pieces_are_the_whole_where_neighbours_are_sketched(monkeypatch, alike, pieces):
    """Also when the memory is full, and queries take the places of others within a block."""
    whole, parts = (learnt_with(monkeypatch, 20, alike, n, 100) for n in (1, pieces))
    for name, value in whole.get_state().items():
        if name.startswith("memory_"):
            np.testing.assert_allclose(parts.get_state()[name], value, 1e-9, 1e-9, err_msg=name)


def test_sketches_of_a_loaded_memory_are_those_of_the_one_that_learnt(monkeypatch, alike):
    blend = learnt_with(monkeypatch, 20, alike, 9, 100)
    loaded = Blend(memory=100).set_state(deepcopy(blend.get_state()))
    queries, items, _ = alike
    scores = [each.pairwise_score(queries, items) for each in (blend, loaded)]
    np.testing.assert_array_equal(*scores)
