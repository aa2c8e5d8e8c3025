import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import LEGO, OASIS, POLA, FactoredAROMA, KernelPOLA
from similia.index import StaleIndexError, build_index
from similia.index.backends import Space, backend_class
from similia.registry import LEARNERS, learner_class
from similia.retrieval import top_k
from tests.cases import case_of
from tests.problems import triplets_of


def fitted_pairs(cls, Z, rng, **parameters):
    pairs = rng.integers(len(Z), size=(60, 2))
    return cls(random_state=0, **parameters).learn(Z, pairs, np.where(rng.random(60) < 0.5, 1, -1))


@pytest.mark.parametrize("average", [True, False])
def test_an_update_is_visible_to_the_next_search_and_items_are_not_touched(
    backend, average, Z, rng
):
    model = OASIS(average=average, C=1.0)
    index = build_index(Z, backend=backend)
    before = index.backend.vectors().copy()
    for _ in range(3):
        model.learn(Z, triplets_of(rng, len(Z), len(Z), 50))
        rows, scores = top_k(model, Z[:20], Z, 5)
        found = index.search(Z[:20], 5, model=model)
        assert np.mean(found.ids == rows) > 0.95
        np.testing.assert_allclose(found.scores[:, 0], scores[:, 0], rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(index.backend.vectors(), before)


def test_a_new_start_of_the_same_length_is_seen(Z, rng):
    index, model = build_index(Z), OASIS(n_triplets=40, random_state=0)
    for seed in range(4):
        model.fit(Z, np.random.default_rng(seed).integers(3, size=len(Z)))
        np.testing.assert_array_equal(
            index.search(Z[:9], 4, model=model).ids, top_k(model, Z[:9], Z, 4)[0]
        )


@given(st.integers(0, 2**32 - 1), st.integers(1, 40), st.integers(1, 6), st.booleans())
def test_exact_search_is_the_order_of_all_scores(seed, n, d, l2):
    rng = np.random.default_rng(seed)
    Z, Q = rng.integers(-3, 4, size=(n, d)) * 1.0, rng.integers(-3, 4, size=(5, d)) * 1.0
    k = int(rng.integers(1, n + 1))
    index = build_index(Z, geometry="l2" if l2 else "inner_product")
    scores = -((Q[:, None] - Z) ** 2).sum(2) if l2 else Q @ Z.T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    found = index.search(Q, k)
    np.testing.assert_array_equal(found.ids, order)
    np.testing.assert_array_equal(found.scores, np.take_along_axis(scores, order, 1))


@pytest.mark.parametrize("cls", [LEGO, POLA])
def test_a_metric_is_searched_by_transformed_vectors(backend, cls, Z, rng):
    model = fitted_pairs(cls, Z, rng)
    index = build_index(Z, model, backend=backend)
    rows, scores = top_k(model, Z[:20], Z, 5)
    for found in (index.search(Z[:20], 5), index.search(Z[:20], 5, model=model)):
        assert np.mean(found.ids == rows) > 0.95
        np.testing.assert_allclose(found.scores, scores, rtol=1e-3, atol=1e-4)


def test_an_index_of_a_metric_that_has_learnt_since_is_refused(backend, Z, rng):
    model = fitted_pairs(LEGO, Z, rng)
    index = build_index(Z, model, backend=backend)
    twin = copy.deepcopy(model)
    assert not index.is_stale(model)
    assert not index.is_stale(twin)
    model.learn(Z, [[0, 1]], [-1])
    assert index.is_stale(model)
    with pytest.raises(StaleIndexError, match="build the index again"):
        index.search(Z[:2], 3, model=model)
    index.search(Z[:2], 3, model=twin)
    assert not build_index(Z, model, backend=backend).is_stale(model)


def test_another_kind_of_metric_is_stale(Z, rng):
    index = build_index(Z, fitted_pairs(LEGO, Z, rng))
    assert index.is_stale(fitted_pairs(POLA, Z, rng))


def test_a_kernel_metric_needs_the_learner(Z, rng):
    model = fitted_pairs(KernelPOLA, Z, rng, budget=15)
    index = build_index(Z, model)
    np.testing.assert_array_equal(
        index.search(Z[:5], 3, model=model).ids, top_k(model, Z[:5], Z, 3)[0]
    )
    with pytest.raises(ValueError, match=r"^Index.search: model must be given"):
        index.search(Z[:5], 3)
    index.add(Z[:3] * 0.5, model=model)
    index.frozen.image = index.frozen.image + 1.0  # as another machine's factor might have it
    with pytest.raises(StaleIndexError, match="build the index again"):
        index.search(Z[:5], 3, model=model)


@pytest.mark.parametrize("name", LEARNERS)
def test_every_learner_is_indexed_or_refused_in_words(name):
    case = case_of(learner_class(name))
    case.learn()
    if hasattr(case.learner, "query_vectors"):
        index = build_index(case.X, case.learner)
        found = index.search(case.X[:5], 4, model=case.learner)
        # Exact ties, of a point's copies say, may fall either way in another precision.
        expected = top_k(case.learner, case.X[:5], case.X, 4)[1]
        np.testing.assert_allclose(found.scores, expected, rtol=1e-8, atol=1e-8)
    else:
        with pytest.raises(
            ValueError, match=f"^build_index: model must have query_vectors, .* got {name};"
        ):
            build_index(case.X, case.learner)


def test_queries_may_have_other_features_than_items(backend, Z, rng):
    Q = rng.normal(size=(30, 5)).astype(np.float32)
    model = FactoredAROMA(prior="zero").learn(Q, triplets_of(rng, 30, len(Z), 80), items=Z)
    index = build_index(Z, model, backend=backend)
    found = index.search(Q, 3, model=model)
    assert np.mean(found.ids == top_k(model, Q, Z, 3)[0]) > 0.9
    assert build_index(Z, model, backend=backend, queries=Q).report.k == 10


def test_any_form_of_queries_that_the_learner_takes(Z, rng):
    from scipy import sparse

    model = OASIS().learn(Z, triplets_of(rng, len(Z), len(Z), 50))
    index, expected = build_index(Z), top_k(model, Z[:5], Z, 3)[0]
    for Q in (Z[:5].astype(float), sparse.csr_array(Z[:5]), Z[:5].tolist()):
        np.testing.assert_array_equal(index.search(Q, 3, model=model).ids, expected)


def test_a_vector_is_one_query(backend, Z, rng):
    similarity = OASIS().learn(Z, triplets_of(rng, len(Z), len(Z), 50))
    metric, plain = fitted_pairs(LEGO, Z, rng), build_index(Z, backend=backend)
    moved = build_index(Z, metric, backend=backend)
    for index, model in ((plain, None), (plain, similarity), (moved, None), (moved, metric)):
        expected = index.search(Z[7:8], 3, model=model)
        for q in (Z[7], Z[7].astype(float), Z[7].tolist()):
            found = index.search(q, 3, model=model)
            np.testing.assert_array_equal(found.ids, expected.ids[0])
            np.testing.assert_allclose(found.scores, expected.scores[0], rtol=1e-5, atol=1e-6)


def test_no_query_finds_nothing(backend, Z):
    found = build_index(Z, backend=backend).search(Z[:0], 3)
    assert found.ids.shape == found.scores.shape == (0, 3)


@pytest.mark.parametrize("n_queries", [1, 3])
def test_a_backend_marks_items_that_it_does_not_find(backend, n_queries):
    if backend == "exact":
        return
    few = backend_class("test", backend)(Space(4, "inner_product", np.dtype(np.float32)))
    few.add(np.eye(4, dtype=np.float32)[:2])
    rows, scores = few.search(np.eye(4, dtype=np.float32)[:n_queries], 3)
    assert rows.shape == scores.shape == (n_queries, 3)
    assert (rows[:, 2] == -1).all()


def test_a_search_that_the_library_cannot_complete_is_answered_exactly(backend, Z, monkeypatch):
    index = build_index(Z, backend=backend)
    original = type(index.backend).search

    def short(self, Q, k):
        rows, scores = original(self, Q, k)
        rows[::2, 1:] = -1
        return rows, scores

    monkeypatch.setattr(type(index.backend), "search", short)
    if backend != "exact":  # exact search never falls short, and is what completes
        found = index.search(Z[:6], 5)
        assert np.mean(found.ids == top_k("inner_product", Z[:6], Z, 5)[0]) > 0.95


@pytest.mark.parametrize("k", [0, -1, 401, 2.0, None])
def test_a_bad_k_is_refused(backend, Z, k):
    with pytest.raises(ValueError, match=r"^Index.search: k must be an integer between 1 and"):
        build_index(Z, backend=backend).search(Z[:2], k)


def test_bad_queries_are_refused(backend, Z, rng):
    index = build_index(Z, backend=backend)
    model = OASIS().learn(Z, triplets_of(rng, len(Z), len(Z), 10))
    for Q in (Z[0, :5], Z[None], Z[:2, :5], np.full((2, 12), np.nan, np.float32), [["a"] * 12]):
        with pytest.raises(ValueError, match=r"^Index.search: queries must be"):
            index.search(Q, 3)
        with pytest.raises(ValueError):  # noqa: PT011 - the learner has words of its own
            index.search(Q, 3, model=model)
    metric = fitted_pairs(LEGO, Z, rng)
    with pytest.raises(ValueError, match=r"^Index.search: model must have the geometry"):
        index.search(Z[:2], 3, model=metric)
    with pytest.raises(ValueError, match=r"vectors must be of shape \(n, 12\)"):
        build_index(Z, metric, backend=backend).search(Z[:2, :3], 3)
    with pytest.raises(ValueError, match=r"^Index.search: model must have query_vectors"):
        index.search(Z[:2], 3, model=object())
    with pytest.raises(ValueError, match="geometry"):
        build_index(Z, geometry="l2", backend=backend).search(Z[:2], 3, model=model)
