"""Reports on feedback: repeats and contradictions."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Array, Indices
from similia.feedback import Judgements
from similia.validation import check_tuples, tuple_array

#: judgements examined for repeats and contradictions
MAX_EXAMINED = 1_000_000


@dataclass(frozen=True)
class FeedbackReport:
    """Counts over a set of judgements."""

    #: judgements
    n: int
    #: different judgements; the order of the two points of a pair does not matter
    n_distinct: int
    #: repeats: n - n_distinct
    n_duplicates: int
    #: Questions answered both ways: (q, a, b) and (q, b, a), or a pair with both signs. Each counts
    #: once, however often its answers occur; degenerate judgements do not count
    n_contradictions: int
    #: judgements that compare a point with itself: better == worse, or a pair of one point
    n_degenerate: int
    #: different queries of triplets; different points of pairs
    n_queries: int

    def __str__(self) -> str:
        return (
            f"{self.n} judgements of {self.n_queries} queries: {self.n_distinct} distinct, "
            f"{self.n_duplicates} duplicates, {self.n_contradictions} contradictions, "
            f"{self.n_degenerate} degenerate."
        )

    def to_dict(self) -> dict[str, int]:
        """Counts by name."""
        return asdict(self)


def _checked(name: str, tuples: ArrayLike, width: int) -> Indices:
    given = tuple_array("feedback_report", name, tuples)
    highest = int(given.max()) if given.size and given.dtype.kind in "iu" else 0
    return check_tuples("feedback_report", name, given, (max(highest, 0) + 1,) * width)


def feedback_report(tuples: ArrayLike, signs: ArrayLike | None = None) -> FeedbackReport:
    """Count distinct, repeated, contradictory and degenerate judgements.

    Parameters
    ----------
    tuples : integer array of shape (n, 3), or (n, 2) with `signs`
        Triplets (query, better, worse), or pairs of points. A query may equal one of its items,
        as the two may index different sets.
    signs : array of shape (n,), optional
        +1 or -1 for each pair.

    Returns
    -------
    report : FeedbackReport

    Notes
    -----
    One sort: O(n log n) time, O(n) memory.

    Examples
    --------
    >>> print(feedback_report([[0, 1, 2], [0, 1, 2], [0, 2, 1], [3, 4, 4]]))
    4 judgements of 2 queries: 3 distinct, 1 duplicates, 1 contradictions, 1 degenerate.
    """
    if signs is None:
        return counted(_checked("triplets", tuples, 3))
    rows, given = _checked("pairs", tuples, 2), np.asarray(signs)
    if given.shape != (len(rows),):
        found = f"shape {given.shape} for {len(rows)} pairs"
    elif np.isin(given, (-1, 1)).all():
        return counted(rows, given.astype(np.int8))
    else:
        found = "other values"
    raise ValueError(f"feedback_report: signs must be +1 or -1 for each pair, got {found}.")


def counted(rows: Indices, signs: NDArray[np.int8] | None = None) -> FeedbackReport:
    """Report on triplets, or on pairs with signs, that a caller has checked.

    A row answers a question, "of the unordered {a, b}, which for this query?", by -1, 0 or 1. Rows
    are sorted by question, then answer.
    """
    a, b = rows[:, -2:].T
    answer = np.sign(b - a).astype(np.int8) if signs is None else signs
    low, high = np.minimum(a, b), np.maximum(a, b)
    question = [high, low, *rows[:, :-2].T]
    order = np.lexsort((answer, *question))
    same = np.all([np.diff(column[order]) == 0 for column in question], axis=0)
    repeated = same & (np.diff(answer[order]) == 0)
    # A question has at most two answers, so each answer beyond its first is a contradiction.
    second_answer = same & ~repeated & (low != high)[order][1:]
    n_duplicates = int(np.count_nonzero(repeated))
    # Sorting is much faster than np.unique, which hashes, when most values differ.
    queries = np.sort(rows[:, 0] if signs is None else rows, axis=None)
    return FeedbackReport(
        n=len(rows),
        n_distinct=len(rows) - n_duplicates,
        n_duplicates=n_duplicates,
        n_contradictions=int(np.count_nonzero(second_answer)),
        n_degenerate=int(np.count_nonzero(low == high)),
        n_queries=int(np.count_nonzero(np.diff(queries, prepend=-1))),
    )


#: number of lists at which a log should have more than one query
MANY_LISTS = 20


@dataclass
class Witness:
    """Counts judgements, and keeps the first ones to report on."""

    limit: int = MAX_EXAMINED
    n: int = 0
    #: items in lists, and those of them that were clicked
    n_shown: int = 0
    n_chosen: int = 0
    #: those of them that were first in their list
    n_first: int = 0
    _tuples: list[Array] = field(default_factory=list)
    _values: list[Array] = field(default_factory=list)

    def add(self, part: Judgements) -> None:
        """Add a batch."""
        room = max(0, self.limit - self.n)
        # Copies, as views would keep whole batches alive.
        self._tuples.append(part.tuples[:room].astype(np.int32))
        if part.lists is not None:
            self.n_shown += len(part.lists.items)
            self.n_chosen += int(np.count_nonzero(part.lists.gains))
            self.n_first += int(np.count_nonzero(part.lists.gains[part.lists.starts[:-1]]))
        if part.values is not None:
            self._values.append(part.values[:room].copy())
        self.n += len(part)

    def doubts(self) -> Iterator[str]:
        """Signs that a log is not what it seems, in words."""
        if not self.n_shown:
            return
        if not self.n_chosen:
            yield (
                f"nothing was clicked in {self.n} lists, so they say only that what was shown was "
                "not chosen; is the column of clicks the right one?"
            )
        elif self.n_first == self.n_chosen:
            yield (
                "every click is on the first place, so clicks say nothing about the others; "
                "is the log sorted by clicks, or does it hold only what was clicked?"
            )
        if self.n >= MANY_LISTS and len(np.unique(np.concatenate(self._tuples))) == 1:
            yield (
                f"all {self.n} lists are of one query, so nothing is known of others; "
                "is the column of queries the right one?"
            )

    def report(self) -> dict[str, int]:
        """Counts of `feedback_report`; of items in lists; of the classes of labels."""
        tuples = np.concatenate(self._tuples)
        if self.n_shown:
            queries = len(np.unique(tuples))
            lists = {"n_queries": queries, "n_shown": self.n_shown, "n_chosen": self.n_chosen}
            return {"n": self.n, **lists}
        if not self._values:
            found = counted(tuples)
        else:
            values = np.concatenate(self._values)
            if tuples.shape[1] == 1:
                return {"n": self.n, "n_classes": len(np.unique(values))}
            known = np.isin(values, (-1, 1)).all()
            signs = values.astype(np.int8) if known else np.ones(len(values), np.int8)
            found = counted(tuples, signs)
        examined = {"n_examined": self.limit} if self.n > self.limit else {}
        return {**asdict(found), "n": self.n, **examined}
