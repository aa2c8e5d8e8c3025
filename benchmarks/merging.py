"""What merging costs in quality: learners of shares, merged, against one learner of everything."""

import copy
from itertools import product

import numpy as np
from sklearn.datasets import load_digits
from sklearn.preprocessing import normalize

from benchmarks.timing import table
from similia import (
    AROW,
    LEGO,
    MEG,
    OASIS,
    POLA,
    DiagonalAROMA,
    FactoredAROMA,
    SGDOneVsRest,
    SLNDClassifier,
    evaluate,
)
from similia.sampling import BalancedPairs, UniformTriplets

N, SEEDS, PARTS, ROUNDS = 20_000, 5, (2, 8, 32), (1, 4, 16)
CONTENDERS = {
    "FactoredAROMA, zero": lambda: FactoredAROMA(prior="zero"),
    "FactoredAROMA": FactoredAROMA,
    "FactoredAROMA, margin": lambda: FactoredAROMA(update_on="margin"),
    "DiagonalAROMA, zero": lambda: DiagonalAROMA(prior="zero"),
    "DiagonalAROMA": DiagonalAROMA,
    "DiagonalAROMA, margin": lambda: DiagonalAROMA(update_on="margin"),
    "OASIS, zero": lambda: OASIS(prior="zero"),
    "OASIS": OASIS,
    "POLA": POLA,
    "LEGO": LEGO,
    "MEG": lambda: MEG(feedback="labels"),
    "AROW": AROW,
    "AROW, diagonal": lambda: AROW(covariance="diagonal"),
    "SGDOneVsRest": SGDOneVsRest,
    "SLNDClassifier": SLNDClassifier,
}


class Digits:
    """Judgements about one half of the digits, and the other half to be judged on."""

    def __init__(self, seed, n=N):
        X, y = load_digits(return_X_y=True)
        order = np.random.default_rng(seed).permutation(len(X))
        X, y = normalize(X)[order], y[order]
        self.X, self.y, self.test, self.labels = X[:898], y[:898], X[898:], y[898:]
        rng = np.random.default_rng(seed + 1)
        self.triplets = UniformTriplets(self.y).draw(n, rng)
        self.held_out = UniformTriplets(self.labels).draw(5000, rng)
        self.pairs = BalancedPairs(self.y).draw(n, rng)
        self.rows = rng.integers(len(self.y), size=n)

    def teach(self, learner, chosen):
        if learner.learns_from == "triplets":
            return learner.learn(self.X, self.triplets[chosen])
        if learner.learns_from == "pairs":
            return learner.learn(self.X, *(side[chosen] for side in self.pairs))
        rows = self.rows[chosen]
        return learner.partial_fit(self.X[rows], self.y[rows], classes=np.arange(10))

    def quality(self, learner):
        """mAP and the share of held-out triplets in the right order, or twice the accuracy."""
        if learner.learns_from == "labels":
            return np.full(2, learner.score(self.test, self.labels))
        scores = learner.pairwise_score(self.test)
        query, better, worse = self.held_out.T
        mean = evaluate(lambda Q, Z: scores, self.test, labels=self.labels, k=10).means["map"]
        return np.array([mean, np.mean(scores[query, better] > scores[query, worse])])


def in_rounds(problem, start, n_parts, n_rounds):
    """The merged learner of the last round, and its parts."""
    for piece in np.array_split(np.arange(N), n_rounds):
        parts = start.split(n_parts)
        for place, part in enumerate(parts):
            problem.teach(part, piece[place::n_parts])
        start = start.merge(parts)
    return start, parts


def compared(name, seed):
    """Rows (parts, rounds, what merging gained over the best part, what it lost to the whole)."""
    problem = Digits(seed)
    start = CONTENDERS[name]()
    first = 20 if start.learns_from == "labels" else 0
    problem.teach(start, np.arange(first))
    whole = problem.quality(problem.teach(copy.deepcopy(start), np.arange(N)))
    for n_parts, n_rounds in product(PARTS, ROUNDS):
        try:
            merged, parts = in_rounds(problem, start, n_parts, n_rounds)
        except ValueError:
            yield n_parts, n_rounds, whole, None, None
            continue
        best = np.max([problem.quality(part) for part in parts], axis=0)
        found = problem.quality(merged)
        yield n_parts, n_rounds, whole, found, found - best


def merging():
    rows = []
    for name in CONTENDERS:
        runs = [row for seed in range(SEEDS) for row in compared(name, seed)]
        for n_parts, n_rounds in product(PARTS, ROUNDS):
            cell = [row[2:] for row in runs if row[:2] == (n_parts, n_rounds)]
            done = [row for row in cell if row[1] is not None]
            row = [name, n_parts, n_rounds, _shown(np.mean([row[0] for row in cell], axis=0))]
            if done:
                row.append(_shown(np.mean([merged for _, merged, _ in done], axis=0)))
                row.append(_shown(np.min([gain for *_, gain in done], axis=0), "+.3f"))
                row.append(_shown(np.min([m - whole for whole, m, _ in done], axis=0), "+.3f"))
            else:
                row += ["", "", ""]
            rows.append([*row, len(cell) - len(done)])
    table(
        f"Merging {N:,} judgements about digits, {SEEDS} seeds: mAP / held-out order right "
        "(accuracy for classifiers)",
        [
            "learner",
            "parts",
            "rounds",
            "whole",
            "merged",
            "least gain over the best part",
            "least gain over the whole",
            "refused",
        ],
        rows,
    )


def _shown(values, form=".3f"):
    return " / ".join(format(value, form) for value in dict.fromkeys(values.tolist()))


ALL = [merging]
