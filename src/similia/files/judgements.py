"""Judgements on their way from a file to a learner."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False, slots=True)
class Judgements:
    """Some judgements, in order.

    Attributes
    ----------
    tuples : integer array of shape (n, 3), (n, 2) or (n, 1)
        Rows of vectors: (query, better, worse), (a, b), (query, item) or (row,).
    values : array of shape (n,), or None for triplets
        What is known: labels of pairs, grades, or numbers of classes.
    numbers : integer array of shape (n,)
        The row of the file that each comes from.
    """

    tuples: NDArray[np.int64]
    values: NDArray[Any] | None
    numbers: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.tuples)

    def part(self, chosen: Any) -> Self:
        """Give some of them, by a slice, a mask or indices."""
        values = None if self.values is None else self.values[chosen]
        return type(self)(self.tuples[chosen], values, self.numbers[chosen])


def joined(parts: Sequence[Judgements]) -> Judgements:
    """Give several batches as one."""
    if len(parts) == 1:
        return parts[0]
    values = [part.values for part in parts if part.values is not None]
    return Judgements(
        np.concatenate([part.tuples for part in parts]),
        np.concatenate(values) if values else None,
        np.concatenate([part.numbers for part in parts]),
    )


def in_chunks(
    batches: Iterator[Judgements], size: int, smallest: int | None = None
) -> Iterator[Judgements]:
    """Yield the same judgements in chunks of exactly `size`, the last one excepted.

    With `smallest`, chunks begin with so many and grow to `size`, each at most a quarter of all
    before it and a multiple of `smallest`, as learners work in whole blocks. The sizes depend on
    nothing else, so what is learnt does not depend on how a file was read.
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
