"""Clicks and views of each query and item, and of each place, counted over batches of lists."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from similia.contract import Indices
from similia.feedback.impressions import Impressions, check_impressions

#: different pairs kept before they are summed up
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
