"""BM25 against the formula."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from similia import BM25

WORDS = ["red", "blue", "shoe", "hat", "coat"]
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=8).map(" ".join)


def bm25(query, document, corpus, k1, b):
    """Σ_w n_q(w) · log(1 + (N - n + ½)/(n + ½)) · tf (k1 + 1)/(tf + k1 (1 - b + b |d|/avg))."""
    split = [re.findall(r"\w+", text) for text in corpus]
    own, average = re.findall(r"\w+", document), np.mean([len(words) for words in split])
    total = 0.0
    for word in re.findall(r"\w+", query):
        n, tf = sum(word in words for words in split), own.count(word)
        rarity = np.log(1 + (len(split) - n + 0.5) / (n + 0.5))
        total += rarity * tf * (k1 + 1) / (tf + k1 * (1 - b + b * len(own) / average))
    return total


@given(
    st.lists(texts, min_size=1, max_size=6),
    st.lists(texts, min_size=1, max_size=3),
    st.floats(0.1, 3),
    st.floats(0, 1),
)
def test_inner_products_are_the_formula(corpus, queries, k1, b):
    model = BM25(k1=k1, b=b, stop_words=None).fit(corpus)
    known = " ".join(corpus).split()
    queries = [" ".join(w for w in query.split() if w in known) or known[0] for query in queries]
    found = (model.queries(queries) @ model.items(corpus).T).toarray()
    expected = [[bm25(q, d, corpus, k1, b) for d in corpus] for q in queries]
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_new_texts_are_weighed_by_the_fitted_corpus():
    model = BM25(stop_words=None).fit(["red shoe", "blue shoe", "red hat"])
    found = (model.queries(["red"]) @ model.items(["red red coat"]).T).toarray()[0, 0]
    # "coat" was never seen and has no length.
    expected = bm25("red", "red red", ["red shoe", "blue shoe", "red hat"], 1.2, 0.75)
    assert found == pytest.approx(expected, rel=1e-6)


def test_stop_words_are_left_out_and_unknown_words_score_nothing():
    model = BM25().fit(["the red shoe", "the hat"])
    assert "the" not in model.counter_.vocabulary_
    assert (model.queries(["the green"]) @ model.items(["the red shoe"]).T).sum() == 0


def test_vectors_are_single_precision_rows_of_the_vocabulary():
    model = BM25().fit(["red shoe", "blue hat"])
    for vectors in (model.queries(["red"]), model.items(["red hat"])):
        assert (vectors.format, vectors.dtype, vectors.shape) == ("csr", np.float32, (1, 4))


def test_parameters_are_those_of_scikit_learn():
    assert clone(BM25(k1=2.0, b=0.1)).get_params() == {"k1": 2.0, "b": 0.1, "stop_words": "english"}


def test_use_before_fitting_says_so():
    with pytest.raises(NotFittedError, match="BM25"):
        BM25().items(["red"])


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"k1": -1.0}, "^BM25: k1 must be a number of at least 0, got -1.0"),
        ({"k1": "much"}, "^BM25: k1 must be a number of at least 0, got 'much'"),
        ({"b": 1.5}, "^BM25: b must be a number .*, got 1.5"),
    ],
)
def test_bad_parameters_are_named(parameters, words):
    with pytest.raises(ValueError, match=words):
        BM25(**parameters).fit(["red"])


def test_texts_without_a_word_are_refused():
    with pytest.raises(ValueError, match="empty vocabulary"):
        BM25().fit(["the", ""])
