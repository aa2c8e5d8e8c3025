"""Exact search: one product in blocks, and the best of each row, on all processors."""

from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from similia.contract import Array, Matrix
from similia.index.backends import Backend, FoundItems, Space, checked_options
from similia.retrieval.ranking import best_of
from similia.retrieval.scorers import BLOCK_BYTES, Scores
from similia.retrieval.vectors import Products, is_sparse, longer_items, longer_queries
from similia.safety.bounds import check_entries
from similia.validation import positive_integer

EXACT_OPTIONS = {"block_bytes": (BLOCK_BYTES, positive_integer)}
#: arrays of a CSR matrix, as they are saved
CSR_ARRAYS = ("data", "indices", "indptr")


class ExactItems:
    """All items in one array.

    Squared distances are inner products of vectors longer by two, so both geometries cost the same.
    Capacity doubles, so that adding items one by one stays cheap. The earlier of two items with
    equal scores is found first.
    """

    exact = True
    sparse = False

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("exact", EXACT_OPTIONS, options)
        self._l2 = space.geometry == "l2"
        self._n_features = space.n_features
        self._memory: Array = np.empty((0, space.n_features + 2 * self._l2), space.dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    def add(self, vectors: Array) -> None:
        """Add items; a first array that is mapped from a file stays there."""
        if self._n == 0 and isinstance(vectors, np.memmap) and not self._l2:
            self._memory, self._n = vectors, len(vectors)
            return
        more = longer_items(vectors) if self._l2 else vectors
        total = self._n + len(more)
        if total > len(self._memory):
            memory = np.empty((max(total, 2 * self._n), more.shape[1]), self._memory.dtype)
            memory[: self._n] = self._memory[: self._n]
            self._memory = memory
        self._memory[self._n : total] = more
        self._n = total

    def search(self, Q: Array, k: int) -> FoundItems:
        """Return the best k items of each query."""
        products = Products(self._memory[: self._n])
        if not self._l2:
            return _best(products, Q, k, self.options)
        rows, scores = _best(products, longer_queries(Q), k, self.options)
        return rows, np.minimum(scores, 0.0)

    def vectors(self) -> Array:
        """Vectors of all items."""
        return self._memory[: self._n, : self._n_features]

    def tensors(self) -> dict[str, Array]:
        """The vectors."""
        return {"vectors": self.vectors()}

    def restore(self, tensors: dict[str, Array]) -> None:
        """Take the saved vectors, without a copy if they are stored as searched."""
        vectors = tensors["vectors"]
        if self._l2:
            self.add(vectors)
        else:
            self._memory, self._n = vectors, len(vectors)


class SparseItems:
    """All items in one CSR matrix, for inner products only; the next search joins new items."""

    exact = True
    sparse = True

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("exact", EXACT_OPTIONS, options)
        if space.geometry != "inner_product":
            raise ValueError("exact: geometry must be 'inner_product' for sparse items, got 'l2'.")
        self._parts = [csr_array((0, space.n_features), dtype=space.dtype)]
        self._products: Products | None = None

    def __len__(self) -> int:
        return sum(part.shape[0] for part in self._parts)

    def add(self, vectors: Matrix) -> None:
        """Add items, as CSR or as an array."""
        self._parts.append(csr_array(vectors, dtype=self._parts[0].dtype, copy=True))
        self._products = None

    def search(self, Q: Matrix, k: int) -> FoundItems:
        """Return the best k items of each query, by one operation per entry that both have."""
        products = self._products = self._products or Products(self.vectors())
        return _best(products, Q, k, self.options)

    def vectors(self) -> csr_array:
        """Vectors of all items, as CSR."""
        if len(self._parts) > 1:
            self._parts = [vstack(self._parts, format="csr")]
        return self._parts[0]

    def tensors(self) -> dict[str, Array]:
        """Arrays of the CSR matrix."""
        items = self.vectors()
        return dict(zip(CSR_ARRAYS, (items.data, items.indices, items.indptr), strict=True))

    def restore(self, tensors: dict[str, Array]) -> None:
        """Take the saved matrix."""
        _, n_features = self._parts[0].shape
        data, indices, indptr = (tensors[name] for name in CSR_ARRAYS)
        kinds = {array.dtype.kind for array in (indices, indptr)}
        vectors = {array.ndim for array in tensors.values()} == {1}
        if data.dtype != self._parts[0].dtype or kinds != {"i"} or not vectors:
            raise ValueError("the items are no sparse matrix of this precision")
        items = csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))
        check_entries("exact", "items", items)
        self._parts = [items]


def _best(products: Products, Q: Matrix, k: int, options: dict[str, Any]) -> FoundItems:
    nobody, n_items = np.full(Q.shape[0], -1), products.items.shape[0]
    scores = Scores("Index.search", Q, nobody, n_items, products)
    return best_of(scores, k, options["block_bytes"])


def exact_search(items: Matrix, space: Space) -> Backend:
    """Exact search of these items, to check or complete an approximate one."""
    exact: Backend = (SparseItems if is_sparse(items) else ExactItems)(space)
    exact.add(items)
    return exact
