"""Item vectors as an index of hnswlib."""

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import checked_options, native_bytes
from similia.linalg.threads import processors
from similia.validation import positive_integer

try:
    import hnswlib
except ImportError as error:
    raise MissingExtraError("similia.index.hnswlib", "hnswlib", "hnswlib") from error

_OPTIONS = ("M", "ef_construction", "ef_search")
_DEFAULTS = {"M": 32, "ef_construction": 128, "ef_search": 64}


class Implementation:
    """A graph of hnswlib, with its native inner product or L2.

    Options: `M`, links of a node; `ef_construction` and `ef_search`: larger ones find more of the
    best items and take longer.
    """

    exact = False
    sparse = False

    def __init__(self, n_features: int, geometry: str, dtype: Any, **options: Any) -> None:
        rules = dict.fromkeys(_OPTIONS, positive_integer)
        self.options = checked_options("hnswlib", rules, _DEFAULTS, options)
        self._l2 = geometry == "l2"
        self._ef = self.options["ef_search"]
        self.native = hnswlib.Index(space="l2" if self._l2 else "ip", dim=n_features)
        self.native.init_index(0, M=self.options["M"], ef_construction=self._ef_construction)
        self._prepare()

    @property
    def _ef_construction(self) -> int:
        return int(self.options["ef_construction"])

    def _prepare(self) -> None:
        self.native.set_ef(self._ef)
        self.native.set_num_threads(processors())

    def __len__(self) -> int:
        return int(self.native.get_current_count())

    def add(self, vectors: Array) -> None:
        """Add items under the next numbers."""
        total = len(self) + len(vectors)
        if total > self.native.get_max_elements():
            self.native.resize_index(max(total, 2 * len(self)))
        self.native.add_items(vectors, np.arange(len(self), total))

    def search(self, Q: Array, k: int) -> tuple[NDArray[np.int64], Array]:
        """Give the best k items of each query; -1 for all of a query where hnswlib finds fewer."""
        if k > self._ef:
            self.native.set_ef(k)
        try:
            rows, distances = self.native.knn_query(Q, k)
        except RuntimeError:  # it gives whole rows or nothing
            return np.full((len(Q), k), -1), np.zeros((len(Q), k), np.float32)
        finally:
            if k > self._ef:
                self.native.set_ef(self._ef)
        return rows.view(np.int64), -distances if self._l2 else 1.0 - distances

    def vectors(self) -> Array:
        """Give the vectors of all items."""
        return np.asarray(self.native.get_items(np.arange(len(self)), return_type="numpy"))

    def tensors(self) -> dict[str, Array]:
        """Give hnswlib's own bytes, which it writes to a file only."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "native")
            self.native.save_index(str(path))
            return {"native": np.fromfile(path, np.uint8)}

    @classmethod
    def restored(
        cls, n_features: int, geometry: str, dtype: Any, options: Any, tensors: dict[str, Array]
    ) -> "Implementation":
        """Give the index that `tensors` describes."""
        index = cls(n_features, geometry, dtype, **options)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "native")
            native_bytes(tensors).tofile(path)
            index.native = hnswlib.Index(space="l2" if index._l2 else "ip", dim=n_features)
            index.native.load_index(str(path))
        index._prepare()
        return index
