"""Item vectors in a FAISS index."""

import re
from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import Found, Space, checked_options, native_bytes
from similia.validation import Rule, positive_integer

try:
    import faiss
except ImportError as error:
    raise MissingExtraError("similia.index.faiss", "faiss", "faiss") from error

_FACTORY = re.compile(r"Flat|HNSW[1-9]\d*|IVF[1-9]\d*,Flat")
_factory = Rule(
    "'Flat', 'HNSW<links>' or 'IVF<lists>,Flat'",
    lambda v: isinstance(v, str) and _FACTORY.fullmatch(v) is not None,
)
_OPTIONS = {
    "factory": ("HNSW32", _factory),
    "ef_construction": (100, positive_integer),
    "ef_search": (64, positive_integer),
    "n_probe": (16, positive_integer),
}


class Implementation:
    """A FAISS index of uncompressed vectors, with its native inner product or L2.

    Options: `factory`, FAISS's own name for the kind of index; `ef_construction` and `ef_search`
    for HNSW, `n_probe` for IVF: larger values find more of the best items and take longer.
    """

    sparse = False

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("faiss", _OPTIONS, options)
        self._l2 = space.geometry == "l2"
        metric = faiss.METRIC_L2 if self._l2 else faiss.METRIC_INNER_PRODUCT
        self._hold(faiss.index_factory(space.n_features, self.options["factory"], metric))

    def _hold(self, native: Any) -> None:
        self.native = native
        self.exact = isinstance(native, faiss.IndexFlat)
        if isinstance(native, faiss.IndexHNSW):
            native.hnsw.efConstruction = self.options["ef_construction"]
            native.hnsw.efSearch = self.options["ef_search"]
        if isinstance(native, faiss.IndexIVF):
            native.nprobe = self.options["n_probe"]
            native.make_direct_map()  # to reconstruct vectors by number

    def __len__(self) -> int:
        return int(self.native.ntotal)

    def add(self, vectors: Array) -> None:
        """Add items; the first ones train an index that needs training."""
        vectors = np.ascontiguousarray(vectors)
        if not self.native.is_trained:
            if len(vectors) < self.native.nlist:
                raise ValueError(
                    f"faiss: items must be at least the {self.native.nlist} lists of "
                    f"{self.options['factory']!r} at first, got {len(vectors)}; use fewer lists."
                )
            self.native.train(vectors)
        self.native.add(vectors)

    def search(self, Q: Array, k: int) -> Found:
        """Return the best k items of each query; row -1 where FAISS finds fewer."""
        scores, rows = self.native.search(np.ascontiguousarray(Q), k)
        return rows, -scores if self._l2 else scores

    def vectors(self) -> Array:
        """Vectors of all items."""
        return self.native.reconstruct_n(0, len(self))

    def tensors(self) -> dict[str, Array]:
        """The native bytes."""
        return {"native": faiss.serialize_index(self.native)}

    def restore(self, tensors: dict[str, Array]) -> None:
        """Take the native bytes."""
        expected = self.native.d, self.native.metric_type
        self._hold(faiss.deserialize_index(native_bytes(tensors)))
        if (self.native.d, self.native.metric_type) != expected:
            raise ValueError("the index of FAISS has other features or another metric")
