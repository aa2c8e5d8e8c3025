"""Measures from scores that are never kept: tiles are made, counted and overwritten.

A rank is a count of scores beyond that of the relevant item. If that one is known beforehand, the
scores of all other items can be counted tile by tile, each by the processor that has just made it
and in whose cache it still is. So a block of queries is as wide as the matrix product likes it,
however many items there are.

But what is known beforehand is not rounded as the score in the tile is: a BLAS rounds by the place
in its blocks. So it only gives a band that holds the item's own score. Scores beyond the band are
counted; the few within are set aside and compared, once all is known, with the own score, which is
one of them. Ranks are thus exactly those of one set of scores. Where a band does not hold the own
score, or too many others, the query is left to those who keep all of its scores.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.linalg.compiled import compiled_in_order
from similia.linalg.threads import processors, side_by_side, single_blas_thread
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.measures import fill_row
from similia.retrieval.ranks import all_finite
from similia.retrieval.relevance import Relevance
from similia.retrieval.scorers import Scores
from similia.retrieval.vectors import Products

#: queries and items of a tile: large enough for the product, small enough for a cache
QUERIES, ITEMS = 512, 1024
#: fewer queries than this have nothing to gain
FEWEST = 32
#: relevant items of a query beyond which comparing with each of them costs too much
MANY = 64
#: scores that may be set aside for each relevant item, by each share of the items
ASIDE = 64
#: shares for each processor, so that the faster one takes over from the slower
SHARES = 2


class Wanted(NamedTuple):
    """What to measure, and where to put it."""

    relevant: Relevance
    own: Integers  # the item that each query is itself, or -1
    codes: Integers  # places in MEASURES and cut-offs
    values: NDArray[np.float64]  # a row for each query, a column for each measure
    n_relevant: NDArray[np.int64]

    @classmethod
    def of(cls, relevant: Relevance, own: Integers, codes: Integers) -> "Wanted":
        """Give empty places for the measures of all queries."""
        n = len(own)
        return cls(relevant, own, codes, np.empty((n, len(codes))), np.empty(n, np.int64))


class Watched(NamedTuple):
    """Items whose ranks are wanted: of query i those from starts[i] to starts[i + 1]."""

    starts: Integers
    items: Integers
    low: Floats  # bounds of their scores
    high: Floats


class Counts(NamedTuple):
    """What a share of the items says about each watched one."""

    beyond: Integers  # scores above the band
    n_aside: Integers  # scores in the band: items and scores
    aside: Integers
    scores: Floats

    @classmethod
    def of(cls, n: int, dtype: np.dtype[Any]) -> "Counts":
        """Count from zero."""
        beyond, n_aside = np.zeros((2, n), np.int64)
        return cls(beyond, n_aside, np.empty((n, ASIDE), np.int64), np.empty((n, ASIDE), dtype))


def measured_in_passing(
    scores: Scores, wanted: Wanted, block_bytes: int, advance: Callable[[int], None]
) -> Integers:
    """Measure what can be measured so; give the numbers of the queries that are left."""
    n = scores.Q.shape[0]
    products = scores.products
    if products is None or sparse.issparse(products.items):
        return np.arange(n)
    tiles = processors() * SHARES * QUERIES * ITEMS * products.items.itemsize
    few = np.diff(wanted.relevant.starts)[wanted.relevant.group] <= MANY
    suited = np.flatnonzero(few)
    if len(suited) < FEWEST or tiles > block_bytes:
        return np.arange(n)
    done = np.zeros(n, dtype=bool)
    for queries in np.array_split(suited, -(-len(suited) // QUERIES)):
        done[queries] = _measured(scores, products, wanted, queries)
        advance(int(np.count_nonzero(done[queries])))
    return np.flatnonzero(~done)


def _measured(
    scores: Scores, products: Products, wanted: Wanted, queries: Integers
) -> NDArray[np.bool_]:
    """Measure a block of queries; give for each whether it is measured."""
    q = np.ascontiguousarray(products.queries(scores.Q[queries]))
    starts, items = _watched(wanted.relevant, wanted.own, queries)
    owners = np.repeat(np.arange(len(queries)), np.diff(starts))
    watched = Watched(starts, items, *_bands(q[owners], products.items[items]))
    sure = np.ones(len(queries), dtype=bool)
    counts = _counted(q, products.items, watched, sure)
    ranks = np.empty(len(items), np.int64)
    _fill_ranks(ranks, sure, counts, watched)
    _fill_measured(wanted, queries, watched, ranks, sure)
    return sure


def _bands(q: Floats, z: Floats) -> tuple[Floats, Floats]:
    """Give bounds that hold the rounded inner product of each pair of rows, in all likelihood."""
    with np.errstate(over="ignore", invalid="ignore"):
        exact = np.einsum("ij,ij->i", q, z, dtype=np.float64)
        # Rounding errors of n terms add up like sqrt(n) of them, not like n.
        size = np.einsum("ij,ij->i", np.abs(q), np.abs(z), dtype=np.float64)
        width = 0.5 * np.finfo(q.dtype).eps * np.sqrt(q.shape[1]) * size
        return (exact - width).astype(q.dtype), (exact + width).astype(q.dtype)


@compiled_in_order
def _watched(relevant: Relevance, own: Integers, queries: Integers) -> tuple[Integers, Integers]:
    """Give starts and items: the relevant ones of each query, and last the query itself, if any."""
    starts = np.zeros(len(queries) + 1, np.int64)
    for i, query in enumerate(queries):
        group = relevant.group[query]
        n = relevant.starts[group + 1] - relevant.starts[group]
        starts[i + 1] = starts[i] + n + (own[query] >= 0)
    items = np.empty(starts[-1], np.int64)
    for i, query in enumerate(queries):
        group = relevant.group[query]
        members = relevant.items[relevant.starts[group] : relevant.starts[group + 1]]
        items[starts[i] : starts[i] + len(members)] = members
        if own[query] >= 0:
            items[starts[i + 1] - 1] = own[query]
    return starts, items


def _counted(q: Floats, items: Floats, watched: Watched, sure: NDArray[np.bool_]) -> list[Counts]:
    """Count the scores beyond each band; unset `sure` where that cannot be relied on."""
    n_tiles = -(-len(items) // ITEMS)
    shares = np.array_split(np.arange(n_tiles), min(n_tiles, processors() * SHARES))
    counts = [Counts.of(len(watched.items), q.dtype) for _ in shares]

    def count(share: int) -> None:
        tile = np.empty((len(q), ITEMS), q.dtype)
        for start in ITEMS * shares[share]:
            some = items[start : start + ITEMS]
            part = tile[:, : len(some)]
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(q, some.T, out=part)
            _count_tile(counts[share], sure, part, start, watched)

    with single_blas_thread():
        side_by_side([partial(count, share) for share in range(len(shares))])
    return counts


@compiled_in_order
def _count_tile(
    counts: Counts, sure: NDArray[np.bool_], tile: Floats, start: int, watched: Watched
) -> None:
    """Count the scores of a tile beyond each band, and set those within aside."""
    for row in range(len(tile)):
        scores = tile[row]
        if not sure[row]:
            continue
        if not all_finite(scores):
            sure[row] = False
            continue
        for w in range(watched.starts[row], watched.starts[row + 1]):
            low, high = watched.low[w], watched.high[w]
            beyond, reaching = _count_beyond(scores, low, high)
            counts.beyond[w] += beyond
            if reaching != beyond and not _set_aside(counts, w, scores, start, low, high):
                sure[row] = False


@compiled_in_order
def _count_beyond(scores: Floats, low: float, high: float) -> tuple[np.int32, np.int32]:
    """Count the scores above the band, and those in it as well."""
    beyond, reaching = np.int32(0), np.int32(0)  # narrow, for the reason given in `ranks`
    for i in range(len(scores)):
        beyond += np.int32(scores[i] > high)
        reaching += np.int32(scores[i] >= low)
    return beyond, reaching


@compiled_in_order
def _set_aside(counts: Counts, w: int, scores: Floats, start: int, low: float, high: float) -> bool:
    """Keep the scores in the band; say whether there was room for them."""
    n = counts.n_aside[w]
    for i in range(len(scores)):
        if low <= scores[i] <= high:
            if n == counts.aside.shape[1]:
                return False
            counts.aside[w, n], counts.scores[w, n] = start + i, scores[i]
            n += 1
    counts.n_aside[w] = n
    return True


def _fill_ranks(
    ranks: Integers, sure: NDArray[np.bool_], counts: list[Counts], watched: Watched
) -> None:
    """Set the rank of each watched item among all items; unset `sure` if its score is missing."""
    own = np.empty(len(ranks), watched.low.dtype)
    found = np.zeros(len(ranks), dtype=bool)
    ranks[:] = 1
    for share in counts:
        _find_own(own, found, share, watched.items)
    for share in counts:
        _add_before(ranks, own, share, watched.items)
    missing = np.flatnonzero(~found)
    sure[np.searchsorted(watched.starts, missing, side="right") - 1] = False


@compiled_in_order
def _find_own(own: Floats, found: NDArray[np.bool_], counts: Counts, items: Integers) -> None:
    for w in range(len(items)):
        for e in range(counts.n_aside[w]):
            if counts.aside[w, e] == items[w]:
                own[w], found[w] = counts.scores[w, e], True


@compiled_in_order
def _add_before(ranks: Integers, own: Floats, counts: Counts, items: Integers) -> None:
    """Add the items of this share that come before each watched one.

    Before item j are scores above its own and, of lower indices, also those equal to it.
    """
    for w in range(len(items)):
        ranks[w] += counts.beyond[w]
        for e in range(counts.n_aside[w]):
            score = counts.scores[w, e]
            ranks[w] += score > own[w] or (score == own[w] and counts.aside[w, e] < items[w])


@compiled_in_order
def _fill_measured(
    wanted: Wanted,
    queries: Integers,
    watched: Watched,
    all_ranks: Integers,
    sure: NDArray[np.bool_],
) -> None:
    """Set the measures of the queries whose ranks are sure."""
    for i, query in enumerate(queries):
        if not sure[i]:
            continue
        own = wanted.own[query]
        first, end = watched.starts[i], watched.starts[i + 1] - (own >= 0)
        ranks = np.empty(end - first, np.int64)
        places = np.empty(end - first, np.int64)
        kept = 0
        for w in range(first, end):
            if watched.items[w] != own:
                # The query itself, if it is an item, comes last and is not ranked.
                ranks[kept] = all_ranks[w] - (own >= 0 and all_ranks[end] < all_ranks[w])
                places[kept] = w - first
                kept += 1
        order = np.argsort(ranks[:kept])
        group = wanted.relevant.group[query]
        gains = wanted.relevant.gains[wanted.relevant.starts[group] + places[:kept][order]]
        wanted.n_relevant[query] = kept
        fill_row(wanted.values[query], ranks[:kept][order], gains, wanted.codes)
