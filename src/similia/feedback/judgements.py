"""Batches of judgements: joined, cut into chunks of fixed sizes, and drawn from grades."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Array
from similia.feedback.clicks.rates import shrunk_rates
from similia.feedback.impressions import Impressions
from similia.feedback.sampling import RelevanceTriplets

#: graded judgements compared with each other, at most
MAX_GRADES_COMPARED = 2**17
#: triplets drawn per graded judgement
TRIPLETS_PER_GRADE = 4


@dataclass(frozen=True, eq=False, slots=True)
class Judgements:
    """A batch of judgements, in order."""

    #: rows of vectors: (query, better, worse), (a, b), (query, item), (row,); (query,) of lists
    tuples: NDArray[np.int64]
    #: labels of pairs, grades, or class numbers; None for triplets
    values: Array | None
    #: row of the file that each one comes from
    numbers: NDArray[np.int64]
    #: what was shown and clicked, if each judgement is a list
    lists: Impressions | None = None

    def __len__(self) -> int:
        return len(self.tuples)

    def part(self, chosen: slice | Array) -> Self:
        """Select by a slice, a mask or indices."""
        values = None if self.values is None else self.values[chosen]
        lists = None if self.lists is None else self.lists.part(chosen)
        return type(self)(self.tuples[chosen], values, self.numbers[chosen], lists)


def joined(parts: Sequence[Judgements]) -> Judgements:
    """Several batches as one."""
    if len(parts) == 1:
        return parts[0]
    values = [part.values for part in parts if part.values is not None]
    lists = [part.lists for part in parts if part.lists is not None]
    return Judgements(
        np.concatenate([part.tuples for part in parts]),
        np.concatenate(values) if values else None,
        np.concatenate([part.numbers for part in parts]),
        Impressions.joined(lists) if lists else None,
    )


def in_chunks(
    batches: Iterator[Judgements], size: int, smallest: int | None = None
) -> Iterator[Judgements]:
    """Yield the same judgements in chunks of exactly `size`, except for the last.

    With `smallest`, chunks start at that size and grow to `size`: each is at most a quarter of all
    judgements before it, and a multiple of `smallest`, because learners work in whole blocks. Sizes
    depend on nothing else, so what is learnt does not depend on how the file was read.
    """
    held: list[Judgements] = []
    n = done = 0
    wanted = min(size, smallest or size)
    for batch in batches:
        held.append(batch)
        n += len(batch)
        if n < wanted:
            continue
        whole, start = joined(held), 0
        while n - start >= wanted:
            yield whole.part(slice(start, start + wanted))
            start += wanted
            done += wanted
            if smallest is not None:
                wanted = min(size, max(wanted, done // 4 // smallest * smallest))
        held, n = [whole.part(slice(start, n))], n - start
    if n:
        yield joined(held)


def triplets_of_grades(
    batches: Iterator[Judgements],
    shape: tuple[int, int],
    *,
    unjudged: str = "ignore",
    draws: int = TRIPLETS_PER_GRADE,
    window: int = MAX_GRADES_COMPARED,
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
