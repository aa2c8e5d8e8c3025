"""Accuracy of SLND by its damping, on held-out training rows: python -m experiments.damping."""

import sys
from collections.abc import Callable, Iterator
from statistics import fmean

import numpy as np
from sklearn.datasets import load_digits

from experiments.datasets import load_fashion_mnist, load_isolet, load_mnist, load_tiny_imagenet
from experiments.summary import markdown_table
from similia import SGDOneVsRest, SLNDClassifier

DAMPINGS = (0, 3, 10, 30, 60, 100)
SEEDS = (0, 1)
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
    "digits, 64": lambda seed: shares(*load_digits(return_X_y=True), seed),
    "MNIST, 784": images(load_mnist),
    "Fashion-MNIST, 784": images(load_fashion_mnist),
    "Isolet, 617": training(load_isolet),
    "Tiny ImageNet, 256": training(load_tiny_imagenet),
}


def contenders() -> Iterator[tuple[str, SLNDClassifier | SGDOneVsRest]]:
    for damping in DAMPINGS:
        yield (
            f"{damping}",
            SLNDClassifier(hessian="low-rank", damping=damping, random_state=0),
        )
    yield "diagonal", SLNDClassifier(hessian="diagonal", random_state=0)
    yield "SGD", SGDOneVsRest(random_state=0)


def main() -> None:
    lines = []
    for name, parts in PROBLEMS.items():
        found: dict[str, list[float]] = {}
        for seed in SEEDS:
            X, y, held_out, truth = parts(seed)
            X, held_out = X.astype(np.float32), held_out.astype(np.float32)
            for label, learner in contenders():
                found.setdefault(label, []).append(learner.fit(X, y).score(held_out, truth))
        lines.append([name, *(f"{100 * fmean(values):.1f}" for values in found.values())])
        print(name, file=sys.stderr)
    print(markdown_table(["features", *(label for label, _ in contenders())], lines))


if __name__ == "__main__":
    main()
