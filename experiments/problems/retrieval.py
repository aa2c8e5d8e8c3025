"""Rankings: a query is a test point, the others are its items, relevant if of its class."""

from typing import Any

import numpy as np
from scipy import sparse

from experiments.datasets import (
    load_caltech101,
    load_newsgroups_terms,
    load_office_caltech,
    make_clusters,
    tfidf,
)
from experiments.problems.base import Problem


def newsgroups(
    seed: int, *, quotes: bool = True, unit_length: bool = True, subject: bool = False
) -> Problem:
    """20 Newsgroups, 1,000 terms by information gain, tf-idf, random splits of the bydate sizes."""
    data = load_newsgroups_terms(
        split="random",
        random_state=seed,
        quotes=quotes,
        subject=subject,
        unit_length=unit_length,
        dtype=np.float32,
    )
    return _shuffled(data.X, data.y, data.train, data.test, seed)


def caltech101_visterms(
    seed: int,
    *,
    n_classes: int = 50,
    train_share: float = 0.65,
    unit_length: bool = True,
    cap: int | None = None,
) -> Problem:
    """Caltech-101, 50 classes, 1,000 visterms, tf-idf: in place of the paper's Caltech-256.

    Seed s draws the classes as well as the split, since the paper does not name its classes. With
    `cap` no class has more images: some have 800 and most about 50.
    """
    data = load_caltech101("visterms", n_classes=n_classes, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(data.y))
    if cap is not None:
        y = data.y[order]
        earlier = [np.count_nonzero(y[:i] == label) for i, label in enumerate(y)]
        order = order[np.array(earlier) < cap]
    train, test = np.split(order, [round(train_share * len(order))])
    X, _ = tfidf(data.X, train, unit_length=unit_length, dtype=np.float32)
    return _shuffled(X, data.y, train, test, seed)


def caltech256_words(seed: int, *, length: float = 1.0, train_share: float = 0.65) -> Problem:
    """The ten classes of Caltech-256 that Office-Caltech holds: tf-idf of 800 visual words.

    `length` is the length of every row, on which the meaning of OASIS's C and AROMA's r depends.
    """
    data = load_office_caltech("surf")
    rows = data.domain == data.domains.index("caltech")
    counts, y = sparse.csr_array(data.X[rows].astype(np.float32)), data.y[rows]
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [round(train_share * len(order))])
    X, _ = tfidf(counts, train, dtype=np.float32)
    return _shuffled(sparse.csr_array(X * np.float32(length)), y, train, test, seed)


def toy(
    seed: int, *, n_samples: int = 240, n_features: int = 8, measured_by: str = "retrieval"
) -> Problem:
    """Clusters hidden among nuisance directions: needs no data, takes no time."""
    data = make_clusters(n_samples, n_features, 4, nuisance=3.0, random_state=seed)
    X = (data.X / np.linalg.norm(data.X, axis=1)[:, None]).astype(np.float32)
    train, test = np.split(np.random.default_rng(seed).permutation(n_samples), 2)
    return _shuffled(X, data.y, train, test, seed)._replace(measured_by=measured_by)


def _shuffled(X: Any, y: Any, train: Any, test: Any, seed: int) -> Problem:
    """Mix the test points: among equal scores the first wins, and files are sorted by class."""
    test = np.random.default_rng(seed).permutation(test)
    return Problem(X[train], y[train], X[test], y[test])
