"""What merging costs in quality: learners of shares, merged, against one learner of everything.

Every merge is guarded by judgements about one half of the test points. The best part is chosen by
these, too, and compared on the other half. ``FORCED=1`` also merges what is refused for having
learnt too little, to show what that would cost; ``FIRST=5 SEEDS=20`` takes twenty other seeds, and
``CELLS="32,1;2,4"`` some numbers of parts and rounds.
"""

import copy
import os
import re
from itertools import product
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from benchmarks.timing import table
from experiments.datasets import load_fashion_mnist, load_mnist
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
from similia.feedback.sampling import BalancedPairs, UniformTriplets

N, FIRST = 20_000, int(os.environ.get("FIRST", "0"))
SEEDS = range(FIRST, FIRST + int(os.environ.get("SEEDS", "5")))
CLOSE = 0.01
#: parts and rounds
CELLS = list(product((2, 8, 32), (1, 4, 16)))
if "CELLS" in os.environ:
    CELLS = [tuple(map(int, cell.split(","))) for cell in os.environ["CELLS"].split(";")]
ALWAYS, BETTER = "always", "a part is better"
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
    """Judgements about half of the digits; a quarter to choose by, and a quarter to judge on."""

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
        #: whether each mark is one to choose by, by its query
        self.chosen_by = [np.arange(len(self.test)) % 2 == 0, self.held_out[:, 0] % 2 == 0]

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

    def guard(self, learner):
        """Marks that `merge` may see."""
        return self.marks(learner)[0][self.chosen_by[0]]

    def gains_over_best(self, merged, parts):
        """For each kind of marks, gain over the part that others choose, and its standard error."""
        gains = []
        for chosen_by, own, *others in zip(
            self.chosen_by[: len(merged)], merged, *parts, strict=True
        ):
            best = max(others, key=lambda marks, by=chosen_by: marks[by].mean())
            gain = (own - best)[~chosen_by]
            gains.append([gain.mean(), gain.std(ddof=1) / len(gain) ** 0.5])
        return np.array(gains).T


def quality(marks):
    return np.array([mark.mean() for mark in marks])


def in_rounds(problem, start, n_parts, n_rounds, guard=None):
    """The merged learner of the last round, and its parts."""
    for piece in np.array_split(np.arange(N), n_rounds):
        parts = start.split(n_parts)
        for place, part in enumerate(parts):
            problem.teach(part, piece[place::n_parts])
        start = start.merge(parts, guard)
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
    for n_parts, n_rounds in CELLS:
        try:
            merged, parts = in_rounds(problem, start, n_parts, n_rounds, problem.guard)
            refused = ""
        except ValueError as error:
            refused = _reason(str(error))
            if refused in (ALWAYS, BETTER) or "FORCED" not in os.environ:
                yield n_parts, n_rounds, Cell(whole, refused=refused)
                continue
            with mock.patch.object(Learner, "_check_learnt"):
                merged, parts = in_rounds(problem, start, n_parts, n_rounds)
        merged, parts = problem.marks(merged), [problem.marks(part) for part in parts]
        best = np.max([quality(part) for part in parts], axis=0)
        over_best = problem.gains_over_best(merged, parts)
        yield n_parts, n_rounds, Cell(whole, quality(merged), best, over_best, refused)


def _reason(message):
    if "as good as its best part" in message:
        return BETTER
    steps = re.search(r"at least (\d+) steps each, got (\d+)", message)
    return f"{steps[2]} of {steps[1]} steps" if steps else ALWAYS


def merging():
    rows = []
    for name in os.environ.get("LEARNERS", ";".join(CONTENDERS)).split(";"):
        runs = [row for seed in SEEDS for row in compared(name, seed)]
        for n_parts, n_rounds in CELLS:
            cells = [row[2] for row in runs if row[:2] == (n_parts, n_rounds)]
            done = [cell for cell in cells if cell.merged is not None]
            row = [name, n_parts, n_rounds, _shown(np.mean([c.whole for c in cells], axis=0))]
            if done:
                over, error = np.moveaxis([cell.over_best for cell in done], 1, 0)
                of_mean = over.std(axis=0, ddof=1) / len(over) ** 0.5 if len(over) > 1 else None
                behind = np.array([cell.merged - cell.whole for cell in done])
                row += [
                    _shown(np.mean([cell.merged for cell in done], axis=0)),
                    _shown(behind.mean(axis=0), "+.3f"),
                    _shown(behind.min(axis=0), "+.3f"),
                    int((behind < -CLOSE).any(axis=1).sum()),
                    _shown(np.min([c.merged - c.best for c in done], axis=0), "+.3f"),
                    _shown(over.mean(axis=0), "+.4f"),
                    "" if of_mean is None else _shown(of_mean, ".4f"),
                    _shown((over / np.maximum(error, 1e-9)).min(axis=0), "+.1f"),
                ]
            else:
                row += [""] * 8
            refused = [cell.refused for cell in cells if cell.refused]
            rows.append([*row, f"{len(refused)} ({refused[0]})" if refused else "0"])
            print(*rows[-1], sep=" | ", flush=True)
    table(
        f"Merging {N:,} judgements about digits, {len(SEEDS)} seeds: mAP / held-out order right "
        "(accuracy for classifiers)",
        [
            "learner",
            "parts",
            "rounds",
            "whole",
            "merged",
            "mean gain over the whole",
            "least of these",
            f"seeds more than {CLOSE} behind it",
            "least gain over the best part by the same test",
            "mean gain over the part that other points choose",
            "its standard error over seeds",
            "least of these gains in standard errors",
            "refused",
        ],
        rows,
    )


def _shown(values, form=".3f"):
    return " / ".join(format(value, form) for value in dict.fromkeys(values.tolist()))


def merging_images():
    """What AROW's merges cost on many test rows, whether refused or not, by steps for a weight."""
    rows, cells = [], ((2, 1), (8, 1), (8, 4), (32, 1), (32, 4))
    for data, load in {"MNIST": load_mnist, "Fashion-MNIST": load_fashion_mnist}.items():
        images = load()
        for seed, covariance in product(SEEDS, ("full", "diagonal")):
            chosen = np.random.default_rng(seed).choice(60_000, N, replace=False)
            basis = PCA(64, svd_solver="randomized", random_state=0).fit(images.X[chosen[:3000]])
            X, test = (
                normalize(basis.transform(images.X[some])) for some in (chosen, ~images.train)
            )
            y, labels = images.y[chosen], images.y[~images.train]
            start = AROW(covariance=covariance).partial_fit(X[:20], y[:20], classes=np.unique(y))
            whole = copy.deepcopy(start).partial_fit(X, y).score(test, labels)
            row = [data, covariance, seed, f"{whole:.4f}"]
            for n_parts, n_rounds in cells:
                merged, steps = start, []
                for piece in np.array_split(np.arange(N), n_rounds):
                    parts = merged.split(n_parts)
                    for place, part in enumerate(parts):
                        part.partial_fit(X[piece[place::n_parts]], y[piece[place::n_parts]])
                    steps.append(min(part.n_updates_ for part in parts) / start.w_.size)
                    with mock.patch.object(Learner, "_check_learnt"):
                        merged = merged.merge(parts)
                row.append(f"{merged.score(test, labels) - whole:+.4f} ({steps[0]:.1f})")
            rows.append(row)
            print(*row, flush=True)
    names = [f"{n} parts, {r} rounds" for n, r in cells]
    title = f"AROW, {N:,} images in 64 dimensions: gain over the whole (first steps for a weight)"
    table(title, ["", "covariance", "seed", "whole", *names], rows)


ALL = [merging, merging_images]
