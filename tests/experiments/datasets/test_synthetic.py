import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from experiments.datasets import make_clusters


def test_a_seed_repeats_the_problem():
    assert_array_equal(make_clusters(random_state=1).X, make_clusters(random_state=1).X)
    assert not np.array_equal(make_clusters(random_state=1).X, make_clusters(random_state=2).X)


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
