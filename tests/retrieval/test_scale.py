import numpy as np
import pytest
from scipy import sparse

from similia import LEGO, OASIS
from similia.retrieval import scaled_like, top_k
from similia.retrieval.scale import Scaled
from tests.problems import triplets_of


def gaps(scorer, X):
    Q, V = scorer.query_vectors(X), scorer.item_vectors(X)
    if scorer.geometry == "inner_product":
        scores = np.asarray(Q @ V.T)
    else:
        scores = -((Q[:, None] - V) ** 2).sum(axis=2)
    return np.sqrt(np.mean((scores[:, :, None] - scores[:, None, :]) ** 2))


def learnt(rng, X):
    bilinear = OASIS(C=1.0).learn(X, triplets_of(rng, 60, 60, 2000))
    pairs = rng.integers(60, size=(300, 2))
    return bilinear, LEGO().learn(X, pairs, rng.choice([-1, 1], 300))


@pytest.mark.parametrize("factor", [0.01, 6.0])
def test_scores_differ_as_much_as_under_the_base_and_the_ranking_stays(factor, rng):
    X = rng.normal(size=(60, 5))
    for model in learnt(rng, X):
        longer = Scaled(model, factor)
        found = scaled_like(longer, "cosine", X)
        assert gaps(found, X) == pytest.approx(gaps_of_cosine(X), rel=0.1)
        np.testing.assert_array_equal(top_k(found, X, X, 10)[0], top_k(model, X, X, 10)[0])


def gaps_of_cosine(X):
    unit = X / np.linalg.norm(X, axis=1, keepdims=True)
    scores = unit @ unit.T
    return np.sqrt(np.mean((scores[:, :, None] - scores[:, None, :]) ** 2))


def test_a_similarity_has_its_own_scale(rng):
    X = rng.normal(size=(60, 5))
    for model in learnt(rng, X):
        assert scaled_like(model, model, X).factor == pytest.approx(1.0)


def test_items_of_inner_products_stay_as_they_are(rng):
    X, Z = sparse.csr_array(rng.random((40, 6)) * rng.integers(2, size=(40, 6))), np.eye(6)
    model = OASIS().learn(X, triplets_of(rng, 40, 6, 200), items=Z)
    found = scaled_like(model, "inner_product", X, Z)
    np.testing.assert_array_equal(found.item_vectors(Z), model.item_vectors(Z))


def test_what_has_no_scale_is_refused(rng):
    X = rng.normal(size=(20, 3))
    with pytest.raises(ValueError, match=r"^scaled_like: base must be one of"):
        scaled_like(OASIS().learn(X, []), "tf-idf", X)
    with pytest.raises(ValueError, match=r"^scaled_like: scores must differ between items"):
        scaled_like(OASIS().learn(X, []), "cosine", X, np.ones((4, 3)))
