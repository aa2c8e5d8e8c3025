"""Points sorted by class, so that drawing from a class, or from outside it, is arithmetic."""

from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.validation import Rule, boolean, check_parameters

Indices = NDArray[np.intp]

_DRAW_RULES = {
    "n": Rule(
        "an integer of at least 0",
        lambda v: isinstance(v, Integral) and not boolean.holds(v) and int(v) >= 0,
    ),
    "rng": Rule(
        "a numpy.random.Generator, such as numpy.random.default_rng(0)",
        lambda v: isinstance(v, np.random.Generator),
    ),
}


def check_draw(owner: str, n: int, rng: np.random.Generator) -> None:
    """Raise the house error unless `n` is a count and `rng` a Generator."""
    check_parameters(f"{owner}.draw", _DRAW_RULES, {"n": n, "rng": rng})


def _missing(labels: NDArray[Any]) -> Indices:
    """Rows whose label is None, NaN or NaT."""
    missing = labels != labels
    if labels.dtype == object:
        missing = missing | np.array([label is None for label in labels])
    return np.flatnonzero(missing)


def _class_codes(owner: str, y: ArrayLike) -> Indices:
    """Number the classes of `y` from 0, one number per point."""
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"{owner}: y must be a one-dimensional array with one label per point, "
            f"got shape {labels.shape}."
        )
    try:
        missing = _missing(labels)
        codes = None if len(missing) else np.unique(labels, return_inverse=True)[1]
    except TypeError:
        raise ValueError(
            f"{owner}: y must be labels that can be ordered, got a mixture of types or of "
            "missing values; make them all strings or all integers."
        ) from None
    if codes is None:
        raise ValueError(
            f"{owner}: y must be labels without missing values, got {len(missing)} missing, the "
            f"first in row {missing[0]}; leave those points out or give them a class."
        )
    return codes.astype(np.intp, copy=False)


class ClassOrder:
    """The points of a labelled set, sorted by class.

    Methods take and give *positions* in this order; ``order[position]`` is the point. Each draw
    costs O(1), whatever the number of classes. Memory is O(points + classes).

    Parameters
    ----------
    owner : str
        Who asks, for messages.
    y : array-like of shape (n_points,)
        Labels of any type that can be ordered, without missing values. At least two classes, one
        of them with at least two points.

    Attributes
    ----------
    order : array of shape (n_points,)
        Points, sorted by class.
    class_of : array of shape (n_points,)
        Class of each position.
    starts, sizes : arrays of shape (n_classes,)
        First position and number of points of each class.
    usable : array
        Positions whose class has at least two points.
    """

    def __init__(self, owner: str, y: ArrayLike) -> None:
        codes = _class_codes(owner, y)
        self.order: Indices = np.argsort(codes, kind="stable")
        self.class_of: Indices = codes[self.order]
        self.sizes: Indices = np.bincount(codes)
        self.starts: Indices = np.cumsum(self.sizes) - self.sizes
        self.usable: Indices = np.flatnonzero(self.sizes[self.class_of] >= 2)
        if len(self.sizes) < 2:
            raise ValueError(
                f"{owner}: y must be labels of at least two classes, got one class of "
                f"{len(codes)} points; add points of another class, or pass ready-made tuples "
                "to learn."
            )
        if len(self.usable) == 0:
            raise ValueError(
                f"{owner}: y must be labels with at least two points in some class, got "
                f"{len(codes)} classes of one point each; merge classes, or pass ready-made "
                "tuples to learn."
            )

    def draw_usable(self, n: int, rng: np.random.Generator) -> Indices:
        """Give n positions, uniform over the points whose class has at least two."""
        return self.usable[rng.integers(len(self.usable), size=n)]

    def draw_same(self, positions: Indices, rng: np.random.Generator) -> Indices:
        """Give for each position another one of its class, uniform over those."""
        own = self.class_of[positions]
        drawn = self.starts[own] + rng.integers(self.sizes[own] - 1)
        return drawn + (drawn >= positions)

    def draw_other(self, positions: Indices, rng: np.random.Generator) -> Indices:
        """Give for each position one of another class, uniform over all such points."""
        own = self.class_of[positions]
        drawn = rng.integers(len(self.order) - self.sizes[own])
        return drawn + self.sizes[own] * (drawn >= self.starts[own])

    def draw_in(self, classes: Indices, rng: np.random.Generator) -> Indices:
        """Give for each class one of its positions, uniform over those."""
        return self.starts[classes] + rng.integers(self.sizes[classes])
