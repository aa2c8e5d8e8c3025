"""Batches of judgements, and chunks of them whose sizes do not depend on how a file was read."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.impressions import Impressions


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
