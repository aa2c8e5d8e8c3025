"""MEG as an estimator: what it learns of, in which forms, and what it refuses."""

import copy
from contextlib import contextmanager

import numpy as np
import pytest
from scipy import sparse
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline

from similia import MEG, load, save
from similia.distance import base
from tests.problems import FORMS, labelled


def hidden_metric(rng, n=30, d=4, length=5000):
    """Distances under a matrix of trace d."""
    X, scales = rng.normal(size=(n, d)), np.array([2.0, 1.0, 0.5, 0.1])
    scales *= np.sqrt(d / np.sum(scales**2))
    distance = np.linalg.norm((X[:, None] - X) * scales, axis=2)
    pairs = rng.integers(n, size=(length, 2))
    return X, pairs, distance[tuple(pairs.T)], distance


def objects(rng, n=12, length=5000):
    points = rng.normal(size=(n, 2))
    distance = np.linalg.norm(points[:, None] - points, axis=2)
    pairs = rng.integers(n, size=(length, 2))
    return pairs, distance[tuple(pairs.T)], distance, np.sum(distance**2) / (2 * n)


def measured(rng, d=4, length=3000, kind=complex):
    """A density matrix, and the probabilities of outcomes in random directions."""
    M = rng.normal(size=(d, 2)) + (1j * rng.normal(size=(d, 2)) if kind is complex else 0)
    state = M @ M.conj().T / np.sum(np.abs(M) ** 2)
    x = rng.normal(size=(length, d)) + (1j * rng.normal(size=(length, d)) if kind is complex else 0)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return x, np.einsum("ti,ij,tj->t", x.conj(), state, x).real, state


# -- a metric over features ----------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("normalized", [True, False])
def test_given_distances_are_approached(rng, form, normalized):
    X, pairs, y, distance = hidden_metric(rng)
    learner = MEG(normalized=normalized).learn(form(X), pairs, y)
    np.testing.assert_allclose(learner.pairwise_distance(form(X)), distance, atol=0.05)
    if normalized:
        assert np.trace(learner.A_) == pytest.approx(4.0)


def test_the_trace_is_learnt_where_it_is_not_kept(rng):
    X, pairs, y, _ = hidden_metric(rng)
    learner = MEG(normalized=False).learn(X, pairs, 3.0 * y)
    assert np.trace(learner.A_) == pytest.approx(36.0, rel=0.01)


def test_distances_are_those_of_the_matrix_and_of_transformed_points(rng):
    X, pairs, y, _ = hidden_metric(rng)
    for average in (True, False):
        learner = MEG(average=average, trace=7.0).learn(X, pairs[:200], y[:200])
        z, A = X[3] - X[7], learner.A_average_ if average else learner.A_
        assert learner.pairwise_distance(X)[3, 7] == pytest.approx(np.sqrt(z @ A @ z))
        moved = learner.transform(X)
        assert np.linalg.norm(moved[3] - moved[7]) == pytest.approx(np.sqrt(z @ A @ z))
        L = learner.components_
        np.testing.assert_allclose(L.T @ L, A, atol=1e-12)
        assert (np.diff(np.linalg.norm(L, axis=1)) <= 1e-12).all()
        np.testing.assert_allclose(7.0 * learner.W_, learner.A_)


def test_neighbors_follow_the_classes_in_a_pipeline(rng):
    X, y = labelled(rng, n=200, d=8)
    X[:, 4:] *= 4
    plain = KNeighborsClassifier(3).fit(X[:100], y[:100]).score(X[100:], y[100:])
    adapted = make_pipeline(MEG(n_pairs=3000, random_state=0), KNeighborsClassifier(3))
    assert adapted.fit(X[:100], y[:100]).score(X[100:], y[100:]) > plain + 0.05


def test_signs_aim_at_the_bounds_and_pairs_within_them_need_no_step(rng):
    X, y = labelled(rng)
    pairs = rng.integers(len(y), size=(300, 2))
    signs = np.where(y[pairs[:, 0]] == y[pairs[:, 1]], 1, -1)
    learner = MEG(feedback="labels", bounds=(0.5, 6.0)).learn(X, pairs, signs)
    np.testing.assert_array_equal(learner.bounds_, [0.5, 6.0])
    assert 0 < learner.n_updates_ < 300
    idle = MEG(feedback="labels", bounds=(100.0, 101.0)).learn(
        X, pairs[signs > 0], signs[signs > 0]
    )
    assert idle.n_updates_ == idle.total_loss_ == 0


