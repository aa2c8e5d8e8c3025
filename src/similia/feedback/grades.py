"""Graded judgements to triplets (query, better, worse), all at once or in windows."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from similia.contract import Array, Indices
from similia.feedback.clicks.rates import shrunk_rates
from similia.feedback.judgements import Judgements, in_chunks
from similia.feedback.sampling import Score, check_draw
from similia.safety.bounds import check_entries
from similia.validation import check_parameters, one_of

#: maximum number of grades compared with each other
MAX_GRADES_COMPARED = 2**17
#: triplets drawn per graded judgement
TRIPLETS_PER_GRADE = 4

GivenGrades: TypeAlias = ArrayLike | sp.sparray | sp.spmatrix


class RelevanceTriplets:
    """Triplets from graded judgements of documents for queries.

    - query: uniform over the queries with at least one allowed triplet;
    - better: uniform over the documents graded above some other document;
    - worse: uniform over the documents graded strictly below better.

    The triplets index two sets: pass them to ``learn(Q, triplets, items=Z)``. A triplet costs
    O(log n_judgements) and memory is O(n_judgements + n_queries), as the unjudged documents of a
    query are never listed.

    Parameters
    ----------
    relevance : sparse matrix, sparse array or array-like of shape (n_queries, n_documents)
        Grades of at least 0; larger is better. Every stored entry of a sparse matrix is a
        judgement, and a stored zero means "not relevant"; duplicates are summed, as in SciPy. In a
        dense array every entry is a judgement.
    unjudged : {"worse", "ignore"}, default="worse"
        "worse": a document without an entry has grade 0, so any judged relevant is better.
        "ignore": both documents of a triplet have an entry. This needs judgements of bad documents
        too, and does not punish good ones that nobody has looked at.

    Examples
    --------
    >>> import numpy as np
    >>> grades = [[2, 1, 0], [0, 0, 1]]
    >>> triplets = RelevanceTriplets(grades).draw(500, np.random.default_rng(0))
    >>> np.unique(triplets, axis=0).tolist()
    [[0, 0, 1], [0, 0, 2], [0, 1, 2], [1, 2, 0], [1, 2, 1]]
    """

    def __init__(self, relevance: GivenGrades, unjudged: str = "worse") -> None:
        owner, rules = type(self).__name__, {"unjudged": one_of("worse", "ignore")}
        check_parameters(owner, rules, {"unjudged": unjudged})
        query, document, grade, shape = _judgements(owner, relevance)
        if unjudged == "worse":
            # A grade of zero then equals no judgement: drop both.
            kept = grade > 0
            query, document, grade = query[kept], document[kept], grade[kept]
        n_listed = np.bincount(query, minlength=shape[0])
        self._ends: Indices = np.cumsum(n_listed)
        self._starts: Indices = self._ends - n_listed
        self._n_unlisted: Indices = (shape[1] - n_listed) * (unjudged == "worse")

        # The number of unlisted documents before each listed one, offset by query, increases
        # along the whole array: one search finds a place within any query.
        self._stride = shape[1] + 1
        place = np.arange(len(query)) - self._starts[query]
        self._gaps: Indices = query * self._stride + document - place

        by_grade = np.lexsort((grade, query))
        self._by_grade: Indices = document[by_grade]
        self._n_lower: Indices = _first_of_run(query, grade[by_grade]) - self._starts[query]
        beats = self._n_lower + self._n_unlisted[query] > 0
        n_better = np.bincount(query[beats], minlength=shape[0])
        self._first_better: Indices = self._ends - n_better
        self._queries: Indices = np.flatnonzero(n_better)
        if len(self._queries) == 0:
            advice = {
                "ignore": 'add judgements of worse documents, or use unjudged="worse".',
                "worse": "add a positive grade to a query whose documents are not all equal.",
            }
            raise ValueError(
                f"{owner}: relevance must be grades that put some document above another of the "
                f"same query, got none in {shape[0]} queries; {advice[unjudged]}"
            )

    def draw(self, n: int, rng: np.random.Generator, score: Score | None = None) -> Indices:
        """Draw n independent triplets of a query and two documents; see `UniformTriplets.draw`."""
        check_draw(self, n, rng)
        query = self._queries[rng.integers(len(self._queries), size=n)]
        entry = rng.integers(self._first_better[query], self._ends[query])
        n_lower = self._n_lower[entry]
        drawn = rng.integers(n_lower + self._n_unlisted[query])
        worse = np.empty(n, dtype=np.intp)
        listed = drawn < n_lower
        worse[listed] = self._by_grade[self._starts[query[listed]] + drawn[listed]]
        worse[~listed] = self._unlisted(query[~listed], (drawn - n_lower)[~listed])
        return np.column_stack([query, self._by_grade[entry], worse])

    def _unlisted(self, query: Indices, rank: Indices) -> Indices:
        """Document of a rank, from 0, among those not listed for the query."""
        key = query * self._stride + rank
        return rank + np.searchsorted(self._gaps, key, side="right") - self._starts[query]


def _judgements(
    owner: str, relevance: GivenGrades
) -> tuple[Indices, Indices, Array, tuple[int, int]]:
    """Query, document and grade of each judgement, by query then document, and the shape."""
    check_entries(owner, "relevance", relevance)
    given = relevance if isinstance(relevance, sp.sparray | sp.spmatrix) else np.asarray(relevance)
    if given.ndim != 2:
        raise ValueError(
            f"{owner}: relevance must be a matrix of shape (n_queries, n_documents), "
            f"got shape {given.shape}."
        )
    if isinstance(given, np.ndarray):
        query, document = np.indices(given.shape).reshape(2, -1)
        grade = given.ravel()
    else:
        matrix = sp.csr_array(given, copy=True)
        matrix.sum_duplicates()
        query = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
        document, grade = matrix.indices.astype(np.intp), matrix.data
    if grade.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: relevance must be real numbers, got dtype {grade.dtype}.")
    wrong = np.flatnonzero(~(np.isfinite(grade) & (grade >= 0)))
    if len(wrong):
        raise ValueError(
            f"{owner}: relevance must be finite grades of at least 0, got {grade[wrong[0]]} for "
            f"query {query[wrong[0]]} and document {document[wrong[0]]}; leave documents without "
            "judgement out of a sparse matrix."
        )
    return query, document, grade, given.shape


def _first_of_run(query: Indices, grade: Array) -> Indices:
    """First entry of each entry's run of equal query and grade."""
    new = np.ones(len(query), dtype=bool)
    new[1:] = (query[1:] != query[:-1]) | (grade[1:] != grade[:-1])
    return np.maximum.accumulate(np.where(new, np.arange(len(query)), 0))


