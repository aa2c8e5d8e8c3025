import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from experiments.datasets import make_bilinear_triplets, make_clusters, synthetic


def satisfied(data):
    scores = data.queries @ data.W @ data.items.T
    query, better, worse = data.triplets.T
    return scores[query, better] > scores[query, worse]


@pytest.mark.parametrize("density", [1.0, 0.1])
def test_without_noise_the_known_similarity_satisfies_every_triplet(density):
    data = make_bilinear_triplets(50, 80, 12, 17, 3000, rank=3, density=density, random_state=0)
    assert data.triplets.shape == (3000, 3)
    assert data.W.shape == (12, 17)
    assert np.linalg.matrix_rank(data.W) == 3
    assert satisfied(data).all()


def test_noise_reverses_the_share_of_triplets_it_should():
    data = make_bilinear_triplets(300, 300, 20, 20, 20_000, rank=20, noise=1.0, random_state=0)
    assert 1 - satisfied(data).mean() == pytest.approx(0.25, abs=0.03)


def test_sparse_points_have_the_density_asked_for_and_no_empty_row():
    data = make_bilinear_triplets(400, 500, 100, 200, 10, density=0.02, random_state=0)
    for points, share in ((data.queries, 0.03), (data.items, 0.025)):
        assert sparse.issparse(points)
        assert points.format == "csr"
        assert np.diff(points.indptr).min() >= 1
        assert points.nnz / np.prod(points.shape) == pytest.approx(share, rel=0.1)


def test_the_two_items_of_a_triplet_differ_and_all_occur():
    data = make_bilinear_triplets(3, 2, 4, 4, 500, rank=1, random_state=0)
    assert np.all(data.triplets[:, 1] != data.triplets[:, 2])
    many = make_bilinear_triplets(5, 6, 4, 4, 2000, rank=1, random_state=0)
    assert len(np.unique(many.triplets[:, 0])) == 5
    assert len(np.unique(many.triplets[:, 1:])) == 6


def test_blocks_do_not_change_the_triplets(monkeypatch):
    whole = make_bilinear_triplets(n_triplets=1000, noise=0.5, random_state=0)
    monkeypatch.setattr(synthetic, "BLOCK", 7)
    pieces = make_bilinear_triplets(n_triplets=1000, noise=0.5, random_state=0)
    assert_array_equal(whole.triplets, pieces.triplets)


def test_a_seed_repeats_the_problem():
    a, b, c = (make_bilinear_triplets(random_state=s, density=0.5) for s in (1, 1, 2))
    assert_array_equal(a.triplets, b.triplets)
    assert_array_equal(a.items.toarray(), b.items.toarray())
    assert not np.array_equal(a.W, c.W)
    assert_array_equal(make_clusters(random_state=1).X, make_clusters(random_state=1).X)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rank": 21}, "rank must be at most the smaller number of features, 20, got 21"),
        ({"n_items": 1}, "n_items must be at least 2"),
        ({"noise": -1}, "noise must be a number of at least 0"),
        ({"density": 0}, "density must be a number above 0 and at most 1"),
        ({"n_triplets": 0}, "n_triplets must be a positive integer"),
    ],
)
def test_impossible_triplets_are_refused(options, message):
    with pytest.raises(ValueError, match=f"make_bilinear_triplets: {message}"):
        make_bilinear_triplets(**options)


def share_of_same_class(D, y):
    np.fill_diagonal(D, np.inf)
    return np.mean(y[D.argmin(axis=1)] == y)


@pytest.mark.parametrize("rotate", [True, False])
def test_the_known_distance_finds_the_clusters_and_euclid_does_not(rotate):
    data = make_clusters(400, 20, 4, n_informative=3, rotate=rotate, random_state=0)
    projected = data.X @ data.M
    assert share_of_same_class(cdist(projected, projected), data.y) > 0.99
    assert share_of_same_class(cdist(data.X, data.X), data.y) < 0.6


def test_the_known_distance_is_a_projection():
    M = make_clusters(n_informative=3, random_state=0).M
    assert_allclose(M @ M, M, atol=1e-12)
    assert_allclose(M, M.T)
    assert np.trace(M) == pytest.approx(3)
    plain = make_clusters(n_informative=3, rotate=False, random_state=0).M
    assert_array_equal(plain, np.diag([1] * 3 + [0] * 7))


def test_classes_have_equal_sizes_and_separated_centers():
    data = make_clusters(20_000, 4, 7, separation=5.0, rotate=False, random_state=0)
    sizes = np.bincount(data.y)
    assert sizes.max() - sizes.min() <= 1
    centers = np.stack([data.X[data.y == c, :2].mean(axis=0) for c in range(7)])
    D = cdist(centers, centers) + 1e9 * np.eye(7)
    assert D.min() == pytest.approx(5.0, abs=0.1)


def test_one_class_and_all_informative_are_allowed():
    data = make_clusters(10, 3, 1, n_informative=3, random_state=0)
    assert_allclose(data.M, np.eye(3), atol=1e-12)
    with pytest.raises(ValueError, match="n_informative must be at most n_features, 3, got 4"):
        make_clusters(n_features=3, n_informative=4)
