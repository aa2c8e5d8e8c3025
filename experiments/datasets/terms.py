"""From documents to the few terms that tell most about their class."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from scipy.special import entr
from sklearn.feature_extraction.text import CountVectorizer

from experiments.datasets.tfidf import inverse_document_frequency, tfidf
from similia.validation import check_parameters, positive_integer

TOKEN_PATTERN = r"(?u)\b\w\w+\b"


class InformativeTerms(NamedTuple):
    """Weighted documents over selected terms.

    `X` (n, n_terms) is sparse, `columns` (n_terms,) say where the terms stood in the counts, by
    falling `gain` (n_terms,), and `idf` (n_terms,) are their weights.
    """

    X: Any
    columns: NDArray[np.intp]
    gain: NDArray[np.float64]
    idf: NDArray[np.float64]


def count_terms(texts: list[str]) -> tuple[Any, list[str]]:
    """Count the terms of each text.

    A term is a run of at least two letters, digits or underscores, in lower case, that is not in
    scikit-learn's English stop list. There is no stemming and no limit on rare terms.

    Returns
    -------
    counts : csr_array of int32, of shape (n_texts, n_terms)
    terms : list of str, sorted
    """
    vectorizer = CountVectorizer(
        stop_words="english", token_pattern=TOKEN_PATTERN, lowercase=True, dtype=np.int32
    )
    counts = vectorizer.fit_transform(texts)
    return sparse.csr_array(counts), vectorizer.get_feature_names_out().tolist()


def information_gain(counts: Any, y: ArrayLike) -> NDArray[np.float64]:
    """How much the presence of each term tells about the class, in nats.

    IG(t) = H(C) − P(t) H(C | t) − P(¬t) H(C | ¬t), with presence for counts above zero and
    relative frequencies for probabilities; it is the mutual information of class and presence.
    All terms at once: one sparse product gives the classes of the documents with each term.

    Parameters
    ----------
    counts : sparse array of shape (n, n_terms)
    y : array of shape (n,) or (n, n_topics)
        Class labels; or, for documents with several topics or none, which documents have which
        topic. Then the gain is the sum of the gains about each topic.

    Returns
    -------
    gain : ndarray of shape (n_terms,)

    References
    ----------
    Y. Yang, J. O. Pedersen, "A comparative study on feature selection in text categorization",
    ICML 1997, section 2.2.

    Examples
    --------
    >>> from experiments.datasets import information_gain
    >>> information_gain([[1, 1], [2, 0], [0, 1], [0, 0]], [0, 0, 1, 1]).round(3).tolist()
    [0.693, 0.0]
    """
    present = sparse.csr_array(counts, copy=True)
    present.data = (present.data > 0).astype(np.float64)
    labels = np.asarray(y)
    n = len(labels)
    if present.shape[0] != n or n == 0:
        raise ValueError(
            f"information_gain: y must have one label for each of {present.shape[0]} rows "
            f"of counts and at least one, got {n}."
        )
    if labels.ndim == 1:
        column = np.unique(labels, return_inverse=True)[1]
        members = sparse.csr_array((np.ones(n), column, np.arange(n + 1)))
        return _gain((members.T @ present).toarray(), np.bincount(column))
    topics = sparse.csr_array(labels != 0, dtype=np.float64)
    with_both, with_topic = (topics.T @ present).toarray(), topics.sum(axis=0)
    with_term = present.sum(axis=0)
    total = np.zeros(present.shape[1])
    for both, size in zip(with_both, with_topic, strict=True):
        total += _gain(np.stack([both, with_term - both]), np.array([size, n - size]))
    return total


def informative_tfidf(
    counts: Any,
    y: ArrayLike,
    train: NDArray[np.intp],
    *,
    n_terms: int = 1000,
    tf: str = "raw",
    smooth_idf: bool = False,
    unit_length: bool = True,
    dtype: DTypeLike = np.float64,
) -> InformativeTerms:
    """Keep the terms of largest information gain and weigh them by tf-idf.

    Gain and idf come from the rows `train` alone; the other rows are only weighted. Equal gains
    are taken in the order of the columns. See `tfidf` for the weights.
    """
    y = np.asarray(y)
    X, columns, gain, idf = best_tfidf(
        "informative_tfidf",
        counts,
        train,
        lambda training: information_gain(training, y[train]),
        n_terms=n_terms,
        tf=tf,
        smooth_idf=smooth_idf,
        unit_length=unit_length,
        dtype=dtype,
    )
    return InformativeTerms(X, columns, gain, idf)


def best_tfidf(
    owner: str,
    counts: Any,
    train: NDArray[np.intp],
    score: Callable[[Any], NDArray[np.float64]],
    *,
    n_terms: int,
    tf: str,
    smooth_idf: bool,
    unit_length: bool,
    dtype: DTypeLike,
) -> tuple[Any, NDArray[np.intp], NDArray[np.float64], NDArray[np.float64]]:
    """Keep the terms of largest score and weigh them by tf-idf: X, columns, scores, idf.

    The rows `train` alone go into `score` and the idf. Equal scores are taken in the order of the
    columns.
    """
    check_parameters(owner, {"n_terms": positive_integer}, {"n_terms": n_terms})
    counts = sparse.csr_array(counts)
    if n_terms > counts.shape[1]:
        raise ValueError(
            f"{owner}: n_terms must be at most the {counts.shape[1]} terms there are, "
            f"got {n_terms}."
        )
    training = counts[train]
    scores = score(training)
    columns = np.argsort(-scores, kind="stable")[:n_terms]
    idf = inverse_document_frequency(training[:, columns], smooth=smooth_idf)
    X = tfidf(counts[:, columns], idf, tf=tf, unit_length=unit_length, dtype=dtype)
    X.sort_indices()
    return X, columns, scores[columns], idf


def _gain(with_term: NDArray[np.float64], in_class: NDArray[Any]) -> NDArray[np.float64]:
    """IG(t), from the documents of each class with each term (n_classes, n_terms) and in all."""
    n = in_class.sum()
    without_term = in_class[:, None] - with_term
    gain = entr(in_class / n).sum() - _rest(with_term, n) - _rest(without_term, n)
    return np.maximum(gain, 0.0)


def _rest(classes: NDArray[np.float64], n: float) -> NDArray[np.float64]:
    """P(e) H(C | e) for each column of class counts under an event e, out of n documents."""
    total = classes.sum(axis=0)
    return total / n * entr(classes / np.maximum(total, 1.0)).sum(axis=0)
