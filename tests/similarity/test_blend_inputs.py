"""What Blend refuses, and what it starts with."""

import copy

import numpy as np
import pytest
from hypothesis import strategies as st

from similia import Blend, Impressions, Views
from similia.similarity.blend.comparing import share_of_its_own
from tests.similarity.blend_cases import (
    numeric,
)

SEEDS = st.integers(0, 2**32 - 1)


def test_first_view_must_be_one_that_queries_have(rng):
    with pytest.raises(ValueError, match=r"^Blend: the first view of the items must be one that"):
        Blend().begin(Views(a=np.eye(3)), Views(price=np.ones(3), a=np.eye(3)))


@pytest.mark.parametrize(
    ("queries", "items", "words"),
    [
        ({"a": np.eye(3)}, {"a": np.eye(3)[:, :2]}, "Blend: the view 'a' must have as many feat"),
        ({"a": np.eye(3), "b": np.eye(3)}, {"a": np.eye(3)}, "Blend: views of the queries must be"),
        ({"b": np.eye(3)}, {"a": np.eye(3)}, "Blend: the first view of the items must be one"),
    ],
)
def test_views_that_do_not_fit_are_refused_at_the_start(queries, items, words):
    blend = Blend()
    with pytest.raises(ValueError, match=words):
        blend.learn(Views(**queries), [[0, 1, 2]], items=Views(**items))
    assert not blend.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda q, z: (q, {**z, "b": z["b"][:, :2]}), "items must have the view 'b' with 3 feat"),
        (lambda q, z: (q, {"a": z["a"]}), "items must have the view 'b' with 3 features, got none"),
        (lambda q, z: ({"a": q["a"][:, :2]}, z), "queries must have the view 'a' with 4 features"),
        (lambda q, z: ({"c": q["a"]}, z), "views of the queries must be among a, b, got c"),
        (lambda q, z: (q, {**z, "c": z["b"]}), "views of the items must be among a, b, got c"),
        (lambda q, z: ({"a": q["a"] * np.nan}, z), "finite"),
        (lambda q, z: (q, {**z, "b": z["b"] + np.inf}), "finite"),
        (lambda q, z: (q, {**z, "b": z["b"] * 1e200}), "b must have entries of magnitude"),
    ],
)
def test_views_that_do_not_fit_are_refused_later_and_change_nothing(change, words, rng):
    q, z = {"a": rng.normal(size=(6, 4))}, {"a": rng.normal(size=(6, 4)), "b": np.eye(6)[:, :3]}
    blend = Blend().learn(Views(**q), [[0, 1, 2]], items=Views(**z))
    before = copy.deepcopy(blend.get_state())
    q, z = (Views(**side) for side in change(q, z))
    with pytest.raises(ValueError, match=words):
        blend.learn(q, [[0, 1, 2]], items=z)
    for name, value in before.items():
        np.testing.assert_array_equal(blend.get_state()[name], value, err_msg=name)
    with pytest.raises(ValueError, match=words):
        blend.pairwise_score(q, z)


def test_rows_and_nuisances_out_of_range_are_refused_and_change_nothing(rng):
    X = rng.normal(size=(6, 4))
    first = Impressions.from_rows([0, 0], [1, 2], [0, 1], position=[1, 2])
    blend = Blend().learn(X, first)
    before = copy.deepcopy(blend.get_state())
    wrong = {
        "items of the feedback must be row indices between 0 and 5, got 6": ([0, 0], [1, 6], {}),
        "queries of the feedback must be row indices between 0 and 5, got 9": ([9, 9], [1, 2], {}),
        "nuisances must be among position": ([0, 0], [1, 2], {"page": [1, 1]}),
    }
    for words, (query, item, nuisance) in wrong.items():
        lists = Impressions.from_rows(query, item, [0, 1], nuisance=nuisance)
        with pytest.raises(ValueError, match=rf"^Blend\.learn: {words}"):
            blend.learn(X, lists)
    for name, value in before.items():
        np.testing.assert_array_equal(blend.get_state()[name], value, err_msg=name)
    blend.learn(X, [[0, 1, 2]])
    assert blend.nuisances_ == ["position"]


