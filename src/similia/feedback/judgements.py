"""Batches of judgements: joined, cut into chunks of fixed sizes, and gathered from logs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array, Indices
from similia.feedback.impressions import Impressions
from similia.files import BadRows, RowError
from similia.files.source import Batch


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


# -- rows of logs --------------------------------------------------------------------------------


def in_lists(rows: Iterator[Batch], source: str, bad_rows: BadRows) -> Iterator[Judgements]:
    """Gather successive rows of a log into lists, numbered by their first rows.

    A list that ends with a batch waits for the next batch, so lists do not depend on batches.
    """
    held: Batch | None = None
    for columns, numbers in rows:
        if held is not None:
            columns = {
                name: np.concatenate([held[0][name], values]) for name, values in columns.items()
            }
            numbers = np.concatenate([held[1], numbers])
        if not len(numbers):
            continue
        columns, numbers, starts = _cut(columns, numbers, source, bad_rows)
        last = starts[-1]
        held = {name: values[last:] for name, values in columns.items()}, numbers[last:]
        if last:
            yield _lists(columns, numbers, starts)
    if held is not None:
        yield _lists(*held, np.array([0, len(held[1])]))


def _cut(
    columns: dict[str, Array], numbers: Indices, source: str, bad_rows: BadRows
) -> tuple[dict[str, Array], Indices, Indices]:
    """Rows without those of a second query in one impression, and where lists start."""
    key, query = columns.get("impression"), columns["query"]
    if key is None:
        key = columns.get("visit", query)
        changed = (key[1:] != key[:-1]) | (query[1:] != query[:-1])
        return columns, numbers, np.concatenate([[0], np.flatnonzero(changed) + 1])
    starts = np.concatenate([[0], np.flatnonzero(key[1:] != key[:-1]) + 1])
    _, counts = np.unique(key[starts], return_counts=True)
    if counts.max() > 1:
        again = np.argsort(key[starts], kind="stable")
        place = starts[again[1:][np.diff(key[starts][again]) == 0].min()]
        raise ValueError(
            f"{source}: rows of one impression must follow one another, got more of an earlier one "
            f"in row {numbers[place]}; sort the log by impression."
        )
    lengths = np.diff(np.append(starts, len(key)))
    mixed = query != np.repeat(query[starts], lengths)
    if not mixed.any():
        return columns, numbers, starts
    for number in numbers[mixed].tolist():
        bad_rows.add(source, number, RowError("another query in the same impression"))
    kept = {name: values[~mixed] for name, values in columns.items()}
    return kept, numbers[~mixed], starts - np.cumsum(mixed)[starts]


def _lists(columns: dict[str, Array], numbers: Indices, starts: Indices) -> Judgements:
    """Lists between successive starts."""
    heads, end = starts[:-1], starts[-1]
    nuisance = {}
    if "position" in columns:
        nuisance["position"] = np.log(columns["position"][:end])
    weights = columns["weight"][heads] if "weight" in columns else np.ones(len(heads))
    queries = columns["query"][heads]
    lists = Impressions(
        queries,
        starts,
        columns["item"][:end],
        columns["click"][:end],
        nuisance,
        weights,
        np.zeros(len(heads), bool),
        columns["timestamp"][:end] if "timestamp" in columns else np.zeros(0),
    )
    tuples = queries[:, None].astype(np.int64, copy=False)
    return Judgements(tuples, None, numbers[heads], lists)
