"""Click rates per query and item, shrunk towards the overall rate."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Indices
from similia.feedback.clicks.propensity import Propensities, counted_pairs
from similia.feedback.impressions import Impressions
from similia.validation import check_parameters, none, positive

#: minimum weight of the usual rate, in views
LEAST_STRENGTH = 1.0


class ClickRates(NamedTuple):
    """Rates by pair of a query and an item."""

    #: rows of the queries and items, of shape (n,), sorted
    query: Indices
    item: Indices
    #: sums of gains, and views: how often shown, or how often examined
    clicks: NDArray[np.float64]
    views: NDArray[np.float64]
    #: (clicks + strength · usual) / (views + strength)
    rate: NDArray[np.float64]
    #: clicks per view of all pairs together
    usual: float
    #: its weight, in views
    strength: float


def click_rates(
    impressions: Impressions | Iterable[Impressions],
    *,
    strength: float | None = None,
    propensities: Propensities | None = None,
) -> ClickRates:
    """Click rates that few views cannot make extreme: 9 clicks of 10 beat 1 of 1.

    Parameters
    ----------
    impressions : Impressions, or batches of them
        Weights of lists count. Memory grows with the number of different pairs shown.
    strength : float, optional
        Views that the usual rate is worth. By default as many as explain how much more the rates
        differ than chance alone would make them, by moments of a beta-binomial, and at least one.
    propensities : Propensities, optional
        Count a view at each place as so many (clicks over expected clicks), so that a low place is
        no reason for a low rate. Places must be known.

    Returns
    -------
    ClickRates

    Examples
    --------
    >>> from similia import Impressions
    >>> from similia.feedback.clicks import click_rates
    >>> clicks = [1] + [1] * 9 + [0] * 11
    >>> shown = Impressions.from_rows([0] * 21, [7] + [8] * 10 + [9] * 10, clicks)
    >>> click_rates(shown).rate.round(2).tolist()
    [0.74, 0.86, 0.04]
    """
    check_parameters("click_rates", {"strength": none | positive}, {"strength": strength})
    pairs = counted_pairs(impressions, by_place=propensities is not None)
    query, item, _, clicks, views = pairs
    if propensities is not None:
        _, which = np.unique(
            np.column_stack([pairs.query, pairs.item]), axis=0, return_inverse=True
        )
        which = which.ravel()  # numpy 2.0.0 gives it a second axis
        first = np.unique(which, return_index=True)[1]
        clicks = np.bincount(which, weights=clicks).astype(np.float64)
        views = np.bincount(which, weights=views * propensities.at(pairs.place)).astype(np.float64)
        query, item = query[first], item[first]
    return ClickRates(query, item, clicks, views, *shrunk_rates(clicks, views, strength))


def shrunk_rates(
    clicks: NDArray[np.float64], views: NDArray[np.float64], strength: float | None = None
) -> tuple[NDArray[np.float64], float, float]:
    """Shrunk click rates, the usual rate, and its weight in views."""
    usual = float(clicks.sum() / views.sum()) if len(views) else 0.0
    if strength is None:
        strength = max(LEAST_STRENGTH, _strength(clicks, views, usual))
    return (clicks + strength * usual) / (views + strength), usual, float(strength)


def _strength(clicks: NDArray[np.float64], views: NDArray[np.float64], usual: float) -> float:
    """Weight of the usual rate in views, from the spread of the rates.

    With rates m and variance m(1-m)/(s+1), E sum v(c/v - m)² = m(1-m)(n + (V-n)/(s+1)) for n pairs
    with V views in all; if they spread no more than by chance, s is as large as it gets.
    """
    binomial = usual * (1.0 - usual)
    n, total = len(views), float(views.sum())
    if binomial <= 0 or total <= n:
        return LEAST_STRENGTH
    spread = float((views * (clicks / views - usual) ** 2).sum()) / binomial
    return min((total - n) / max(spread - n, 1e-3 * n) - 1.0, 1e3)
