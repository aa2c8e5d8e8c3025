"""Forms of a Blend: views, vectors, copies, explanations."""

import copy
import pickle

import joblib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from similia import Blend, Views
from tests.similarity.blend_cases import (
    problem,
    shown,
)

SEEDS = st.integers(0, 2**32 - 1)


@settings(max_examples=6)
@given(SEEDS)
def test_views_of_any_form_agree(seed):
    rng = np.random.default_rng(seed)
    queries, items = problem(rng)
    lists = shown(rng, queries, items, 60)

    def held(form, dtype):
        sides = [{n: form(np.asarray(s[n]).astype(dtype)) for n in s} for s in (queries, items)]
        sides = [Views(**side) for side in sides]
        blend = Blend().learn(sides[0], lists, items=sides[1])
        scores = blend.pairwise_score(*sides)
        assert scores.dtype == dtype
        q, z = blend.query_vectors(sides[0]), blend.item_vectors(sides[1])
        assert (q.dtype, z.dtype) == (dtype, dtype)
        return scores

    dense = held(np.asarray, np.float64)
    np.testing.assert_allclose(held(sparse.csr_array, np.float64), dense, rtol=1e-8, atol=1e-8)
    for form in (np.asarray, sparse.csr_array):
        np.testing.assert_allclose(held(form, np.float32), dense, rtol=2e-2, atol=2e-2)


@settings(max_examples=6)
@given(SEEDS)
def test_one_view_of_that_name_is_a_plain_matrix(seed):
    rng = np.random.default_rng(seed)
    X, Z = rng.normal(size=(20, 4)), rng.normal(size=(30, 4))
    triplets = np.column_stack([rng.integers(20, size=50), rng.integers(30, size=(50, 2))])
    plain = Blend().learn(X, triplets, items=Z)
    views = Blend().learn(Views(vectors=X), triplets, items=Views(vectors=Z))
    np.testing.assert_array_equal(
        plain.pairwise_score(X, Z), views.pairwise_score(Views(vectors=X), Views(vectors=Z))
    )


def test_inner_products_of_exported_vectors_and_boosts_are_the_scores(learnt):
    blend, queries, items = learnt
    q, z = blend.query_vectors(queries, remembered=False), blend.item_vectors(items)
    assert z.shape == (60, 16)
    np.testing.assert_array_equal(z[:, :5], items["meaning"])
    scores = q @ z.T
    for row, (places, bonuses) in zip(scores, blend.boosts(queries, items), strict=True):
        row[places] += bonuses
    np.testing.assert_allclose(scores, blend.pairwise_score(queries, items), atol=1e-10)


def test_the_start_is_the_blend_that_has_only_begun(learnt):
    blend, queries, items = learnt
    begun = Blend().set_params(**blend.get_params())
    begun.begin(queries, items)
    start, before = blend.start(), copy.deepcopy(blend.get_state())
    for name, value in begun.get_state().items():
        np.testing.assert_array_equal(start.get_state()[name], value, err_msg=name)
    lists = shown(np.random.default_rng(3), queries, items, 40)
    for one in (begun, start):
        one.learn(queries, lists, items=items)
    for name, value in begun.get_state().items():
        np.testing.assert_array_equal(start.get_state()[name], value, err_msg=name)
    for name, value in before.items():  # the blend itself is left alone
        np.testing.assert_array_equal(blend.get_state()[name], value, err_msg=name)


def test_boosts_name_items_by_their_keys_where_no_items_are_given(learnt):
    blend, queries, items = learnt
    keys = blend.item_keys(items)
    assert len(np.unique(keys)) == 60
    for (rows, bonuses), (named, same) in zip(
        blend.boosts(queries[:5], items), blend.boosts(queries[:5]), strict=True
    ):
        assert dict(zip(keys[rows].tolist(), bonuses, strict=True)) == dict(
            zip(named.tolist(), same, strict=True)
        )


def test_vectors_of_a_query_nobody_judged_are_exact():
    rng = np.random.default_rng(1)
    X, Z = rng.normal(size=(30, 6)), rng.normal(size=(40, 6))
    triplets = np.column_stack([rng.integers(20, size=200), rng.integers(40, size=(200, 2))])
    blend = Blend().learn(X, triplets, items=Z)
    new = X[20:]
    found = blend.query_vectors(new) @ blend.item_vectors(Z).T
    np.testing.assert_allclose(found, blend.pairwise_score(new, Z), atol=1e-12)


