"""Points that are classified by a vote, within one domain or by the points of another."""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from sklearn.kernel_approximation import Nystroem
from sklearn.metrics import pairwise_distances

from experiments.datasets import load_isolet, load_mnist, load_office_caltech, load_usps
from experiments.problems.base import Problem

#: points from which on principal components are those of the covariance, which is faster
MANY = 20_000


class Held(NamedTuple):
    """Points on which the number of voters is chosen; no contender sees them.

    The first `n_queries` training points are queries, and the others their database; 0 if training
    points are both.
    """

    X: Any
    y: Any
    n_queries: int = 0


def isolet(seed: int, *, n_components: int = 100, share: float = 0.15) -> Problem:
    """Spoken letters: four groups of speakers for training, of which a part is held out, the fifth
    for test.
    """
    data = load_isolet()
    return _one_domain(data.X, data.y, data.train, seed, n_components, share)


def usps(seed: int, *, n_components: int = 100, share: float = 0.15, kernel: int = 0) -> Problem:
    """Digits from letters, with the customary training and test images."""
    data = load_usps()
    X = data.X.reshape(len(data.y), -1)
    return _one_domain(X, data.y, data.train, seed, n_components, share, kernel)


def mnist_votes(seed: int, *, n_components: int = 100, share: float = 1 / 12) -> Problem:
    """Handwritten digits: 55,000 training images, 5,000 held out, the customary 10,000 for test."""
    data = load_mnist()
    return _one_domain(data.X, data.y, data.train, seed, n_components, share)


def office_domain(
    seed: int,
    *,
    domain: str,
    n_components: int = 100,
    share: float = 0.15,
    test: float = 0.3,
    kernel: int = 0,
) -> Problem:
    """Images of one domain of Office–Caltech, by visual words: a random part is the test part."""
    X, y = _office(domain)
    train = np.ones(len(y), bool)
    train[np.random.default_rng([seed, 1]).permutation(len(y))[: round(test * len(y))]] = False
    return _one_domain(X, y, train, seed, n_components, share, kernel)


def domain_pair(
    seed: int,
    *,
    pair: str,
    n_components: int = 100,
    share: float = 0.15,
    test: float = 0.5,
    centered: bool = False,
) -> Problem:
    """Queries from one domain, the database from another: "amazon to caltech" asks the latter.

    The database is known as a whole.

    Of the queries `test` is the test part and `share` of the rest is held out. With `centered` the
    mean of its domain (of the training part) is taken from every point beforehand, for everyone.
    """
    queries, items = pair.split(" to ")
    (X, y), (Z, labels) = _office(queries), _office(items)
    order = np.random.default_rng(seed).permutation(len(y))
    n_test = round(test * len(y))
    n_held = round(share * (len(y) - n_test))
    test_rows, held, train = np.split(order, [n_test, n_test + n_held])
    if centered:
        X, Z = X - X[train].mean(axis=0), Z - Z.mean(axis=0)
    both = np.vstack([X[train], Z])
    reduce = _reduction(both, n_components)
    return Problem(
        reduce(both),
        np.concatenate([y[train], labels]),
        reduce(X[test_rows]),
        y[test_rows],
        measured_by="voting",
        context=Held(reduce(X[held]), y[held], len(train)),
    )


def _one_domain(
    X: Any, y: Any, train: Any, seed: int, n_components: int, share: float, kernel: int = 0
) -> Problem:
    """Split and reduce; a `kernel` first makes so many Nyström features of a Gaussian one."""
    order = np.random.default_rng(seed).permutation(np.flatnonzero(train))
    held, kept = np.split(order, [round(share * len(order))])
    if kernel:
        width = np.median(pairwise_distances(X[kept[:500]], metric="sqeuclidean"))
        count = min(kernel, len(kept))
        features = Nystroem(gamma=1.0 / width, n_components=count, random_state=seed).fit(X[kept])
        X = features.transform(X)
    reduce = _reduction(X[kept], n_components)
    return Problem(
        reduce(X[kept]),
        y[kept].astype(np.intp),
        reduce(X[~train]),
        y[~train].astype(np.intp),
        measured_by="voting",
        context=Held(reduce(X[held]), y[held].astype(np.intp)),
    )


def _reduction(X: Any, n_components: int) -> Any:
    """Map to principal components of X, scaled by one number to mean variance one.

    NCA and LMNN start from the identity, and so depend on the scale of their data.
    """
    center = X.mean(axis=0, dtype=np.float64)
    if len(X) > MANY:
        gaps = (X - center).astype(np.float32)
        V = np.linalg.eigh((gaps.T @ gaps).astype(np.float64))[1][:, ::-1].T
    else:
        _, _, V = np.linalg.svd(X - center, full_matrices=False)
    V = V[:n_components]
    factor = 1.0 / np.sqrt((((X - center) @ V.T) ** 2).mean())
    return lambda rows: np.ascontiguousarray((rows - center) @ V.T * factor, dtype=np.float32)


@lru_cache(maxsize=4)
def _office(domain: str) -> tuple[Any, Any]:
    """Square roots of the shares of visual words (Hellinger's distance), and labels."""
    data = load_office_caltech("surf")
    rows = data.domain == data.domains.index(domain)
    X = data.X[rows].astype(np.float64)
    return np.sqrt(X / X.sum(axis=1, keepdims=True)), data.y[rows]
