"""What merging costs in quality: learners of shares, merged, against one learner of the whole."""

import copy

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.timing import table
from similia import OASIS, DiagonalAROMA, FactoredAROMA, evaluate
from similia.sampling import UniformTriplets


def merging():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = normalize(X)[order], y[order]
    train, test, half = X[:898], X[898:], y[:898]
    rng = np.random.default_rng(1)
    triplets = UniformTriplets(half).draw(20_000, rng)
    held_out = UniformTriplets(y[898:]).draw(5_000, rng)

    def quality(learner):
        scores = learner.triplet_scores(test, held_out)
        hinge = np.maximum(0.0, 1.0 - scores).mean()
        mean = evaluate(learner, test, labels=y[898:], k=10).means["map"]
        return f"{mean:.3f} / {np.mean(scores > 0):.3f} / {hinge:.3f}"

    rows = []
    for cls in (FactoredAROMA, DiagonalAROMA, OASIS):
        start = cls(prior="zero", average=False).learn(train, triplets[:0])
        whole = copy.deepcopy(start).learn(train, triplets)
        for k in (2, 4, 8):
            parts = [copy.deepcopy(start).learn(train, triplets[i::k]) for i in range(k)]
            merged = start.merge(parts)
            rows.append([cls.__name__, k, *map(quality, (whole, parts[0], merged))])
    table(
        "Merging shares of 20,000 triplets of digits: mAP / held-out order right / hinge loss",
        ["learner", "parts", "whole", "one part", "merged"],
        rows,
    )


ALL = [merging]
