import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import sparse

from similia import OASIS, DiagonalAROMA, FactoredAROMA
from similia.similarity.base import measured_start
from tests.problems import labelled, triplets_of

LEARNERS = [FactoredAROMA, DiagonalAROMA, OASIS]
EMPTY = np.empty((0, 3), dtype=int)


@pytest.mark.parametrize("cls", LEARNERS)
def test_queries_and_items_may_have_different_features(cls, rng):
    Q, Z = rng.normal(size=(20, 5)), rng.normal(size=(30, 8))
    learner = cls(prior="zero").learn(Q, triplets_of(rng, 20, 30, 100), items=Z)
    assert learner.W_.shape == (5, 8)
    assert learner.pairwise_score(Q, Z).shape == (20, 30)
    with pytest.raises(ValueError, match="items must be given, as they have 8 features"):
        learner.pairwise_score(Q)
    with pytest.raises(ValueError, match="items must have 8 features, got 5"):
        learner.learn(Q, EMPTY, items=Q)
    with pytest.raises(ValueError, match="X must have 8 features"):
        learner.partial_fit(Q, np.arange(20) % 2)


@pytest.mark.parametrize("cls", LEARNERS)
def test_one_sparse_side_equals_two_dense_ones(cls, rng):
    Q, Z = rng.normal(size=(20, 5)), rng.normal(size=(30, 8))
    triplets = triplets_of(rng, 20, 30, 300)
    expected = cls(prior="zero").learn(Q, triplets, items=Z).pairwise_score(Q, Z)
    for X, items in ((sparse.csr_array(Q), Z), (Q, sparse.csr_array(Z))):
        learner = cls(prior="zero").learn(X, triplets, items=items)
        np.testing.assert_allclose(learner.pairwise_score(X, items), expected, atol=1e-9)


def test_the_identity_prior_starts_from_the_similarity_that_the_user_has(rng):
    X = rng.normal(size=(40, 6))
    learner = FactoredAROMA(prior="identity").learn(X, EMPTY)
    np.testing.assert_allclose(learner.pairwise_score(X), learner.prior_scale_ * X @ X.T)


def test_the_automatic_scale_makes_the_typical_gap_one_margin(rng):
    X = rng.normal(size=(200, 6)) * 7
    for prior in ("identity", rng.normal(size=(6, 6))):
        learner = FactoredAROMA(prior=prior).learn(X, EMPTY)
        triplets = triplets_of(rng, 200, 200, 4000)
        gaps = learner.triplet_scores(X, triplets)
        assert np.sqrt(np.mean(gaps**2)) == pytest.approx(1.0, rel=0.2)


def test_the_automatic_scale_depends_on_the_vectors_alone(rng):
    X = rng.normal(size=(50, 6))
    assert measured_start("identity", X, X) == measured_start("identity", sparse.csr_array(X), X)
    zeros = np.zeros((5, 2))
    assert measured_start("identity", zeros, zeros) == (1.0, (1.0, 1.0))


def test_a_given_prior_and_scale_are_used(rng):
    X, prior = rng.normal(size=(10, 3)), rng.normal(size=(3, 3))
    learner = OASIS(prior=prior, prior_scale=2.0, average=False).learn(X, EMPTY)
    np.testing.assert_array_equal(learner.W_, 2.0 * prior)
    assert learner.prior_scale_ == 2.0


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ("identity", "prior must be 'zero' or an array of shape"),
        (np.eye(3), "prior must be a finite array of shape"),
        (np.full((2, 3), np.nan), "prior must be a finite array of shape"),
        (np.array([["a"] * 3] * 2), "prior must be a finite array of shape"),
    ],
)
def test_a_prior_that_does_not_fit_is_refused_before_anything_changes(rng, prior, words):
    learner = FactoredAROMA(prior=prior)
    with pytest.raises(ValueError, match=words):
        learner.learn(rng.normal(size=(4, 2)), EMPTY, items=rng.normal(size=(4, 3)))
    assert not hasattr(learner, "n_features_in_")


@pytest.mark.parametrize("sampler", ["uniform", "balanced", "hard"])
def test_learning_from_labels_raises_precision(rng, sampler):
    X, y = labelled(rng, n=150, d=10)
    X[:, 5:] *= 3  # noise that the plain inner product believes in
    X = X / np.linalg.norm(X, axis=1, keepdims=True)

    def precision(scores):
        np.fill_diagonal(scores, -np.inf)
        return np.mean(y[np.argsort(-scores, axis=1)[:, :5]] == y[:, None])

    learner = FactoredAROMA(sampler=sampler, n_triplets=5000, random_state=0).fit(X, y)
    assert precision(learner.pairwise_score(X)) > precision(X @ X.T) + 0.05


def test_a_sampler_of_ones_own_is_called_and_checked(rng):
    X, y = labelled(rng)
    calls = []

    def sampler(y, n, rng, score):
        calls.append(n)
        return np.tile([0, 3, 1], (n, 1))

    learner = OASIS(sampler=sampler, n_triplets=5000).fit(X, y)
    assert sum(calls) == learner.n_seen_ == 5000
    with pytest.raises(ValueError, match=r"OASIS\.sampler: column 1 of triplets"):
        OASIS(sampler=lambda y, n, rng, score: np.tile([0, -1, 1], (n, 1))).fit(X, y)