# -- grades as they are read ---------------------------------------------------------------------


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


def _mean_grades(part: Judgements, shape: tuple[int, int]) -> sp.csr_array:
    """Mean grade of each judged (query, item); zeros are stored."""
    query, item = part.tuples.T
    keys, places = np.unique(query * shape[1] + item, return_inverse=True)
    sums = np.bincount(places, weights=part.values).astype(np.float64)
    counts = np.bincount(places).astype(np.float64)
    means = sums / counts
    if len(counts) and counts.min() < counts.max():
        means = np.where(sums > 0, shrunk_rates(sums, counts)[0], 0.0)  # no gain stays no gain
    rows, columns = np.divmod(keys, shape[1])
    starts = np.searchsorted(rows, np.arange(shape[0] + 1))
    return sp.csr_array((means, columns, starts), shape=shape)


def _comparable(grades: sp.csr_array, unjudged: str) -> bool:
    """Whether any query grades one item above another."""
    listed = np.flatnonzero(np.diff(grades.indptr))
    starts = grades.indptr[listed]
    high = np.maximum.reduceat(grades.data, starts)
    low = np.minimum.reduceat(grades.data, starts)
    if unjudged == "worse":
        full = np.diff(grades.indptr)[listed] == grades.shape[1]
        low = np.where(full, low, 0.0)
    return bool((high > low).any())
