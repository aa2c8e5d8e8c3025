"""Neighborhood gerrymandering as an estimator: its laws and its states."""

import copy
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from similia import NeighborhoodGerrymandering, load, save
from similia.neighbors.maps import Map, Maps
from similia.neighbors.sides import LabelledSides
from similia.neighbors.training import MapDescent, Objective, Schedule
from tests.gerrymandering_problems import clusters, quick
from tests.reference import gerrymandering as reference

# -- the objective ---------------------------------------------------------------------------------


def descent_of(U, V, center=None, *, k=3, regularizer="joint", **schedule):
    """Plain gradients of 0/1 losses and a penalty of weight 2.5; tied if V is U."""
    center = np.zeros(U.shape[1]) if center is None else center
    objective = Objective(1.0 - np.eye(3), k, ties=False, regularizer=regularizer, penalty=2.5)
    return MapDescent(Maps(Map(U, center), Map(V, center)), (), 0, objective, Schedule(**schedule))


@pytest.mark.parametrize("regularizer", ["joint", "separate", "frobenius"])
@pytest.mark.parametrize("asymmetric", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_steps_are_those_of_the_transcription(regularizer, asymmetric, form, rng):
    X, y = clusters(rng, n=40)
    order = np.argsort(y, kind="stable")
    X, y = X[order] / 4, y[order]
    U = rng.normal(size=(4, 6))
    V = rng.normal(size=(4, 6)) if asymmetric else U.copy()
    expected = U.copy(), V.copy()
    sides = LabelledSides(form(X), y, form(X), y, np.arange(40))
    V = V if asymmetric else U
    descent = descent_of(U, V, regularizer=regularizer, batch_size=16)
    descent.epoch(sides, lambda step: 0.01, np.random.default_rng(3), lambda n: None)
    cost = descent.objective.cost
    shuffled = np.random.default_rng(3).permutation(40)
    for start in range(0, 40, 16):
        rows = shuffled[start : start + 16]
        moved = reference.descent_step(
            *expected, X[rows], y[rows], rows, X, y, cost, 3, False, 0.01, 40, regularizer,
            0.01,
        )[:2]  # fmt: skip
        if not asymmetric:  # the change of the tied map is that of both together
            moved = 2 * (moved[0] + moved[1] - expected[0],)
        expected = moved
    np.testing.assert_allclose(U, expected[0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(V, expected[1], rtol=1e-9, atol=1e-10)


def test_tied_maps_are_the_asymmetric_code_with_both_gradients_added(rng):
    X, y = clusters(rng, n=60)
    X, y = X[np.argsort(y, kind="stable")], np.sort(y)
    L = np.eye(6) / 3
    sides, center = LabelledSides(X, y, X, y, np.arange(60)), X.mean(0)
    one, U, V = L.copy(), L.copy(), L.copy()
    tied, free = (descent_of(*pair, center, batch_size=60) for pair in ((one, one), (U, V)))
    for descent in (tied, free):
        descent.epoch(sides, lambda step: 0.01, np.random.default_rng(0), lambda n: None)
    assert tied.maps.tied
    assert not free.maps.tied
    np.testing.assert_allclose(one - L, (U - L) + (V - L), rtol=1e-9, atol=1e-12)
    assert tied.total == pytest.approx(free.total)


@pytest.mark.parametrize("asymmetric", [True, False])
def test_it_learns_what_kNN_needs(asymmetric, rng):
    X, y = clusters(rng, n=600)
    plain = KNeighborsClassifier(5).fit(X[:400], y[:400]).score(X[400:], y[400:])
    learner = NeighborhoodGerrymandering(asymmetric=asymmetric, init="identity", random_state=0)
    learner.fit(X[:400], y[:400])
    assert learner.score(X[400:], y[400:]) > plain + 0.1
    assert (learner.V_ is learner.U_) is not asymmetric


def test_losses_bound_the_training_error(rng):
    X, y = clusters(rng)
    learner = quick(early_stopping=False, n_neighbors=3, learning_rate=1e-12).fit(X, y)
    rows = learner.kneighbors(return_distance=False)
    shares = np.array([np.bincount(y[row], minlength=3) for row in rows])
    lost = shares.max(1) != shares[np.arange(len(y)), y]
    assert learner.losses_[0] >= lost.mean() - 1e-9


def test_a_sample_of_the_database_is_drawn_by_class(rng):
    labels = np.repeat([0, 1, 2], [200, 90, 3])
    descent = descent_of(np.eye(2), np.eye(2), n_database=50, k=4)
    rows = descent._items(labels, rng)
    assert np.bincount(labels[rows]).tolist() == [34, 15, 3]
    assert descent._items(labels[:50], rng) is None
    X, y = clusters(rng)
    assert quick(n_database=40).fit(X, y).score(X, y) > 0.5


def test_the_scale_of_a_large_database_is_that_of_a_sample(rng, monkeypatch):
    X, y = clusters(rng, n=300)
    whole = quick(init="identity").fit(X, y).scale_
    monkeypatch.setattr("similia.neighbors.maps.SAMPLED_ITEMS", 250)
    assert quick(init="identity").fit(X, y).scale_ == pytest.approx(whole, rel=0.1)


def test_a_class_of_one_point_is_no_obstacle(rng):
    X, y = clusters(rng)
    y[5] = 7
    learner = quick(n_neighbors=3).fit(X, y)
    assert np.isfinite(learner.U_).all()


def test_costs_are_heeded(rng):
    X = rng.normal(size=(400, 3))
    y = (X[:, 0] + rng.normal(size=400) > 0).astype(int)  # a noisy boundary
    missed = {}
    for weight in (1.0, 10.0):
        cost = np.array([[0.0, 1.0], [weight, 0.0]])
        learner = NeighborhoodGerrymandering(cost=cost, random_state=0, early_stopping=False)
        learner.fit(X, y)
        missed[weight] = ((learner.predict(X) == 0) & (y == 1)).mean()
        assert learner.losses_[-1] < learner.losses_[0]
    assert missed[10.0] <= missed[1.0] + 0.02


# -- using -----------------------------------------------------------------------------------------


def test_neighbors_and_votes_are_those_of_the_vectors(rng):
    X, y = clusters(rng)
    learner = quick().fit(X, y)
    Q = rng.normal(size=(7, 6))
    q, z = learner.transform(Q), learner.item_vectors(X)
    np.testing.assert_allclose(learner.item_vectors_, z)
    squares = ((q[:, None] - z) ** 2).sum(2)
    np.testing.assert_allclose(learner.pairwise_distance(Q, X), np.sqrt(squares), atol=1e-9)
    np.testing.assert_allclose(learner.pairwise_score(Q, X), -squares, atol=1e-9)
    distances, rows = learner.kneighbors(Q, 4)
    np.testing.assert_array_equal(rows, np.argsort(squares, axis=1)[:, :4])
    np.testing.assert_allclose(distances**2, np.sort(squares, axis=1)[:, :4], atol=1e-9)
    shares = learner.predict_proba(Q)
    nearest = np.argsort(squares, axis=1)[:, :5]
    for share, row in zip(shares, nearest, strict=True):
        np.testing.assert_allclose(share, np.bincount(y[row], minlength=3) / 5)
    np.testing.assert_array_equal(learner.predict(Q), shares.argmax(1))


@pytest.mark.parametrize("form", [list, tuple, np.asarray])
def test_a_single_query_has_results_without_the_axis_of_queries(rng, form):
    X, y = clusters(rng)
    learner = quick().fit(X, y)
    q = form(X[3])
    for method in (learner.pairwise_score, learner.pairwise_distance):
        np.testing.assert_array_equal(method(q, X), method(X[3:4], X)[0])
        assert method(q).shape == (1,)
    np.testing.assert_array_equal(learner.query_vectors(q), learner.transform(X[3:4])[0])
    for method in (learner.predict, learner.transform):
        with pytest.raises(ValueError, match="1D array"):
            method(q)


def test_images_have_names_and_come_in_the_container_that_is_asked_for(rng):
    X, y = clusters(rng)
    frame = pd.DataFrame(X, columns=list("abcdef"), index=np.arange(len(X)) + 7)
    learner = quick(n_components=2).fit(frame, y)
    names = ["neighborhoodgerrymandering0", "neighborhoodgerrymandering1"]
    assert learner.get_feature_names_out().tolist() == names
    moved = learner.set_output(transform="pandas").transform(frame)
    assert moved.columns.tolist() == names
    assert moved.index.equals(frame.index)
    np.testing.assert_array_equal(moved, learner.query_vectors(frame))
    assert isinstance(learner.pairwise_score(frame), np.ndarray)


def test_neighbors_of_the_database_leave_the_point_itself_out(rng):
    X, y = clusters(rng)
    rows = quick().fit(X, y).kneighbors(n_neighbors=2, return_distance=False)
    assert (rows != np.arange(len(X))[:, None]).all()


def test_distances_are_asymmetric_if_maps_are(rng):
    X, y = clusters(rng)
    D = quick(asymmetric=True, early_stopping=False).fit(X, y).pairwise_distance(X)
    assert np.abs(D - D.T).max() > 1e-6
    D = quick(asymmetric=False).fit(X, y).pairwise_distance(X)
    np.testing.assert_allclose(D, D.T, atol=1e-9)
    np.testing.assert_array_equal(np.diag(D), 0.0)


def test_a_graph_index_finds_nearly_all_neighbors(rng):
    pytest.importorskip("faiss")
    X, y = clusters(rng, n=600)
    learner = quick(search="faiss").fit(X, y)
    found = learner.kneighbors(X[:100], 5, return_distance=False)
    alone = learner.kneighbors(n_neighbors=5, return_distance=False)
    learner.set_params(search="exact")
    exact = learner.kneighbors(X[:100], 5, return_distance=False)
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(found, exact, strict=True)]) > 0.95
    exact = learner.kneighbors(n_neighbors=5, return_distance=False)
    assert np.mean([len(set(a) & set(b)) / 5 for a, b in zip(alone, exact, strict=True)]) > 0.95
    assert (alone != np.arange(600)[:, None]).all()


def test_a_graph_index_that_finds_too_few_is_helped_out(rng):
    pytest.importorskip("faiss")
    X, y = clusters(rng, n=30)
    rows = quick(search="faiss").fit(X, y).kneighbors(X, 30, return_distance=False)
    assert (np.sort(rows, axis=1) == np.arange(30)).all()


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix, sparse.csc_array])
def test_sparse_input_gives_the_same(form, rng):
    X, y = clusters(rng)
    X[np.abs(X) < 1] = 0.0
    for init in ("identity", "pca", "lda", "classes"):
        dense, thin = (quick(init=init).fit(f(X), y) for f in (np.asarray, form))
        np.testing.assert_allclose(np.abs(thin.U_), np.abs(dense.U_), rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(thin.pairwise_score(form(X)), dense.pairwise_score(X), atol=1e-7)
    dense.partial_fit(X[:9], y[:9])
    thin.partial_fit(form(X[:9]), y[:9])
    np.testing.assert_allclose(thin.V_, dense.V_, rtol=1e-6, atol=1e-7)


def test_float32_stays_float32(rng):
    X, y = clusters(rng)
    learner = quick().fit(X.astype(np.float32), y)
    arrays = (learner.U_, learner.V_, learner.item_vectors_, learner.pairwise_score(X))
    assert {a.dtype for a in arrays} == {np.dtype(np.float32)}


@pytest.mark.parametrize(
    "features",
    [
        lambda: Nystroem(n_components=40, gamma=0.5, random_state=0),
        lambda: RBFSampler(n_components=100, gamma=0.5, random_state=0),
        lambda: KernelPCA(n_components=20, kernel="rbf", gamma=0.5),
    ],
    ids=["Nystroem", "RBFSampler", "KernelPCA"],
)
def test_features_before_it_make_the_maps_nonlinear(features, rng):
    """A ring around a disk, beside loud noise: no linear map separates them, a radial one does."""
    angle, y = rng.uniform(0, 2 * np.pi, size=400), np.arange(400) % 2
    radius = 0.5 + y + 0.3 * rng.normal(size=400)
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])
    model = make_pipeline(features(), NeighborhoodGerrymandering(random_state=0))
    assert model.fit(X[:300], y[:300]).score(X[300:], y[300:]) > 0.9


