"""The task of the demo: search pictures of two digits by the left one."""

import time
from typing import NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize

from similia.contract import Array, Ranker
from similia.plotting import Neighbors
from similia.registry import DEFAULT, learner_class
from similia.retrieval import Evaluation, evaluate, top_k

DEMO_BASE = "cosine"
CUTS = (1, 2, 5, 10, 20, 40, 80)
N_SHOWN = 8  # neighbors in the picture


class DigitsTask(NamedTuple):
    """Vectors of unit length and the left digit of each."""

    train: Array
    y_train: Array
    test: Array
    y_test: Array


class Result(NamedTuple):
    """A scorer, how well it ranks, and how long it took to learn."""

    scorer: Ranker | str
    evaluation: Evaluation
    seconds: float

    @property
    def curve(self) -> tuple[Array, Array]:
        """Cut-offs k, and the precision at each."""
        means = self.evaluation.means
        return np.array(CUTS), np.array([means[f"precision@{k}"] for k in CUTS])


def two_digits(seed: int) -> DigitsTask:
    """Halve the digits; beside each digit, put a random one of the same half."""
    digits = load_digits()
    train, test, y_train, y_test = train_test_split(
        digits.data, digits.target, train_size=0.5, stratify=digits.target, random_state=seed
    )
    rng = np.random.default_rng(seed)
    train, test = (
        normalize(np.hstack([half, half[rng.permutation(len(half))]])) for half in (train, test)
    )
    return DigitsTask(train, y_train, test, y_test)


def run(task: DigitsTask, n_triplets: int, seed: int) -> dict[str, Result]:
    """Evaluate the base, then the learner with default parameters."""
    learner = learner_class(DEFAULT)(n_triplets=n_triplets, random_state=seed, verbose=True)
    clone(learner).set_params(n_triplets=300, verbose=False).fit(task.train, task.y_train)
    started = time.perf_counter()
    learner.fit(task.train, task.y_train)
    seconds = time.perf_counter() - started
    return {
        DEMO_BASE: Result(DEMO_BASE, _evaluation(DEMO_BASE, task), 0.0),
        DEFAULT: Result(learner, _evaluation(learner, task), seconds),
    }


def _evaluation(scorer: Ranker | str, task: DigitsTask) -> Evaluation:
    return evaluate(
        scorer, task.test, labels=task.y_test, k=CUTS, measures=("precision", "ndcg", "map")
    )


def examples(
    task: DigitsTask, results: dict[str, Result], seed: int, n: int = 4
) -> list[Neighbors]:
    """Random queries, each with its nearest neighbors before and after learning."""
    chosen = np.random.default_rng(seed).choice(len(task.test), n, replace=False)
    found = {}
    for name, result in results.items():
        found[name] = top_k(result.scorer, task.test, task.test, N_SHOWN, exclude_self=True)[0]
    return [
        Neighbors(
            title=name,
            query=_picture(task.test[i]),
            items=[_picture(task.test[j]) for j in indices[i]],
            right=[bool(task.y_test[j] == task.y_test[i]) for j in indices[i]],
        )
        for i in chosen
        for name, indices in found.items()
    ]


def _picture(row: Array) -> Array:
    left, right = row.reshape(2, 8, 8)
    return np.hstack([left, right])
