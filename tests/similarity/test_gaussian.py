import numpy as np
import pytest
from scipy import integrate, sparse, stats

from similia import DiagonalAROMA, FactoredAROMA
from similia.similarity.aroma import expected_regret
from tests.elsewhere import in_experiments
from tests.problems import FORMS, labelled, triplets_of

LEARNERS = [FactoredAROMA, DiagonalAROMA]


@pytest.fixture(params=LEARNERS, ids=lambda cls: cls.__name__)
def learnt(request, rng):
    Q, Z = rng.normal(size=(20, 5)), rng.normal(size=(30, 4))
    learner = request.param(prior="zero", r=0.5, average=False)
    return learner.learn(Q, triplets_of(rng, 20, 30, 200), items=Z), Q, Z


def full_covariance(learner):
    """Covariance of vec(W), rows first: kron(Λ, Ω), or the variances on the diagonal."""
    if isinstance(learner, FactoredAROMA):
        return np.kron(learner.Lambda_, learner.Omega_)
    return np.diag(learner.Sigma_.ravel())


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_std_is_that_of_a_linear_form_under_the_full_covariance(learnt, form):
    learner, Q, Z = learnt
    _, std = learner.pairwise_score(form(Q), form(Z), return_std=True)
    C = full_covariance(learner)
    for i, j in ((0, 0), (3, 7), (19, 29)):
        x = np.outer(Q[i], Z[j]).ravel()
        assert std[i, j] == pytest.approx(np.sqrt(x @ C @ x))


def test_std_of_a_triplet_is_that_of_the_difference(learnt, rng):
    learner, Q, Z = learnt
    triplets = triplets_of(rng, 20, 30, 50)
    for forms in ((Q, Z), (sparse.csr_array(Q), sparse.csr_array(Z)), (sparse.csr_array(Q), Z)):
        scores, std = learner.triplet_scores(forms[0], triplets, items=forms[1], return_std=True)
        q, p = Q[triplets[:, 0]], Z[triplets[:, 1]] - Z[triplets[:, 2]]
        x = np.einsum("ti,tj->tij", q, p).reshape(50, -1)
        np.testing.assert_allclose(scores, x @ learner.W_.ravel(), atol=1e-12)
        variance = np.einsum("ti,ij,tj->t", x, full_covariance(learner), x)
        np.testing.assert_allclose(std, np.sqrt(variance), atol=1e-12)


def test_draws_have_the_mean_and_the_covariance_of_the_posterior(learnt):
    learner, _, _ = learnt
    draws = learner.sample_posterior(20_000, random_state=0).reshape(20_000, -1)
    C = full_covariance(learner)
    error = 5 * np.sqrt(np.diag(C).max() / 20_000)
    np.testing.assert_allclose(draws.mean(axis=0), learner.W_.ravel(), atol=error)
    np.testing.assert_allclose(np.cov(draws.T), C, atol=0.05)


def test_draws_are_seeded(learnt):
    learner, _, _ = learnt
    one, same, other = (learner.sample_posterior(2, random_state=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(one, same)
    assert not np.array_equal(one, other)


def test_learning_a_comparison_makes_its_score_surer(learnt):
    learner, Q, Z = learnt
    triplet = np.array([[0, 1, 2]])
    _, before = learner.triplet_scores(Q, triplet, items=Z, return_std=True)
    learner.W_.fill(0.0)
    learner.learn(Q, triplet, items=Z)
    _, after = learner.triplet_scores(Q, triplet, items=Z, return_std=True)
    assert after < before


def test_expected_regret_is_its_integral():
    for score, std in ((0.0, 1.0), (0.7, 0.5), (-2.0, 1.5)):
        density = stats.norm(score, std)
        wrong = (-np.inf, 0) if score >= 0 else (0, np.inf)
        integral, _ = integrate.quad(lambda f, d=density: abs(f) * d.pdf(f), *wrong)
        assert expected_regret(np.array(score), np.array(std)) == pytest.approx(integral)


def clusters(seed):
    """Six classes that differ in eight directions, under more noise in twenty-two others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(6, size=500)
    centers = np.hstack([rng.normal(size=(6, 8)), np.zeros((6, 22))])
    X = centers[y] + rng.normal(size=(500, 30)) * np.r_[np.full(8, 0.6), np.full(22, 1.5)]
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def precision_at_10(W, X, y):
    scores = X @ W @ X.T
    np.fill_diagonal(scores, -np.inf)
    nearest = np.argpartition(-scores, 10, axis=1)[:, :10]
    return np.mean(y[nearest] == y[:, None])


def questions_until(precision, cls, seed, choose, most=1000):
    """Ask one question at a time of someone who knows the classes; count until `precision`."""
    X, y = clusters(seed)
    rng = np.random.default_rng(seed + 1)
    train, test, labels = X[:250], X[250:], y[:250]
    learner = cls(r=0.05, prior="zero", average=False)
    learner.learn(train, np.empty((0, 3), dtype=int))
    for asked in range(1, most + 1):
        pool = rng.integers(250, size=(600, 3))
        same = labels[pool] == labels[pool[:, :1]]
        pool = pool[same[:, 1] != same[:, 2]][:100]
        question = pool[choose(learner, train, pool)]
        if labels[question[1]] != labels[question[0]]:
            question = question[[0, 2, 1]]
        learner.learn(train, question[None])
        if asked % 10 == 0 and precision_at_10(learner.W_, test, y[250:]) >= precision:
            return asked
    return most


@in_experiments
@pytest.mark.parametrize("cls", LEARNERS, ids=lambda cls: cls.__name__)
def test_suggested_questions_are_clearly_fewer_than_random_ones_for_the_same_precision(cls):
    at_random = [questions_until(0.56, cls, s, lambda *_: 0) for s in range(3)]
    suggested = [
        questions_until(0.56, cls, s, lambda learner, X, pool: learner.suggest(X, pool)[0])
        for s in range(3)
    ]
    assert sum(suggested) < 0.8 * sum(at_random)


def test_suggestions_are_distinct_best_first_and_begin_with_the_single_best(learnt, rng):
    learner, Q, Z = learnt
    pool = triplets_of(rng, 20, 30, 300)
    several = learner.suggest(Q, pool, 10, items=Z)
    assert len(set(several.tolist())) == 10
    assert several[0] == learner.suggest(Q, pool, items=Z)[0]


def test_a_batch_of_suggestions_does_not_ask_the_same_thing_twice(rng):
    X, _ = labelled(rng)
    learner = FactoredAROMA(prior="zero", r=0.01).learn(X, np.empty((0, 3), dtype=int))
    pool = np.array([[0, 1, 2], [0, 1, 2], [0, 2, 1], [5, 6, 7]])
    X[5:8] *= 0.5
    chosen = learner.suggest(X, pool, 2)
    assert set(chosen.tolist()) & {3}


def test_suggesting_leaves_the_learner_as_it_was(learnt, rng):
    learner, Q, Z = learnt
    before = {k: np.copy(v) for k, v in learner.get_state().items()}
    learner.suggest(Q, triplets_of(rng, 20, 30, 100), 5, items=Z)
    for name, value in learner.get_state().items():
        np.testing.assert_array_equal(value, before[name])


@pytest.mark.parametrize("n", [0, 11, -1])
def test_suggesting_too_many_or_too_few_is_refused(learnt, rng, n):
    learner, Q, Z = learnt
    with pytest.raises(ValueError, match="n_suggestions must be between 1 and"):
        learner.suggest(Q, triplets_of(rng, 20, 30, 10), n, items=Z)
