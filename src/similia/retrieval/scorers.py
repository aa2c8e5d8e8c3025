"""Blocks of scores from whatever scores: a learner, a function or a named plain similarity."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from similia.contract import Geometry
from similia.retrieval.grid import Floats, Integers
from similia.retrieval.vectors import (
    Products,
    Vectors,
    floating,
    products_of,
    squared_lengths,
    vector_scores,
)

BLOCK_BYTES = 2**28

BlockScores = Callable[[Any], Any]


def rows_of(owner: str, name: str, X: Any) -> Any:
    """Give X as an array or CSR matrix with at least one row."""
    X = X.tocsr() if sparse.issparse(X) else np.asarray(X)
    if X.ndim == 0 or X.shape[0] == 0:
        raise ValueError(f"{owner}: {name} must be an array with rows, got shape {X.shape}.")
    return X


class Scores(NamedTuple):
    """Scores of all queries against all items, to be had in blocks."""

    owner: str
    Q: Any
    n_items: int
    products: Products | None  # what gives them, if the scorer has vectors
    function: BlockScores | None  # what gives them otherwise

    def blocks(self, block_bytes: int, chosen: Integers | None = None) -> Iterator[Any]:
        """Yield (place of the first query, scores) for one block of queries after another.

        A block takes at most `block_bytes`, or one row if that is larger, and is overwritten by the
        next. Places are those in `chosen`, the numbers of some queries; all of them if None.
        """
        n = self.Q.shape[0] if chosen is None else len(chosen)
        dtype = np.dtype(np.float64) if self.products is None else self.products.items.dtype
        n_rows = _rows_per_block(self.n_items, dtype.itemsize, block_bytes)
        block = self.function or vector_scores(self.products, min(n_rows, n))  # type: ignore
        for start in range(0, n, n_rows):
            some = slice(start, start + n_rows)
            rows = self.Q[some] if chosen is None else self.Q[chosen[some]]
            yield start, _checked_block(self.owner, block(rows), (rows.shape[0], self.n_items))


def scores_of(owner: str, scorer: Any, Q: Any, Z: Any) -> Scores:
    """Give the scores of whatever scores."""
    scorer = _named(owner, scorer, Q, Z)
    if all(hasattr(scorer, name) for name in ("query_vectors", "item_vectors", "geometry")):
        products = products_of(_vectors(owner, scorer, Z), Q)
        return Scores(owner, Q, Z.shape[0], products, None)
    return Scores(owner, Q, Z.shape[0], None, _pair_scores(owner, scorer, Z))


def _rows_per_block(n_items: int, itemsize: int, block_bytes: int) -> int:
    return max(1, block_bytes // (n_items * itemsize))


def _vectors(owner: str, scorer: Any, Z: Any) -> Vectors:
    if scorer.geometry not in ("inner_product", "l2"):
        raise ValueError(
            f"{owner}: scorer.geometry must be one of 'inner_product', 'l2', "
            f"got {scorer.geometry!r}."
        )
    return Vectors(scorer.query_vectors, scorer.item_vectors(Z), scorer.geometry)


def _pair_scores(owner: str, scorer: Any, Z: Any) -> BlockScores:
    score = getattr(scorer, "pairwise_score", scorer)
    if not callable(score):
        raise ValueError(
            f"{owner}: scorer must be a learner with vectors or pairwise_score, a function "
            f"(Q, Z) -> scores, or one of {_names()}, got {type(scorer).__name__}."
        )
    return lambda rows: score(rows, Z)


def _checked_block(owner: str, scores: Any, shape: tuple[int, int]) -> Floats:
    scores = np.asarray(scores)
    if scores.shape != shape or scores.dtype.kind not in "biuf":
        raise ValueError(
            f"{owner}: scores must be numbers of shape {shape} for this block of queries, "
            f"got shape {scores.shape} and dtype {scores.dtype}."
        )
    return np.ascontiguousarray(floating(scores))


def own_items(owner: str, shape: tuple[int, int], exclude_self: bool) -> Integers:
    """Give the item that each query is itself, or -1."""
    if not exclude_self:
        return np.full(shape[0], -1)
    if shape[0] > shape[1]:
        raise ValueError(
            f"{owner}: exclude_self must be False if there are more queries than items, "
            f"got {shape[0]} queries and {shape[1]} items."
        )
    return np.arange(shape[0])


def refuse_scores(owner: str, scores: Floats, query: int) -> None:
    """Raise the error for a query with a score that cannot be ranked."""
    wrong = scores[~np.isfinite(scores)][0]
    raise ValueError(f"{owner}: scores must be finite, got {wrong} for query {query}.")


class PlainScorer(NamedTuple):
    """A similarity of the vectors as they are, without learning."""

    vectors: Callable[[Any], Any]
    geometry: Geometry

    def query_vectors(self, Q: Any) -> Any:
        """Give the vectors of queries."""
        return self.vectors(Q)

    def item_vectors(self, Z: Any) -> Any:
        """Give the vectors of items."""
        return self.vectors(Z)


def _of_unit_length(X: Any) -> Any:
    """Scale each row to length one; a row of zeros stays, and so scores 0 with everything."""
    X = floating(X)
    lengths = np.sqrt(squared_lengths(X))
    scale = (1 / np.where(lengths > 0, lengths, 1)).astype(X.dtype)
    return sparse.diags_array(scale) @ X if sparse.issparse(X) else X * scale[:, None]


PLAIN_SCORERS = {
    "cosine": PlainScorer(_of_unit_length, "inner_product"),
    "inner_product": PlainScorer(floating, "inner_product"),
    "euclidean": PlainScorer(floating, "l2"),
}


def _names() -> str:
    return ", ".join(repr(name) for name in PLAIN_SCORERS)


def _named(owner: str, scorer: Any, Q: Any, Z: Any) -> Any:
    """Give the scorer of that name; anything but a string is already one."""
    if not isinstance(scorer, str):
        return scorer
    if scorer not in PLAIN_SCORERS:
        raise ValueError(f"{owner}: scorer must be one of {_names()}, got {scorer!r}.")
    if Q.ndim != 2 or Z.ndim != 2 or Q.shape[1] != Z.shape[1]:
        raise ValueError(
            f"{owner}: Q and Z must be matrices with the same number of columns, "
            f"got shapes {Q.shape} and {Z.shape}."
        )
    _check_numbers(owner, "Q", Q)
    _check_numbers(owner, "Z", Z)
    return PLAIN_SCORERS[scorer]


def _check_numbers(owner: str, name: str, X: Any) -> None:
    if X.dtype.kind not in "biuf":
        raise ValueError(f"{owner}: {name} must be numbers, got dtype {X.dtype}.")
    # The sum of finite numbers is finite but for overflow, and needs no further memory.
    with np.errstate(over="ignore", invalid="ignore"):
        suspect = not np.isfinite(X.sum(dtype=np.float64))
    if suspect and not np.isfinite(X.data if sparse.issparse(X) else X).all():
        raise ValueError(f"{owner}: {name} must be finite, got an infinity or NaN.")
