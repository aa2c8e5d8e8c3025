"""Exact search over sparse items: one operation per entry that a query and an item share."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from similia.contract import Array, Matrix
from similia.index.backends import Found, Space, checked_options
from similia.index.exact import OPTIONS
from similia.retrieval.ranking import best_of
from similia.retrieval.scorers import Scores
from similia.retrieval.vectors import sparse_products

#: arrays of a CSR matrix, as they are saved
PARTS = ("data", "indices", "indptr")


class Implementation:
    """All items in one CSR matrix and, by feature, in another; for inner products only.

    The next search joins new items to the others.
    """

    exact = True
    sparse = True

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("exact", OPTIONS, options)
        if space.geometry != "inner_product":
            raise ValueError(
                "exact: geometry must be 'inner_product' for sparse items, got "
                f"{space.geometry!r}; pass a dense array."
            )
        self._parts = [csr_array((0, space.n_features), dtype=space.dtype)]
        self._fill: Callable[[Array, Matrix], None] | None = None

    def __len__(self) -> int:
        return sum(part.shape[0] for part in self._parts)

    def add(self, vectors: Matrix) -> None:
        """Add items, as CSR or as an array."""
        self._parts.append(csr_array(vectors, dtype=self._parts[0].dtype, copy=True))
        self._fill = None

    def search(self, Q: Matrix, k: int) -> Found:
        """Return the best k items of each query; among equal scores the earlier item first."""
        items = self.vectors()
        fill = self._fill = self._fill or sparse_products(items)

        def block(rows: Matrix) -> Array:
            out = np.empty((rows.shape[0], items.shape[0]), items.dtype)
            fill(out, rows)
            return out

        nobody = np.full(Q.shape[0], -1)
        scores = Scores("Index.search", Q, items.shape[0], block)
        return best_of(scores, k, nobody, self.options["block_bytes"])

    def vectors(self) -> csr_array:
        """Vectors of all items, as CSR."""
        if len(self._parts) > 1:
            self._parts = [vstack(self._parts, format="csr")]
        return self._parts[0]

    def tensors(self) -> dict[str, Array]:
        """Arrays of the CSR matrix."""
        items = self.vectors()
        return dict(zip(PARTS, (items.data, items.indices, items.indptr), strict=True))

    def restore(self, tensors: dict[str, Array]) -> None:
        """Take the saved matrix."""
        _, n_features = self._parts[0].shape
        data, indices, indptr = (tensors[name] for name in PARTS)
        kinds = {array.dtype.kind for array in (indices, indptr)}
        vectors = {array.ndim for array in tensors.values()} == {1}
        if data.dtype != self._parts[0].dtype or kinds != {"i"} or not vectors:
            raise ValueError("the items are no sparse matrix of this precision")
        items = csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))
        items.check_format(full_check=True)
        self._parts = [items]
