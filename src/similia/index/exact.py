"""Exact search: one matrix product in blocks, and the best of each row, on all processors."""

from typing import Any

import numpy as np

from similia.contract import Array
from similia.index.backends import Found, Space, checked_options
from similia.retrieval.ranking import best_of
from similia.retrieval.scorers import BLOCK_BYTES, Scores
from similia.retrieval.vectors import Products, longer_items, longer_queries
from similia.validation import positive_integer

OPTIONS = {"block_bytes": (BLOCK_BYTES, positive_integer)}


class Implementation:
    """All items in one array.

    Squared distances are inner products of vectors longer by two, so both geometries cost the same.
    Capacity doubles, so that adding items one by one stays cheap.
    """

    exact = True
    sparse = False

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("exact", OPTIONS, options)
        self._l2 = space.geometry == "l2"
        self._n_features = space.n_features
        self._memory: Array = np.empty((0, space.n_features + 2 * self._l2), space.dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def _items(self) -> Array:
        return self._memory[: self._n]

    def add(self, vectors: Array) -> None:
        """Add items; a first array that is mapped from a file stays there."""
        if self._n == 0 and isinstance(vectors, np.memmap) and not self._l2:
            self._memory, self._n = vectors, len(vectors)
            return
        more = longer_items(vectors) if self._l2 else vectors
        total = self._n + len(more)
        if total > len(self._memory):
            memory = np.empty((max(total, 2 * self._n), more.shape[1]), self._memory.dtype)
            memory[: self._n] = self._items
            self._memory = memory
        self._memory[self._n : total] = more
        self._n = total

    def search(self, Q: Array, k: int) -> Found:
        """Return the best k items of each query; among equal scores the earlier item first."""
        rows = longer_queries(Q) if self._l2 else Q
        products = Products(lambda some: some, self._items)
        nobody = np.full(len(rows), -1)
        scores = Scores("Index.search", rows, self._n, products)
        found, best = best_of(scores, k, nobody, self.options["block_bytes"])
        return found, np.minimum(best, 0.0) if self._l2 else best

    def vectors(self) -> Array:
        """Vectors of all items."""
        return self._items[:, : self._n_features]

    def tensors(self) -> dict[str, Array]:
        """The vectors."""
        return {"vectors": self.vectors()}

    def restore(self, tensors: dict[str, Array]) -> None:
        """Take the saved vectors, without a copy if they are stored as searched."""
        (vectors,) = tensors.values()
        if (vectors.shape[1:], vectors.dtype) != ((self._n_features,), self._memory.dtype):
            raise ValueError(f"vectors of shape {vectors.shape} and dtype {vectors.dtype}")
        if self._l2:
            self.add(vectors)
        else:
            self._memory, self._n = vectors, len(vectors)


def exact_search(items: Array, space: Space) -> Implementation:
    """Exact search of these items, to check or complete an approximate one."""
    exact = Implementation(space)
    exact.add(items)
    return exact
