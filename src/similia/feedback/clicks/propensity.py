"""Position bias, estimated from items that were shown in several positions."""

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, sparse
from scipy.sparse.csgraph import connected_components

from similia.contract import Indices
from similia.feedback.impressions import Impressions, check_impressions
from similia.validation import between, check_parameters

#: pairs held before they are summed
MAX_PAIRS_HELD = 2**20


class PairCounts(NamedTuple):
    """Sums over lists, sorted by query, item and place."""

    query: Indices
    item: Indices
    #: from 1; all 0 if places were not asked for
    place: Indices
    clicks: NDArray[np.float64]
    views: NDArray[np.float64]


def counted_pairs(
    impressions: Impressions | Iterable[Impressions], *, by_place: bool = True
) -> PairCounts:
    """Sum gains and weights by query, item and, if asked, place."""
    batches = [impressions] if isinstance(impressions, Impressions) else impressions
    empty = np.zeros(0, np.intp)
    whole, held = PairCounts(empty, empty, empty, np.zeros(0), np.zeros(0)), []
    for batch in batches:
        check_impressions("clicks", batch)
        held.append(_of_batch(batch, by_place))
        if sum(len(part.query) for part in held) > max(MAX_PAIRS_HELD, len(whole.query)):
            whole, held = _summed([whole, *held]), []
    return _summed([whole, *held])


def places(impressions: Impressions) -> Indices:
    """Place of each item shown; raise ValueError if the log does not say."""
    if "position" not in impressions.nuisance:
        raise ValueError(
            "clicks: impressions must have positions, got none; without them no click can be told "
            "from the effect of its place."
        )
    return np.rint(np.exp(impressions.nuisance["position"])).astype(np.intp)


def _of_batch(batch: Impressions, by_place: bool) -> PairCounts:
    lengths = np.diff(batch.starts)
    weights = np.repeat(batch.weights if len(batch.weights) else np.ones(len(batch)), lengths)
    place = places(batch) if by_place else np.zeros(len(batch.items), np.intp)
    query = np.repeat(batch.queries, lengths)
    return _summed([PairCounts(query, batch.items, place, batch.gains * weights, weights)])


