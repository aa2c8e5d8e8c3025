"""Problems: name -> function of (seed, options) that gives a split of labelled data.

A query is a test point, the remaining test points are ranked for it, those of its class are
relevant. Whatever is learnt from data (terms, idf) is learnt from the training part.
"""

from typing import Any, NamedTuple

import numpy as np

from similia.datasets import (
    inverse_document_frequency,
    load_caltech101,
    load_newsgroups_terms,
    make_clusters,
    tfidf,
)


class Problem(NamedTuple):
    """Training and test points with their labels, in random order."""

    X_train: Any
    y_train: Any
    X_test: Any
    y_test: Any


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
    seed: int, *, n_classes: int = 50, train_share: float = 0.65, unit_length: bool = True
) -> Problem:
    """Caltech-101, 50 classes, 1,000 visterms, tf-idf: in place of the paper's Caltech-256.

    Seed s draws the classes as well as the split, since the paper does not name its classes.
    """
    data = load_caltech101("visterms", n_classes=n_classes, random_state=seed)
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = np.split(order, [round(train_share * len(order))])
    idf = inverse_document_frequency(data.X[train])
    X = tfidf(data.X, idf, unit_length=unit_length, dtype=np.float32)
    return _shuffled(X, data.y, train, test, seed)


def toy(seed: int, *, n_samples: int = 240, n_features: int = 8) -> Problem:
    """Clusters hidden among nuisance directions: needs no data, takes no time."""
    data = make_clusters(n_samples, n_features, 4, nuisance=3.0, random_state=seed)
    X = (data.X / np.linalg.norm(data.X, axis=1)[:, None]).astype(np.float32)
    train, test = np.split(np.random.default_rng(seed).permutation(n_samples), 2)
    return _shuffled(X, data.y, train, test, seed)


PROBLEMS = {
    "newsgroups": newsgroups,
    "caltech101_visterms": caltech101_visterms,
    "toy": toy,
}


def validation(problem: Problem, share: float, seed: int) -> Problem:
    """Give the training part of a problem, split again: what parameters may be chosen on."""
    n = len(problem.y_train)
    held_out, kept = np.split(np.random.default_rng(seed).permutation(n), [round(share * n)])
    X, y = problem.X_train, problem.y_train
    return Problem(X[kept], y[kept], X[held_out], y[held_out])


def _shuffled(X: Any, y: Any, train: Any, test: Any, seed: int) -> Problem:
    """Mix the test points: among equal scores the first wins, and files are sorted by class."""
    test = np.random.default_rng(seed).permutation(test)
    return Problem(X[train], y[train], X[test], y[test])
