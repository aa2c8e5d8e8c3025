"""Reuters-21578 as weighted terms: the stream that the POLA paper filters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from experiments.datasets.reuters import (
    DOCUMENTS,
    Catalog,
    catalog,
    read_stories,
    source,
    story_text,
)
from experiments.datasets.term_counts import TermCounts, Texts, cached_counts
from experiments.datasets.terms import best_tfidf, information_gain
from experiments.datasets.tfidf import document_frequency
from similia.validation import array, check_parameters, one_of, positive_integer


@dataclass(frozen=True)
class ReutersTerms:
    """News as weighted terms, in order of date.

    X (n, n_terms) is a csr_array; Y (n, 120) bool says which document has which topic, classes are
    the names of its columns; dates (n,), ids (n,) and train (n,) are as in `Reuters`; terms
    (n_terms,) are the words by falling score (n_terms,), and idf (n_terms,) their weights.
    """

    X: Any
    Y: NDArray[np.bool_]
    classes: tuple[str, ...]
    dates: NDArray[np.datetime64]
    ids: NDArray[np.intp]
    train: NDArray[np.bool_]
    terms: NDArray[np.str_]
    score: NDArray[np.float64]
    idf: NDArray[np.float64]


def load_reuters_terms(
    documents: str = "modapte",
    *,
    n_terms: int = 500,
    select: str = "frequency",
    fit_on: str | int | NDArray[np.intp] = "train",
    tf: str = "raw",
    smooth_idf: bool = False,
    unit_length: bool = True,
    dtype: DTypeLike = np.float64,
) -> ReutersTerms:
    """Load Reuters-21578 as tf-idf weights of selected words, in order of date.

    The representation of the POLA paper, section 7: the "standard vector-space model with
    length-normalized tfidf after selecting 500 words". Stop words (scikit-learn's English list) go,
    there is no stemming. Documents with none of the words stay as empty rows.

    Parameters
    ----------
    documents : {"modapte", "train", "test", "r90", "all"}
        Which documents, see `load_reuters`.
    n_terms : int
        How many words to keep.
    select : {"frequency", "gain"}
        The words that occur in most documents; or those of largest information gain, summed over
        the topics, which looks at the topics of the documents of `fit_on`.
    fit_on : {"train", "documents"}, int or array of int
        The only documents that selection and idf may look at: "train", the training half of the
        split, loaded or not; "documents", all that are loaded; a number, the first so many of the
        stream; an array, these rows of it. Online, predictions count from the document after.
    tf : {"raw", "log"}
        The count of a term, or one plus its logarithm.
    smooth_idf : bool
        scikit-learn's 1 + log((1 + n) / (1 + df)) instead of log(n / df).
    unit_length : bool
        Divide each row by its Euclidean length.
    dtype : dtype
        float64 or float32.

    Returns
    -------
    ReutersTerms

    Notes
    -----
    The paper says neither how it selected the words nor which documents it took ("about 10,000"),
    and names none of its 13 topics, whose ratio of relevant to irrelevant documents lies between
    0.01 and 0.1. `topics_by_ratio` finds 14 such topics in "train" and in "modapte", 15 in "test",
    17 in "r90" and 9 in "all".

    A term is a run of at least two letters, digits or underscores, in lower case; title and body
    count alike. Counting takes seconds; the counts are kept in the cache folder as .npz.

    References
    ----------
    S. Shalev-Shwartz, Y. Singer, A. Ng, "Online and batch learning of pseudo-metrics", ICML 2004;
    D. D. Lewis, "Reuters-21578 text categorization test collection", 1997;
    Y. Yang, J. O. Pedersen, ICML 1997.

    Examples
    --------
    >>> from experiments.datasets import load_reuters_terms, topics_by_ratio
    >>> data = load_reuters_terms("train", fit_on=1000)              # doctest: +SKIP
    >>> for topic in topics_by_ratio(data.Y, data.classes):          # doctest: +SKIP
    ...     relevant = data.Y[1000:, data.classes.index(topic)]
    """
    rules = {
        "documents": one_of(*DOCUMENTS),
        "select": one_of("frequency", "gain"),
        "fit_on": one_of("train", "documents") | positive_integer | array,
    }
    values = {"documents": documents, "select": select, "fit_on": fit_on}
    check_parameters("load_reuters_terms", rules, values)
    counts, vocabulary, about = _counts()
    known = Catalog(**about)
    rows = known.rows(documents)
    seen = _seen(fit_on, rows, np.flatnonzero(known.train))

    def score(training: Any) -> NDArray[np.float64]:
        if select == "frequency":
            return document_frequency(training)
        return information_gain(training, known.Y[seen])

    X, columns, best, idf = best_tfidf(
        "load_reuters_terms",
        counts,
        seen,
        score,
        n_terms=n_terms,
        tf=tf,
        smooth_idf=smooth_idf,
        unit_length=unit_length,
        dtype=dtype,
    )
    return ReutersTerms(
        X[rows],
        known.Y[rows],
        tuple(known.classes.tolist()),
        known.dates[rows],
        known.ids[rows],
        known.train[rows],
        np.array([vocabulary[j] for j in columns]),
        best,
        idf,
    )


def _seen(
    fit_on: str | int | NDArray[np.intp], rows: NDArray[np.intp], train: NDArray[np.intp]
) -> NDArray[np.intp]:
    """Give the documents that may be looked at."""
    if isinstance(fit_on, str):
        return train if fit_on == "train" else rows
    if isinstance(fit_on, np.ndarray):
        wrong = fit_on.dtype.kind not in "iu" or fit_on.ndim != 1 or len(fit_on) == 0
        if wrong or fit_on.min() < 0 or fit_on.max() >= len(rows):
            raise ValueError(
                f"load_reuters_terms: fit_on must be row indices between 0 and {len(rows) - 1}, "
                f"got an array of shape {fit_on.shape} and dtype {fit_on.dtype}."
            )
        return rows[fit_on]
    if fit_on > len(rows):
        raise ValueError(
            f"load_reuters_terms: fit_on must be at most the {len(rows)} documents loaded, "
            f"got {fit_on}."
        )
    return rows[:fit_on]


def _counts() -> TermCounts:
    file, path = source()

    def read() -> Texts:
        stories = read_stories(file, path)
        return Texts([story_text(story) for story in stories], catalog(stories)._asdict())

    return cached_counts("load_reuters_terms", "reuters21578", {"source": file.sha256}, read)
