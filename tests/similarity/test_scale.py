"""The length of the rows makes no difference to what the defaults learn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia import DiagonalAROMA, FactoredAROMA
from similia.similarity.base import measured_start
from tests.problems import triplets_of

LEARNERS = st.sampled_from(
    [
        (FactoredAROMA, {}),
        (DiagonalAROMA, {}),
        (DiagonalAROMA, {"update": "analysed"}),
    ]
)
CHANGES = st.fixed_dictionaries(
    {"update_on": st.sampled_from(["mistake", "margin"]), "average": st.booleans()}
)
SEED = st.integers(0, 2**32 - 1)
SCALES = st.floats(-6, 6).map(lambda exponent: 10.0**exponent)


def learnt(learner, parameters, Q, Z, triplets):
    return learner(**parameters).learn(Q, triplets, items=Z)


@given(SEED, LEARNERS, CHANGES, SCALES, SCALES, st.booleans())
def test_longer_queries_or_items_are_ranked_alike(seed, learner, changes, c, d, from_zero):
    rng = np.random.default_rng(seed)
    Q, Z = rng.normal(size=(8, 4)), rng.normal(size=(9, 4))
    triplets = triplets_of(rng, 8, 9, 60)
    cls, parameters = learner[0], {**learner[1], **changes}
    if from_zero:
        parameters["prior"] = "zero"
    before, after = (
        learnt(cls, parameters, Q, Z, triplets),
        learnt(cls, parameters, c * Q, d * Z, triplets),
    )
    assert before.n_updates_ == after.n_updates_
    # Scores and their standard deviations are in units of the margin, whatever those of the rows.
    for one, other in zip(
        before.triplet_scores(Q, triplets, items=Z, return_std=True),
        after.triplet_scores(c * Q, triplets, items=d * Z, return_std=True),
        strict=True,
    ):
        np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-8)


@given(SEED, LEARNERS, CHANGES, st.integers(-20, 20))
def test_a_power_of_two_changes_no_bit(seed, learner, changes, exponent):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(12, 5)).astype(np.float32)
    triplets = triplets_of(rng, 12, 12, 80)
    c = np.float32(2.0**exponent)
    cls, parameters = learner[0], {**learner[1], **changes}
    before, after = (learnt(cls, parameters, c * X, None, triplets) for c in (np.float32(1), c))
    np.testing.assert_array_equal(before.pairwise_score(X), after.pairwise_score(c * X))


def test_a_number_for_r_is_that_of_the_paper(rng):
    X = 7 * rng.normal(size=(30, 5))
    learner = FactoredAROMA(r=1.0).learn(X, np.empty((0, 3), dtype=int))
    np.testing.assert_array_equal(learner.Lambda_, np.eye(5))
    np.testing.assert_array_equal(learner.Omega_, np.eye(5))
    assert (DiagonalAROMA(r=2.0).learn(X, np.empty((0, 3), dtype=int)).Sigma_ == 1.0).all()


@pytest.mark.parametrize("cls", [FactoredAROMA, DiagonalAROMA])
def test_the_prior_is_as_unsure_of_a_typical_gap_as_its_size(cls, rng):
    X = 7 * rng.normal(size=(300, 6))
    learner = cls().learn(X, np.empty((0, 3), dtype=int))
    triplets = triplets_of(rng, 300, 300, 4000)
    scores, std = learner.triplet_scores(X, triplets, return_std=True)
    assert np.sqrt(np.mean(scores**2)) == pytest.approx(1.0, rel=0.2)
    assert np.sqrt(np.mean(std**2)) == pytest.approx(1.0, rel=0.2)


def test_typical_lengths_are_those_of_queries_and_of_gaps(rng):
    Q, Z = 3 * rng.normal(size=(500, 4)), 5 * rng.normal(size=(400, 9))
    _, found = measured_start("zero", Q, Z)
    assert found == pytest.approx((3 * 4**0.5, 5 * (2 * 9) ** 0.5), rel=0.1)
    assert found == pytest.approx(
        measured_start("zero", sparse.csr_array(Q), sparse.csr_array(Z))[1]
    )
    assert measured_start("zero", np.zeros((5, 2)), np.zeros((5, 2)))[1] == (1.0, 1.0)