# -- a database of its own -------------------------------------------------------------------------


def two_domains(rng, n=240):
    """Items are clusters; queries are the same, turned by a rotation and moved."""
    y = np.arange(n) % 4
    turn = np.linalg.qr(rng.normal(size=(5, 5)))[0]
    centers = 3 * rng.normal(size=(4, 5))
    Z = centers[y] + rng.normal(size=(n, 5))
    X = (centers[y] + rng.normal(size=(n, 5))) @ turn + 5.0
    return X, Z, y


def test_different_domains_ask_for_different_maps(rng):
    X, Z, y = two_domains(rng)
    scores = {}
    for asymmetric in (True, False):
        learner = NeighborhoodGerrymandering(
            asymmetric=asymmetric, max_iter=40, random_state=0, n_iter_no_change=40
        )
        learner.fit(X[:160], y[:160], items=Z, item_labels=y)
        assert not learner.queries_are_items_
        scores[asymmetric] = learner.score(X[160:], y[160:])
    assert scores[True] > 0.9
    assert scores[True] > scores[False] + 0.1


def test_queries_and_items_may_have_different_features(rng):
    X, Z, y = two_domains(rng)
    Z = np.hstack([Z, rng.normal(size=(len(Z), 2))])
    learner = quick().fit(X[:160], y[:160], items=Z, item_labels=y)
    assert (learner.U_.shape, learner.V_.shape) == ((4, 5), (4, 7))
    assert learner.score(X[160:], y[160:]) > 0.9
    assert learner.pairwise_distance(X[:3], Z[:2]).shape == (3, 2)
    n = len(learner.database_labels_)
    learner.partial_fit(X[160:], y[160:])
    assert len(learner.database_labels_) == n
    learner.partial_fit(X[160:], y[160:], items=Z[:5], item_labels=y[:5])
    assert len(learner.database_labels_) == n + 5
    with pytest.raises(ValueError, match="X must be given, as queries and items differ"):
        learner.kneighbors()