def _summed(parts: list[PairCounts]) -> PairCounts:
    query, item, place, clicks, views = (np.concatenate(part) for part in zip(*parts, strict=True))
    order = np.lexsort((place, item, query))
    keys = [column[order] for column in (query, item, place)]
    new = np.ones(len(order), bool)
    new[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    starts = np.flatnonzero(new)
    sums = [np.add.reduceat(x[order], starts) if len(starts) else x for x in (clicks, views)]
    return PairCounts(*(key[starts] for key in keys), *sums)


#: prior standard deviation of log-propensities: keeps them finite where clicks are few
LOG_PROPENSITY_DEVIATION = 3.0
#: a log-propensity with a larger standard error counts as unknown
UNKNOWN_ERROR = 0.5


class Correction(NamedTuple):
    """Lists with gains corrected for position, and what the correction cost."""

    #: gains divided by propensities, without the nuisance "position"
    impressions: Impressions
    #: clicks
    n: int
    #: clicks of equal weight that would be as precise: (Σw)² / Σw²
    effective_sample_size: float
    #: clicks whose propensity was below the clip
    n_clipped: int

    def __str__(self) -> str:
        return (
            f"{self.n} clicks count as {self.effective_sample_size:.0f}; "
            f"{self.n_clipped} were clipped."
        )


@dataclass(frozen=True)
class Propensities:
    """Chance that an item is looked at, by place, relative to the first place."""

    #: of shape (n_places,); 1 at the first
    values: NDArray[np.float64]
    #: standard errors of their logarithms; infinite if not identifiable
    errors: NDArray[np.float64]
    #: pairs of a query and an item that were clicked and shown in several places
    n_swapped: int

    @property
    def known(self) -> NDArray[np.bool_]:
        """Whether the log identifies each place."""
        return self.errors <= UNKNOWN_ERROR

    def at(self, place: Indices) -> NDArray[np.float64]:
        """Propensities of places; those beyond the last count as the last."""
        return self.values[np.minimum(place, len(self.values)) - 1]

    def correct(self, impressions: Impressions, *, clip: float = 0.1) -> Correction:
        """Divide gains by the propensities of their places.

        The gain of an item is then right in the mean over looks. Rare looks weigh much: `clip` is
        the least propensity that is divided by, which trades that noise for some bias. See how much
        is left by the effective sample size.
        """
        check_parameters("Propensities.correct", {"clip": between(0, 1)}, {"clip": clip})
        found = self.at(places(impressions))
        weights = 1.0 / np.maximum(found, clip)
        clicked = impressions.gains > 0
        of_clicks = weights[clicked]
        total = float(of_clicks.sum())
        others = {n: v for n, v in impressions.nuisance.items() if n != "position"}
        return Correction(
            replace(impressions, gains=impressions.gains * weights, nuisance=others),
            len(of_clicks),
            total**2 / float((of_clicks**2).sum()) if total else 0.0,
            int((found[clicked] < clip).sum()),
        )


def estimate_propensities(impressions: Impressions | Iterable[Impressions]) -> Propensities:
    """Estimate position bias from items that the log shows in several places.

    Such swaps come from random orders, from several rankers or from a ranking that changed [1]_. If
    an item's rate at place k is p_k times a rate of its own, then its clicks are spread over its
    places as the p_k times its views there, whatever that rate is. The estimate maximizes this
    conditional likelihood of all pairs of a query and an item.

    A place that no chain of swaps joins to the first one cannot be told from the items shown there.
    Then, or if its standard error is above 0.5, a UserWarning names it. Places must not say more
    about an item than its rate does: a trend in which items rise as they become popular, or trust
    in the ranking, is taken for examination.

    Parameters
    ----------
    impressions : Impressions, or batches of them
        With positions. Memory grows with the number of different pairs and places.

    Returns
    -------
    Propensities

    References
    ----------
    .. [1] A. Agarwal, I. Zaitsev, X. Wang, C. Li, M. Najork, T. Joachims. Estimating position bias
       without intrusive interventions. WSDM 2019.
    """
    pairs = counted_pairs(impressions)
    n = int(pairs.place.max()) if len(pairs.place) else 1
    swapped, n_swapped = _swapped(pairs)
    values, errors = np.ones(n), np.full(n, np.inf)
    errors[0] = 0.0
    if n_swapped:
        joined = _joined_to_first(swapped, n)
        values, spread = _fitted(swapped, n)
        errors[1:] = np.where(joined[1:], spread[1:], np.inf)
        values[~joined] = 1.0
    found = Propensities(values, errors, n_swapped)
    unknown = np.flatnonzero(~found.known) + 1
    if len(unknown):
        shown = ", ".join(map(str, unknown[:10])) + ", …" * (len(unknown) > 10)
        places = "places" if len(unknown) > 1 else "place"
        warnings.warn(
            f"estimate_propensities: the log cannot identify the effect of {places} {shown}: "
            f"{n_swapped} clicked items were shown in several places. Swap some results at random, "
            f"or leave out the {places}.",
            UserWarning,
            stacklevel=2,
        )
    return found


class _Swapped(NamedTuple):
    """Counts of pairs that were clicked and shown in several places, renumbered."""

    pair: Indices
    place: Indices
    clicks: NDArray[np.float64]
    views: NDArray[np.float64]


def _swapped(pairs: PairCounts) -> tuple[_Swapped, int]:
    new = np.ones(len(pairs.query), bool)
    new[1:] = (np.diff(pairs.query) != 0) | (np.diff(pairs.item) != 0)
    pair = np.cumsum(new) - 1
    n_places = np.bincount(pair)
    clicks = np.bincount(pair, weights=pairs.clicks)
    kept = ((n_places > 1) & (clicks > 0))[pair] & (pairs.views > 0)
    _, numbered = np.unique(pair[kept], return_inverse=True)
    found = _Swapped(numbered, pairs.place[kept] - 1, pairs.clicks[kept], pairs.views[kept])
    return found, int(numbered.max()) + 1 if len(numbered) else 0


def _joined_to_first(swapped: _Swapped, n: int) -> NDArray[np.bool_]:
    """Places that a chain of swaps joins to the first one."""
    rows = sparse.csr_array(
        (np.ones(len(swapped.pair)), (swapped.pair, swapped.place)),
        shape=(int(swapped.pair.max()) + 1, n),
    )
    _, labels = connected_components(rows.T @ rows, directed=False)
    return np.asarray(labels == labels[0])


def _fitted(swapped: _Swapped, n: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Propensities that maximize the conditional likelihood, and errors of their logarithms."""
    pair, place, clicks, views = swapped
    totals = np.bincount(pair, weights=clicks)

    def shares(theta: NDArray[np.float64]) -> NDArray[np.float64]:
        expected = views * np.exp(theta[place])
        return expected / np.bincount(pair, weights=expected)[pair]

    def loss(free: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        theta = np.append(0.0, free)
        share = shares(theta)
        value = -float(clicks @ np.log(share)) + float(free @ free) / (
            2 * LOG_PROPENSITY_DEVIATION**2
        )
        slope = np.bincount(place, weights=totals[pair] * share - clicks, minlength=n)
        return value, slope[1:] + free / LOG_PROPENSITY_DEVIATION**2

    def curvature(free: NDArray[np.float64]) -> NDArray[np.float64]:
        share = shares(np.append(0.0, free))
        weighted = np.bincount(place, weights=totals[pair] * share, minlength=n)
        rows = sparse.csr_array((share, (pair, place)), shape=(len(totals), n))
        crossed = (rows.T @ (rows * totals[:, None])).toarray()
        return (np.diag(weighted) - crossed)[1:, 1:] + np.eye(n - 1) / LOG_PROPENSITY_DEVIATION**2

    start = np.zeros(n - 1)
    free = optimize.minimize(loss, start, jac=True, hess=curvature, method="trust-exact").x
    spread = np.sqrt(np.diag(np.linalg.inv(curvature(free))))
    return np.exp(np.append(0.0, free)), np.append(0.0, spread)
