"""Sparse items beside dense ones: a library searches the dense columns, all columns re-rank."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from similia.contract import Array, Matrix
from similia.index.backends import Backend, FoundItems, Space
from similia.index.exact import SparseItems
from similia.validation import check_parameters, positive_integer

#: candidates that the library finds for each query
RERANKED = 500


class RerankedItems(SparseItems):
    """Items with dense columns, which at least half of the first items have, and sparse ones.

    The option `candidates` says how many items the library finds by the dense columns, to be
    re-ranked by all columns; other options are the library's own. An item that only its sparse
    columns would bring forward may be missed, so look at the measured recall.
    """

    exact = False

    def __init__(self, library: Any, space: Space, **options: Any) -> None:
        super().__init__(space)
        self._candidates = options.pop("candidates", RERANKED)
        rules = {"candidates": positive_integer}
        check_parameters("build_index", rules, {"candidates": self._candidates})
        self._library, self._space = library, space
        #: the library with the dense columns, of which there are none before the first items
        self._dense: Backend = library(space._replace(n_features=1), **options)
        self._columns: Array = np.zeros(0, np.intp)
        self.options = {**self._dense.options, "candidates": self._candidates}

    def add(self, vectors: Matrix) -> None:
        """Add items, as CSR or as an array."""
        rows = csr_array(vectors)
        if not len(self._columns):
            self._start(rows)
        self._dense.add(self._part(rows))
        super().add(rows)

    def search(self, Q: Matrix, k: int) -> FoundItems:
        """Re-rank the candidates; row -1 where the library finds fewer than k."""
        queries, items = csr_array(Q), self.vectors()
        depth = min(len(self), max(k, self._candidates))
        candidates, _ = self._dense.search(self._part(queries), depth)
        rows, scores = np.full((len(candidates), k), -1), np.zeros((len(candidates), k))
        for i, found in enumerate(candidates):
            known = found[found >= 0]
            totals = items[known] @ queries[[i]].toarray()[0]
            best = np.argsort(-totals, kind="stable")[:k]
            rows[i, : len(best)], scores[i, : len(best)] = known[best], totals[best]
        return rows, scores

    def restore(self, tensors: dict[str, Array]) -> None:
        """Take the saved matrix, and have the library index its dense columns again."""
        super().restore(tensors)
        items = self.vectors()
        self._start(items)
        self._dense.add(self._part(items))

    def _start(self, items: csr_array) -> None:
        counts = np.bincount(items.indices, minlength=items.shape[1])
        columns = np.flatnonzero(2 * counts >= items.shape[0])
        if not len(columns):
            raise ValueError(
                "build_index: backend must be 'exact' for items that have sparse features only, "
                "as libraries take dense vectors."
            )
        space = self._space._replace(n_features=len(columns))
        self._dense, self._columns = self._library(space, **self._dense.options), columns

    def _part(self, rows: csr_array) -> Array:
        """Dense columns, as the library takes them."""
        return np.ascontiguousarray(rows[:, self._columns].toarray(), self._space.dtype)
