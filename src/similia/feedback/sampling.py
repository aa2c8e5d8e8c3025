"""Labels to tuples: triplets (query, better, worse), and pairs with signs.

Points are sorted by class, so that drawing from a class, or from outside it, is arithmetic: each
tuple costs O(1), without rejection, whatever the number of classes.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array, Indices
from similia.safety.bounds import check_entries
from similia.validation import (
    Rule,
    check_parameters,
    check_tuples,
    non_negative_integer,
    positive_integer,
)

Signs: TypeAlias = NDArray[np.int8]
#: scores of two index arrays of equal length, row by row; larger is closer
Score: TypeAlias = Callable[[Indices, Indices], ArrayLike]

#: rows per call of `score`, if candidates allow
_PAIRS_PER_CALL = 1 << 16

_DRAW_RULES = {
    "n": non_negative_integer,
    "rng": Rule(
        "a numpy.random.Generator, such as numpy.random.default_rng(0)",
        lambda v: isinstance(v, Generator),
    ),
}


def check_draw(sampler: object, n: int, rng: Generator) -> None:
    """Raise ValueError unless `n` is a count and `rng` a Generator."""
    check_parameters(f"{type(sampler).__name__}.draw", _DRAW_RULES, {"n": n, "rng": rng})


class LabelSampler:
    """Draws from labelled points, sorted by class.

    Methods work on *positions* in that order: ``order[position]`` is the point, ``class_of`` its
    class. Memory is O(points + classes).

    Labels may be of any type that can be ordered, without missing values: at least two classes, one
    of them with at least two points.
    """

    def __init__(self, y: ArrayLike) -> None:
        owner = type(self).__name__
        codes = _class_codes(owner, y)
        self.order: Indices = np.argsort(codes, kind="stable")
        self.class_of: Indices = codes[self.order]
        self.sizes: Indices = np.bincount(codes)
        self.starts: Indices = np.cumsum(self.sizes) - self.sizes
        #: classes with at least two points, and the positions of their points
        self.usable_classes: Indices = np.flatnonzero(self.sizes >= 2)
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

    def _draw_first(self, n: int, rng: Generator) -> Indices:
        """Draw n positions, uniform over the points whose class has at least two."""
        return self.usable[rng.integers(len(self.usable), size=n)]

    def _draw_same(self, positions: Indices, rng: Generator) -> Indices:
        """For each position, draw another of its class, uniformly."""
        own = self.class_of[positions]
        drawn = self.starts[own] + rng.integers(self.sizes[own] - 1)
        return drawn + (drawn >= positions)

    def _draw_other(self, positions: Indices, rng: Generator) -> Indices:
        """For each position, draw one outside its class, uniformly."""
        own = self.class_of[positions]
        drawn = rng.integers(len(self.order) - self.sizes[own])
        return drawn + self.sizes[own] * (drawn >= self.starts[own])

    def _draw_in(self, classes: Indices, rng: Generator) -> Indices:
        """For each class, draw one of its positions, uniformly."""
        return self.starts[classes] + rng.integers(self.sizes[classes])


def _class_codes(owner: str, y: ArrayLike) -> Indices:
    """Classes of `y` numbered from 0, one number per point."""
    check_entries(owner, "y", y)
    labels = np.asarray(y)
    if labels.ndim != 1 or len(labels) == 0:
        raise ValueError(
            f"{owner}: y must be a one-dimensional array with one label per point, "
            f"got shape {labels.shape}."
        )
    try:
        missing = labels != labels
        if labels.dtype == object:
            missing = missing | np.array([label is None for label in labels])
        if not missing.any():
            return np.unique(labels, return_inverse=True)[1].astype(np.intp, copy=False)
    except TypeError:
        raise ValueError(
            f"{owner}: y must be labels that can be ordered, got a mixture of types or of "
            "missing values; make them all strings or all integers."
        ) from None
    raise ValueError(
        f"{owner}: y must be labels without missing values, got {missing.sum()} missing, the "
        f"first in row {missing.argmax()}; leave those points out or give them a class."
    )


# -- triplets ----------------------------------------------------------------------------------


class UniformTriplets(LabelSampler):
    """Triplets from labels, uniform over queries.

    - query: uniform over the points whose class has at least two points;
    - better: uniform over the other points of the query's class;
    - worse: uniform over the points of all other classes.

    A class is therefore the query's in proportion to its size.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array(["cat", "dog", "cat", "dog", "fox"])
    >>> triplets = UniformTriplets(y).draw(4, np.random.default_rng(2))
    >>> [" ".join(y[triplet]) for triplet in triplets]
    ['dog dog cat', 'cat cat fox', 'cat cat dog', 'cat cat dog']
    """

    def draw(self, n: int, rng: Generator, score: Score | None = None) -> Indices:
        """Draw n independent triplets: rows (query, better, worse) of indices, shape (n, 3).

        `score` is that of the current model; only `HardTriplets` needs it.
        """
        check_draw(self, n, rng)
        query = self._draw_first(n, rng)
        better = self._draw_same(query, rng)
        worse = self._draw_worse(query, rng, score)
        return self.order[np.column_stack([query, better, worse])]

    def _draw_worse(self, query: Indices, rng: Generator, score: Score | None) -> Indices:
        return self._draw_other(query, rng)


class BalancedTriplets(UniformTriplets):
    """Triplets from labels, uniform over classes: small ones occur as often as large ones.

    - the query's class: uniform over the classes with at least two points;
    - query: uniform over that class; better: uniform over its other points;
    - the class of worse: uniform over all other classes, those of one point included;
    - worse: uniform over that class.
    """

    def _draw_first(self, n: int, rng: Generator) -> Indices:
        classes = self.usable_classes
        return self._draw_in(classes[rng.integers(len(classes), size=n)], rng)

    def _draw_worse(self, query: Indices, rng: Generator, score: Score | None) -> Indices:
        other = rng.integers(len(self.sizes) - 1, size=len(query))
        return self._draw_in(other + (other >= self.class_of[query]), rng)


class HardTriplets(UniformTriplets):
    """Triplets from labels whose worse point deceives the current model; draws need its `score`.

    Query and better are drawn as by `UniformTriplets`. For worse, `n_candidates` points are drawn
    uniformly, with replacement, from all other classes; the one that scores highest with the
    query is kept. Among equal scores the first drawn wins, so ties are broken at random.
    One candidate is `UniformTriplets`; more make triplets harder, which also favors mislabelled
    points.
    """

    def __init__(self, y: ArrayLike, n_candidates: int = 8) -> None:
        rules = {"n_candidates": positive_integer}
        check_parameters("HardTriplets", rules, {"n_candidates": n_candidates})
        super().__init__(y)
        self._n_candidates = n_candidates

    def _draw_worse(self, query: Indices, rng: Generator, score: Score | None) -> Indices:
        if score is None:
            raise ValueError(
                "HardTriplets.draw: score must be a function of (queries, items), got None; pass "
                "the current model's scores, or use UniformTriplets."
            )
        worse = np.empty_like(query)
        step = max(1, _PAIRS_PER_CALL // self._n_candidates)
        for start in range(0, len(query), step):
            chunk = np.repeat(query[start : start + step], self._n_candidates)
            candidates = self._draw_other(chunk, rng)
            scores = _row_scores(score, self.order[chunk], self.order[candidates])
            hardest = scores.reshape(-1, self._n_candidates).argmax(axis=1)
            first = np.arange(0, len(chunk), self._n_candidates)
            worse[start : start + step] = candidates[first + hardest]
        return worse


def _row_scores(score: Score, queries: Indices, items: Indices) -> Array:
    scores = np.asarray(score(queries, items))
    if scores.shape != queries.shape or bool(np.isnan(scores).any()):
        raise ValueError(
            "HardTriplets.draw: score must be a function that returns one number per row, got "
            f"shape {scores.shape} for {len(queries)} rows"
            + (" with NaN." if scores.shape == queries.shape else ".")
        )
    return scores


TRIPLET_SAMPLERS = {"uniform": UniformTriplets, "balanced": BalancedTriplets, "hard": HardTriplets}


def triplets_drawn(
    owner: str, sampler: str | Callable[..., ArrayLike], y: Array
) -> Callable[..., Indices]:
    """Function (n, rng, score) that draws triplets from labels, by a named or custom sampler."""
    if isinstance(sampler, str):
        return TRIPLET_SAMPLERS[sampler](y).draw

    def draw(n: int, rng: Generator, score: Score) -> Indices:
        drawn = sampler(y, n, rng, score)
        return check_tuples(f"{owner}.sampler", "triplets", drawn, (len(y),) * 3)

    return draw


# -- pairs -------------------------------------------------------------------------------------


class UniformPairs(LabelSampler):
    """Pairs from labels, uniform over ordered pairs of two different points.

    With many classes nearly all signs are -1; `BalancedPairs` draws as many of either.
    """

    def draw(self, n: int, rng: Generator) -> tuple[Indices, Signs]:
        """Draw n independent pairs of indices, shape (n, 2), and their signs: +1 in one class."""
        check_draw(self, n, rng)
        first = rng.integers(len(self.order), size=n)
        second = rng.integers(len(self.order) - 1, size=n)
        second += second >= first
        signs = np.where(self.class_of[first] == self.class_of[second], 1, -1).astype(np.int8)
        return self.order[np.column_stack([first, second])], signs


class BalancedPairs(LabelSampler):
    """Pairs from labels, half of one class and half of two classes, in random order.

    - signs: n/2 of either kind in each draw; a fair coin decides the last of an odd n; all orders
      are equally likely;
    - +1: first uniform over the points whose class has at least two points, second uniform over
      the other points of that class;
    - -1: first uniform over all points, second uniform over the points of other classes.

    Examples
    --------
    >>> import numpy as np
    >>> pairs, signs = BalancedPairs([0, 0, 0, 1, 2]).draw(6, np.random.default_rng(0))
    >>> int(signs.sum())
    0
    """

    def draw(self, n: int, rng: Generator) -> tuple[Indices, Signs]:
        """Draw n pairs; see `UniformPairs.draw`."""
        check_draw(self, n, rng)
        n_same = (n + int(rng.integers(2))) // 2
        same = self._draw_first(n_same, rng)
        other = rng.integers(len(self.order), size=n - n_same)
        first = np.concatenate([same, other])
        second = np.concatenate([self._draw_same(same, rng), self._draw_other(other, rng)])
        shuffled = rng.permutation(n)
        pairs = self.order[np.column_stack([first, second])[shuffled]]
        return pairs, np.where(shuffled < n_same, 1, -1).astype(np.int8)


PAIR_SAMPLERS: dict[str, type[UniformPairs] | type[BalancedPairs]] = {
    "uniform": UniformPairs,
    "balanced": BalancedPairs,
}
