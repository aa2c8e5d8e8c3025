"""Three learners of one family: a step is the nearest matrix that agrees better with a judgement.

Each minimises D(B, A) + loss(B) over B for its own divergence D, exactly (POLA, LEGO) or with the
loss replaced by its tangent at A (MEG) [Tsuda2005, 3.1].
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia import LEGO, MEG, POLA
from similia.distance.base import MahalanobisDistance
from similia.registry import LEARNERS, learner_class
from tests.reference import bregman


@st.composite
def steps(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(2, 5))
    x = rng.normal(size=(2, n))
    B = rng.normal(size=(n, n))
    return rng, x, B @ B.T + 0.1 * np.eye(n)


def neighbors(rng, A, trace=None):
    """Positive definite matrices around A, near and far; of a trace if one is asked for."""
    values, Q = np.linalg.eigh(A)
    for size in (1e-3, 1e-2, 0.1, 1.0):
        for _ in range(6):
            E = rng.normal(size=A.shape) * size
            turned = Q @ np.diag(np.maximum(values, 1e-12) ** 0.5)
            M = turned @ (np.eye(len(A)) + E) @ (np.eye(len(A)) + E).T @ turned.T
            yield M if trace is None else M * trace / np.trace(M)


def test_every_learner_of_distances_names_its_divergence():
    for name in LEARNERS:
        cls = learner_class(name)
        if issubclass(cls, MahalanobisDistance):
            assert callable(getattr(bregman, f"{cls.divergence}_divergence")), name


@given(steps())
def test_pola_is_nearest_in_frobenius_norm_among_all_that_satisfy_the_pair(step):
    rng, x, A = step
    v = x[0] - x[1]
    A *= 3.0 / (v @ A @ v)  # farther apart than b = 1 allows to dissimilar points
    before = POLA(gamma=0.0, start=A, unit=1.0, threshold_rate=1.0, average=False).learn(x, [], [])
    b = before.b_
    after = before.learn(x, [[0, 1]], [-1])
    if after.b_ == 1.0:  # the threshold met its own bound: a second projection
        return
    reached = bregman.frobenius_divergence(after.A_, A) + (after.b_ - b) ** 2
    assert v @ after.A_ @ v >= after.b_ + 1.0 - 1e-9
    for B in neighbors(rng, after.A_):
        for c in (after.b_, max(1.0, after.b_ * 0.99), after.b_ * 1.01):
            if v @ B @ v >= c + 1.0:
                assert bregman.frobenius_divergence(B, A) + (c - b) ** 2 >= reached - 1e-9


@given(steps(), st.sampled_from([0.1, 1.0, 5.0]))
def test_lego_minimises_the_logdet_divergence_and_the_loss(step, eta):
    rng, x, _ = step
    v, wanted = x[0] - x[1], 0.7
    A = np.eye(len(v))
    learner = LEGO(feedback="distances", eta=eta, average=False).learn(x, [[0, 1]], [wanted])

    def objective(B):
        return bregman.logdet_divergence(B, A) + eta / 2 * (v @ B @ v - wanted**2) ** 2

    for B in neighbors(rng, learner.A_):
        assert objective(B) >= objective(learner.A_) - 1e-9


@given(steps(), st.sampled_from([0.01, 0.1, 1.0]))
def test_meg_minimises_the_von_neumann_divergence_and_the_tangent_of_the_loss(step, eta):
    rng, x, _ = step
    v, wanted, n = x[0] - x[1], 0.7, x.shape[1]
    W = np.eye(n) / n
    learner = MEG(eta=eta, trace=1.0).learn(x, [[0, 1]], [wanted])
    slope = 2.0 * (v @ W @ v - wanted**2) * np.outer(v, v)

    def objective(B):
        return bregman.von_neumann_divergence(B, W) + eta * np.sum(slope * (B - W))

    for B in neighbors(rng, learner.W_, trace=1.0):
        assert objective(B) >= objective(learner.W_) - 1e-9


@pytest.mark.parametrize("learner", [POLA(), LEGO(), MEG()], ids=lambda l: type(l).__name__)
def test_all_of_them_give_distances_transforms_and_index_vectors_alike(learner, rng):
    X, y = rng.normal(size=(60, 4)), np.arange(60) % 2
    X[:, 0] += 3.0 * y
    learner.set_params(n_pairs=500, random_state=0).fit(X, y)
    moved = learner.transform(X)
    distances = np.linalg.norm(moved[:, None] - moved, axis=2)
    np.testing.assert_allclose(learner.pairwise_distance(X), distances, atol=1e-6)
    np.testing.assert_allclose(learner.pairwise_score(X), -(distances**2), atol=1e-6)
    np.testing.assert_array_equal(learner.query_vectors(X), learner.item_vectors(X))
    assert learner.geometry == "l2"
