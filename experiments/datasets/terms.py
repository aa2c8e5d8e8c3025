"""From documents to tf-idf weights of the few terms that matter."""

import hashlib
import json
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse
from scipy.special import entr
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer, TfidfTransformer

from experiments.datasets.fetch import cache_folder
from similia.contract import Array, Indices, Matrix
from similia.safety.whole import replacing
from similia.validation import boolean, check_parameters, one_of, positive_integer

VECTORIZER = CountVectorizer(stop_words="english", dtype=np.int32)


class TermCounts(NamedTuple):
    """Counts (n, n_terms), the terms, and arrays about the rows, by name."""

    counts: sparse.csr_array
    terms: list[str]
    about: Mapping[str, Array]


class WeightedTerms(NamedTuple):
    """Weighted documents over selected terms.

    X (n, n_terms) is sparse; columns (n_terms,) say where the terms stood in the counts, by falling
    score (n_terms,); idf (n_terms,) are their weights.
    """

    X: sparse.csr_array
    columns: Indices
    score: NDArray[np.float64]
    idf: NDArray[np.float64]


# -- counting --------------------------------------------------------------------------------------


def count_terms(texts: list[str]) -> tuple[sparse.csr_array, list[str]]:
    """Count the terms of each text: counts (n_texts, n_terms) as int32, and the sorted terms.

    A term is a run of at least two letters, digits or underscores, in lower case, that is not in
    scikit-learn's English stop list. There is no stemming and no limit on rare terms.
    """
    vectorizer = clone(VECTORIZER)
    counts = vectorizer.fit_transform(texts)
    return sparse.csr_array(counts), vectorizer.get_feature_names_out().tolist()


def cached_counts(
    folder: str,
    recipe: Mapping[str, Any],
    read: Callable[[], tuple[list[str], Mapping[str, Array]]],
) -> TermCounts:
    """Counts of the texts that `read` returns with arrays about them, kept in the cache folder.

    `recipe` names what the texts depend on; what counting depends on is added to it.
    """
    counting = {
        "format": 1,
        "token_pattern": VECTORIZER.token_pattern,
        "stop_words": sorted(VECTORIZER.get_stop_words()),
    }
    whole = json.dumps({**counting, **recipe}, sort_keys=True)
    key = hashlib.sha256(whole.encode()).hexdigest()[:16]
    cached = cache_folder() / folder / f"counts-{key}.npz"
    if cached.is_file():
        return _read_counts(cached)
    texts, about = read()
    data = TermCounts(*count_terms(texts), about)
    try:
        _write_counts(cached, data)
    except OSError as error:
        warnings.warn(
            f"cached_counts: the term counts cannot be kept in {cached} ({error}) and will be "
            "made again next time; set SIMILIA_CACHE to a folder that can be written to.",
            stacklevel=3,
        )
    return data


def _write_counts(path: Path, data: TermCounts) -> None:
    counts, terms, about = data
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        np.savez(
            temporary,
            data=counts.data,
            indices=counts.indices,
            indptr=counts.indptr,
            terms=np.frombuffer("\n".join(terms).encode(), dtype=np.uint8),
            **about,
        )


def _read_counts(path: Path) -> TermCounts:
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as stored:
            arrays = dict(stored)
        csr = tuple(arrays.pop(name) for name in ("data", "indices", "indptr"))
        terms = arrays.pop("terms").tobytes().decode().split("\n")
        shape = (len(csr[2]) - 1, len(terms))
        return TermCounts(sparse.csr_array(csr, shape=shape), terms, arrays)
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError) as error:
        raise ValueError(
            f"cached_counts: the cached counts {path} are damaged ({error}). "
            "Remove that file to have them made again."
        ) from error


# -- selecting -------------------------------------------------------------------------------------


def document_frequency(counts: Matrix | ArrayLike) -> NDArray[np.float64]:
    """Number of rows in which each term occurs."""
    counts = sparse.csr_array(counts)
    return np.bincount(counts.indices[counts.data != 0], minlength=counts.shape[1]).astype(float)


