"""A linear classifier one example at a time: AROW and river's, on the same streams, in one run.

Needs river beside similia: ``pip install river`` and ``python -m benchmarks.against_river``.
"""

from time import perf_counter

import numpy as np
from river import linear_model

from similia import AROW

N, BLOCK = 3000, 100


def stream(d, rng):
    """Examples, and labels of which one in ten is wrong."""
    X = rng.normal(size=(N, d))
    y = X @ rng.normal(size=d) > 0
    return X, np.where(rng.random(N) < 0.1, ~y, y)


def ours(X, y, block):
    """Seconds, and share of right predictions before each block was learnt."""
    AROW().partial_fit(X[:2], [False, True], classes=[False, True])  # compiles
    learner, right = AROW(), 0
    start = perf_counter()
    learner.partial_fit(X[:block], y[:block], classes=[False, True])
    for i in range(block, len(X), block):
        right += np.sum(learner.predict(X[i : i + block]) == y[i : i + block])
        learner.partial_fit(X[i : i + block], y[i : i + block])
    return perf_counter() - start, right / (len(X) - block)


def theirs(model, X, y):
    """The same, with examples as the dictionaries that river takes, made before the clock."""
    rows, right = [dict(enumerate(x)) for x in X.tolist()], 0
    start = perf_counter()
    for x, label in zip(rows, y.tolist(), strict=True):
        right += model.predict_one(x) == label
        model.learn_one(x, label)
    return perf_counter() - start, right / len(X)


def main():
    print("| d | learner | examples/s | right before learning |\n| --- | --- | --- | --- |")
    for d in (16, 64, 256):
        X, y = stream(d, np.random.default_rng(0))
        found = {
            f"AROW, blocks of {BLOCK}": ours(X, y, BLOCK),
            "AROW, one at a time": ours(X, y, 1),
            "river PAClassifier": theirs(linear_model.PAClassifier(mode=1, C=0.01), X, y),
            "river LogisticRegression": theirs(linear_model.LogisticRegression(), X, y),
        }
        for name, (seconds, share) in found.items():
            print(f"| {d} | {name} | {N / seconds:,.0f} | {share:.3f} |")


if __name__ == "__main__":
    main()
