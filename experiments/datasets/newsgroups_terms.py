"""20 Newsgroups as weighted terms: the protocol of the AROMA paper."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray
from sklearn.utils import check_random_state

from experiments.datasets.newsgroups import GROUPS, N_TRAIN, PARTS, read_messages, source
from experiments.datasets.term_counts import TermCounts, Texts, cached_counts
from experiments.datasets.terms import informative_tfidf
from similia.validation import (
    between,
    check_parameters,
    none,
    one_of,
    positive_integer,
    seed,
)


@dataclass(frozen=True)
class NewsgroupsTerms:
    """Documents as weighted terms.

    X (n, n_terms) is a csr_array, y (n,) the labels, classes their names, train and test the sorted
    row indices of the split, terms (n_terms,) the words by falling gain, gain (n_terms,) their
    information gain in nats and idf (n_terms,) their weights, both from the training rows.
    """

    X: Any
    y: NDArray[np.intp]
    classes: tuple[str, ...]
    train: NDArray[np.intp]
    test: NDArray[np.intp]
    terms: NDArray[np.str_]
    gain: NDArray[np.float64]
    idf: NDArray[np.float64]


def load_newsgroups_terms(
    *,
    n_terms: int = 1000,
    split: str = "bydate",
    train_size: float | None = None,
    random_state: int | np.random.RandomState | None = None,
    headers: bool = False,
    subject: bool = False,
    quotes: bool = True,
    tf: str = "raw",
    smooth_idf: bool = False,
    unit_length: bool = True,
    dtype: DTypeLike = np.float64,
) -> NewsgroupsTerms:
    """Load 20 Newsgroups as tf-idf weights of the terms that tell most about the class.

    The protocol of the AROMA paper, section 5.2: stop words (scikit-learn's English list) go, no
    stemming, the `n_terms` terms of largest information gain about the class, tf-idf. Terms and
    idf come from the training rows alone. Documents with none of the terms stay as empty rows.

    Parameters
    ----------
    n_terms : int
        How many terms to keep.
    split : {"bydate", "random"}
        The official split, in which all test messages are later, or a random one.
    train_size : int, float between 0 and 1, or None
        Training rows of a random split, as a number or a share; None is 11,314 as officially.
    random_state : int, RandomState or None
        Seed of a random split; the paper repeats with five.
    headers, subject, quotes : bool
        What to keep of a message, see `load_newsgroups`.
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
    NewsgroupsTerms

    Notes
    -----
    The paper does not say what it did with headers and quotes, which tf and idf it took, or
    whether rows had unit length: hence the parameters. It calls its random splits "65 % / 35 %",
    "based on sizes of the proposed splits"; those sizes are in truth 60 % / 40 %, our default.
    ``train_size=0.65`` gives the other reading. A term is a run of at least two letters, digits or
    underscores, in lower case.

    On the official split 43 test documents are empty rows with quotes kept and 113 without. An
    empty row is at distance 1 from every row of unit length, nearer than most others, and so
    spoils rankings by Euclidean distance; the paper's rankings by inner product do not notice.

    Counting takes seconds; the counts are kept in the cache folder, one .npz file for each choice
    of headers, subject and quotes.

    References
    ----------
    K. Crammer, G. Chechik, "Adaptive regularization for weight matrices", ICML 2012;
    Y. Yang, J. O. Pedersen, ICML 1997; K. Lang, ICML 1995.
    """
    parts = {"headers": headers, "subject": subject, "quotes": quotes}
    rules = {
        "split": one_of("bydate", "random"),
        "train_size": positive_integer | between(0, 1) | none,
        "random_state": seed,
    }
    values = {"split": split, "train_size": train_size, "random_state": random_state}
    check_parameters("load_newsgroups_terms", {**PARTS, **rules}, {**parts, **values})
    if split == "bydate" and train_size is not None:
        raise ValueError(
            f'load_newsgroups_terms: train_size must be None with split="bydate", got {train_size}.'
        )
    counts, vocabulary, about = _counts(**parts)
    y = about["y"]
    if split == "bydate":
        train, test = np.flatnonzero(about["train"]), np.flatnonzero(~about["train"])
    else:
        train, test = _random_split(len(y), train_size or N_TRAIN, random_state)
    X, columns, gain, idf = informative_tfidf(
        counts,
        y,
        train,
        n_terms=n_terms,
        tf=tf,
        smooth_idf=smooth_idf,
        unit_length=unit_length,
        dtype=dtype,
    )
    terms = np.array([vocabulary[j] for j in columns])
    return NewsgroupsTerms(X, y, GROUPS, train, test, terms, gain, idf)


def _random_split(
    n: int, train_size: float, random_state: int | np.random.RandomState | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    n_train = int(train_size) if train_size >= 1 else round(train_size * n)
    if not 0 < n_train < n:
        raise ValueError(
            f"load_newsgroups_terms: train_size must leave training and test rows out of {n}, "
            f"got {train_size}."
        )
    order = check_random_state(random_state).permutation(n)
    return np.sort(order[:n_train]), np.sort(order[n_train:])


def _counts(**parts: bool) -> TermCounts:
    file, path = source()

    def read() -> Texts:
        data = read_messages(file, path, **parts)
        return Texts(data.texts, {"y": data.y, "train": data.train})

    recipe = {"source": file.sha256, **parts}
    return cached_counts("load_newsgroups_terms", "20newsgroups", recipe, read)
