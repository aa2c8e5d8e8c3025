"""Blocks of scores from any scorer: a learner, a function or a named plain similarity."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeAlias, TypeGuard

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from similia.contract import Geometry, Matrix, Scorer, Searchable, Side
from similia.retrieval.vectors import (
    Floats,
    Integers,
    Products,
    floating,
    is_finite,
    is_sparse,
    over_rows,
    products_of,
    squared_lengths,
)
from similia.safety.bounds import check_entries
from similia.stored import StoredRows
from similia.validation import check_parameters, one_of
from similia.views import Views

BLOCK_BYTES = 2**28

#: (Q, Z) -> scores of shape (n_queries, n_items)
ScoreFunction: TypeAlias = Callable[[Any, Any], ArrayLike]
#: sets what is wanted of some queries from their scores; returns the first place with a score that
#: is not finite, or -1
Fill: TypeAlias = Callable[[Floats, Integers], int]
#: all that `evaluate` and `top_k` rank by; a string names a plain similarity
AnyScorer: TypeAlias = Searchable | Scorer | ScoreFunction | str


class PlainScorer(NamedTuple):
    """A similarity of the vectors as they are, without learning; of views, the first one."""

    vectors: Callable[[Matrix], Matrix]
    geometry: Geometry

    def query_vectors(self, Q: Side) -> Matrix:
        """Vectors to search with."""
        return self.vectors(Q.base if isinstance(Q, Views) else Q)

    def item_vectors(self, Z: Side) -> Matrix:
        """Vectors to search among."""
        return self.query_vectors(Z)


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
_plain = one_of(*PLAIN_SCORERS)
#: what makes a scorer `Searchable`
SEARCHABLE_NAMES = ("geometry", "query_vectors", "item_vectors")


class Scores(NamedTuple):
    """Scores of all queries against all items, computed in blocks."""

    owner: str
    Q: Side
    own: Integers  # the item that is each query itself, or -1
    n_items: int
    #: fills the array with the scores of these rows of Q, or returns another
    source: Callable[[Any, Floats], ArrayLike]

    def blocks(
        self, block_bytes: int, queries: Integers | None = None
    ) -> Iterator[tuple[Integers, Floats]]:
        """Yield the numbers of some queries and their scores; by default all queries in turn.

        A block takes at most `block_bytes`, or one row if that is larger, and is overwritten by the
        next.
        """
        numbers = np.arange(self.Q.shape[0]) if queries is None else queries
        dtype = self.source.items.dtype if isinstance(self.source, Products) else np.dtype(float)
        n_rows = max(1, block_bytes // (self.n_items * dtype.itemsize))
        memory = np.empty((min(n_rows, len(numbers)), self.n_items), dtype)
        for start in range(0, len(numbers), n_rows):
            some = numbers[start : start + n_rows]
            rows = self.Q[start : start + n_rows] if queries is None else self.Q[some]
            scores, shape = np.asarray(self.source(rows, memory[: len(some)])), memory.shape[1:]
            if scores.shape != (len(some), *shape) or scores.dtype.kind not in "biuf":
                raise ValueError(
                    f"{self.owner}: scores must be numbers of shape {(len(some), *shape)} for this "
                    f"block of queries, got shape {scores.shape} and dtype {scores.dtype}."
                )
            yield some, np.ascontiguousarray(floating(scores))

    def share_out(self, fill: Fill, block: Floats, queries: Integers) -> None:
        """Call fill(scores, queries) on parts of a block, in threads; refuse non-finite scores."""
        places = over_rows(lambda a, b: (a, fill(block[a:b], queries[a:b])), len(block))
        for start, bad in places:
            if bad >= 0:
                row, query = block[start + bad], queries[start + bad]
                wrong = row[~np.isfinite(row)][0]
                raise ValueError(
                    f"{self.owner}: scores must be finite, got {wrong} for query {query}."
                )


def scores_of(
    owner: str,
    scorer: AnyScorer,
    Q: ArrayLike | Side,
    Z: ArrayLike | Side | None,
    exclude_self: bool = False,
) -> Scores:
    """Scores of Q against Z, or against Q itself, by any scorer."""
    queries = _rows(owner, "Q", Q)
    items = queries if Z is None else _rows(owner, "Z", Z)
    own = np.arange(queries.shape[0]) if exclude_self else np.full(queries.shape[0], -1)
    if exclude_self and len(own) > items.shape[0]:
        raise ValueError(
            f"{owner}: exclude_self must be False if there are more queries than items, "
            f"got {len(own)} queries and {items.shape[0]} items."
        )
    return Scores(owner, queries, own, items.shape[0], _source(owner, scorer, queries, items))


def _rows(owner: str, name: str, X: ArrayLike | Side) -> Side:
    """X as an array, CSR matrix or views with at least one row."""
    if isinstance(X, Views | StoredRows):
        return X
    check_entries(owner, name, X)
    rows: Matrix = X.tocsr() if is_sparse(X) else np.asarray(X)
    if rows.ndim == 0 or rows.shape[0] == 0:
        raise ValueError(f"{owner}: {name} must be an array with rows, got shape {rows.shape}.")
    return rows


def _source(owner: str, scorer: AnyScorer, Q: Side, Z: Side) -> Callable[[Any, Floats], ArrayLike]:
    if isinstance(scorer, str):
        check_parameters(owner, {"scorer": _plain}, {"scorer": scorer})
        Q, Z = (X.base if isinstance(X, Views) else X for X in (Q, Z))
        _check_plain_vectors(owner, Q, Z)
        scorer = PLAIN_SCORERS[scorer]
    # Dense and sparse views side by side are faster multiplied one by one.
    mixed = isinstance(Z, Views) and len({is_sparse(Z[name]) for name in Z}) == 2
    if _is_searchable(scorer) and not (mixed and isinstance(scorer, Scorer)):
        return products_of(owner, scorer, Q, Z)
    score = scorer.pairwise_score if isinstance(scorer, Scorer) else scorer
    if not callable(score):
        raise ValueError(
            f"{owner}: scorer must be a learner with vectors or pairwise_score, a function "
            f"(Q, Z) -> scores, or {_plain.words}, got {type(scorer).__name__}."
        )
    return lambda rows, _: score(rows, Z)


def _is_searchable(scorer: object) -> TypeGuard[Searchable]:
    """Whether a scorer has vectors: its class is asked first, which is faster than a protocol."""
    return all(hasattr(type(scorer), name) for name in SEARCHABLE_NAMES) or isinstance(
        scorer, Searchable
    )


def _check_plain_vectors(owner: str, Q: Matrix, Z: Matrix) -> None:
    if Q.ndim != 2 or Z.ndim != 2 or Q.shape[1] != Z.shape[1]:
        raise ValueError(
            f"{owner}: Q and Z must be matrices with the same number of columns, "
            f"got shapes {Q.shape} and {Z.shape}."
        )
    for letter, X in (("Q", Q), ("Z", Z)):
        if X.dtype.kind not in "biuf":
            raise ValueError(f"{owner}: {letter} must be numbers, got dtype {X.dtype}.")
        if not is_finite(X):
            raise ValueError(f"{owner}: {letter} must be finite, but it contains NaN or infinity.")
