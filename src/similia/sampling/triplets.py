"""Labels to triplets (query, better, worse)."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.sampling.classes import ClassOrder, Indices, check_draw
from similia.validation import check_parameters, positive_integer

Score = Callable[[Indices, Indices], ArrayLike]

_PAIRS_PER_CALL = 1 << 16  # bounds what `score` has to hold at once


class TripletSampler(Protocol):
    """What a learner knows of a triplet sampler."""

    def draw(self, n: int, rng: np.random.Generator, score: Score | None = None) -> Indices:
        """Give n triplets (query, better, worse) of indices, shape (n, 3)."""
        ...


class UniformTriplets:
    """Triplets from labels, uniform over queries.

    - query: uniform over the points whose class has at least two points;
    - better: uniform over the other points of the query's class;
    - worse: uniform over the points of all other classes.

    A class is therefore met as query in proportion to its size. Each triplet costs O(1), without
    rejection.

    Parameters
    ----------
    y : array-like of shape (n_points,)
        Labels: at least two classes, one of them with at least two points.

    Examples
    --------
    >>> import numpy as np
    >>> y = np.array(["cat", "dog", "cat", "dog", "fox"])
    >>> triplets = UniformTriplets(y).draw(4, np.random.default_rng(2))
    >>> [" ".join(y[triplet]) for triplet in triplets]
    ['dog dog cat', 'cat cat fox', 'cat cat dog', 'cat cat dog']
    """

    def __init__(self, y: ArrayLike) -> None:
        self._classes = ClassOrder(type(self).__name__, y)

    def draw(self, n: int, rng: np.random.Generator, score: Score | None = None) -> Indices:
        """Draw n independent triplets.

        Parameters
        ----------
        n : int
            How many triplets.
        rng : numpy.random.Generator
            Source of randomness; it moves on, so that the next call draws others.
        score : ignored
            Taken so that all samplers are called alike.

        Returns
        -------
        triplets : array of shape (n, 3)
            Rows (query, better, worse) of indices into the points.
        """
        check_draw(type(self).__name__, n, rng)
        classes = self._classes
        query = classes.draw_usable(n, rng)
        better = classes.draw_same(query, rng)
        worse = classes.draw_other(query, rng)
        return classes.order[np.column_stack([query, better, worse])]


class BalancedTriplets:
    """Triplets from labels, uniform over classes.

    - the query's class: uniform over the classes with at least two points;
    - query: uniform over that class; better: uniform over the other points of it;
    - the class of worse: uniform over all other classes, those of one point included;
    - worse: uniform over that class.

    Small classes are met as often as large ones. Each triplet costs O(1), without rejection.

    Parameters
    ----------
    y : array-like of shape (n_points,)
        Labels: at least two classes, one of them with at least two points.
    """

    def __init__(self, y: ArrayLike) -> None:
        self._classes = ClassOrder(type(self).__name__, y)
        self._usable_classes = np.flatnonzero(self._classes.sizes >= 2)

    def draw(self, n: int, rng: np.random.Generator, score: Score | None = None) -> Indices:
        """Draw n independent triplets, as `UniformTriplets.draw` does."""
        check_draw(type(self).__name__, n, rng)
        classes = self._classes
        own = self._usable_classes[rng.integers(len(self._usable_classes), size=n)]
        query = classes.draw_in(own, rng)
        better = classes.draw_same(query, rng)
        other = rng.integers(len(classes.sizes) - 1, size=n)
        worse = classes.draw_in(other + (other >= own), rng)
        return classes.order[np.column_stack([query, better, worse])]


class HardTriplets:
    """Triplets from labels whose worse point deceives the current model.

    Query and better are drawn as by `UniformTriplets`. For worse, `n_candidates` points are drawn
    uniformly, with replacement, from all other classes; the one that scores highest with the
    query is kept. Among equal scores the first drawn wins, so ties are broken at random.

    Parameters
    ----------
    y : array-like of shape (n_points,)
        Labels: at least two classes, one of them with at least two points.
    n_candidates : int, default=8
        Points to choose from. One gives `UniformTriplets`; more gives harder triplets, which
        also favors mislabelled points.
    """

    _rules = {"n_candidates": positive_integer}

    def __init__(self, y: ArrayLike, n_candidates: int = 8) -> None:
        check_parameters(type(self).__name__, self._rules, {"n_candidates": n_candidates})
        self._classes = ClassOrder(type(self).__name__, y)
        self._n_candidates = n_candidates

    def draw(self, n: int, rng: np.random.Generator, score: Score | None = None) -> Indices:
        """Draw n independent triplets under the current model.

        Parameters
        ----------
        n : int
            How many triplets.
        rng : numpy.random.Generator
            Source of randomness; it moves on, so that the next call draws others.
        score : callable
            ``score(queries, items)`` gives the scores of two index arrays of equal length, row by
            row, larger is closer. It is called on at most 65536 rows at a time, or on
            `n_candidates` rows if those are more.

        Returns
        -------
        triplets : array of shape (n, 3)
            Rows (query, better, worse) of indices into the points.
        """
        check_draw(type(self).__name__, n, rng)
        if score is None:
            raise ValueError(
                "HardTriplets.draw: score must be a function of (queries, items), got None; pass "
                "the current model's scores, or use UniformTriplets."
            )
        classes = self._classes
        query = classes.draw_usable(n, rng)
        better = classes.draw_same(query, rng)
        triplets = classes.order[np.column_stack([query, better, better])]
        step = max(1, _PAIRS_PER_CALL // self._n_candidates)
        for start in range(0, n, step):
            chunk = np.repeat(query[start : start + step], self._n_candidates)
            items = classes.order[classes.draw_other(chunk, rng)]
            scores = _row_scores(score, classes.order[chunk], items)
            hardest = scores.reshape(-1, self._n_candidates).argmax(axis=1)
            rows = np.arange(len(hardest))
            triplets[start : start + step, 2] = items.reshape(-1, self._n_candidates)[rows, hardest]
        return triplets


def _row_scores(score: Score, queries: Indices, items: Indices) -> NDArray[np.floating]:
    scores = np.asarray(score(queries, items))
    if scores.shape != queries.shape or bool(np.isnan(scores).any()):
        raise ValueError(
            "HardTriplets.draw: score must be a function that returns one number per row, got "
            f"shape {scores.shape} for {len(queries)} rows"
            + (" with NaN." if scores.shape == queries.shape else ".")
        )
    return scores


TRIPLET_SAMPLERS: dict[str, Callable[[ArrayLike], TripletSampler]] = {
    "uniform": UniformTriplets,
    "balanced": BalancedTriplets,
    "hard": HardTriplets,
}
