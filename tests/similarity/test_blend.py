"""Blend against its transcription, and what a list says."""

import copy

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import optimize

from similia import Blend, Impressions, Views
from similia.updates.blend import add_choices
from similia.updates.blend_matrix import NEW, W_COUNTED, step_and_gain
from similia.updates.blend_memory import eliminate
from similia.updates.blend_weights import solve
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
    reference = naive.Blend(blend, queries, n_nuisances=2)
    transcribed(blend, reference, queries, items, lists)
    in_pieces(rng, blend, queries, lists, items)
    assert_agree(blend, reference, queries, items)


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
    assert blend.memory_part_.alike.any()
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


def test_open_gates_rank_as_transcribed_and_a_change_of_taste_starts_W_anew():
    """600 triplets of one taste and 300 of its opposite: W is trusted, fails and is dropped."""
    rng = np.random.default_rng(3)
    X, triplets = change_of_taste(rng, 900, 600)
    blend = Blend(obey=False, memory=40)
    blend.begin(X)
    reference = naive.Blend(blend, X)
    counted = []
    for part in np.split(triplets, 9):
        for q, better, worse in part:
            reference.learn(X[q], X[better] - X[worse])
        in_pieces(rng, blend, X, Impressions.from_triplets(part, trusted=False), X)
        assert_agree(blend, reference, Views(vectors=X[:5]), Views(vectors=X[:30]))
        counted.append(blend.matrix_part_.tallies[NEW, W_COUNTED])
        if len(counted) == 6:
            assert blend.trust_["W"] > 0.99
    assert (np.diff(counted[:6]) >= 0).all()
    assert (np.diff(counted[5:]) < 0).any()


@pytest.mark.parametrize(("change", "alarm"), [(300, 311), (340, 355)])
def test_what_is_published_within_a_block_is_as_transcribed(change, alarm):
    """One call, whose blocks of 128 end anywhere between publications and a start of W anew.

    The 320th judgement publishes if W starts anew at the 355th, but not if at the 311th; the 384th
    never does, and the 385th always.
    """
    X, triplets = change_of_taste(np.random.default_rng(0), 450, change)
    start = Blend(obey=False)
    start.begin(X)
    reference, alarms = naive.Blend(start, X), []
    for n, (q, better, worse) in enumerate(triplets, 1):
        restarts = reference.restarts
        reference.learn(X[q], X[better] - X[worse])
        alarms += [n] * (reference.restarts - restarts)
        if n in (15, 16, 17, 40, 127, 128, 129, 193, 310, 320, 384, 385, 450) or n == alarm:
            blend = copy.deepcopy(start).learn(X, triplets[:n])
            assert_agree(blend, reference, Views(vectors=X[:5]), Views(vectors=X[:30]))
    assert alarms == [alarm]


def test_remembered_queries_and_their_neighbours_rank_as_transcribed():
    """Five groups of close queries, each with a taste of its own: both gates open."""
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(5, 6))
    X = np.repeat(centres, 60, axis=0) + 0.05 * rng.normal(size=(300, 6))
    Z = rng.normal(size=(50, 6))
    taste = 2 * rng.normal(size=(5, 6)) @ Z.T
    queries, items = Views(vectors=X), Views(vectors=Z)
    follow = np.repeat(taste, 60, axis=0)
    blend = Blend()
    blend.begin(queries, items)
    reference = naive.Blend(blend, queries, n_nuisances=2)
    for n, n_queries in ((400, 290), (400, 10)):
        lists = shown(rng, queries, items, n, n_queries=n_queries, follow=follow, trusted=0.0)
        transcribed(blend, reference, queries, items, lists)
        blend.learn(queries, lists, items=items)
    assert_agree(blend, reference, queries[np.arange(0, 300, 7)], items)
    assert (blend.memory_part_.totals > np.log(300)).all()
    new = blend.pairwise_score(X[290:], Z) - X[290:] @ Z.T / blend.gaps_
    assert np.abs(new).max() > 0.1


# -- primitives ----------------------------------------------------------------------------------


