"""What all learners of distances offer alike: scores, one query, named outputs, streams."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import cross_val_score

from similia import LEGO, MEG, POLA, KernelPOLA
from similia.distance.feedback import concordance
from tests.problems import FORMS, labelled

LEARNERS = {
    "POLA": POLA(n_pairs=300),
    "KernelPOLA": KernelPOLA(n_pairs=300, budget=20),
    "LEGO": LEGO(n_pairs=300),
    "MEG": MEG(n_pairs=300),
    "MEG of labels": MEG(n_pairs=300, feedback="labels"),
    "LEGO of distances": LEGO(n_pairs=300, feedback="distances"),
}


@pytest.fixture(params=LEARNERS)
def learnt(request, rng):
    X, y = labelled(rng)
    learner = LEARNERS[request.param].__sklearn_clone__().set_params(random_state=0)
    return learner.fit(X, y), X, y


def feedback_of(learner, y, pairs):
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    return np.where(same, 1.0, 4.0) if learner.feedback == "distances" else np.where(same, 1, -1)


# -- score -----------------------------------------------------------------------------------------


@given(
    st.integers(0, 2**32 - 1), st.integers(2, 40), st.integers(2, 40), st.sampled_from([1, 3, 50])
)
def test_concordance_is_the_count_over_all_pairs_of_judgements(seed, n, levels, ties):
    rng = np.random.default_rng(seed)
    closeness, scores = rng.integers(levels, size=n), rng.integers(ties, size=n) / 7
    i, j = np.triu_indices(n, 1)
    differ = closeness[i] != closeness[j]
    if not differ.any():
        return
    order = np.sign(closeness[i] - closeness[j]) * np.sign(scores[i] - scores[j])
    expected = np.mean((order[differ] > 0) + 0.5 * (order[differ] == 0))
    assert concordance(closeness, scores) == pytest.approx(expected, abs=1e-15)


def test_concordance_is_exact_at_its_ends():
    closeness = np.repeat([-1, 1], 5000)
    assert concordance(closeness, closeness) == 1.0
    assert concordance(closeness, np.arange(10_000.0)) == 1.0
    assert concordance(closeness, -np.arange(10_000.0)) == 0.0
    assert concordance(closeness, np.zeros(10_000)) == 0.5


def test_the_score_of_signs_is_the_area_under_the_curve(learnt, rng):
    learner, X, y = learnt
    pairs = rng.integers(len(X), size=(500, 2))
    feedback = feedback_of(learner, y, pairs)
    same = y[pairs[:, 0]] == y[pairs[:, 1]]
    expected = roc_auc_score(same, learner.pair_scores(X, pairs))
    assert learner.score(X, pairs, feedback) == pytest.approx(expected)


@pytest.mark.parametrize("cls", [LEGO, MEG])
def test_the_score_of_distances_is_their_order(rng, cls):
    X = rng.normal(size=(30, 4))
    learner = cls(feedback="distances").learn(X, [], [])
    pairs = rng.integers(30, size=(300, 2))
    euclidean = np.linalg.norm(X[pairs[:, 0]] - X[pairs[:, 1]], axis=1)
    assert learner.score(X, pairs, euclidean) == pytest.approx(1.0, abs=1e-3)
    assert learner.score(X, pairs, euclidean.max() - euclidean) == pytest.approx(0.0, abs=1e-3)


def test_labels_are_scored_by_pairs_with_a_fixed_seed(learnt):
    learner, X, y = learnt
    assert learner.score(X, y) == learner.score(X, y) > 0.6
    names = np.array(["a", "b", "c"])[y]
    assert learner.score(X, names) == learner.score(X, y)


def test_scikit_learn_cross_validates_learners_on_labels(rng):
    X, y = labelled(rng)
    for learner in (
        POLA(n_pairs=300),
        KernelPOLA(n_pairs=300),
        LEGO(n_pairs=300),
        MEG(n_pairs=300),
    ):
        assert (cross_val_score(learner, X, y, cv=3) > 0.5).all()
    K = X @ X.T
    given = KernelPOLA(kernel="precomputed", n_pairs=300)
    assert (cross_val_score(given, K, y, cv=3) > 0.5).all()


def test_scores_that_mean_nothing_are_refused(learnt):
    learner, X, y = learnt
    name, n = type(learner).__name__, len(X)
    pairs = np.array([[0, 1], [1, 2]])
    for arguments, words in (
        ((pairs,), rf"y must be {n} class labels where feedback is not given, got shape \(2, 2\)"),
        ((y[:-1],), f"y must be {n} class labels"),
        ((pairs, [1, 1]), "feedback must have at least two different values"),
        (([], []), "feedback must have at least two different values"),
        ((pairs, ["a", "b"]), "y must be an array of"),
        ((pairs + n, [1, 1]), "pairs must be row indices between 0 and"),
    ):
        with pytest.raises(ValueError, match=rf"^{name}\.score: .*{words}"):
            learner.score(X, *arguments)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        learner.score(X, pairs, [1])


# -- distances and vectors -------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_scores_of_pairs_are_those_of_all_pairs(learnt, rng, form):
    learner, X, _ = learnt
    pairs = rng.integers(len(X), size=(50, 2))
    whole = learner.pairwise_score(form(X))
    np.testing.assert_allclose(
        learner.pair_scores(form(X), pairs), whole[tuple(pairs.T)], atol=1e-7
    )
    np.testing.assert_allclose(learner.pairwise_distance(form(X)) ** 2, -whole, atol=1e-12)


def test_one_vector_is_a_query(learnt):
    learner, X, _ = learnt
    for method in (learner.pairwise_score, learner.pairwise_distance):
        np.testing.assert_array_equal(method(X[3], X[:7]), method(X[3:4], X[:7])[0])
        np.testing.assert_array_equal(method(list(X[3]), X[:7]), method(X[3:4], X[:7])[0])
    np.testing.assert_array_equal(learner.query_vectors(X[3]), learner.query_vectors(X[3:4])[0])


@pytest.mark.parametrize("n_components", [None, 2, 100])
def test_outputs_have_names_and_frames_if_asked(learnt, n_components):
    learner, X, _ = learnt
    learner.set_params(n_components=n_components)
    plain, distances = learner.transform(X), learner.pairwise_distance(X)
    prefix = type(learner).__name__.lower()
    names = learner.get_feature_names_out()
    assert list(names) == [f"{prefix}{i}" for i in range(plain.shape[1])]
    learner.set_output(transform="pandas")
    for frame in (learner.transform(X), learner.query_vectors(X)):
        assert isinstance(frame, pd.DataFrame)
        assert list(frame.columns) == list(names)
        np.testing.assert_array_equal(frame.to_numpy(), plain)
    # Vectors for an index and distances stay arrays.
    for found, expected in (
        (learner.item_vectors(X), plain),
        (learner.pairwise_distance(X), distances),
    ):
        assert isinstance(found, np.ndarray)
        np.testing.assert_array_equal(found, expected)


# -- learning --------------------------------------------------------------------------------------


def test_the_inner_entry_learns_what_learn_does(learnt, rng):
    learner, X, y = learnt
    pairs = rng.integers(len(X), size=(200, 2))
    feedback = feedback_of(learner, y, pairs)
    whole, pieces = (learner.__sklearn_clone__().learn(X, [], []) for _ in range(2))
    whole.learn(X, pairs, feedback)
    reported = []
    pieces.learn_checked(X, pairs[:128], feedback[:128])
    pieces.learn_checked(X, pairs[128:], feedback[128:], reported.append)
    assert sum(reported) == 72
    for name, value in whole.get_state().items():
        np.testing.assert_allclose(pieces.get_state()[name], value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (lambda n: (np.full((n, 2), 1000), np.ones(n)), "pairs must be row indices"),
        (lambda n: (np.zeros((n, 2), int), np.zeros(n)), r"y must be an array of \+1"),
    ],
)
def test_what_a_sampler_of_ones_own_draws_is_checked(rng, drawn, words):
    X, y = labelled(rng)
    learner = POLA(sampler=lambda y, n, rng: drawn(n))
    with pytest.raises(ValueError, match=rf"^POLA\.sampler: .*{words}"):
        learner.fit(X, y)
    assert not learner.__sklearn_is_fitted__()
    short = POLA(sampler=lambda y, n, rng: (np.zeros((n, 2), int), np.ones(n - 1)))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        short.fit(X, y)


def test_a_kernel_that_fails_in_the_first_call_leaves_an_unfitted_learner(rng):
    X, y = labelled(rng)
    calls = iter(range(10**9))

    def kernel(x, z):
        if next(calls) >= 5000:
            raise RuntimeError("no more")
        return x @ z

    pairs = rng.integers(len(X), size=(200, 2))
    learner = KernelPOLA(kernel=kernel)
    before = dict(vars(learner))
    with pytest.raises(RuntimeError, match="no more"):
        learner.learn(X, pairs, feedback_of(learner, y, pairs))
    assert vars(learner) == before
