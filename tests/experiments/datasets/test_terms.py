from math import log

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.metrics import mutual_info_score

from experiments.datasets import information_gain, tfidf
from experiments.datasets.terms import count_terms, document_frequency, informative_tfidf


@pytest.fixture
def counts(rng):
    return sparse.csr_array(rng.poisson(0.4, size=(60, 25)))


@pytest.fixture
def y(rng):
    return rng.choice([3, 7, 11], size=60, p=[0.6, 0.3, 0.1])


def entropy(labels):
    shares = [float(np.mean(labels == c)) for c in np.unique(labels)]
    return -sum(p * log(p) for p in shares)


def naive_information_gain(counts, y):
    """Yang and Pedersen 1997, section 2.2, one term at a time."""
    gains = []
    for column in counts.T:
        gain = entropy(y)
        for side in (column > 0, column == 0):
            if side.any():
                gain -= side.mean() * entropy(y[side])
        gains.append(gain)
    return gains


def test_information_gain_is_its_definition(counts, y):
    assert_allclose(
        information_gain(counts, y), naive_information_gain(counts.toarray(), y), atol=1e-14
    )


def test_information_gain_is_the_mutual_information_of_class_and_presence(counts, y):
    expected = [mutual_info_score(y, column > 0) for column in counts.toarray().T]
    assert_allclose(information_gain(counts, y), expected, atol=1e-14)


def test_information_gain_of_a_term_nowhere_or_everywhere_is_zero(y):
    counts = np.stack([np.zeros(60), np.ones(60), np.arange(1, 61)], axis=1)
    assert_allclose(information_gain(counts, y), 0, atol=1e-15)


def test_information_gain_of_the_class_itself_is_its_entropy(y):
    assert information_gain((y == 3)[:, None], y == 3) == pytest.approx([entropy(y == 3)])


def test_information_gain_ignores_how_often_and_stored_zeros(counts, y):
    explicit = counts.copy()
    explicit.data = explicit.data * 5
    explicit.data[:7] = 0
    without = explicit.copy()
    without.eliminate_zeros()
    assert_allclose(information_gain(explicit, y), information_gain(without, y))
    assert_array_equal(explicit.data[:7], 0)


def test_information_gain_with_one_class_is_zero(counts):
    assert_array_equal(information_gain(counts, np.zeros(60)), 0)


def test_information_gain_about_topics_is_the_sum_over_topics(counts, y, rng):
    topics = rng.random((60, 3)) < [0.1, 0.5, 0.0]
    expected = sum(np.array(naive_information_gain(counts.toarray(), t)) for t in topics.T)
    assert_allclose(information_gain(counts, topics), expected, atol=1e-14)
    assert_allclose(information_gain(counts, (y == 3)[:, None]), information_gain(counts, y == 3))


def test_information_gain_needs_one_label_for_each_row(counts):
    with pytest.raises(ValueError, match="one label for each of 60 rows"):
        information_gain(counts, np.zeros(59))


@pytest.mark.parametrize("tf", ["raw", "log"])
@pytest.mark.parametrize("unit_length", [True, False])
def test_smooth_weights_are_those_of_scikit_learn(counts, tf, unit_length):
    theirs = TfidfTransformer(
        smooth_idf=True, sublinear_tf=tf == "log", norm="l2" if unit_length else None
    ).fit(counts[:40])
    X, idf = tfidf(counts, slice(40), smooth_idf=True, tf=tf, unit_length=unit_length)
    assert_allclose(idf, theirs.idf_)
    assert_allclose(X.toarray(), theirs.transform(counts).toarray())


def test_plain_idf_is_that_of_scikit_learn_less_one(counts):
    theirs = TfidfTransformer(smooth_idf=False).fit(counts)
    assert_allclose(tfidf(counts)[1], theirs.idf_ - 1)


