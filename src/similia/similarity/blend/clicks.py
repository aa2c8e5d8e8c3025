"""What feedback says of all queries: weights of views, rates of clicks and places, and trust."""

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from similia.updates.blend import AGAIN, BEST, ONE, TRUST, VIEWS, WORST, publish

#: largest log odds of anything, and weight of a view or a nuisance
LARGEST = 8.0
#: priors: mean, deviation, least and largest value. Of the rate r₁ little is known; the ratio of
#: r₁ to r₀ is bounded, for where nearly all that is shown is relevant it would run to 1
RATES = [(0.0, 1.5, -LARGEST, LARGEST), (1.7, 0.4, 0.5, 3.0)]
#: places: people look at the k-th with k^-γ, and after a click with exp(-κ)
LOOKS = [(0.8, 0.5, 0.0, 3.0), (0.2, 1.0, 0.0, 6.0)]
#: how much the views explain of comparisons: of items that a search finds little, of random ones
#: much; it is divided by, so it is not 0
STEEP = (0.5, 0.5, 0.05, LARGEST)
#: log odds of what was shown for the query before, whatever was clicked: people who see it again
#: click less, and it was shown for good reason
SHOWN_AGAIN = (0.0, 1.0, -LARGEST, LARGEST)
#: how far clicks of one pair are alike beyond its relevance, 0 if not: people like some items that
#: are not relevant, and go on clicking them
OWN_RATES = (0.2, 0.2, 0.0, 1.0)
#: how steeply relevance falls with the start among the items of lists: less than among all, as
#: these are its first ones
FALL_OF_LISTS = (0.5, 0.5, 0.0, LARGEST)
#: how relevant the items of a list are on average
LEVEL_OF_LISTS = (-0.5, 1.0, -LARGEST, LARGEST)
#: deviation of a view's weight from its start, with which lists that it chose agree; that of a
#: weight that stays
VIEW, FIXED = 0.1, 1e-6
NUISANCE = (0.0, 1.0, -LARGEST, LARGEST)

Array = NDArray[np.float64]


@dataclass
class ClickModel:
    """A normal distribution of the unknowns θ, and of those of the start alone.

    Trust compares the two: how much better lists were predicted, before they were learnt, than by
    the same model with the weights of the start and no memory.
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
    #: τ, α and weights
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
        """Mean, deviation, least and largest value of each unknown; also for the start alone.

        The base keeps its weight, as its scale is s or τ. The start alone keeps all its weights;
        of what was shown before it knows only that it was.
        """
        n_nuisances = max(len(self.theta) - ONE - 1 - len(self.start), 0)
        common = [*RATES, *LOOKS, SHOWN_AGAIN, FALL_OF_LISTS, STEEP, OWN_RATES, LEVEL_OF_LISTS]
        views = [(weight, VIEW, -LARGEST, LARGEST) for weight in self.start]
        learnt = np.array([*common, *views, *[NUISANCE] * n_nuisances])
        alone = learnt.copy()
        learnt[[AGAIN, ONE + 1], 1] = FIXED
        alone[ONE + 1 : ONE + 1 + len(views), 1] = FIXED
        return learnt, alone

    def widen(self, n_nuisances: int) -> None:
        """Make room for so many nuisances more, which the lists so far did not have."""
        n = max(ONE + 1 + len(self.start), len(self.theta)) + n_nuisances
        theta, alone = self.theta, self.alone
        self.theta, self.alone = np.zeros((2, n))
        prior, alone_prior = self.priors()
        self.theta, self.precision = _widened(theta, self.precision, prior)
        self.alone, self.alone_precision = _widened(alone, self.alone_precision, alone_prior)

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

    def merged(self, parts: Sequence["ClickModel"]) -> "ClickModel":
        """What all parts have learnt since this one: precisions and evidence add up."""
        found = copy.deepcopy(self)
        found.widen(max(len(part.theta) for part in parts) - len(self.theta))
        for name, prior in zip(("theta", "alone"), found.priors(), strict=True):
            mean, precision = getattr(found, name), getattr(found, _PRECISION[name])
            total, pull = precision.copy(), precision @ mean
            for part in parts:
                one, own = getattr(part, name), getattr(part, _PRECISION[name])
                one, own = _widened(one, own, prior)
                total += own - precision
                pull += own @ one - precision @ mean
            theta = np.clip(np.linalg.solve(total, pull), prior[:, 2], prior[:, 3])
            setattr(found, name, theta)
            setattr(found, _PRECISION[name], total)
        gained = sum(part.evidence - self.evidence for part in parts)
        found.evidence = np.clip(self.evidence + gained, WORST, BEST)
        publish(found.theta, found.evidence, found.ranks)
        return found


#: where the precision of each is
_PRECISION = {"theta": "precision", "alone": "alone_precision"}


def _widened(theta: Array, precision: Array, prior: Array) -> tuple[Array, Array]:
    """Unknowns and their precision with those of the prior behind them."""
    n, mean, wide = len(theta), prior[:, 0].copy(), np.diag(1 / prior[:, 1] ** 2)
    mean[:n], wide[:n, :n] = theta, precision
    return mean, wide
