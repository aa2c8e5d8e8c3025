"""Repeats and contradictions in a set of judgements, and a vote that settles them."""

from dataclasses import asdict, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from similia.contract import Indices
from similia.validation import check_tuples


@dataclass(frozen=True)
class FeedbackReport:
    """Counts over a set of judgements.

    Attributes
    ----------
    n : int
        Judgements.
    n_distinct : int
        Different judgements; the order of the two points of a pair does not matter.
    n_duplicates : int
        Repeats: n - n_distinct.
    n_contradictions : int
        Questions answered both ways: (q, a, b) and (q, b, a), or a pair with both signs. Each
        counts once, however often its answers occur; degenerate judgements do not count.
    n_degenerate : int
        Judgements that compare a point with itself: better == worse, or a pair of one point.
    n_queries : int
        Different queries of triplets; different points of pairs.
    """

    n: int
    n_distinct: int
    n_duplicates: int
    n_contradictions: int
    n_degenerate: int
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


class MajorityVote(NamedTuple):
    """Triplets that a majority supports, and the votes.

    Attributes
    ----------
    triplets : array of shape (m, 3)
        In the order in which their questions first occur.
    n_for, n_against : arrays of shape (m,)
        Occurrences of each triplet and of its reverse.
    n_ties : int
        Questions dropped as undecided.
    n_degenerate : int
        Judgements dropped because better == worse.
    """

    triplets: Indices
    n_for: Indices
    n_against: Indices
    n_ties: int
    n_degenerate: int


class _Votes(NamedTuple):
    """Judgements as answers (-1, 0 or 1) to questions, sorted by question, then answer."""

    order: Indices
    question: Indices  # increasing
    answer: NDArray[np.int8]
    degenerate: NDArray[np.bool_]


def _votes(query: Indices, a: Indices, b: Indices, answer: NDArray[np.int8]) -> _Votes:
    """Answers to the question of each row: for this query, a or b of the unordered {a, b}?"""
    low, high = np.minimum(a, b), np.maximum(a, b)
    order = np.lexsort((answer, high, low, query))
    new = np.zeros(len(order), dtype=bool)
    for column in (query, low, high):
        column_sorted = column[order]
        new[1:] |= column_sorted[1:] != column_sorted[:-1]
    return _Votes(order, np.cumsum(new), answer[order], (low == high)[order])


def _triplet_votes(triplets: Indices) -> _Votes:
    query, better, worse = triplets.T
    return _votes(query, better, worse, np.sign(worse - better).astype(np.int8))


def _checked(owner: str, name: str, tuples: ArrayLike, width: int) -> Indices:
    given = np.asarray(tuples)
    highest = int(given.max()) if given.size and given.dtype.kind in "iu" else 0
    return check_tuples(owner, name, given, (max(highest, 0) + 1,) * width)


def _checked_signs(signs: ArrayLike, n: int) -> NDArray[np.int8]:
    given = np.asarray(signs)
    if given.shape != (n,) or not bool(np.isin(given, (-1, 1)).all()):
        raise ValueError(
            "feedback_report: signs must be +1 or -1 for each pair, got "
            + (f"shape {given.shape} for {n} pairs." if given.shape != (n,) else "other values.")
        )
    return given.astype(np.int8)


def _n_different(indices: Indices) -> int:
    # np.unique hashes, which is much slower than sorting when most values differ.
    return int(np.count_nonzero(np.diff(np.sort(indices, axis=None), prepend=-1)))


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
        rows = _checked("feedback_report", "triplets", tuples, 3)
        votes, queries = _triplet_votes(rows), rows[:, 0]
    else:
        rows = _checked("feedback_report", "pairs", tuples, 2)
        answer = _checked_signs(signs, len(rows))
        first, second = rows.T
        votes, queries = _votes(np.zeros_like(first), first, second, answer), rows
    distinct = np.ones(len(rows), dtype=bool)
    distinct[1:] = (np.diff(votes.question) > 0) | (votes.answer[1:] != votes.answer[:-1])
    # A question has at most two answers, so each answer beyond its first is a contradiction.
    second_answer = distinct[1:] & (np.diff(votes.question) == 0) & ~votes.degenerate[1:]
    n_distinct = int(distinct.sum())
    return FeedbackReport(
        n=len(rows),
        n_distinct=n_distinct,
        n_duplicates=len(rows) - n_distinct,
        n_contradictions=int(second_answer.sum()),
        n_degenerate=int(votes.degenerate.sum()),
        n_queries=_n_different(queries),
    )


def majority(triplets: ArrayLike) -> MajorityVote:
    """Settle contradictions by majority, and keep each judgement once.

    Of (q, a, b) and (q, b, a) the more frequent one is kept. In a tie neither is; nor is (q, a, a),
    which says nothing.

    Parameters
    ----------
    triplets : integer array of shape (n, 3)
        Rows (query, better, worse).

    Returns
    -------
    vote : MajorityVote

    Notes
    -----
    One sort: O(n log n) time, O(n) memory.

    Examples
    --------
    >>> vote = majority([[0, 1, 2], [0, 2, 1], [0, 1, 2], [5, 3, 4], [5, 4, 3]])
    >>> vote.triplets.tolist(), vote.n_for.tolist(), vote.n_against.tolist(), vote.n_ties
    ([[0, 1, 2]], [2], [1], 1)
    """
    rows = _checked("majority", "triplets", triplets, 3)
    votes = _triplet_votes(rows)
    n_low = np.bincount(votes.question, weights=votes.answer > 0).astype(np.intp)
    n_high = np.bincount(votes.question, weights=votes.answer < 0).astype(np.intp)
    starts = np.flatnonzero(np.diff(votes.question, prepend=-1))
    first = np.minimum.reduceat(votes.order, starts)
    decided = np.flatnonzero(n_low != n_high)
    decided = decided[np.argsort(first[decided])]
    query, a, b = rows[first[decided]].T
    low_wins = n_low[decided] > n_high[decided]
    low, high = np.minimum(a, b), np.maximum(a, b)
    kept = np.column_stack([query, np.where(low_wins, low, high), np.where(low_wins, high, low)])
    n_for = np.maximum(n_low, n_high)[decided]
    n_against = np.minimum(n_low, n_high)[decided]
    n_ties = int(((n_low == n_high) & (n_low > 0)).sum())
    return MajorityVote(kept, n_for, n_against, n_ties, int(votes.degenerate.sum()))