@pytest.mark.parametrize("tf", ["raw", "log"])
@pytest.mark.parametrize("unit_length", [True, False])
def test_plain_weights_are_the_textbook_formula(counts, tf, unit_length):
    C = counts.toarray().astype(float)
    df = (C[:40] > 0).sum(axis=0)
    idf = np.where(df > 0, np.log(40 / np.maximum(df, 1)), 0.0)
    expected = (np.where(C > 0, 1 + np.log(np.maximum(C, 1)), 0) if tf == "log" else C) * idf
    if unit_length:
        lengths = np.linalg.norm(expected, axis=1, keepdims=True)
        expected /= np.where(lengths > 0, lengths, 1)
    X, found = tfidf(counts, np.arange(40), tf=tf, unit_length=unit_length)
    assert_array_equal(found, idf)
    assert_allclose(X.toarray(), expected, rtol=1e-14)
    assert_array_equal(document_frequency(counts[:40]), df)


def test_a_term_of_no_row_has_no_plain_weight():
    assert tfidf([[1, 0], [0, 0]])[1].tolist() == [log(2), 0.0]
    assert tfidf([[1, 0], [0, 3]], [0])[0].toarray()[1].tolist() == [0.0, 0.0]


def test_rows_have_unit_length_or_nothing(counts):
    counts = sparse.vstack([counts, sparse.csr_array((2, 25), dtype=counts.dtype)], format="csr")
    X, _ = tfidf(counts)
    lengths = np.linalg.norm(X.toarray(), axis=1)
    assert_allclose(lengths[:60], 1)
    assert_array_equal(lengths[60:], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_weights_have_the_dtype_asked_for_and_leave_the_counts_alone(counts, dtype):
    before = counts.copy()
    X, _ = tfidf(counts, tf="log", dtype=dtype)
    assert X.dtype == dtype
    assert (counts != before).nnz == 0


def test_stored_zeros_have_no_weight(counts):
    explicit = counts.copy()
    explicit.data[:7] = 0
    without = explicit.copy()
    without.eliminate_zeros()
    a, b = (tfidf(C, tf="log")[0] for C in (explicit, without))
    assert_array_equal(a.toarray(), b.toarray())
    assert_array_equal(explicit.data[:7], 0)


def test_an_unknown_tf_is_refused(counts):
    with pytest.raises(ValueError, match="tfidf: tf must be one of 'raw', 'log', got 'root'"):
        tfidf(counts, tf="root")


def test_terms_are_lower_case_without_stop_words_and_single_letters():
    counts, terms = count_terms(["The Cat and a cat-flap, x86!", "", "CATS ran"])
    assert terms == ["cat", "cats", "flap", "ran", "x86"]
    assert counts.toarray().tolist() == [[2, 0, 1, 0, 1], [0] * 5, [0, 1, 0, 1, 0]]


def test_counting_then_weighing_is_a_tfidf_vectorizer():
    texts = ["red apples red pears", "green pears", "grey stones and red sand"]
    counts, terms = count_terms(texts)
    theirs = TfidfVectorizer(stop_words="english")
    expected = theirs.fit_transform(texts).toarray()
    assert terms == theirs.get_feature_names_out().tolist()
    X, _ = tfidf(counts, smooth_idf=True)
    assert_allclose(X.toarray(), expected)


def test_terms_are_chosen_by_falling_gain_on_training_rows(counts, y):
    train = np.arange(0, 60, 2)
    found = informative_tfidf(counts, y, train, n_terms=10)
    gain = information_gain(counts[train], y[train])
    assert_array_equal(found.columns, np.argsort(-gain, kind="stable")[:10])
    assert_allclose(found.score, gain[found.columns])
    assert found.X.shape == (60, 10)


def test_test_rows_change_neither_terms_nor_weights(counts, y, rng):
    train, test = np.arange(40), np.arange(40, 60)
    changed = counts.toarray()
    changed[test] = rng.poisson(3.0, size=(20, 25))
    other_y = y.copy()
    other_y[test] = 3
    a = informative_tfidf(counts, y, train, n_terms=8)
    b = informative_tfidf(sparse.csr_array(changed), other_y, train, n_terms=8)
    assert_array_equal(a.columns, b.columns)
    assert_array_equal(a.idf, b.idf)
    assert_array_equal(a.X[train].toarray(), b.X[train].toarray())
    assert (a.X[test] != b.X[test]).nnz > 0


def test_more_terms_than_there_are_is_an_error(counts, y):
    with pytest.raises(ValueError, match="n_terms must be at most the 25 terms"):
        informative_tfidf(counts, y, np.arange(60), n_terms=26)