def test_queries_beyond_the_precision_of_W_are_refused(rng):
    X = rng.normal(size=(6, 4)).astype(np.float32)
    blend = Blend().learn(X, [[0, 1, 2]])
    with pytest.raises(ValueError, match=r"^Blend: X must have entries of magnitude .* float32"):
        blend.pairwise_score(X.astype(np.float64) * 1e39, X)


def test_a_copy_of_the_base_has_no_variance_of_its_own():
    """Regression on the base leaves (1 - c²) of the variance, whichever items are chosen by it."""
    rng = np.random.default_rng(0)
    base = rng.normal(size=10**5)
    for c in (0.3, 0.6, 0.9):
        copy = c * base + np.sqrt(1 - c**2) * rng.normal(size=10**5)
        best = np.argsort(-base)[:5000]
        first = np.array([base[best].var(), copy[best].var(), 4 * copy[best].var()])
        found = share_of_its_own(np.array([c, c]), first, np.ones(3))
        np.testing.assert_allclose(found, [0.0, 0.75], atol=0.05)


def test_noisy_copies_random_views_and_fields_start_at_zero():
    """And a view that tells the base's first items apart does not."""
    rng = np.random.default_rng(0)
    X, Z = rng.normal(size=(200, 20)), rng.normal(size=(1000, 20))
    scores = X @ Z.T
    kinds = rng.random(scores.shape) < 0.02 * (scores > 4)  # some of the best match in words too
    views = {
        "noisy": scores + 4 * rng.normal(size=scores.shape),
        "random": rng.normal(size=scores.shape),
        "words": kinds + 0.01 * scores,
    }
    queries = Views(base=X, **{name: np.eye(200) for name in views})
    items = Views(base=Z, **{name: view.T for name, view in views.items()}, size=Z.sum(axis=1))
    start = Blend().learn(queries, np.zeros((0, 3), int), items=items).weights_[1:]
    np.testing.assert_allclose(start[[0, 1, 3]], 0.0, atol=0.02)
    assert start[2] > 0.05


@pytest.mark.parametrize(
    "damage",
    [
        lambda s: s.update(widths_=[["meaning", 5, 4]]),
        lambda s: s.update(names_=["a"]),
        lambda s: s.update(widths_=7),
        lambda s: s.update(n_features_in_=99),
        lambda s: s.update(nuisances_=[1]),
    ],
)
def test_a_state_that_contradicts_itself_is_refused(learnt, damage):
    state = dict(learnt[0].get_state())
    damage(state)
    blend = Blend()
    with pytest.raises(ValueError, match=r"^Blend\.set_state: "):
        blend.set_state(state)
    assert not blend.__sklearn_is_fitted__()


@pytest.mark.parametrize("name", ["names_", "matrix_W_", "memory_stretch_", "n_seen_"])
def test_a_state_with_a_gap_is_refused(learnt, name):
    state = dict(learnt[0].get_state())
    del state[name]
    with pytest.raises(ValueError, match=rf"^Blend\.set_state: .*{name}.* is missing"):
        Blend().set_state(state)


@pytest.mark.parametrize("longer", [1e3, 1e9, 1e29])
def test_items_longer_than_any_before_leave_a_finite_state(longer, rng):
    X = rng.normal(size=(40, 6))
    blend = Blend().learn(X, rng.integers(40, size=(60, 3)))
    far = X.copy()
    far[::3] *= longer
    blend.learn(far, rng.integers(40, size=(200, 3)))
    assert all(np.isfinite(value).all() for value in blend.get_state().values() if numeric(value))


def test_labels_of_rows_too_large_for_single_precision_are_refused(rng):
    X, y = rng.normal(size=(40, 6)), rng.integers(3, size=40)
    blend = Blend(n_triplets=50, random_state=0).fit(X.astype(np.float32), y)
    with pytest.raises(ValueError, match=r"magnitude at most .* for float32"):
        blend.partial_fit(1e20 * X, y)