def test_typical_bounds_are_those_of_the_metric_at_the_start(rng):
    X, y = labelled(rng)
    near, far = MEG(n_pairs=10).fit(X, y).bounds_
    small = MEG(n_pairs=10, trace=6 / 4).fit(X, y).bounds_
    np.testing.assert_allclose(small, [near / 2, far / 2])
    assert 0 < near < far


# -- a kernel over objects -----------------------------------------------------------------------


def test_a_kernel_over_objects_has_their_distances(rng):
    pairs, y, distance, trace = objects(rng)
    learner = MEG(n_objects=12, trace=trace).learn(None, pairs, y)
    np.testing.assert_allclose(learner.pairwise_distance(None), distance, atol=0.1)
    K = learner.K_
    squares = np.diag(K)[:, None] + np.diag(K) - 2 * K
    np.testing.assert_allclose(learner.pairwise_distance(None) ** 2, squares, atol=1e-9)


def test_objects_are_one_hot_vectors(rng):
    pairs, y, _, _ = objects(rng, length=300)
    kernel, metric = MEG(n_objects=12).learn(None, pairs, y), MEG().learn(np.eye(12), pairs, y)
    np.testing.assert_allclose(kernel.K_, metric.A_, rtol=1e-10)
    np.testing.assert_allclose(
        kernel.pairwise_distance(None), metric.pairwise_distance(np.eye(12)), atol=1e-7
    )


def test_the_embedding_keeps_all_distances_and_few_dimensions_most(rng):
    pairs, y, distance, trace = objects(rng)
    learner = MEG(n_objects=12, trace=trace).learn(None, pairs, y)
    points = learner.embedding()
    assert points.shape == (12, 12)
    # The last dimension is nothing: the root of a rounding error.
    np.testing.assert_allclose(points.mean(axis=0), 0.0, atol=1e-7)
    found = np.linalg.norm(points[:, None] - points, axis=2)
    np.testing.assert_allclose(found, learner.pairwise_distance(None), atol=1e-7)
    plane = learner.embedding(2)
    found = np.linalg.norm(plane[:, None] - plane, axis=2)
    np.testing.assert_allclose(found, distance, atol=0.3)
    np.testing.assert_allclose(plane, points[:, :2])


@pytest.mark.parametrize("n_components", [0, 13, 1.5, True, "2"])
def test_impossible_dimensions_are_refused(rng, n_components):
    pairs, y, _, _ = objects(rng, length=10)
    learner = MEG(n_objects=12).learn(None, pairs, y)
    with pytest.raises(ValueError, match=r"^MEG\.embedding: n_components must be None or an int"):
        learner.embedding(n_components)


# -- any measured matrix -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [float, complex])
def test_a_density_matrix_is_found_from_measurements(rng, kind):
    x, y, state = measured(rng, kind=kind)
    field = "complex" if kind is complex else "real"
    learner = MEG(trace=1.0, field=field).learn_matrices(x, y)
    assert learner.W_.dtype == kind
    np.testing.assert_allclose(learner.W_, state, atol=0.02)


@pytest.mark.parametrize("kind", [float, complex])
@pytest.mark.parametrize("average", [False, True])
def test_all_forms_of_an_instance_are_the_same(rng, kind, average):
    """Vectors and matrices, dense and sparse, in one array or one by one; and pairs."""
    pairs, y, _, _ = objects(rng, length=40)
    x = (np.eye(12)[pairs[:, 0]] - np.eye(12)[pairs[:, 1]]).astype(kind)
    matrices = np.einsum("ti,tj->tij", x, x.conj())
    forms = (
        x,
        x.tolist(),
        sparse.csr_array(x),
        sparse.coo_matrix(x),
        matrices,
        list(matrices),
        [sparse.csc_array(X) for X in matrices],
        [sparse.coo_matrix(X) if t % 2 else X for t, X in enumerate(matrices)],
    )
    parameters = {"field": "complex" if kind is complex else "real", "average": average}
    expected = MEG(n_objects=12, **parameters).learn(None, pairs, y)
    for form in forms:
        learner = MEG(**parameters).learn_matrices(form, y**2)
        np.testing.assert_allclose(learner.A_, expected.A_, atol=1e-12)
        assert learner.total_loss_ == pytest.approx(expected.total_loss_)
        assert learner.range_ == pytest.approx(expected.range_)
        assert learner.n_seen_ == expected.n_seen_
        if average:
            np.testing.assert_allclose(learner.A_average_, expected.A_average_, atol=1e-12)


