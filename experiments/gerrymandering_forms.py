"""kNN errors of gerrymandering's forms and of the default that picks one.

    python -m experiments.gerrymandering_forms

Training points only: of each set some are learnt from and others count the errors. Few principal
components stand for sets with few features and many points.
"""

import sys
from collections.abc import Callable
from statistics import fmean

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from experiments.datasets import load_isolet, load_mnist, load_usps
from experiments.summary import markdown_table
from similia import NeighborhoodGerrymandering

SEEDS = (0, 1)
FORMS = {
    "symmetric, held out": {"asymmetric": False, "early_stopping": True},
    "symmetric, all learnt": {"asymmetric": False, "early_stopping": False},
    "asymmetric, held out": {"asymmetric": True, "early_stopping": True},
    "asymmetric, all learnt": {"asymmetric": True, "early_stopping": False},
    "default": {},
}
Points = tuple[np.ndarray, np.ndarray]


def training(load: Callable[[], object]) -> Callable[[], Points]:
    def points() -> Points:
        data = load()
        X = data.X.reshape(len(data.y), -1)
        return X[data.train].astype(np.float32), data.y[data.train].astype(int)

    return points


def rings(n: int = 6000) -> Points:
    """Five classes as rings in the first two of six features."""
    rng = np.random.default_rng(7)
    y = rng.integers(5, size=n)
    angle, radius = rng.uniform(0, 2 * np.pi, n), 1.0 + y + 0.45 * rng.normal(size=n)
    noise = 2.0 * rng.normal(size=(n, 4))
    X = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), noise])
    return X.astype(np.float32), y


#: points, number of them to learn from, principal components
PROBLEMS: dict[str, tuple[Callable[[], Points], int, int | None]] = {
    "rings, 6 features": (rings, 4000, None),
    "USPS, 8 components": (training(load_usps), 5000, 8),
    "MNIST, 12 components": (training(load_mnist), 6000, 12),
    "Isolet, 16 components": (training(load_isolet), 4500, 16),
    "Isolet, 100 components": (training(load_isolet), 4500, 100),
    "USPS, 100 components": (training(load_usps), 5000, 100),
    "digits, 64 features": (lambda: load_digits(return_X_y=True), 1200, None),
}


def errors(name: str, seed: int) -> dict[str, float]:
    load, n, components = PROBLEMS[name]
    X, y = load()
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:n], order[n : n + 3000]
    if components is not None:
        reduce = PCA(components, random_state=0).fit(X[train])
        X = reduce.transform(X).astype(np.float32)
    found = {}
    for form, parameters in FORMS.items():
        learner = NeighborhoodGerrymandering(random_state=seed, **parameters)
        found[form] = 1.0 - learner.fit(X[train], y[train]).score(X[test], y[test])
    return found


def main() -> None:
    lines = []
    for name in PROBLEMS:
        by_seed = [errors(name, seed) for seed in SEEDS]
        means = [fmean(found[form] for found in by_seed) for form in FORMS]
        lines.append([name, *(f"{100 * mean:.1f}" for mean in means)])
        print(lines[-1], file=sys.stderr)
    print(markdown_table(["points", *FORMS], lines))


if __name__ == "__main__":
    main()
