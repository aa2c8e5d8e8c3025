"""Images, classified by their nearest training images."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from experiments.datasets import load_fashion_mnist, load_mnist
from experiments.problems.base import Problem

# Two images of 12 x 12 pixels, drawn for this experiment.
GLYPHS = {
    2: """
    ............
    ...######...
    ..##....##..
    ........##..
    ........##..
    .......##...
    .....###....
    ....##......
    ...##.......
    ..##........
    ..########..
    ............
    """,
    5: """
    ............
    ..########..
    ..##........
    ..##........
    ..##........
    ..#######...
    ........##..
    ........##..
    ........##..
    ..##....##..
    ...######...
    ............
    """,
}


def mnist(seed: int, *, n_train: int = 10_000, scaling: str = "pixels") -> Problem:
    """All ten digits: random training images and all test images."""
    return _split(load_mnist, seed, n_train, scaling)


def fashion_mnist(seed: int, *, n_train: int = 10_000, scaling: str = "pixels") -> Problem:
    """Ten kinds of clothes: random training images and all test images."""
    return _split(load_fashion_mnist, seed, n_train, scaling)


def mnist_pair(
    seed: int,
    *,
    digits: str,
    n_train: int = 10_000,
    scaling: str = "pixels",
    study: bool = False,
) -> Problem:
    """Two digits, such as "49", of the random training images and of all test images.

    With `study` the test images are left alone: as many further training images are classified
    instead, of which settings may be chosen.
    """
    wanted = tuple(map(int, digits))
    return _split(load_mnist, seed, n_train, scaling, wanted, study=study)


def noisy_digits(seed: int, *, n_images: int = 64, noise: str = "pixel") -> Problem:
    """Images of a "2" and a "5" under Gaussian noise on every other column or row, at 0 dB.

    As many images of either digit, and of either kind of noise, which has, on the whole, the energy
    of the image. The paper leaves open what is drawn: a number for each "pixel", for each "line",
    or one for all lines of an "image". The test images are ten times as many, with noise of their
    own.
    """
    rng = np.random.default_rng(seed)
    train, test = noisy_images(n_images, noise, rng), noisy_images(10 * n_images, noise, rng)
    return Problem(*train, *test, measured_by="neighbors")


def noisy_images(n: int, noise: str, rng: np.random.Generator) -> tuple[Any, Any]:
    """Rows of n images, sorted by digit, and the digits; noise on columns and rows takes turns."""
    y = np.repeat(list(GLYPHS), n // 2)
    X = np.stack([glyph(digit) for digit in y])
    upright = np.zeros(X.shape[1:])
    upright[:, ::2] = 1.0  # the first, third, ... column
    drawn = rng.standard_normal({"pixel": X.shape, "line": (n, 1, 12), "image": (n, 1, 1)}[noise])
    deviation = np.sqrt((X**2).sum((1, 2)) / upright.sum())
    stripes = deviation[:, None, None] * upright * drawn
    stripes[1::2] = stripes[1::2].transpose(0, 2, 1)
    return (X + stripes).reshape(n, -1).astype(np.float32), y


def glyph(digit: int) -> Any:
    rows = GLYPHS[digit].split()
    return np.array([[pixel == "#" for pixel in row] for row in rows], dtype=float)


@lru_cache(maxsize=1)
def _loaded(load: Callable[[], Any]) -> Any:
    return load()


def _split(
    load: Callable[[], Any],
    seed: int,
    n_train: int,
    scaling: str,
    classes: tuple[int, ...] = (),
    *,
    study: bool = False,
) -> Problem:
    data = _loaded(load)
    order = np.random.default_rng(seed).permutation(np.flatnonzero(data.train))
    train = order[:n_train]
    test = order[n_train : 2 * n_train] if study else np.flatnonzero(~data.train)
    if classes:
        train, test = (rows[np.isin(data.y[rows], classes)] for rows in (train, test))
    X_train, X_test = SCALINGS[scaling](data.X[train], data.X[test])
    return Problem(X_train, data.y[train], X_test, data.y[test], measured_by="neighbors")


# -- scaling ---------------------------------------------------------------------------------------


def _pixels(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Between 0 and 1."""
    return X, X_test


def _unit_length(X: Any, X_test: Any) -> tuple[Any, Any]:
    return tuple(part / np.linalg.norm(part, axis=1)[:, None] for part in (X, X_test))


def _unit_distance(X: Any, X_test: Any) -> tuple[Any, Any]:
    """By one number, so that the mean squared distance of training images is 1."""
    factor = np.float32(1 / np.sqrt(2 * X.var(axis=0, dtype=np.float64).sum()))
    return X * factor, X_test * factor


def _principal(X: Any, X_test: Any) -> tuple[Any, Any]:
    """Sixty principal components of the training images, then by unit distance."""
    center = X.mean(axis=0)
    _, _, V = np.linalg.svd(X - center, full_matrices=False)
    return _unit_distance((X - center) @ V[:60].T, (X_test - center) @ V[:60].T)


SCALINGS = {
    "pixels": _pixels,
    "unit_length": _unit_length,
    "unit_distance": _unit_distance,
    "principal": _principal,
}
