"""Item vectors in an hnswlib index."""

from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import GRAPH_LINKS, SEARCH_BREADTH, FoundItems, Space, checked_options
from similia.linalg.threads import free_processors

try:
    import hnswlib
except ImportError as error:
    raise MissingExtraError("similia.index.hnswlib", "hnswlib", "hnswlib") from error

HNSWLIB_OPTIONS = {
    "M": (32, GRAPH_LINKS),
    "ef_construction": (128, SEARCH_BREADTH),
    "ef_search": (64, SEARCH_BREADTH),
}


class HnswlibItems:
    """An hnswlib graph, with its native inner product or L2.

    Options: `M`, links per node; `ef_construction` and `ef_search`: larger values find more of the
    best items and take longer.
    """

    exact = False
    sparse = False

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("hnswlib", HNSWLIB_OPTIONS, options)
        self._l2 = space.geometry == "l2"
        self._ef = self.options["ef_search"]
        self.native = hnswlib.Index(space="l2" if self._l2 else "ip", dim=space.n_features)
        self.native.init_index(
            0, M=self.options["M"], ef_construction=self.options["ef_construction"]
        )
        self.native.set_ef(self._ef)

    def __len__(self) -> int:
        return int(self.native.get_current_count())

    def add(self, vectors: Array) -> None:
        """Add items under the next numbers."""
        total = len(self) + len(vectors)
        if total > self.native.get_max_elements():
            self.native.resize_index(max(total, 2 * len(self)))
        self.native.add_items(vectors, np.arange(len(self), total), free_processors())

    def search(self, Q: Array, k: int) -> FoundItems:
        """Return the best k items of each query; only rows -1 if hnswlib finds fewer."""
        if k > self._ef:
            self.native.set_ef(k)
        try:
            rows, distances = self.native.knn_query(Q, k, free_processors())
        except RuntimeError:  # it returns k items for every query, or nothing
            return np.full((len(Q), k), -1), np.zeros((len(Q), k), np.float32)
        finally:
            if k > self._ef:
                self.native.set_ef(self._ef)
        return rows.view(np.int64), -distances if self._l2 else 1.0 - distances

    def vectors(self) -> Array:
        """Vectors of all items."""
        return np.asarray(self.native.get_items(np.arange(len(self)), return_type="numpy"))

    def tensors(self) -> dict[str, Array]:
        """The vectors."""
        return {"vectors": self.vectors()}

    def restore(self, tensors: dict[str, Array]) -> None:
        """Build the graph again."""
        self.add(tensors["vectors"])
