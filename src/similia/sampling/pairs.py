"""Labels to pairs with signs: +1 for two points of one class, -1 for points of two classes."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.sampling.classes import ClassOrder, Indices, check_draw

Signs = NDArray[np.int8]


class PairSampler(Protocol):
    """What a learner knows of a pair sampler."""

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Indices, Signs]:
        """Give n pairs of indices, shape (n, 2), and their signs, shape (n,)."""
        ...


class UniformPairs:
    """Pairs from labels, uniform over ordered pairs of two different points.

    With many classes nearly all signs are -1; `BalancedPairs` shows as many of either.

    Parameters
    ----------
    y : array-like of shape (n_points,)
        Labels: at least two classes, one of them with at least two points, so that both signs
        can occur.
    """

    def __init__(self, y: ArrayLike) -> None:
        self._classes = ClassOrder(type(self).__name__, y)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Indices, Signs]:
        """Draw n independent pairs.

        Parameters
        ----------
        n : int
            How many pairs.
        rng : numpy.random.Generator
            Source of randomness; it moves on, so that the next call draws others.

        Returns
        -------
        pairs : array of shape (n, 2)
            Rows of two different indices into the points.
        signs : int8 array of shape (n,)
            +1 where the two are of one class, else -1.
        """
        check_draw(type(self).__name__, n, rng)
        classes = self._classes
        first = rng.integers(len(classes.order), size=n)
        second = rng.integers(len(classes.order) - 1, size=n)
        second += second >= first
        same = classes.class_of[first] == classes.class_of[second]
        signs = np.where(same, 1, -1).astype(np.int8)
        return classes.order[np.column_stack([first, second])], signs


class BalancedPairs:
    """Pairs from labels, half of one class and half of two classes, in random order.

    - signs: n/2 of either kind in each draw; a fair coin decides the last of an odd n; all orders
      are equally likely;
    - +1: first uniform over the points whose class has at least two points, second uniform over
      the other points of that class;
    - -1: first uniform over all points, second uniform over the points of other classes.

    Each pair costs O(1), without rejection.

    Parameters
    ----------
    y : array-like of shape (n_points,)
        Labels: at least two classes, one of them with at least two points.

    Examples
    --------
    >>> import numpy as np
    >>> pairs, signs = BalancedPairs([0, 0, 0, 1, 2]).draw(6, np.random.default_rng(0))
    >>> int(signs.sum())
    0
    """

    def __init__(self, y: ArrayLike) -> None:
        self._classes = ClassOrder(type(self).__name__, y)

    def draw(self, n: int, rng: np.random.Generator) -> tuple[Indices, Signs]:
        """Draw n pairs, as `UniformPairs.draw` does."""
        check_draw(type(self).__name__, n, rng)
        classes = self._classes
        n_same = (n + int(rng.integers(2))) // 2
        same = classes.draw_usable(n_same, rng)
        other = rng.integers(len(classes.order), size=n - n_same)
        first = np.concatenate([same, other])
        second = np.concatenate([classes.draw_same(same, rng), classes.draw_other(other, rng)])
        shuffled = rng.permutation(n)
        pairs = classes.order[np.column_stack([first, second])[shuffled]]
        return pairs, np.where(shuffled < n_same, 1, -1).astype(np.int8)


PAIR_SAMPLERS: dict[str, Callable[[ArrayLike], PairSampler]] = {
    "uniform": UniformPairs,
    "balanced": BalancedPairs,
}
