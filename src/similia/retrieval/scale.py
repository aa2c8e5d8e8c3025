"""Scores on the scale of another similarity, for thresholds and fusion that were made for it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Geometry, Matrix, Searchable
from similia.linalg.blocks import dense
from similia.retrieval.scorers import PLAIN_SCORERS
from similia.retrieval.vectors import floating, squared_lengths
from similia.validation import check_parameters, checked_matrix, one_of

#: pairs of items whose gaps are compared
GAP_PAIRS = 10_000


@dataclass(frozen=True)
class Scaled:
    """A similarity whose scores are multiplied by a positive factor; it ranks as before."""

    scorer: Searchable
    factor: float

    @property
    def geometry(self) -> Geometry:
        """That of the similarity itself."""
        return self.scorer.geometry

    def query_vectors(self, Q: Matrix) -> Matrix:
        """Vectors to search with."""
        power = 1.0 if self.geometry == "inner_product" else 0.5
        return floating(self.scorer.query_vectors(Q)) * self.factor**power

    def item_vectors(self, Z: Matrix) -> Matrix:
        """Vectors to search among; unchanged for inner products."""
        vectors = self.scorer.item_vectors(Z)
        return vectors if self.geometry == "inner_product" else vectors * self.factor**0.5


def scaled_like(
    scorer: Searchable,
    base: Searchable | str,
    Q: Matrix,
    Z: Matrix | None = None,
    *,
    random_state: int = 0,
) -> Scaled:
    """Scale a similarity so that the scores of two items typically differ as much as under a base.

    Learning lengthens query vectors, several times over. The ranking does not mind, but thresholds
    and sums with other scores do. The factor is the ratio of the typical gaps: the root mean square
    of score(q, a) - score(q, b) over random queries q and items a, b.

    Parameters
    ----------
    scorer : fitted learner
    base : learner or {"cosine", "inner_product", "euclidean"}
        Similarity whose scale is kept.
    Q : array or CSR matrix of shape (n_queries, n_features)
        Queries like those to come.
    Z : array or CSR matrix of shape (n_items, n_item_features), optional
        Items; by default the queries.
    random_state : int
        Seed of the pairs.

    Examples
    --------
    >>> from similia.retrieval.scorers import PLAIN_SCORERS
    >>> X = np.random.default_rng(0).normal(size=(50, 3))
    >>> six = Scaled(PLAIN_SCORERS["cosine"], 6.0)
    >>> round(scaled_like(six, "cosine", X).factor * 6, 6)
    1.0
    """
    if isinstance(base, str):
        check_parameters("scaled_like", {"base": one_of(*PLAIN_SCORERS)}, {"base": base})
        base = PLAIN_SCORERS[base]
    Q = checked_matrix("scaled_like", "Q", Q)
    items = Q if Z is None else checked_matrix("scaled_like", "Z", Z)
    rng = np.random.default_rng(random_state)
    rows = np.column_stack([rng.integers(n.shape[0], size=GAP_PAIRS) for n in (Q, items, items)])
    wanted, found = (_typical_gap(one, Q, items, rows) for one in (base, scorer))
    if not (wanted > 0 and found > 0):
        raise ValueError(
            "scaled_like: scores must differ between items, got typical gaps of "
            f"{found:g} and {wanted:g}."
        )
    return Scaled(scorer, wanted / found)


def _typical_gap(scorer: Searchable, Q: Matrix, Z: Matrix, rows: NDArray[Any]) -> float:
    """Root mean square of score(q, a) - score(q, b) over rows (q, a, b)."""
    vectors = scorer.item_vectors(Z)
    total = 0.0
    for part in np.array_split(rows, 10):
        q = dense(floating(scorer.query_vectors(Q[part[:, 0]])))
        a, b = (dense(vectors[part[:, j]]) for j in (1, 2))
        if scorer.geometry == "inner_product":
            gaps = np.vecdot(q, a - b)
        else:
            gaps = squared_lengths(q - b) - squared_lengths(q - a)
        total += float(np.sum(gaps.astype(float) ** 2))
    return float(np.sqrt(total / len(rows)))
