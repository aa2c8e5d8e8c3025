"""Exact search: one matrix product in blocks, and the best of each row, on all processors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.index.backends import checked_options
from similia.retrieval import top_k
from similia.retrieval.scorers import BLOCK_BYTES, PLAIN_SCORERS
from similia.retrieval.vectors import longer_items, longer_queries
from similia.validation import positive_integer

_PLAIN = PLAIN_SCORERS["inner_product"]


class Implementation:
    """All items in one array.

    Squared distances are inner products of vectors that are longer by two, so both geometries cost
    the same. Space for more items doubles, so that adding them one by one stays cheap.
    """

    exact = True
    sparse = False

    def __init__(self, n_features: int, geometry: str, dtype: Any, **options: Any) -> None:
        self.options = checked_options(
            "exact", {"block_bytes": positive_integer}, {"block_bytes": BLOCK_BYTES}, options
        )
        self._l2 = geometry == "l2"
        self._n_features = n_features
        self._space: Array = np.empty((0, n_features + 2 * self._l2), dtype)
        self._n = 0

    def __len__(self) -> int:
        return self._n

    @property
    def _items(self) -> Array:
        return self._space[: self._n]

    def add(self, vectors: Array) -> None:
        """Add items; a first array that is mapped from a file stays there."""
        if self._n == 0 and isinstance(vectors, np.memmap) and not self._l2:
            self._space, self._n = vectors, len(vectors)
            return
        more = longer_items(vectors) if self._l2 else vectors
        total = self._n + len(more)
        if total > len(self._space):
            space = np.empty((max(total, 2 * self._n), more.shape[1]), self._space.dtype)
            space[: self._n] = self._items
            self._space = space
        self._space[self._n : total] = more
        self._n = total

    def search(self, Q: Array, k: int) -> tuple[NDArray[np.int64], Array]:
        """Give the best k items of each query; of equal scores the earlier item first."""
        rows = longer_queries(Q) if self._l2 else Q
        found, scores = top_k(_PLAIN, rows, self._items, k, block_bytes=self.options["block_bytes"])
        return found, np.minimum(scores, 0.0) if self._l2 else scores

    def vectors(self) -> Array:
        """Give the vectors of all items."""
        return self._items[:, : self._n_features]

    def tensors(self) -> dict[str, Array]:
        """Give the vectors."""
        return {"vectors": self.vectors()}

    @classmethod
    def restored(
        cls, n_features: int, geometry: str, dtype: Any, options: Any, tensors: dict[str, Array]
    ) -> "Implementation":
        """Give the index that `tensors` describes."""
        (vectors,) = tensors.values()
        if vectors.ndim != 2 or vectors.shape[1] != n_features or vectors.dtype != dtype:
            raise ValueError(f"vectors of shape {vectors.shape} and dtype {vectors.dtype}")
        index = cls(n_features, geometry, dtype, **options)
        if index._l2:
            index.add(vectors)
        else:
            index._space, index._n = vectors, len(vectors)
        return index