@given(SEEDS, st.integers(1, 6))
def test_solve_is_the_solution_and_the_inverse(seed, n):
    rng = np.random.default_rng(seed)
    B, b = rng.normal(size=(n, n)), rng.normal(size=n)
    A, inverse, x = B @ B.T + 0.1 * np.eye(n), np.empty((n, n)), b.copy()
    solve(A, x, np.zeros((n, n)), inverse)
    np.testing.assert_allclose(A @ x, b, atol=1e-8)
    np.testing.assert_allclose(A @ inverse, np.eye(n), atol=1e-8)


@given(SEEDS, st.integers(1, 9))
def test_elimination_solves_what_is_not_symmetric_and_needs_pivots(seed, n):
    rng = np.random.default_rng(seed)
    A, x = rng.normal(size=(n, n)) - 5 * np.eye(n)[::-1], rng.normal(size=n)
    found = A @ x
    eliminate(A.copy(), found)
    np.testing.assert_allclose(found, x, rtol=1e-6, atol=1e-6 * np.linalg.cond(A))


@given(SEEDS, st.integers(2, 6))
def test_the_gradient_of_a_list_is_that_of_its_log_likelihood(seed, n):
    rng = np.random.default_rng(seed)
    scores, gains = rng.normal(size=n), rng.integers(3, size=n).astype(float)

    def log_p(scores):
        return add_choices(scores, gains, 1.5, np.zeros(n), np.zeros((n, n)))

    g, H = np.zeros(n), np.zeros((n, n))
    add_choices(scores, gains, 1.5, g, H)
    np.testing.assert_allclose(g, optimize.approx_fprime(scores, log_p, 1e-6), atol=1e-4)
    assert np.linalg.eigvalsh(H).min() > -1e-12
    np.testing.assert_allclose(H.sum(axis=0), 0, atol=1e-12)


@given(st.floats(-8, 8), st.floats(0, 20))
def test_step_and_gain_are_slope_and_curvature_of_the_likelihood(s, v):
    value, slope, gain = step_and_gain(s, v)
    below, above = step_and_gain(s - 1e-4, v)[0], step_and_gain(s + 1e-4, v)[0]
    assert slope == pytest.approx((above - below) / 2e-4, abs=1e-6)
    assert gain == pytest.approx(max(0.0, -(above - 2 * value + below) / 1e-8), abs=1e-5)


@given(SEEDS, st.integers(2, 7))
def test_choices_of_one_item_are_a_distribution(seed, n):
    scores = 3 * np.random.default_rng(seed).normal(size=n)
    empty = np.zeros(n), np.zeros((n, n))
    assert sum(np.exp(add_choices(scores, row, 1.0, *empty)) for row in np.eye(n)) == pytest.approx(
        1
    )


# -- weights of lists ----------------------------------------------------------------------------


@settings(max_examples=10)
@given(SEEDS, st.sampled_from([0.25, 2.0, 7.0]))
def test_a_list_of_weight_w_says_w_times_as_much(seed, w):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 20)
    start = Blend().learn(queries, lists, items=items)
    one = shown(rng, queries, items, 1)
    heavy = Impressions(**{**vars(one), "weights": np.array([w])})
    plain, weighted = (
        copy.deepcopy(start).learn(queries, given, items=items).weights_part_
        for given in (one, heavy)
    )
    before = start.weights_part_
    for name in ("information", "natural", "likelihood"):
        old, once, times = (getattr(part, name) for part in (before, plain, weighted))
        np.testing.assert_allclose(times - old, w * (once - old), rtol=1e-7, atol=1e-10)


@settings(max_examples=10)
@given(SEEDS)
def test_lists_that_say_nothing_leave_no_trace_but_the_count(seed):
    """Weight 0, nothing preferred to anything, or one item alone: as if never seen."""
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 40)
    some = [Blend(memory=10).learn(queries, lists, items=items) for _ in range(2)]
    nothing = shown(rng, queries, items, 30, weights=(0.0,))
    even = Impressions.from_rows([3, 3, 3], [1, 2, 3], [1, 1, 1])
    alone = Impressions.from_rows([4], [1], [1])
    for silent in (nothing, even, alone):
        some[1].learn(queries, silent, items=items)
    ours, theirs = (blend.get_state() for blend in some)
    assert theirs.pop("n_seen_") == ours.pop("n_seen_") + 32
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)
