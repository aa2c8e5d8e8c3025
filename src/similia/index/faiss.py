"""Item vectors as an index of FAISS."""

import re
from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import checked_options, native_bytes
from similia.validation import Rule, positive_integer

try:
    import faiss
except ImportError as error:
    raise MissingExtraError("similia.index.faiss", "faiss", "faiss") from error

_FACTORY = re.compile(r"Flat|HNSW[1-9]\d*|IVF[1-9]\d*,Flat")
_RULES = {
    "factory": Rule(
        "'Flat', 'HNSW<links>' or 'IVF<lists>,Flat'",
        lambda v: isinstance(v, str) and _FACTORY.fullmatch(v) is not None,
    ),
    "ef_construction": positive_integer,
    "ef_search": positive_integer,
    "n_probe": positive_integer,
}
_DEFAULTS = {"factory": "HNSW32", "ef_construction": 100, "ef_search": 64, "n_probe": 16}


class Implementation:
    """A FAISS index that keeps vectors as they are, with its native inner product or L2.

    Options: `factory`, FAISS's own name of the kind of index; `ef_construction` and `ef_search` for
    HNSW, `n_probe` for IVF: larger ones find more of the best items and take longer.
    """

    sparse = False

    def __init__(self, n_features: int, geometry: str, dtype: Any, **options: Any) -> None:
        self.options = checked_options("faiss", _RULES, _DEFAULTS, options)
        self._l2 = geometry == "l2"
        metric = faiss.METRIC_L2 if self._l2 else faiss.METRIC_INNER_PRODUCT
        self._hold(faiss.index_factory(n_features, self.options["factory"], metric))

    def _hold(self, native: Any) -> None:
        self.native = native
        self.exact = isinstance(native, faiss.IndexFlat)
        if hasattr(native, "hnsw"):
            native.hnsw.efConstruction = self.options["ef_construction"]
            native.hnsw.efSearch = self.options["ef_search"]
        if hasattr(native, "nprobe"):
            native.nprobe = self.options["n_probe"]
            native.make_direct_map()  # so that vectors can be had back by their numbers

    def __len__(self) -> int:
        return int(self.native.ntotal)

    def add(self, vectors: Array) -> None:
        """Add items; the first ones train an index that must be trained."""
        vectors = np.ascontiguousarray(vectors)
        if not self.native.is_trained:
            if len(vectors) < self.native.nlist:
                raise ValueError(
                    f"faiss: items must be at least the {self.native.nlist} lists of "
                    f"{self.options['factory']!r} at first, got {len(vectors)}; use fewer lists."
                )
            self.native.train(vectors)
        self.native.add(vectors)

    def search(self, Q: Array, k: int) -> tuple[NDArray[np.int64], Array]:
        """Give the best k items of each query; -1 where FAISS finds fewer."""
        scores, rows = self.native.search(np.ascontiguousarray(Q), k)
        return rows, -scores if self._l2 else scores

    def vectors(self) -> Array:
        """Give the vectors of all items."""
        return self.native.reconstruct_n(0, len(self))

    def tensors(self) -> dict[str, Array]:
        """Give FAISS's own bytes."""
        return {"native": faiss.serialize_index(self.native)}

    @classmethod
    def restored(
        cls, n_features: int, geometry: str, dtype: Any, options: Any, tensors: dict[str, Array]
    ) -> "Implementation":
        """Give the index that `tensors` describes."""
        index = cls(n_features, geometry, dtype, **options)
        metric = index.native.metric_type
        index._hold(faiss.deserialize_index(native_bytes(tensors)))
        if index.native.d != n_features or index.native.metric_type != metric:
            raise ValueError("the index of FAISS has other features or another metric")
        return index