# -- going on --------------------------------------------------------------------------------------


def test_new_points_join_the_database_and_are_learnt_from(rng):
    X, y = clusters(rng)
    learner = quick().fit(X[:80], y[:80])
    before = learner.U_.copy()
    learner.partial_fit(X[80:], y[80:])
    assert learner.database_.shape == (120, 6)
    np.testing.assert_array_equal(learner.database_labels_, y)
    assert not np.array_equal(learner.U_, before)
    tied = quick(asymmetric=False).fit(X[:80], y[:80]).partial_fit(X[80:], y[80:])
    rows = tied.kneighbors(X[80:], 1, return_distance=False)
    np.testing.assert_array_equal(rows.ravel(), np.arange(80, 120))


def test_partial_fit_begins_as_fit_and_fit_forgets(rng):
    X, y = clusters(rng)
    one, other = quick().fit(X, y), quick().partial_fit(X, y, classes=[0, 1, 2])
    np.testing.assert_array_equal(one.U_, other.U_)
    other.partial_fit(X, y).fit(X, y)
    np.testing.assert_array_equal(one.U_, other.U_)


def test_early_stopping_keeps_the_best_and_may_keep_the_start(rng):
    X, y = clusters(rng, n=300)
    learner = quick(early_stopping=True, max_iter=30, n_iter_no_change=3).fit(X, y)
    errors = learner.validation_errors_
    assert errors[learner.best_iter_] == errors.min()
    assert len(errors) == learner.n_iter_ + 1 == len(learner.losses_) + 1
    assert quick(early_stopping=False).fit(X, y).validation_errors_.size == 0


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("asymmetric", [True, False])
def test_it_is_saved_and_goes_on_as_it_would(asymmetric, form, tmp_path, rng):
    X, y = clusters(rng)
    labels = np.array(["a", "b", "c"])[y]
    learner = quick(asymmetric=asymmetric, cost=1.0 - np.eye(3)).fit(form(X), labels)
    save(learner, tmp_path / "model.safetensors")
    loaded = load(tmp_path / "model.safetensors")
    for other in (loaded, pickle.loads(pickle.dumps(learner)), copy.deepcopy(learner)):
        np.testing.assert_array_equal(other.predict(X), learner.predict(X))
        twin = copy.deepcopy(learner).partial_fit(form(X[:20]), labels[:20])
        other.partial_fit(form(X[:20]), labels[:20])
        np.testing.assert_array_equal(other.U_, twin.U_)
        np.testing.assert_array_equal(other.item_vectors_, twin.item_vectors_)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("U_", np.eye(5)),
        ("V_", np.eye(6, dtype=np.float32)),
        ("database_labels_", np.full(120, 9)),
        ("adam_moments_", ()),
        ("item_center_", np.zeros(2)),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(name, value, rng):
    X, y = clusters(rng)
    learner = quick().fit(X, y)
    before = vars(learner).copy()
    with pytest.raises(ValueError, match=r"^NeighborhoodGerrymandering.set_state: "):
        learner.set_state({**learner.get_state(), name: value})
    assert all(vars(learner)[key] is before[key] for key in before)
