"""Graded judgements (query, item, relevance) to triplets, window by window."""

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from similia.files.judgements import Judgements, in_chunks
from similia.sampling import RelevanceTriplets

#: judgements that are compared with each other
WINDOW = 2**17
#: triplets drawn for each judgement
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
    """Yield triplets: for a query, an item of a higher grade is better than one of a lower.

    The rule, for each `window` judgements in turn: several grades of one item for one query become
    their mean (so clicks, 1, and views without a click, 0, become rates); then `draws` triplets for
    each judgement are drawn as `RelevanceTriplets` does, with a seed of the window's own.
    Judgements of different windows are not compared. A window without anything to compare gives
    nothing.

    Parameters
    ----------
    batches : iterator of Judgements
        Tuples (query, item) with grades.
    shape : (int, int)
        Numbers of queries and items.
    unjudged : {"ignore", "worse"}
        Whether items without a grade count as worse than those with a positive one.
    draws, window : int
    random_state : int
        Equal seeds give equal triplets.
    """
    for number, part in enumerate(in_chunks(batches, window)):
        grades = _mean_grades(part, shape)
        if not _comparable(grades, unjudged):
            continue
        rng = np.random.default_rng([random_state, number])
        drawn = RelevanceTriplets(grades, unjudged).draw(draws * len(part), rng)
        yield Judgements(drawn.astype(np.int64), None, np.full(len(drawn), part.numbers[0]))


def _mean_grades(part: Judgements, shape: tuple[int, int]) -> sparse.csr_array:
    """Give the mean grade of each (query, item) that was judged, zeros stored."""
    query, item = part.tuples.T
    keys, places = np.unique(query * shape[1] + item, return_inverse=True)
    means = np.bincount(places, weights=part.values) / np.bincount(places)
    rows, columns = np.divmod(keys, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sparse.csr_array((means, columns, starts), shape=shape)


def _comparable(grades: sparse.csr_array, unjudged: str) -> bool:
    """Whether some item is above another of the same query."""
    listed = np.flatnonzero(np.diff(grades.indptr))
    starts = grades.indptr[listed]
    high = np.maximum.reduceat(grades.data, starts)
    if unjudged == "worse":
        full = np.diff(grades.indptr)[listed] == grades.shape[1]
        low = np.where(full, np.minimum.reduceat(grades.data, starts), 0.0)
    else:
        low = np.minimum.reduceat(grades.data, starts)
    return bool((high > low).any())
