"""A Blend that has learnt something, with what it learnt from."""

import numpy as np
import pytest

from similia import Blend
from tests.similarity.blend_cases import problem


@pytest.fixture(scope="module")
def learnt():
    """A blend whose parts all rank: views, W, memory and decisions."""
    rng = np.random.default_rng(21)
    queries, items = problem(rng, n_queries=300, n_items=60)
    taste = rng.normal(size=(5, 5))
    follow = 2 * queries["meaning"] @ taste @ items["meaning"].T
    follow += 2 * queries["text"] @ items["text"].T + 2 * rng.normal(size=(300, 60))
    triplets = np.column_stack([rng.integers(300, size=3000), rng.integers(60, size=(3000, 2))])
    q, a, b = triplets.T
    wrong = follow[q, a] < follow[q, b]
    triplets[wrong] = triplets[wrong][:, [0, 2, 1]]
    blend = Blend().learn(queries, triplets, items=items)
    assert blend.trust_["clicks"] > 0.9
    assert blend.trust_["W"] > 0.05
    return blend, queries, items
