"""Item vectors as an index of USearch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import checked_options, native_bytes
from similia.linalg.threads import processors
from similia.validation import positive_integer

try:
    from usearch.index import Index as NativeIndex
except ImportError as error:
    raise MissingExtraError("similia.index.usearch", "usearch", "usearch") from error

_OPTIONS = ("connectivity", "ef_construction", "ef_search")
_DEFAULTS = {"connectivity": 32, "ef_construction": 128, "ef_search": 64}


class Implementation:
    """A graph of USearch in single precision, with its native inner product or L2.

    Options: `connectivity`, links of a node; `ef_construction` and `ef_search`: larger ones find
    more of the best items and take longer.
    """

    exact = False
    sparse = False

    def __init__(self, n_features: int, geometry: str, dtype: Any, **options: Any) -> None:
        rules = dict.fromkeys(_OPTIONS, positive_integer)
        self.options = checked_options("usearch", rules, _DEFAULTS, options)
        self._l2 = geometry == "l2"
        self.native = NativeIndex(
            ndim=n_features,
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
        # Two threads that add at once leave a few items that no search reaches, now and then.
        self.native.add(keys, np.ascontiguousarray(vectors), threads=1)

    def search(self, Q: Array, k: int) -> tuple[NDArray[np.int64], Array]:
        """Give the best k items of each query; -1 where USearch finds fewer."""
        found = self.native.search(np.ascontiguousarray(Q), k, threads=processors())
        rows = np.asarray(found.keys).astype(np.int64).reshape(len(Q), k)
        distances = np.asarray(found.distances).reshape(len(Q), k)
        counts = np.atleast_1d(getattr(found, "counts", k))
        if (counts < k).any():
            rows[np.arange(k) >= counts[:, None]] = -1
        return rows, -distances if self._l2 else 1.0 - distances

    def vectors(self) -> Array:
        """Give the vectors of all items."""
        return np.asarray(self.native.get(np.arange(len(self), dtype=np.uint64)))

    def tensors(self) -> dict[str, Array]:
        """Give USearch's own bytes."""
        return {"native": np.frombuffer(self.native.save() or b"", np.uint8)}

    @classmethod
    def restored(
        cls, n_features: int, geometry: str, dtype: Any, options: Any, tensors: dict[str, Array]
    ) -> "Implementation":
        """Give the index that `tensors` describes."""
        index = cls(n_features, geometry, dtype, **options)
        index.native.load(native_bytes(tensors).tobytes())
        if index.native.ndim != n_features:
            raise ValueError("the index of USearch has other features")
        return index
