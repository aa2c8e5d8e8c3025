"""Exhibits: name -> function of a seed that gives the arrays of a picture.

A run keeps them beside the rows, as a small .npz, and a report draws them: it runs nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.contenders import CONTENDERS
from experiments.problems import PROBLEMS, Problem

Arrays = dict[str, Any]


# As the paper has it: from zero, in full steps.
PRINTED = {"gamma": 0.0, "start": "zero", "unit": 1.0, "threshold_rate": 1.0}


def noisy_digits(seed: int) -> Arrays:
    """The training images, and what their first direction under PCA and POLA leaves of them."""
    problem = PROBLEMS["noisy_digits"](seed, noise="image")
    X = problem.X_train
    n_pairs = len(X) * (len(X) - 1) // 2
    found = {"images": X.astype(np.float16), "digits": problem.y_train.astype(np.int8)}
    for title, L in _maps(problem, seed, n_pairs, "all").items():
        found[title] = along(X, L[0]).astype(np.float16)
    return found


def projections(seed: int) -> Arrays:
    """A hundred test images of 0 and 8 in two directions, from PCA and from POLA."""
    problem = PROBLEMS["mnist_pair"](seed, digits="08")
    shown = np.random.default_rng(seed).choice(len(problem.y_test), 100, replace=False)
    found = {"digits": problem.y_test[shown].astype(np.int8)}
    for title, L in _maps(problem, seed, 1000, "uniform").items():
        found[title] = (problem.X_test[shown] @ L[:2].T).astype(np.float32)
    return found


def two_embeddings(seed: int) -> Arrays:
    """Queries of one domain and items of another in two directions: before, with one map, with two.

    The directions are the principal ones of the items' images, in which queries are drawn as well.
    """
    problem = PROBLEMS["domain_pair"](seed, pair="webcam to amazon")
    n = problem.context.n_queries
    X, y = problem.X_test, problem.y_test
    items, labels = problem.X_train[n:], problem.y_train[n:]
    shown = np.random.default_rng(seed).permutation(len(labels))[:150]
    found: Arrays = {
        "query_labels": y.astype(np.int8),
        "item_labels": labels[shown].astype(np.int8),
    }
    kinds = {
        "before": ("identity", {}),
        "one map": ("gerrymandering", {"asymmetric": False, "init": "classes"}),
        "two maps": ("gerrymandering", {"asymmetric": True, "init": "classes"}),
    }
    for title, (kind, parameters) in kinds.items():
        contender = CONTENDERS[kind](problem, seed, **parameters)
        contender.learn_to(0)
        scorer = contender.scorers()["l2"]
        queries, images = scorer.query_vectors(X), scorer.item_vectors(items)
        center = images.mean(axis=0)
        _, _, V = np.linalg.svd(images - center, full_matrices=False)
        found[f"{title}, queries"] = ((queries - center) @ V[:2].T).astype(np.float16)
        found[f"{title}, items"] = ((images[shown] - center) @ V[:2].T).astype(np.float16)
    return found


def _maps(problem: Problem, seed: int, n_pairs: int, pairs: str) -> Arrays:
    """Leading directions, as rows, of PCA and of POLA's last and average matrix."""
    found = {}
    for name, parameters in (("PCA", {"n_components": 2}), ("POLA", {**PRINTED, "pairs": pairs})):
        contender = CONTENDERS[name](problem, seed, **parameters)
        contender.learn_to(n_pairs)
        for score, scorer in contender.scorers().items():
            if scorer.geometry == "l2":
                found[name if score == "l2" else f"{name}, {score}"] = scorer.components
    return found


EXHIBITS: dict[str, Callable[[int], Arrays]] = {
    "noisy_digits": noisy_digits,
    "projections": projections,
    "two_embeddings": two_embeddings,
}


def along(X: Any, direction: Any) -> Any:
    """Replace each point by the one nearest to it on the line through the mean."""
    unit = direction / np.linalg.norm(direction)
    center = X.mean(axis=0)
    return center + np.outer((X - center) @ unit, unit)


def keep_exhibits(names: list[str], seed: int, folder: Path) -> None:
    """Make the exhibits that are not there yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.npz"
        if not path.exists():
            np.savez_compressed(path, **EXHIBITS[name](seed))


def read_exhibits(folder: Path) -> dict[str, Arrays]:
    found = {}
    for path in sorted(folder.glob("*.npz")):
        with np.load(path) as arrays:
            found[path.stem] = dict(arrays)
    return found
