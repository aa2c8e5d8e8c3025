import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.registry import LEARNERS, learner_class
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.trust import pairs_as_triplets, triplet_evaluation, triplet_margins
from tests.cases import case_of
from tests.problems import triplets_of

RANKING = [
    name for name in LEARNERS if hasattr(case_of(learner_class(name)).learner, "query_vectors")
]


@pytest.mark.parametrize("name", RANKING)
def test_margins_are_differences_of_scores(name, rng):
    case = case_of(learner_class(name))
    case.learn()
    triplets = triplets_of(rng, len(case.X), len(case.X), 60)
    scores = case.learner.pairwise_score(case.X)
    query, better, worse = triplets.T
    for X in (case.X, sparse.csr_array(case.X)):
        np.testing.assert_allclose(
            triplet_margins(case.learner, X, triplets),
            scores[query, better] - scores[query, worse],
            rtol=1e-6,
            atol=1e-6,
        )


@pytest.mark.parametrize("name", PLAIN_SCORERS)
def test_plain_similarities_are_scorers_too(name, rng):
    X, Z = rng.normal(size=(6, 4)), rng.normal(size=(9, 4))
    triplets = triplets_of(rng, 6, 9, 40)
    q, a, b = X[triplets[:, 0]], Z[triplets[:, 1]], Z[triplets[:, 2]]
    if name == "euclidean":
        expected = ((q - b) ** 2).sum(1) - ((q - a) ** 2).sum(1)
    else:
        if name == "cosine":
            q, a, b = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (q, a, b))
        expected = (q * (a - b)).sum(1)
    np.testing.assert_allclose(triplet_margins(name, X, triplets, items=Z), expected)


def test_accuracy_is_by_query_and_ties_count_half():
    X = np.array([[1.0], [2.0], [3.0], [2.0]])
    triplets = [[0, 2, 1], [0, 1, 2], [0, 1, 3], [1, 2, 0]]
    found = triplet_evaluation("inner_product", X, triplets)
    np.testing.assert_array_equal(found.per_query["pairwise_accuracy"], [0.5, 1.0])
    np.testing.assert_array_equal(found.n_relevant, [3, 1])
    named = triplet_evaluation("inner_product", X, triplets, queries=["a"] * 4)
    np.testing.assert_array_equal(named.per_query["pairwise_accuracy"], [0.625])


def test_bad_arguments_are_refused():
    X = np.eye(3)
    with pytest.raises(ValueError, match=r"^triplet_margins: scorer must be one of 'cosine'"):
        triplet_margins("dot", X, [[0, 1, 2]])
    with pytest.raises(ValueError, match=r"^triplet_margins: scorer must rank items"):
        triplet_margins(object(), X, [[0, 1, 2]])
    with pytest.raises(ValueError, match=r"^triplet_margins: column 2 of triplets"):
        triplet_margins("cosine", X, [[0, 1, 3]])
    with pytest.raises(ValueError, match=r"^triplet_evaluation: triplets must be at least one"):
        triplet_evaluation("cosine", X, [])


@given(st.integers(0, 2**32 - 1), st.integers(1, 25), st.integers(1, 30))
def test_triplets_of_pairs_are_pairs_of_pairs(seed, n, most):
    rng = np.random.default_rng(seed)
    pairs, y = rng.integers(5, size=(n, 2)), rng.integers(-1, 2, size=n)
    known = {}
    for (first, other), value in zip(pairs.tolist(), y.tolist(), strict=True):
        known.setdefault(first, []).append((other, value))
    expected = {
        first: sum(a > b for _, a in values for _, b in values) for first, values in known.items()
    }
    triplets = pairs_as_triplets(pairs, y, most).tolist()
    for first, count in expected.items():
        assert sum(t[0] == first for t in triplets) == min(count, most)
    for first, closer, farther in triplets:
        values = known[first]
        assert any(a == closer and b == farther and x > z for a, x in values for b, z in values)