def test_triplet_scores_are_differences_of_scores(learnt):
    blend, queries, items = learnt
    scores = blend.pairwise_score(queries, items)
    triplets = np.array([[0, 1, 2], [5, 7, 7], [9, 50, 3], [0, 2, 1]])
    q, a, b = triplets.T
    found = blend.triplet_scores(queries, triplets, items=items)
    np.testing.assert_allclose(found, scores[q, a] - scores[q, b], atol=1e-10)
    assert blend.triplet_scores(queries, triplets[:0], items=items).shape == (0,)


def test_one_query_is_scored_as_a_row(rng):
    X = rng.normal(size=(20, 4))
    blend = Blend().learn(X, [[0, 1, 2]])
    np.testing.assert_allclose(blend.pairwise_score(X[0], X), blend.pairwise_score(X, X)[0])
    np.testing.assert_allclose(blend.query_vectors(X[0]), blend.query_vectors(X)[0])


def test_parts_of_an_explanation_add_up_to_the_score(learnt):
    blend, queries, items = learnt
    some, few = queries[:4], items[10:15]
    scores = blend.pairwise_score(some, few)
    for q, row in enumerate(blend.explain(some, few)):
        for z, explanation in enumerate(row):
            assert explanation.score == pytest.approx(scores[q, z], abs=1e-9)
            assert list(explanation.parts) == [*blend.names_, "W", "memory", "decisions"]
            moved = sum(by for _, by in explanation.judgements)
            known = explanation.parts["memory"] + explanation.parts["decisions"]
            assert moved == pytest.approx(known, abs=1e-9)


def test_an_explanation_names_the_judgement_behind_a_decision(learnt):
    blend, queries, items = copy.deepcopy(learnt[0]), *learnt[1:]
    order = np.argsort(-blend.pairwise_score(queries[:1], items)[0])
    n = blend.n_seen_
    blend.learn(queries, [[0, order[-1], order[0]], [0, order[5], order[6]]], items=items)
    why = blend.explain(queries[:1], items[order[[-1, 0]]])[0]
    for explanation in why:
        assert explanation.parts["decisions"]
        assert n in [number for number, _ in explanation.judgements]


def test_judgements_that_agree_make_a_margin_surer(learnt):
    blend, queries, items = learnt
    order = np.argsort(-blend.pairwise_score(queries[:1], items)[0])
    triplet = [[0, order[0], order[-1]]]
    _, std = blend.triplet_scores(queries, triplet, items=items, return_std=True)
    more = copy.deepcopy(blend).learn(queries, triplet * 30, items=items)
    _, after = more.triplet_scores(queries, triplet, items=items, return_std=True)
    assert 0 < after[0] < std[0]


def test_suggestions_are_about_different_queries(learnt):
    blend, queries, items = learnt
    candidates = np.array([[0, 1, 2], [0, 3, 4], [1, 5, 6], [2, 7, 8]])
    chosen = blend.suggest(queries, candidates, 3, items=items)
    assert len(set(candidates[chosen, 0])) == 3
    with pytest.raises(ValueError, match=r"^Blend\.suggest: n_suggestions must be between 1 and"):
        blend.suggest(queries, candidates, 5, items=items)


@pytest.mark.parametrize("way", ["pickle", "joblib", "deepcopy", "state"])
def test_a_copy_scores_and_learns_as_the_original(learnt, way, tmp_path):
    blend, queries, items = copy.deepcopy(learnt)
    if way == "pickle":
        twin = pickle.loads(pickle.dumps(blend))
    elif way == "joblib":
        joblib.dump(blend, tmp_path / "blend")
        twin = joblib.load(tmp_path / "blend", mmap_mode="r")
    elif way == "deepcopy":
        twin = copy.deepcopy(blend)
    else:
        twin = Blend().set_state(copy.deepcopy(blend.get_state()))
    lists = shown(np.random.default_rng(3), queries, items, 40)
    for one in (blend, twin):
        one.learn(queries, lists, items=items)
    ours, theirs = blend.get_state(), twin.get_state()
    for name, value in ours.items():
        np.testing.assert_array_equal(theirs[name], value, err_msg=name)


def test_wide_bases_have_no_W_and_remember_pairs():
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.random((30, 5000)) * (rng.random((30, 5000)) < 0.01))
    price = rng.normal(size=30)
    queries, items = Views(words=X), Views(words=X, price=price)
    triplets = rng.integers(30, size=(50, 3))
    triplets = triplets[triplets[:, 1] != triplets[:, 2]]
    blend = Blend().learn(queries, triplets, items=items)
    assert blend.matrix_part_.W.size == 0
    vectors = blend.query_vectors(queries)
    assert sparse.issparse(vectors)
    assert blend.triplet_scores(queries, triplets[-1:], items=items)[0] > 0
    assert blend.explain(queries[:1], items[:1])[0][0].score == pytest.approx(
        blend.pairwise_score(queries[:1], items[:1])[0, 0]
    )
