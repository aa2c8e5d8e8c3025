"""What merging costs in quality: learners of shares, merged, against one learner of everything.

``FORCED=1`` also merges what is refused for having learnt too little, to show what that would cost.
"""

import copy
import os
import re
from itertools import product
from typing import Any, NamedTuple
from unittest import mock

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
    Blend,
    DiagonalAROMA,
    FactoredAROMA,
    KernelPOLA,
    SGDOneVsRest,
    SLNDClassifier,
    evaluate,
)
from similia.base import Learner
from similia.retrieval.best import gain_over_best
from similia.sampling import BalancedPairs, UniformTriplets

N, SEEDS = 20_000, int(os.environ.get("SEEDS", "5"))
PARTS, ROUNDS = (2, 8, 32), (1, 4, 16)
ALWAYS = "always"
#: a start that is neither nothing nor the identity
MIXED = 0.5 * np.eye(64) + 0.1 * np.random.default_rng(0).normal(size=(64, 64))
CONTENDERS = {
    "FactoredAROMA, zero": lambda: FactoredAROMA(prior="zero"),
    "FactoredAROMA": FactoredAROMA,
    "FactoredAROMA, matrix": lambda: FactoredAROMA(prior=MIXED),
    "FactoredAROMA, margin": lambda: FactoredAROMA(update_on="margin"),
    "DiagonalAROMA, zero": lambda: DiagonalAROMA(prior="zero"),
    "DiagonalAROMA": DiagonalAROMA,
    "DiagonalAROMA, matrix": lambda: DiagonalAROMA(prior=MIXED),
    "DiagonalAROMA, margin": lambda: DiagonalAROMA(update_on="margin"),
    "OASIS, zero": lambda: OASIS(prior="zero"),
    "OASIS": OASIS,
    "OASIS, matrix": lambda: OASIS(prior=MIXED),
    "POLA": POLA,
    "KernelPOLA": KernelPOLA,
    "LEGO": LEGO,
    "MEG": lambda: MEG(feedback="labels"),
    "AROW": AROW,
    "AROW, diagonal": lambda: AROW(covariance="diagonal"),
    "SGDOneVsRest": SGDOneVsRest,
    "SLNDClassifier": SLNDClassifier,
    "Blend": Blend,
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

    def marks(self, learner):
        """Average precision of each test point and each held-out triplet in order; or labels."""
        if learner.learns_from == "labels":
            return [(learner.predict(self.test) == self.labels).astype(float)]
        scores = learner.pairwise_score(self.test)
        query, better, worse = self.held_out.T
        found = evaluate(lambda Q, Z: scores, self.test, labels=self.labels, k=10)
        right = scores[query, better] > scores[query, worse]
        return [found.per_query["map"], right.astype(float)]


def quality(marks):
    return np.array([mark.mean() for mark in marks])


def gains_over_best(merged, parts):
    """What merging gains over the part that is best on the other half of the test: mean, error."""
    return np.array(
        [gain_over_best(m, others) for m, *others in zip(merged, *parts, strict=True)]
    ).T


def in_rounds(problem, start, n_parts, n_rounds):
    """The merged learner of the last round, and its parts."""
    for piece in np.array_split(np.arange(N), n_rounds):
        parts = start.split(n_parts)
        for place, part in enumerate(parts):
            problem.teach(part, piece[place::n_parts])
        start = start.merge(parts)
    return start, parts


class Cell(NamedTuple):
    """One seed: qualities, or why merging was refused."""

    whole: Any
    merged: Any = None
    best: Any = None
    over_best: Any = None
    refused: str = ""


def compared(name, seed):
    """Parts, rounds, and what came of them."""
    problem = Digits(seed)
    start = CONTENDERS[name]()
    first = 20 if start.learns_from == "labels" else 0
    problem.teach(start, np.arange(first))
    whole = quality(problem.marks(problem.teach(copy.deepcopy(start), np.arange(N))))
    for n_parts, n_rounds in product(PARTS, ROUNDS):
        try:
            merged, parts = in_rounds(problem, start, n_parts, n_rounds)
            refused = ""
        except ValueError as error:
            refused = _reason(str(error))
            if refused == ALWAYS or "FORCED" not in os.environ:
                yield n_parts, n_rounds, Cell(whole, refused=refused)
                continue
            with mock.patch.object(Learner, "_check_learnt"):
                merged, parts = in_rounds(problem, start, n_parts, n_rounds)
        merged, parts = problem.marks(merged), [problem.marks(part) for part in parts]
        best = np.max([quality(part) for part in parts], axis=0)
        over_best = gains_over_best(merged, parts)
        yield n_parts, n_rounds, Cell(whole, quality(merged), best, over_best, refused)


def _reason(message):
    steps = re.search(r"at least (\d+) steps each, got (\d+)", message)
    return f"{steps[2]} of {steps[1]} steps" if steps else ALWAYS


def merging():
    rows = []
    for name in os.environ.get("LEARNERS", ";".join(CONTENDERS)).split(";"):
        runs = [row for seed in range(SEEDS) for row in compared(name, seed)]
        for n_parts, n_rounds in product(PARTS, ROUNDS):
            cells = [row[2] for row in runs if row[:2] == (n_parts, n_rounds)]
            done = [cell for cell in cells if cell.merged is not None]
            row = [name, n_parts, n_rounds, _shown(np.mean([c.whole for c in cells], axis=0))]
            if done:
                over = np.array([cell.over_best for cell in done])
                row += [
                    _shown(np.mean([cell.merged for cell in done], axis=0)),
                    _shown(np.min([c.merged - c.whole for c in done], axis=0), "+.3f"),
                    _shown(np.min([c.merged - c.best for c in done], axis=0), "+.3f"),
                    _shown(over[:, 0].mean(axis=0), "+.3f"),
                    _shown((over[:, 0] / np.maximum(over[:, 1], 1e-9)).min(axis=0), "+.1f"),
                ]
            else:
                row += [""] * 5
            refused = [cell.refused for cell in cells if cell.refused]
            rows.append([*row, f"{len(refused)} ({refused[0]})" if refused else "0"])
    table(
        f"Merging {N:,} judgements about digits, {SEEDS} seeds: mAP / held-out order right "
        "(accuracy for classifiers)",
        [
            "learner",
            "parts",
            "rounds",
            "whole",
            "merged",
            "least gain over the whole",
            "least gain over the best part by the same test",
            "mean gain over the best part by the other half",
            "least of these in standard errors",
            "refused",
        ],
        rows,
    )


def _shown(values, form=".3f"):
    return " / ".join(format(value, form) for value in dict.fromkeys(values.tolist()))


ALL = [merging]
