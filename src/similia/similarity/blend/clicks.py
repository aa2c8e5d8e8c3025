"""What feedback says of all queries: weights of views, rates of clicks and places, and trust."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from similia.updates.blend import (
    ALONE_NUISANCE,
    ONE,
    TRUST,
    VIEWS,
    publish,
)

#: priors: mean, deviation, least and largest value. Of the rate r₁ little is known; the ratio of
#: r₁ to r₀ is bounded, for where nearly all that is shown is relevant it would run to 1
RATES = [(0.0, 1.5, -8.0, 8.0), (1.7, 0.4, 0.5, 3.0)]
#: places: people look at the k-th with k^-γ, and after a click with exp(-κ)
LOOKS = [(0.8, 0.5, 0.0, 3.0), (0.2, 1.0, 0.0, 6.0)]
#: how much the views explain of comparisons: of items that a search finds little, of random ones
#: much; it is divided by, so it is not 0
STEEP = (0.5, 0.5, 0.05, 8.0)
#: how relevant the items of a list are on average; bounded, for with clicks at random "nearly all
#: are relevant, and clicked with r₁" fits, and so does "nearly none are", by which memory would
#: predict nothing and so could not be wrong
LEVEL_OF_LISTS = (-0.5, 2.0, -3.0, -0.5)
#: deviation of a view's weight from its start: relevance falls less steeply among the first ten of
#: lists, which the weights themselves chose, than among all items
VIEW = 0.1
#: largest weight of a view or a nuisance
LARGEST = 8.0
NUISANCE = (0.0, 1.0, -LARGEST, LARGEST)
#: levels of clicks and judgements for the start alone, and its steepness
LEVELS = [(-0.5, 2.0, -8.0, 8.0)] * 2
STEEPNESS = (0.5, 0.5, -8.0, 8.0)

Array = NDArray[np.float64]


@dataclass
class ClickModel:
    """A normal distribution of the unknowns θ, and of those of the start alone.

    Trust compares the two: how much better lists were predicted, before they were learnt, than by
    the order of the start, its places and no memory.
    """

    #: weights of the views before any feedback
    start: Array
    theta: Array
    precision: Array
    #: the same of the start alone
    alone: Array
    alone_precision: Array
    #: logarithm of the ratio of the likelihoods, within bounds
    evidence: Array
    #: what ranks for all queries since it was published: trust, what a click and a pass are worth,
    #: τ and weights
    ranks: Array

    @classmethod
    def begin(cls, start: Array) -> Self:
        """Before any feedback."""
        empty = np.zeros(0)
        found = cls(start, empty, empty, empty, empty, np.zeros(1), np.zeros(VIEWS + len(start)))
        found.widen(0)
        publish(found.theta, found.evidence, found.ranks)
        return found

    def priors(self) -> tuple[Array, Array]:
        """Mean, deviation, least and largest value of each unknown; also for the start alone."""
        views = [(weight, VIEW, -LARGEST, LARGEST) for weight in self.start]
        n_nuisances = max(len(self.alone) - ALONE_NUISANCE, 0)
        nuisances = [NUISANCE] * n_nuisances
        return (
            np.array([*RATES, *LOOKS, STEEP, LEVEL_OF_LISTS, *views, *nuisances]),
            np.array([*LOOKS, *LEVELS, STEEPNESS, STEEP, *nuisances]),
        )

    def widen(self, n_nuisances: int) -> None:
        """Make room for nuisances, which the lists so far did not have."""
        known, known_alone = self.theta, self.alone
        self.alone = np.zeros(ALONE_NUISANCE + n_nuisances)
        prior, alone_prior = self.priors()
        self.theta, self.precision = _widened(known, self.precision, prior)
        self.alone, self.alone_precision = _widened(known_alone, self.alone_precision, alone_prior)

    @property
    def trust(self) -> float:
        """Share with which what was learnt ranks, between 0 and 1."""
        return float(self.ranks[TRUST])

    @property
    def weights(self) -> Array:
        """Weights of the views to rank with."""
        found: Array = self.start + self.trust * (self.ranks[VIEWS:] - self.start)
        return found

    def covariance(self) -> Array:
        """Covariance of the weights of the views."""
        own = slice(ONE + 1, ONE + 1 + len(self.start))
        found: Array = np.linalg.inv(self.precision)[own, own].astype(np.float64)
        return found


def _widened(theta: Array, precision: Array, prior: Array) -> tuple[Array, Array]:
    """Unknowns and their precision with those of the prior behind them."""
    n, mean, wide = len(theta), prior[:, 0].copy(), np.diag(1 / prior[:, 1] ** 2)
    mean[:n], wide[:n, :n] = theta, precision
    return mean, wide
