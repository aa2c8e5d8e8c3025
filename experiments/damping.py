"""Accuracy of SLND by its damping, on held-out training rows: python -m experiments.damping.

The default chooses one by trials within the rows that it learns from. SGD is shown with its own
step and with the best of five on the very rows of the table, which favors it.
"""

import sys
from collections.abc import Callable, Iterator
from statistics import fmean

import numpy as np
from sklearn.datasets import load_digits, load_wine

from experiments.datasets import load_fashion_mnist, load_isolet, load_mnist, load_tiny_imagenet
from experiments.summary import markdown_table
from similia import SGDOneVsRest, SLNDClassifier

DAMPINGS = (0, 3, 60)
SEEDS = (0, 1)
STEPS = (0.03, 0.1, 0.3, 1.0, 3.0)  # in units of 1/(F''(0) mean |x|²)
BEST = "SGD, best step"
Parts = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def shares(X: np.ndarray, y: np.ndarray, seed: int) -> Parts:
    """Four fifths to learn from, and the others."""
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = np.split(order, [int(0.8 * len(y))])
    return X[train], y[train], X[test], y[test]


def integers(seed: int) -> Parts:
    """Eight classes in ten integer features around 30."""
    rng = np.random.default_rng(100 + seed)
    centers, y = rng.normal(size=(8, 10)), rng.integers(8, size=6000)
    noise = 0.9 * rng.normal(size=(6000, 10)) @ rng.normal(size=(10, 10)) / 2
    return shares(np.round(30 + 4 * (centers[y] + noise)), y, seed)


def scaled(seed: int) -> Parts:
    """Six classes in eight integer features, mixed so that their variances are very unequal."""
    rng = np.random.default_rng(200 + seed)
    y = rng.integers(6, size=6000)
    X = rng.normal(size=(6, 8))[y] + 0.8 * rng.normal(size=(6000, 8))
    return shares(np.round(4 * X @ rng.normal(size=(8, 8))), y, seed)


def images(load: Callable[[], object]) -> Callable[[int], Parts]:
    def parts(seed: int) -> Parts:
        data = load()
        X = data.X / 255 if data.X.max() > 10 else data.X
        some = np.random.default_rng(seed).permutation(60_000)[:15_000]
        train, test = np.split(some, [10_000])
        return X[train], data.y[train], X[test], data.y[test]

    return parts


def training(load: Callable[[], object]) -> Callable[[int], Parts]:
    def parts(seed: int) -> Parts:
        data = load()
        return shares(data.X[data.train], data.y[data.train], seed)

    return parts


PROBLEMS: dict[str, Callable[[int], Parts]] = {
    "integers around 30, 10 features": integers,
    "integers of unequal variance, 8": scaled,
    "wine, 13": lambda seed: shares(*load_wine(return_X_y=True), seed),
    "digits, 64": lambda seed: shares(*load_digits(return_X_y=True), seed),
    "MNIST, 784": images(load_mnist),
    "Fashion-MNIST, 784": images(load_fashion_mnist),
    "Isolet, 617": training(load_isolet),
    "Tiny ImageNet, 256": training(load_tiny_imagenet),
}


def contenders(X: np.ndarray) -> Iterator[tuple[str, SLNDClassifier | SGDOneVsRest]]:
    for damping in DAMPINGS:
        learner = SLNDClassifier(hessian="low-rank", damping=damping, random_state=0)
        yield f"{damping}", learner
    yield "diagonal", SLNDClassifier(hessian="diagonal", random_state=0)
    yield "default", SLNDClassifier(random_state=0)
    yield "SGD", SGDOneVsRest(random_state=0)
    typical = 0.25 * float((X**2).sum(axis=1).mean())
    for step in STEPS:
        yield BEST, SGDOneVsRest(eta=step / typical, random_state=0)


def accuracies(X: np.ndarray, y: np.ndarray, held_out: np.ndarray, truth: np.ndarray) -> dict:
    """Contender -> share of right decisions; of several with one name, the best."""
    X, held_out, found = X.astype(np.float32), held_out.astype(np.float32), {}
    for label, learner in contenders(X):
        value = learner.fit(X, y).score(held_out, truth)
        found[label] = max(value, found.get(label, 0.0))
    return found


def main() -> None:
    lines = []
    for name, parts in PROBLEMS.items():
        by_seed = [accuracies(*parts(seed)) for seed in SEEDS]
        means = {label: fmean(found[label] for found in by_seed) for label in by_seed[0]}
        lines.append([name, *(f"{100 * value:.1f}" for value in means.values())])
        print(name, file=sys.stderr)
    print(markdown_table(["features", *means], lines))


if __name__ == "__main__":
    main()
