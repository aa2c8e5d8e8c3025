"""Measures from scores that are never stored: tiles are computed, counted and overwritten.

A rank counts the scores above that of the relevant item. If that score is known in advance, all
other scores can be counted tile by tile, each by the processor that has just computed the tile and
still has it in its cache. So blocks of queries have the size that suits the matrix product, however
many items there are.

But a score computed in advance is not rounded like the one in the tile: a BLAS rounds differently
at different places in its blocks. So it only yields a band that contains the item's own score.
Scores above the band are counted; the few within it are set aside and later compared with the own
score, which is one of them. Ranks are thus exactly those of one set of scores. If a band misses the
own score, or contains too many others, the query is measured from a full row of scores instead.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from similia.linalg.threads import processors, side_by_side, single_blas_thread
from similia.retrieval.measures import Wanted, count_tile, fill_measured, inner_products
from similia.retrieval.relevance import members
from similia.retrieval.scorers import Scores
from similia.retrieval.vectors import Floats, Integers, Products, is_sparse
from similia.stored import StoredRows

#: queries and items of a tile: large enough for the product, small enough for the cache
QUERIES, ITEMS = 512, 1024
#: queries below which tiles do not pay off
FEWEST = 32
#: relevant items of a query beyond which comparing with each costs too much
MANY = 64
#: scores that each share of the items may set aside for a relevant item
ASIDE = 64
#: shares per processor, so that uneven shares balance out
SHARES = 2


class Watched(NamedTuple):
    """Items to rank; those of query i are items[starts[i]:starts[i + 1]]."""

    starts: Integers
    items: Integers
    low: Floats  # bands of their scores
    high: Floats


class Counts(NamedTuple):
    """Scores counted for each watched item (second axis), in each share of the items (first)."""

    beyond: Integers  # number of scores above the band
    n_aside: Integers  # number of scores in the band, then their items and values
    aside: Integers
    scores: Floats


def blocks_to_measure(
    scores: Scores, wanted: Wanted, block_bytes: int
) -> tuple[list[Integers], list[Integers]]:
    """Numbers of the queries that suit tiles, and of the others, in blocks to be measured alone.

    Which queries share a block depends on all of them, not on who measures which block: a BLAS
    rounds a score by its place.
    """
    n = scores.Q.shape[0]
    products = scores.source
    dtype = products.items.dtype if isinstance(products, Products) else np.dtype(float)
    size = dtype.itemsize
    rows = max(1, block_bytes // (scores.n_items * size))
    if not isinstance(products, Products) or is_sparse(products.items):
        return [], _cut(np.arange(n), rows)
    tiles = processors() * SHARES * QUERIES * ITEMS * products.items.dtype.itemsize
    few = np.diff(wanted.relevant.starts)[wanted.relevant.group] <= MANY
    suited = np.flatnonzero(few)
    if len(suited) < FEWEST or tiles > block_bytes:
        return [], _cut(np.arange(n), rows)
    return np.array_split(suited, -(-len(suited) // QUERIES)), _cut(np.flatnonzero(~few), rows)


def _cut(queries: Integers, size: int) -> list[Integers]:
    return [queries[start : start + size] for start in range(0, len(queries), size)]


def measured_in_passing(scores: Scores, wanted: Wanted, queries: Integers) -> Integers:
    """Measure a block of queries that suit tiles; return those for which that failed."""
    return queries[~_measured(scores, cast(Products, scores.source), wanted, queries)]


def _measured(
    scores: Scores, products: Products, wanted: Wanted, queries: Integers
) -> NDArray[np.bool_]:
    """Measure a block of queries; return for each whether that succeeded."""
    with single_blas_thread():
        q = np.ascontiguousarray(products.queries(scores.Q[queries]))
    starts, items = _watched(wanted, queries)
    owners = np.repeat(np.arange(len(queries)), np.diff(starts))
    watched = Watched(starts, items, *_bands(q, owners, products.items, items))
    sure = np.ones(len(queries), dtype=bool)
    counts = _counted(q, products.items, watched, sure)
    fill_measured(wanted, sure.view(np.uint8), queries, watched, counts)
    return sure


def _bands(q: Floats, rows: Integers, z: Any, items: Integers) -> tuple[Floats, Floats]:
    """Bounds that very likely contain the rounded inner products of the given rows and items."""
    exact, size = np.empty((2, len(items)))
    if isinstance(z, StoredRows):
        used, items = np.unique(items.astype(np.intp), return_inverse=True)
        z = z[used]
    inner_products(exact, size, q, rows, z, items)
    with np.errstate(over="ignore", invalid="ignore"):
        # Rounding errors of n terms add up like sqrt(n), not like n.
        width = 0.5 * np.finfo(q.dtype).eps * np.sqrt(q.shape[1]) * size
        return (exact - width).astype(q.dtype), (exact + width).astype(q.dtype)


def _watched(wanted: Wanted, queries: Integers) -> tuple[Integers, Integers]:
    """Starts and items: the relevant items of each query, then the query itself if it is one."""
    lists: list[Sequence[int] | Integers] = []
    for query in queries:
        own = wanted.own[query]
        lists.append(wanted.relevant.items[members(wanted.relevant, query)])
        lists.append([own] if own >= 0 else [])
    starts = np.cumsum([0, *map(len, lists)])[::2]
    return np.ascontiguousarray(starts), np.concatenate(lists).astype(np.intp)


def _counted(q: Floats, items: Floats, watched: Watched, sure: NDArray[np.bool_]) -> Counts:
    """Count the scores above each band; unset `sure` where the count is unreliable."""
    n_tiles = -(-len(items) // ITEMS)
    shares = np.array_split(np.arange(n_tiles), min(n_tiles, processors() * SHARES))
    shape = (len(shares), len(watched.items))
    beyond, n_aside = np.zeros((2, *shape), np.int64)
    aside, scores = np.empty((*shape, ASIDE), np.int64), np.empty((*shape, ASIDE), q.dtype)
    counts = Counts(beyond, n_aside, aside, scores)

    def count(share: int) -> None:
        own = Counts(*(part[share] for part in counts))
        tile = np.empty(len(q) * ITEMS, q.dtype)
        for start in ITEMS * shares[share]:
            some = items[start : start + ITEMS]
            part = tile[: len(q) * len(some)].reshape(len(q), len(some))
            with np.errstate(over="ignore", invalid="ignore"):
                np.matmul(q, some.T, out=part)
            count_tile(*own, sure.view(np.uint8), part, start, *watched)

    with single_blas_thread():
        side_by_side([partial(count, share) for share in range(len(shares))])
    return counts