def test_measurements_in_pieces_equal_the_whole(rng):
    x, y, _ = measured(rng, length=1100)
    whole = MEG(trace=1.0, field="complex", average=True).learn_matrices(x, y)
    pieces = MEG(trace=1.0, field="complex", average=True).learn_matrices(x[:0], y[:0])
    for start, stop in ((0, 1), (1, 500), (500, 700), (700, 1100)):
        pieces.learn_matrices(x[start:stop], y[start:stop])
    for name, value in whole.get_state().items():
        np.testing.assert_allclose(pieces.get_state()[name], value, rtol=1e-9, atol=1e-9)


def test_a_complex_matrix_serves_real_features(rng):
    X, pairs, y, distance = hidden_metric(rng)
    learner = MEG(field="complex").learn(X, pairs, y)
    assert learner.A_.dtype == complex
    found = learner.pairwise_distance(X)
    assert found.dtype == float
    np.testing.assert_allclose(found, distance, atol=0.05)


WRONG = {
    "one number": (3.0, [1.0], "instances must be vectors of shape"),
    "four axes": (np.zeros((1, 2, 2, 2)), [1.0], "instances must be vectors of shape"),
    "not square": (np.zeros((1, 3, 2)), [1.0], "instances must be vectors of shape"),
    "two sizes": ([np.eye(2), np.eye(3)], [1.0, 1.0], "all of one size"),
    "no size": (np.zeros((2, 0)), [1.0, 1.0], "instances must be vectors of shape"),
    "complex": (np.eye(2) * 1j, [1.0, 1.0], "instances must be real"),
    "text": (np.array([["a", "b"]]), [1.0], "instances must be real"),
    "NaN": (np.full((1, 2), np.nan), [1.0], "instances must be finite"),
    "NaN, sparse": ([sparse.csr_array(np.full((2, 2), np.nan))], [1.0], "instances must be finite"),
    "huge": (np.full((1, 2), 1e100), [1.0], "instances must be finite and at most"),
    "too few labels": (np.eye(2), [1.0], "y must be 2 real numbers"),
    "complex labels": (np.eye(2), [1j, 1j], "y must be 2 real numbers"),
    "NaN for a label": (np.eye(2), [np.nan, 1.0], "y must be finite"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_measurements_are_refused(case):
    instances, y, words = WRONG[case]
    learner = MEG()
    with pytest.raises(ValueError, match=rf"^MEG\.learn_matrices: .*{words}"):
        learner.learn_matrices(instances, y)
    assert not learner.__sklearn_is_fitted__()


def test_measurements_of_another_size_are_refused(rng):
    learner = MEG().learn_matrices(np.eye(3), [1.0] * 3)
    with pytest.raises(ValueError, match=r"all of size 3, got shape \(2, 2\)"):
        learner.learn_matrices(np.eye(2), [1.0] * 2)


# -- what is refused, and what survives ----------------------------------------------------------


@pytest.mark.parametrize(
    ("parameters", "X", "y", "words"),
    [
        ({}, None, [1.0], r"^MEG\.learn: n_objects must be a positive integer where X is None"),
        ({"n_objects": 2}, None, [-1.0], r"^MEG\.learn: y must be an array of distances"),
        ({"n_objects": 2}, None, [np.nan], r"^MEG\.learn: y must be an array of distances"),
        ({"n_objects": 2}, None, [1e90], r"^MEG\.learn: y must be an array of distances"),
        ({"n_objects": 1}, None, [1.0], "must be row indices between 0 and 0"),
        ({"feedback": "labels"}, np.eye(2), [0.5], r"y must be an array of \+1 \(similar\)"),
        ({"trace": 0.0}, np.eye(2), [1.0], "MEG: trace must be .* a positive number"),
        ({"eta": "fast"}, np.eye(2), [1.0], "MEG: eta must be .* a positive number"),
        ({"bounds": (2.0, 1.0)}, np.eye(2), [1.0], "bounds must be .* increasing"),
    ],
)
def test_wrong_distances_and_parameters_are_refused(parameters, X, y, words):
    learner = MEG(**parameters)
    with pytest.raises(ValueError, match=words):
        learner.learn(X, [[0, 1]], y)
    assert not learner.__sklearn_is_fitted__()


def test_predictions_that_overflow_leave_the_learner_as_it_was(rng):
    X, pairs, y, _ = hidden_metric(rng)
    learner = MEG(normalized=False, eta=1e-3).learn(X, pairs[:50], y[:50])
    before = copy.deepcopy(learner.get_state())
    learner.set_params(eta=1e3)
    with pytest.raises(ValueError, match=r"^MEG: eta must be small enough for finite predictions"):
        learner.learn(X, pairs, y * 10)
    for name, value in before.items():
        np.testing.assert_array_equal(learner.get_state()[name], value)
    fresh = MEG(normalized=False, eta=1e3)
    with pytest.raises(ValueError, match="eta must be small enough"):
        fresh.learn(X, pairs, y * 10)
    assert not fresh.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("U", "words"),
    [
        (np.eye(4), r"U must be of shape \(3, 3\) and trace 3"),
        (np.eye(3) / 3, r"trace 3, got shape \(3, 3\) and trace 1"),
        (np.ones(3), r"trace 3, got shape \(3,\)\."),
        (np.diag([4.0, -2.0, 1.0]), "must be positive semidefinite"),
        (np.eye(3) + np.triu(np.ones((3, 3)), 1), "U must be a finite symmetric or Hermitian"),
        (np.eye(3) + np.nan * np.fliplr(np.eye(3) > 0) * (1 - np.eye(3)), "U must be"),
    ],
)
def test_only_matrices_that_could_be_learnt_are_compared_with(rng, U, words):
    learner = MEG().learn(np.eye(3), [[0, 1]], [1.0])
    with pytest.raises(ValueError, match=words):
        learner.loss_bound(U)
    with pytest.raises(ValueError, match="normalized must be True"):
        learner.set_params(normalized=False).loss_bound(np.eye(3))


def test_a_comparison_is_made_on_real_distances_of_real_pairs():
    learner = MEG().learn(np.eye(3), [[0, 1]], [1.0])
    for pairs, y, words in (
        ([[0, 3]], [1.0], "pairs must be row indices between 0 and 2"),
        ([[0, 1]], [np.nan], "y must be finite"),
        ([[0, 1]], [1.0, 2.0], "y must be 1 real numbers"),
    ):
        with pytest.raises(ValueError, match=rf"^MEG\.comparison_loss: .*{words}"):
            learner.comparison_loss(np.eye(3), np.eye(3), pairs, y)
    for loss in (-1.0, np.nan, "none"):
        with pytest.raises(ValueError, match="loss must be a number of at least 0"):
            learner.loss_bound(np.eye(3), loss)


@pytest.mark.parametrize("average", [True, False])
def test_kernels_over_objects_are_saved(rng, tmp_path, average):
    pairs, y, _, _ = objects(rng, length=100)
    learner = MEG(n_objects=12, average=average, trace=2.0).learn(None, pairs, y)
    save(learner, tmp_path / "kernel")
    loaded = load(tmp_path / "kernel")
    assert loaded.pairwise_distance(None).tobytes() == learner.pairwise_distance(None).tobytes()
    for one in (learner, loaded):
        one.learn(None, pairs, y)
    assert loaded.K_.tobytes() == learner.K_.tobytes()
    assert loaded.total_loss_ == learner.total_loss_


def test_complex_matrices_are_saved(rng, tmp_path):
    x, y, _ = measured(rng, length=50)
    learner = MEG(field="complex", average=True, trace=1.0).learn_matrices(x, y)
    save(learner, tmp_path / "state")
    loaded = load(tmp_path / "state")
    assert loaded.W_.dtype == complex
    for one in (learner, loaded):
        one.learn_matrices(x, y)
    assert loaded.A_average_.tobytes() == learner.A_average_.tobytes()


def test_worn_eigenvectors_are_put_right_on_the_way(rng):
    X, pairs, y, _ = hidden_metric(rng, length=600)
    learner = MEG().learn(X, pairs[:300], y[:300])
    learner.eigenvectors_ += 1e-9 * rng.normal(size=(4, 4))
    learner.learn(X, pairs[300:], y[300:])
    Q = learner.eigenvectors_
    np.testing.assert_allclose(Q @ Q.T, np.eye(4), atol=1e-13)


def test_many_steps_in_one_call_report_their_progress(rng, monkeypatch):
    """In blocks, the last one whatever is left; by the bar that `verbose` shows."""
    reported = []

    @contextmanager
    def recorded(description, total, *, enabled):
        assert (description, total, enabled) == ("MEG", 2000, True)
        yield reported.append

    monkeypatch.setattr(base, "progress", recorded)
    X, pairs, y, _ = hidden_metric(rng, length=2000)
    MEG(verbose=True).learn(X, pairs, y)
    assert sum(reported) == 2000
    assert len(reported) == 4