def test_equal_seeds_draw_equally_and_further_calls_draw_anew(rng):
    X, y = labelled(rng)
    drawn = []

    def sampler(y, n, rng, score):
        drawn.append(rng.integers(len(y), size=(n, 3)))
        return drawn[-1]

    for _ in range(2):
        OASIS(sampler=sampler, n_triplets=300, random_state=5).fit(X, y).partial_fit(X, y)
    np.testing.assert_array_equal(drawn[0], drawn[2])
    np.testing.assert_array_equal(drawn[1], drawn[3])
    assert not np.array_equal(drawn[0], drawn[1])


def test_mistake_driven_learning_updates_only_on_mistakes(rng):
    X, _ = labelled(rng)
    triplets = triplets_of(rng, len(X), len(X), 500)
    by_margin, by_mistake = (
        FactoredAROMA(prior="zero", update_on=on).learn(X, triplets) for on in ("margin", "mistake")
    )
    assert 0 < by_mistake.n_updates_ < by_margin.n_updates_


@pytest.mark.parametrize("cls", LEARNERS)
def test_average_is_refused_where_it_is_not_kept(cls, rng):
    X, _ = labelled(rng)
    learner = cls(average=False).learn(X, triplets_of(rng, len(X), len(X), 50))
    with pytest.raises(AttributeError, match="average=True"):
        _ = learner.W_average_
    averaged = cls(average=True).learn(X, triplets_of(rng, len(X), len(X), 50))
    np.testing.assert_array_equal(averaged.query_vectors(X), X @ averaged.W_average_)


def test_only_the_rows_that_are_named_need_to_be_finite(rng):
    X, _ = labelled(rng)
    X[10] = np.nan
    learner = OASIS(prior="zero").learn(X, [[0, 1, 2]])
    before = learner.W_.copy()
    with pytest.raises(ValueError, match=r"OASIS\.learn: X must be finite"):
        learner.learn(X, [[0, 1, 10]])
    np.testing.assert_array_equal(learner.W_, before)


def test_values_that_could_overflow_are_refused(rng):
    X, _ = labelled(rng)
    with pytest.raises(ValueError, match="entries of magnitude at most"):
        OASIS().learn((X * 1e10).astype(np.float32), [[0, 1, 2]])


def test_vectors_next_to_zero_leave_the_state_finite():
    X = np.full((5, 3), 1e-40, dtype=np.float32) * np.arange(15, dtype=np.float32).reshape(5, 3)
    learner = OASIS().learn(X, [[0, 1, 2], [3, 4, 0]])
    assert learner.prior_scale_ == 1.0
    assert np.isfinite(learner.W_).all()


@pytest.mark.parametrize("parameters", [{"prior_scale": 1e30}, {"prior": np.full((3, 3), 1e30)}])
def test_a_prior_that_single_precision_cannot_hold_is_refused(rng, parameters):
    learner = OASIS(**{"prior_scale": 1.0, **parameters})
    with pytest.raises(ValueError, match=r"prior_scale times the prior must be at most .* float32"):
        learner.learn(rng.normal(size=(4, 3)).astype("float32"), [[0, 1, 2]])
    assert not {"n_seen_", "n_features_in_"} & set(vars(learner))
    learner.learn(rng.normal(size=(4, 3)), [[0, 1, 2]])  # double precision can


# -- one row ---------------------------------------------------------------------------------


def test_query_vectors_follow_every_change_of_the_state(rng):
    X = rng.normal(size=(20, 5))
    learner = OASIS()
    for _ in range(3):
        learner.learn(X, rng.integers(20, size=(10, 3)))
        assert_allclose(learner.query_vectors(X), X @ learner.W_average_)
    twin = OASIS().set_state(learner.get_state())
    twin.W_ = 2 * twin.W_
    assert_allclose(twin.query_vectors(X), X @ twin.W_average_)
    assert_allclose(learner.query_vectors(X), X @ learner.W_average_)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 1e30])
def test_a_bad_entry_is_refused_wherever_it_is(kind, value, rng):
    if kind is np.float64 and value == 1e30:
        value = 1e100
    learner = OASIS().learn(rng.normal(size=(9, 4)).astype(kind), [[0, 1, 2]])
    for place in range(4):
        q = np.ones((1, 4), kind)
        q[0, place] = value
        with pytest.raises(ValueError, match=r"finite|NaN|infinity|magnitude"):
            learner.query_vectors(q)


def test_the_quick_check_takes_only_what_the_full_one_would(rng):
    learner = OASIS().learn(rng.normal(size=(9, 4)), [[0, 1, 2]])
    good = rng.normal(size=(2, 4))
    for same in (
        good,
        good.astype(">f8"),
        np.asfortranarray(good),
        good.tolist(),
        good[::-1][::-1],
    ):
        assert_allclose(learner.query_vectors(same), good @ learner.query_matrix())
    for bad in (good[:0], good[:, :3], good[None], np.ones((2, 5))):
        with pytest.raises(ValueError, match=r"\S"):
            learner.query_vectors(bad)