def information_gain(counts: Matrix | ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """How much the presence of each term tells about the class, in nats.

    IG(t) = H(C) − P(t) H(C | t) − P(¬t) H(C | ¬t), with presence for counts above zero and relative
    frequencies for probabilities: the mutual information of class and presence (Y. Yang and
    J. O. Pedersen, ICML 1997, section 2.2). One sparse product serves all terms, where
    scikit-learn's `mutual_info_classif` treats one after another.

    Parameters
    ----------
    counts : sparse array of shape (n, n_terms)
    y : array of shape (n,) or (n, n_topics)
        Class labels; or, for documents with several topics or none, which documents have which
        topic. Then the gain is the sum of the gains about each topic.

    Returns
    -------
    gain : ndarray of shape (n_terms,)

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


def _gain(with_term: Array, in_class: Array) -> NDArray[np.float64]:
    """IG(t), from the documents of each class with each term (n_classes, n_terms) and in all."""
    n = in_class.sum()
    without_term = in_class[:, None] - with_term
    gain = entr(in_class / n).sum() - _rest(with_term, n) - _rest(without_term, n)
    return np.maximum(gain, 0.0)


def _rest(classes: Array, n: float) -> NDArray[np.float64]:
    """P(e) H(C | e) for each column of class counts under an event e, out of n documents."""
    total = classes.sum(axis=0)
    return total / n * entr(classes / np.maximum(total, 1.0)).sum(axis=0)


# -- weighting -------------------------------------------------------------------------------------


def tfidf(
    counts: Matrix | ArrayLike,
    train: ArrayLike | slice = slice(None),
    *,
    tf: str = "raw",
    smooth_idf: bool = False,
    unit_length: bool = True,
    dtype: DTypeLike = np.float64,
) -> tuple[sparse.csr_array, NDArray[np.float64]]:
    """Weigh counts by tf_ij · idf_j, with the idf of the rows `train` alone.

    scikit-learn's `TfidfTransformer`, but for the idf: log(n / df_j), and 0 for a term in no row,
    where scikit-learn adds 1 to it. Here n is the number of training rows and df_j the number of
    those with term j.

    Parameters
    ----------
    counts : sparse array of shape (n, n_terms)
        How often each document contains each term.
    train : row indices or slice
        The rows that the idf may look at.
    tf : {"raw", "log"}
        The count itself, or 1 + log(count), which tames repetition.
    smooth_idf : bool
        scikit-learn's own 1 + log((1 + n) / (1 + df)) instead: terms that occur everywhere, or
        nowhere, keep a weight.
    unit_length : bool
        Divide each row by its Euclidean length; rows without a weight stay zero.
    dtype : dtype
        float64 or float32.

    Returns
    -------
    X : csr_array of shape (n, n_terms)
    idf : ndarray of shape (n_terms,)

    Examples
    --------
    >>> from experiments.datasets import tfidf
    >>> X, idf = tfidf([[3, 4, 1], [1, 0, 1], [0, 1, 1], [0, 0, 1]])
    >>> X.toarray()[0].round(3).tolist(), idf.round(3).tolist()
    ([0.6, 0.8, 0.0], [0.693, 0.693, 0.0])
    """
    rules = {"tf": one_of("raw", "log"), "smooth_idf": boolean, "unit_length": boolean}
    check_parameters("tfidf", rules, locals())
    X = sparse.csr_array(counts).astype(np.float64)
    X.eliminate_zeros()
    training = X[train]
    weights = TfidfTransformer(norm=None, sublinear_tf=tf == "log").fit(training)
    if not smooth_idf:
        df = document_frequency(training)
        weights.idf_ = np.where(df > 0, np.log(training.shape[0] / np.maximum(df, 1.0)), 0.0)
    X = sparse.csr_array(weights.transform(X, copy=False))
    if unit_length:  # norm="l2" rounds differently, which decides ties in recorded results
        lengths = np.sqrt(X.multiply(X).sum(axis=1))
        X.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(X.indptr))
    X.eliminate_zeros()
    return X.astype(dtype), weights.idf_


def best_tfidf(
    counts: Matrix, train: Indices, score: NDArray[np.float64], *, n_terms: int, **weighting: Any
) -> WeightedTerms:
    """Keep the terms of largest score and weigh them by `tfidf`; equal scores in column order."""
    check_parameters("best_tfidf", {"n_terms": positive_integer}, locals())
    if n_terms > counts.shape[1]:
        raise ValueError(
            f"best_tfidf: n_terms must be at most the {counts.shape[1]} terms there are, "
            f"got {n_terms}."
        )
    columns = np.argsort(-score, kind="stable")[:n_terms]
    X, idf = tfidf(counts[:, columns], train, **weighting)
    X.sort_indices()
    return WeightedTerms(X, columns, score[columns], idf)


def informative_tfidf(
    counts: Matrix, y: ArrayLike, train: Indices, *, n_terms: int = 1000, **weighting: Any
) -> WeightedTerms:
    """Keep the terms of largest information gain on the rows `train`, and weigh them by `tfidf`."""
    gain = information_gain(counts[train], np.asarray(y)[train])
    return best_tfidf(counts, train, gain, n_terms=n_terms, **weighting)
