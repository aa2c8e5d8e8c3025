"""Fixed features with many classes, to be told apart by linear classifiers."""

from typing import Any

import numpy as np
from sklearn.kernel_approximation import RBFSampler
from sklearn.metrics import pairwise_distances

from experiments.datasets import (
    load_caltech101,
    load_fashion_mnist,
    load_isolet,
    load_mnist,
    load_newsgroups_terms,
    load_tiny_imagenet,
)
from experiments.problems.base import Problem


def caltech101_fisher(seed: int, *, per_class: int = 30) -> Problem:
    """Fisher vectors by the paper's recipe: 30 images of each class to learn from, all others."""
    data = load_caltech101("fisher")
    rng = np.random.default_rng(seed)
    train = np.concatenate(
        [rng.permutation(np.flatnonzero(data.y == c))[:per_class] for c in np.unique(data.y)]
    )
    return _split(data.X, data.y, train, np.setdiff1d(np.arange(len(data.y)), train), rng)


def tiny_imagenet(seed: int, *, classes: int = 200, per_class: int = 50) -> Problem:
    """Network features of 200 classes, 50 images of each to learn from, and 50 others.

    Fewer classes, or images to learn from, are drawn at random.
    """
    data = load_tiny_imagenet()
    rng = np.random.default_rng(seed)
    train, test = np.flatnonzero(data.train), np.flatnonzero(~data.train)
    if (classes, per_class) != (200, 50):
        known = rng.permutation(np.unique(data.y))[:classes]
        drawn = [rng.permutation(train[data.y[train] == c])[:per_class] for c in known]
        train, test = np.concatenate(drawn), test[np.isin(data.y[test], known)]
    return _split(data.X, data.y, train, test, rng)


def isolet_letters(seed: int) -> Problem:
    """Spoken letters; the speakers of the test part are others."""
    data = load_isolet()
    rng = np.random.default_rng(seed)
    return _split(data.X, data.y, np.flatnonzero(data.train), np.flatnonzero(~data.train), rng)


def newsgroups_tfidf(seed: int, *, n_terms: int = 10_000) -> Problem:
    """Messages as tf-idf weights of terms, sparse; the official split by date."""
    data = load_newsgroups_terms(n_terms=n_terms, tf="log", quotes=False, dtype=np.float32)
    return _split(data.X, data.y, data.train, data.test, np.random.default_rng(seed))


def image_features(
    seed: int,
    *,
    data: str = "mnist",
    fourier: int = 0,
    n_train: int = 10_000,
    n_test: int = 5_000,
) -> Problem:
    """Pixels of MNIST or Fashion-MNIST, or random Fourier features of a Gaussian kernel of them.

    The kernel's width is the median distance of training images.
    """
    source = load_mnist() if data == "mnist" else load_fashion_mnist()
    rng = np.random.default_rng(seed)
    train = rng.permutation(np.flatnonzero(source.train))[:n_train]
    test = rng.permutation(np.flatnonzero(~source.train))[:n_test]
    problem = _split(source.X, source.y, train, test, rng)
    if not fourier:
        return problem
    sampler = _fourier(problem.X_train, fourier, seed)
    mapped = (sampler.transform(X).astype(np.float32) for X in (problem.X_train, problem.X_test))
    X_train, X_test = mapped
    return problem._replace(X_train=X_train, X_test=X_test)


def shifted_mnist(seed: int, *, n: int = 1_000_000, fourier: int = 256) -> Problem:
    """Random Fourier features of the images of MNIST, moved by up to two pixels each way."""
    source = load_mnist()
    rng = np.random.default_rng(seed)
    X, y = source.X[source.train].astype(np.float32), source.y[source.train]
    drawn = rng.permutation(25 * len(y))[:n]
    images, moves = X.reshape(-1, 28, 28), drawn // len(y)
    sampler = _fourier(X[rng.permutation(len(y))], fourier, seed)
    rows = np.empty((n, fourier), np.float32)
    for move in range(25):
        here = np.flatnonzero(moves == move)
        moved = np.roll(images[drawn[here] % len(y)], (move // 5 - 2, move % 5 - 2), axis=(1, 2))
        rows[here] = sampler.transform(moved.reshape(len(here), -1))
    X_test = sampler.transform(source.X[~source.train].astype(np.float32))
    return Problem(rows, y[drawn % len(y)], X_test, source.y[~source.train], "classes")


def _fourier(X: Any, n: int, seed: int) -> RBFSampler:
    squares = pairwise_distances(X[:500], metric="sqeuclidean")
    gamma = 1.0 / float(np.median(squares))
    return RBFSampler(gamma=gamma, n_components=n, random_state=seed).fit(X)


def drawn_features(
    seed: int,
    *,
    n: int = 1_000_000,
    classes: int = 1000,
    n_test: int = 20_000,
    spread: float = 0.5,
) -> Problem:
    """Rows drawn like the network features of Tiny ImageNet, of any number of classes.

    Rows have the covariance within its classes around their centers, and these the covariance of
    its classes' means, less the share that comes from the few rows of each mean, times `spread`²:
    normal distributions overlap less than real classes.
    """
    data = load_tiny_imagenet()
    rng = np.random.default_rng(seed)
    known, codes = np.unique(data.y[data.train], return_inverse=True)
    X = data.X[data.train].astype(np.float64)
    means = np.array([X[codes == c].mean(axis=0) for c in range(len(known))])
    within = np.cov(X - means[codes], rowvar=False)
    values, vectors = np.linalg.eigh(np.cov(means, rowvar=False) - within * len(known) / len(X))
    drawn = rng.standard_normal((classes, len(values))) * np.sqrt(np.maximum(values, 0.0))
    centers = means.mean(axis=0) + spread * drawn @ vectors.T
    y = rng.integers(classes, size=n + n_test)
    root = np.linalg.cholesky(within).T.astype(np.float32)
    rows = centers[y].astype(np.float32)
    for block in range(0, len(y), 10_000):
        some = rows[block : block + 10_000]
        some += rng.standard_normal(some.shape, dtype=np.float32) @ root
    return Problem(rows[:n], y[:n], rows[n:], y[n:], "classes")


def many_classes(
    seed: int, *, n: int = 20_000, d: int = 4096, classes: int = 1000, noise: float = 4.0
) -> Problem:
    """Generated rows around a center for each class, to see how time grows."""
    rng = np.random.default_rng(seed)
    centers = rng.standard_normal((classes, d), dtype=np.float32)
    y = np.arange(n + 1000) % classes
    X = rng.standard_normal((n + 1000, d), dtype=np.float32)
    X *= np.float32(noise)
    X += centers[y]
    return Problem(X[:n], y[:n], X[n:], y[n:], "classes")


def _split(X: Any, y: Any, train: Any, test: Any, rng: np.random.Generator) -> Problem:
    train = rng.permutation(train)
    X = X.astype(np.float32)
    return Problem(X[train], y[train], X[test], y[test], "classes")
