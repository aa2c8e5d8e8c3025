"""Exhibits: name -> function of a seed that gives the arrays of a picture.

A run keeps them beside the rows, as a small .npz, and a report draws them: it runs nothing.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from experiments.contenders import CONTENDERS
from experiments.problems import PROBLEMS

Arrays = dict[str, Any]


def noisy_digits(seed: int) -> Arrays:
    """The training images, and what their first direction under PCA and POLA leaves of them."""
    problem = PROBLEMS["noisy_digits"](seed)
    X = problem.X_train
    n_pairs = len(X) * (len(X) - 1) // 2
    found = {"images": X, "digits": problem.y_train}
    for name, parameters in (("PCA", {"n_components": 1}), ("POLA", {"pairs": "all"})):
        contender = CONTENDERS[name](problem, seed, **parameters)
        contender.learn_to(n_pairs)
        for score, scorer in _by_distance(contender).items():
            title = name if name == "PCA" else f"{name}, {score}"
            found[title] = along(X, scorer.components[0]).astype(np.float16)
    return found


def projections(seed: int) -> Arrays:
    """A hundred test images of 0 and 8 in two directions, from PCA and from POLA."""
    problem = PROBLEMS["mnist_pair"](seed, digits="08", scaling="unit_distance")
    shown = np.random.default_rng(seed).choice(len(problem.y_test), 100, replace=False)
    found = {"digits": problem.y_test[shown].astype(np.int8)}
    for name, parameters in (("PCA", {"n_components": 2}), ("POLA", {"pairs": "uniform"})):
        contender = CONTENDERS[name](problem, seed, **parameters)
        contender.learn_to(1000)
        for score, scorer in _by_distance(contender).items():
            title = name if name == "PCA" else f"{name}, {score}"
            points = problem.X_test[shown] @ scorer.components[:2].T
            found[title] = points.astype(np.float32)
    return found


EXHIBITS: dict[str, Callable[[int], Arrays]] = {
    "noisy_digits": noisy_digits,
    "projections": projections,
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


def _by_distance(contender: Any) -> Arrays:
    return {name: s for name, s in contender.scorers().items() if s.geometry == "l2"}
