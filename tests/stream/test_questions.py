import numpy as np
import pytest

from similia import FactoredAROMA
from similia.stream import candidate_questions


def test_questions_are_about_good_items_and_never_about_the_query_itself(rng):
    X = rng.normal(size=(40, 6))
    model = FactoredAROMA().learn(X, [[0, 1, 2]])
    pool = candidate_questions(model, X, 500, queries=np.array([3, 4]), depth=4)
    assert set(pool[:, 0]) == {3, 4}
    scores = model.pairwise_score(X)
    np.fill_diagonal(scores, -np.inf)
    for query, a, b in pool:
        best = set(np.argsort(-scores[query])[:4])
        assert {a, b} <= best
        assert a != b
    items = candidate_questions(model, X, 50, items=X[:3])
    assert set(items[:, 1:].ravel()) == {0, 1, 2}
    with pytest.raises(ValueError, match="at least two"):
        candidate_questions(model, X, 50, items=X[:1])
