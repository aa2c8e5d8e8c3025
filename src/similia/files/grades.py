"""Triplets drawn from graded judgements."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from similia.clicks.rates import shrunk_rates
from similia.files.judgements import Judgements, in_chunks
from similia.sampling import RelevanceTriplets

#: graded judgements compared with each other
WINDOW = 2**17
#: triplets drawn per graded judgement
DRAWS = 4


def triplets_of_grades(
    batches: Iterator[Judgements],
    shape: tuple[int, int],
    *,
    unjudged: str = "ignore",
    draws: int = DRAWS,
    window: int = WINDOW,
    random_state: int = 0,
) -> Iterator[Judgements]:
    """Draw triplets in which the better item has a higher grade for the query than the worse one.

    Judgements are compared within windows of `window` rows. In each, several grades of one item
    for one query are averaged, and shrunk by their number where these differ (so clicks, 1, and
    views without a click, 0, become click rates in which 9 of 10 beat 1 of 1); then
    `RelevanceTriplets` draws `draws` triplets per judgement, with a seed of the window's own.
    A window without two comparable items yields nothing. With ``unjudged="worse"`` items without a
    grade count as worse than those with a positive one. `shape`: numbers of queries and items.
    """
    for number, part in enumerate(in_chunks(batches, window)):
        grades = _mean_grades(part, shape)
        if not _comparable(grades, unjudged):
            continue
        rng = np.random.default_rng([random_state, number])
        drawn = RelevanceTriplets(grades, unjudged).draw(draws * len(part), rng)
        yield Judgements(drawn.astype(np.int64), None, np.full(len(drawn), part.numbers[0]))


def _mean_grades(part: Judgements, shape: tuple[int, int]) -> sparse.csr_array:
    """Mean grade of each judged (query, item); zeros are stored."""
    query, item = part.tuples.T
    keys, places = np.unique(query * shape[1] + item, return_inverse=True)
    sums = np.bincount(places, weights=part.values).astype(np.float64)
    counts = np.bincount(places).astype(np.float64)
    means = sums / counts
    if len(counts) and counts.min() < counts.max():
        means = np.where(sums > 0, shrunk_rates(sums, counts)[0], 0.0)  # what has no gain has none
    rows, columns = np.divmod(keys, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sparse.csr_array((means, columns, starts), shape=shape)


def _comparable(grades: sparse.csr_array, unjudged: str) -> bool:
    """Whether any query grades one item above another."""
    listed = np.flatnonzero(np.diff(grades.indptr))
    starts = grades.indptr[listed]
    high = np.maximum.reduceat(grades.data, starts)
    low = np.minimum.reduceat(grades.data, starts)
    if unjudged == "worse":
        full = np.diff(grades.indptr)[listed] == grades.shape[1]
        low = np.where(full, low, 0.0)
    return bool((high > low).any())
