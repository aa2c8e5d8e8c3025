import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances
from threadpoolctl import threadpool_limits

from similia.linalg.threads import one_processor
from similia.retrieval.scorers import scores_of
from similia.retrieval.vectors import Products


def all_scores(scorer, Q, Z, block_bytes=2**20):
    blocks = [block.copy() for _, block in scores_of("test", scorer, Q, Z).blocks(block_bytes)]
    return np.concatenate(blocks)


PLAIN = {
    "cosine": cosine_similarity,
    "inner_product": lambda Q, Z: Q @ Z.T,
    "euclidean": lambda Q, Z: -(euclidean_distances(Q, Z) ** 2),
}


def problem(rng, dtype):
    Q, Z = rng.normal(size=(7, 5)), rng.normal(size=(11, 5))
    Q[rng.random(Q.shape) < 0.5] = 0
    Z[rng.random(Z.shape) < 0.5] = 0
    Q[2] = Z[3] = 0
    return Q.astype(dtype), Z.astype(dtype)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("q_format", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("z_format", [np.asarray, sparse.csr_array])
def test_plain_scores_equal_scikit_learn(rng, name, dtype, q_format, z_format):
    Q, Z = problem(rng, dtype)
    scores = all_scores(name, q_format(Q), z_format(Z), block_bytes=100)
    assert scores.dtype == dtype
    assert_allclose(scores, PLAIN[name](Q, Z), atol=1e-5 if dtype == np.float32 else 1e-12)


class Bilinear:
    """A learner as retrieval knows it."""

    geometry = "inner_product"

    def __init__(self, W):
        self.W = W

    def query_vectors(self, Q):
        return Q @ self.W

    def item_vectors(self, Z):
        return Z

    def pairwise_score(self, Q, Z):
        return Q @ self.W @ Z.T


class Distance(Bilinear):
    geometry = "l2"

    def item_vectors(self, Z):
        return Z @ self.W

    def pairwise_score(self, Q, Z):
        return -(euclidean_distances(Q @ self.W, Z @ self.W) ** 2)


@pytest.mark.parametrize("learner", [Bilinear, Distance])
def test_vectors_pairs_and_functions_score_alike(rng, learner):
    Q, Z = problem(rng, np.float64)
    scorer = learner(rng.normal(size=(5, 5)))
    by_vectors = all_scores(scorer, Q, Z, block_bytes=200)
    assert_allclose(by_vectors, all_scores(scorer.pairwise_score, Q, Z, block_bytes=200))

    class OnlyPairs:
        pairwise_score = scorer.pairwise_score

    assert_allclose(by_vectors, all_scores(OnlyPairs(), Q, Z), atol=1e-12)


def test_unknown_geometry_is_refused(rng):
    scorer = Bilinear(np.eye(5))
    scorer.geometry = "hyperbolic"
    with pytest.raises(ValueError, match="geometry must be one of 'inner_product', 'l2', got"):
        all_scores(scorer, *problem(rng, np.float64))


def test_integers_are_scored_in_double_precision():
    assert all_scores("inner_product", np.eye(3, dtype=int), np.eye(3, dtype=int)).dtype == float


@pytest.mark.parametrize("scale", [1e-25, 1e25])
def test_cosine_ignores_length_at_any_scale(rng, scale):
    X = rng.normal(size=(6, 3)).astype(np.float32)
    scaled = X * np.float32(scale)
    assert_allclose(all_scores("cosine", scaled, X), cosine_similarity(X), atol=1e-5)
    assert_allclose(
        all_scores("cosine", sparse.csr_array(scaled), X), cosine_similarity(X), atol=1e-5
    )


def test_scores_round_the_same_with_any_number_of_threads_of_the_blas(rng):
    """Workers have one; sizes at which products on two were seen to round differently."""
    Q, Z = rng.normal(size=(500, 129)), rng.normal(size=(3001, 129))
    products = Products(Z)
    free = products(Q, np.empty((500, 3001)))
    with one_processor(), threadpool_limits(1):
        alone = products(Q, np.empty((500, 3001)))
    np.testing.assert_array_equal(alone, free)
