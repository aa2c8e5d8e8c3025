"""Blocks of scores from any scorer: a learner, a function or a named plain similarity."""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from similia.contract import Geometry, Matrix, Scorer, Searchable
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.vectors import (
    Products,
    floating,
    is_sparse,
    over_rows,
    products_of,
    squared_lengths,
    vector_scores,
)

BLOCK_BYTES = 2**28

#: (Q, Z) -> scores of shape (n_queries, n_items)
ScoreFunction: TypeAlias = Callable[[Matrix, Matrix], ArrayLike]
#: all that `evaluate` and `top_k` rank by; a string names a plain similarity
AnyScorer: TypeAlias = Searchable | Scorer | ScoreFunction | str


class PlainScorer(NamedTuple):
    """A similarity of the vectors as they are, without learning."""

    vectors: Callable[[Matrix], Matrix]
    geometry: Geometry

    def query_vectors(self, Q: Matrix) -> Matrix:
        """Vectors to search with."""
        return self.vectors(Q)

    def item_vectors(self, Z: Matrix) -> Matrix:
        """Vectors to search among."""
        return self.vectors(Z)


def _unit_rows(X: Matrix) -> Matrix:
    """Rows scaled to length one; a row of zeros stays, and so scores 0 with everything."""
    X = floating(X)
    lengths = np.sqrt(squared_lengths(X))
    scale = (1 / np.where(lengths > 0, lengths, 1)).astype(X.dtype)
    return sparse.diags_array(scale) @ X if is_sparse(X) else X * scale[:, None]


PLAIN_SCORERS = {
    "cosine": PlainScorer(_unit_rows, "inner_product"),
    "inner_product": PlainScorer(floating, "inner_product"),
    "euclidean": PlainScorer(floating, "l2"),
}
_NAMES = ", ".join(repr(name) for name in PLAIN_SCORERS)


class Scores(NamedTuple):
    """Scores of all queries against all items, computed in blocks."""

    owner: str
    Q: Matrix
    n_items: int
    #: inner products, or else a function from rows of Q to their scores
    source: Products | Callable[[Matrix], ArrayLike]

    def blocks(
        self, block_bytes: int, chosen: Integers | None = None
    ) -> Iterator[tuple[int, Floats]]:
        """Yield (place of the first query, scores) for one block of queries after another.

        A block takes at most `block_bytes`, or one row if that is larger, and is overwritten by the
        next. Places count the rows of Q, or those that `chosen` numbers.
        """
        n = self.Q.shape[0] if chosen is None else len(chosen)
        source = self.source
        itemsize = source.items.dtype.itemsize if isinstance(source, Products) else 8
        n_rows = max(1, block_bytes // (self.n_items * itemsize))
        block = vector_scores(source, min(n_rows, n)) if isinstance(source, Products) else source
        for start in range(0, n, n_rows):
            some = slice(start, start + n_rows)
            rows = self.Q[some] if chosen is None else self.Q[chosen[some]]
            yield start, self._checked(block(rows), rows.shape[0])

    def _checked(self, block: ArrayLike, n_rows: int) -> Floats:
        scores, shape = np.asarray(block), (n_rows, self.n_items)
        if scores.shape != shape or scores.dtype.kind not in "biuf":
            raise ValueError(
                f"{self.owner}: scores must be numbers of shape {shape} for this block of queries, "
                f"got shape {scores.shape} and dtype {scores.dtype}."
            )
        return np.ascontiguousarray(floating(scores))


def scores_of(owner: str, scorer: AnyScorer, Q: Matrix, Z: Matrix) -> Scores:
    """Scores of Q against Z by any scorer."""
    if isinstance(scorer, str):
        return Scores(owner, Q, Z.shape[0], products_of(_plain_scorer(owner, scorer, Q, Z), Q, Z))
    if isinstance(scorer, Searchable):
        if scorer.geometry not in ("inner_product", "l2"):
            raise ValueError(
                f"{owner}: scorer.geometry must be one of 'inner_product', 'l2', "
                f"got {scorer.geometry!r}."
            )
        return Scores(owner, Q, Z.shape[0], products_of(scorer, Q, Z))
    score = scorer.pairwise_score if isinstance(scorer, Scorer) else scorer
    if not callable(score):
        raise ValueError(
            f"{owner}: scorer must be a learner with vectors or pairwise_score, a function "
            f"(Q, Z) -> scores, or one of {_NAMES}, got {type(scorer).__name__}."
        )
    return Scores(owner, Q, Z.shape[0], lambda rows: score(rows, Z))


def _plain_scorer(owner: str, name: str, Q: Matrix, Z: Matrix) -> PlainScorer:
    if name not in PLAIN_SCORERS:
        raise ValueError(f"{owner}: scorer must be one of {_NAMES}, got {name!r}.")
    if Q.ndim != 2 or Z.ndim != 2 or Q.shape[1] != Z.shape[1]:
        raise ValueError(
            f"{owner}: Q and Z must be matrices with the same number of columns, "
            f"got shapes {Q.shape} and {Z.shape}."
        )
    for letter, X in (("Q", Q), ("Z", Z)):
        if X.dtype.kind not in "biuf":
            raise ValueError(f"{owner}: {letter} must be numbers, got dtype {X.dtype}.")
        # Short of overflow, finite numbers have a finite sum, which needs no extra memory.
        with np.errstate(over="ignore", invalid="ignore"):
            suspect = not np.isfinite(X.sum(dtype=np.float64))
        if suspect and not np.isfinite(X.data if is_sparse(X) else X).all():
            raise ValueError(f"{owner}: {letter} must be finite, got an infinity or NaN.")
    return PLAIN_SCORERS[name]


def rows_of(owner: str, name: str, X: ArrayLike | Matrix) -> Matrix:
    """X as an array or CSR matrix with at least one row."""
    rows: Matrix = X.tocsr() if is_sparse(X) else np.asarray(X)
    if rows.ndim == 0 or rows.shape[0] == 0:
        raise ValueError(f"{owner}: {name} must be an array with rows, got shape {rows.shape}.")
    return rows


def own_items(owner: str, shape: tuple[int, int], exclude_self: bool) -> Integers:
    """The item that is each query itself, or -1."""
    if not exclude_self:
        return np.full(shape[0], -1)
    if shape[0] > shape[1]:
        raise ValueError(
            f"{owner}: exclude_self must be False if there are more queries than items, "
            f"got {shape[0]} queries and {shape[1]} items."
        )
    return np.arange(shape[0])


def fill_rows(
    owner: str, fill: Callable[[Floats, Integers], int], scores: Floats, queries: Integers
) -> None:
    """Call fill(scores, queries) on shares of the rows, in threads.

    It returns the first place with a non-finite score, which is refused, or -1.
    """
    places = over_rows(lambda a, b: (a, fill(scores[a:b], queries[a:b])), len(scores))
    for start, bad in places:
        if bad >= 0:
            row, query = scores[start + bad], queries[start + bad]
            wrong = row[~np.isfinite(row)][0]
            raise ValueError(f"{owner}: scores must be finite, got {wrong} for query {query}.")
