"""Item vectors in a USearch index."""

from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import GRAPH_LINKS, SEARCH_BREADTH, FoundItems, Space, checked_options
from similia.linalg.threads import free_processors

try:
    from usearch.index import BatchMatches, Matches
    from usearch.index import Index as NativeIndex
except ImportError as error:
    raise MissingExtraError("similia.index.usearch", "usearch", "usearch") from error

USEARCH_OPTIONS = {
    "connectivity": (32, GRAPH_LINKS),
    "ef_construction": (128, SEARCH_BREADTH),
    "ef_search": (64, SEARCH_BREADTH),
}


class UsearchItems:
    """A USearch graph in single precision, with its native inner product or L2.

    Options: `connectivity`, links per node; `ef_construction` and `ef_search`: larger values find
    more of the best items and take longer.
    """

    exact = False
    sparse = False

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("usearch", USEARCH_OPTIONS, options)
        self._l2 = space.geometry == "l2"
        self.native = NativeIndex(
            ndim=space.n_features,
            metric="l2sq" if self._l2 else "ip",
            dtype="f32",
            connectivity=self.options["connectivity"],
            expansion_add=self.options["ef_construction"],
            expansion_search=self.options["ef_search"],
        )

    def __len__(self) -> int:
        return len(self.native)

    def add(self, vectors: Array) -> None:
        """Add items under the next numbers."""
        keys = np.arange(len(self), len(self) + len(vectors), dtype=np.uint64)
        # With two threads, occasionally a few items become unreachable by search.
        self.native.add(keys, np.ascontiguousarray(vectors), threads=1)

    def search(self, Q: Array, k: int) -> FoundItems:
        """Return the best k items of each query; row -1 where USearch finds fewer."""
        found = self.native.search(np.ascontiguousarray(Q), k, threads=free_processors())
        if isinstance(found, Matches) and len(found) < k:
            return np.full((1, k), -1), np.zeros((1, k), np.float32)
        rows = np.asarray(found.keys).astype(np.int64).reshape(len(Q), k)
        distances = np.asarray(found.distances).reshape(len(Q), k)
        if isinstance(found, BatchMatches) and (found.counts < k).any():
            missing = np.arange(k) >= found.counts[:, None]
            rows[missing], distances[missing] = -1, 0.0
        return rows, -distances if self._l2 else 1.0 - distances

    def vectors(self) -> Array:
        """Vectors of all items."""
        return np.asarray(self.native.get(np.arange(len(self), dtype=np.uint64)))

    def tensors(self) -> dict[str, Array]:
        """The vectors."""
        return {"vectors": self.vectors()}

    def restore(self, tensors: dict[str, Array]) -> None:
        """Build the graph again."""
        self.add(tensors["vectors"])
