"""Blend against its transcription, and what a list says."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from similia import Blend, Impressions, Views
from similia.updates.blend import solve
from tests.reference import blend as naive
from tests.similarity.blend_cases import (
    assert_agree,
    in_pieces,
    problem,
    shown,
    transcribed,
)

SEEDS = st.integers(0, 2**32 - 1)


# -- the transcription ---------------------------------------------------------------------------


@settings(max_examples=8)
@given(
    SEEDS,
    st.sampled_from([0, 3, 7, 10_000]),
    st.booleans(),
    st.sampled_from([None, 20.0]),
    st.sampled_from([6, 12]),
)
@example(745, 7, False, None, 6)  # a new query whose first list decides nothing takes a slot over
@example(0, 10_000, True, None, 12)
def test_lists_with_views_and_nuisances_are_learnt_as_transcribed(
    seed, memory, informative, half_life, longest
):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    follow = 3 * rng.normal(size=(len(queries), len(items))) if informative else None
    given = {"longest": longest, "follow": follow, "weights": (0.0, 0.5, 1.0, 1.0, 2.0)}
    lists = shown(rng, queries, items, 150, **given)
    blend = Blend(memory=memory, half_life=half_life)
    blend.begin(queries, items)
    reference = naive.Blend(blend, queries, n_nuisances=1)
    transcribed(blend, reference, queries, items, lists)
    in_pieces(rng, blend, queries, lists, items)
    assert_agree(blend, reference, queries, items)


@pytest.mark.parametrize("n", [30, 200])
def test_clicks_on_pages_are_learnt_as_transcribed(n):
    """Without decisions, so that vectors of queries are memory alone."""
    rng = np.random.default_rng(n)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, n, longest=12, trusted=0.0)
    blend = Blend(page=5)
    blend.begin(queries, items)
    reference = naive.Blend(blend, queries, n_nuisances=1)
    transcribed(blend, reference, queries, items, lists)
    in_pieces(rng, blend, queries, lists, items)
    assert_agree(blend, reference, queries, items)
    part = blend.memory_part_
    slots = part.places(blend._query_keys(queries))
    for q in np.flatnonzero(slots >= 0):
        theirs = reference.known[tuple(queries["meaning"][q])].vector
        np.testing.assert_allclose(part.vectors[slots[q]], theirs, rtol=1e-6, atol=1e-8)


def test_ties_are_learnt_as_transcribed():
    rng = np.random.default_rng(4)
    queries, items = problem(rng)
    triplets = np.array([[rng.integers(12), *rng.permutation(40)[:2]] for _ in range(80)])
    lists = Impressions.from_triplets(triplets, alike=rng.random(80) < 0.6)
    blend = Blend(memory=7)
    blend.begin(queries, items)
    reference = naive.Blend(blend, queries)
    transcribed(blend, reference, queries, items, lists)
    in_pieces(rng, blend, queries, lists, items)
    assert_agree(blend, reference, queries, items)


def change_of_taste(rng, n, change):
    """Rows and n triplets, of one taste before the `change` and of its opposite from there on."""
    X = rng.normal(size=(400, 4))
    taste = rng.normal(size=(4, 4))
    triplets = rng.integers(400, size=(n, 3))
    margins = np.vecdot(X[triplets[:, 0]] @ taste, X[triplets[:, 1]] - X[triplets[:, 2]])
    wrong = (margins < 0) != (np.arange(n) >= change)
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    return X, triplets


def test_W_ranks_as_transcribed_and_a_change_of_taste_starts_it_anew():
    """600 triplets of one taste and 300 of its opposite: W has weight, fails and is dropped."""
    rng = np.random.default_rng(3)
    X, triplets = change_of_taste(rng, 960, 640)
    blend = Blend(obey=False, memory=40)
    blend.begin(X)
    reference, weights = naive.Blend(blend, X), []
    for part in np.split(triplets, 15):
        transcribed(
            blend,
            reference,
            *2 * [Views(vectors=X)],
            Impressions.from_triplets(part, trusted=False),
        )
        in_pieces(rng, blend, X, Impressions.from_triplets(part, trusted=False), X)
        assert_agree(blend, reference, Views(vectors=X[:5]), Views(vectors=X[:30]))
        weights.append(blend.trust_["W"])
    assert weights[9] > 0.1
    assert 0.0 in weights[10:]


# -- primitives ----------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 6))
def test_solve_is_the_solution(seed, n):
    rng = np.random.default_rng(seed)
    B, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A, x = B @ B.T + 0.1 * np.eye(n), b.copy()
    solve(A.copy(), x)
    np.testing.assert_allclose(A @ x, b, atol=1e-8)


@settings(max_examples=10)
@given(SEEDS)
def test_lists_of_weight_zero_leave_no_trace_but_the_count(seed):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 40)
    some = [Blend(memory=10).learn(queries, lists, items=items) for _ in range(2)]
    some[1].learn(queries, shown(rng, queries, items, 30, weights=(0.0,)), items=items)
    ours, theirs = (blend.get_state() for blend in some)
    assert theirs.pop("n_seen_") == ours.pop("n_seen_") + 30
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)
