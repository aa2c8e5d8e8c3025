"""Item vectors in a FAISS index."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from similia.contract import Array
from similia.exceptions import MissingExtraError
from similia.index.backends import GRAPH_LINKS, SEARCH_BREADTH, FoundItems, Space, checked_options
from similia.linalg.threads import free_processors
from similia.validation import Rule

try:
    import faiss
except ImportError as error:
    raise MissingExtraError("similia.index.faiss", "faiss", "faiss") from error


def _number(factory: str, before: str, after: str = "") -> int:
    """Number between two parts of a factory string; 0 if it has another form."""
    digits = factory.removeprefix(before).removesuffix(after)
    right = factory == f"{before}{digits}{after}" and digits.isdecimal() and digits.isascii()
    return int(digits) if right and len(digits) < 10 and digits[0] != "0" else 0


def _lists(factory: str) -> int:
    return _number(factory, "IVF", ",Flat")


_factory = Rule(
    "'Flat', 'HNSW<links>' with 2 to 1024 links, or 'IVF<lists>,Flat'",
    lambda v: v == "Flat" or GRAPH_LINKS.holds(_number(v, "HNSW")) or _lists(v) > 0,
    kind=str,
)
FAISS_OPTIONS = {
    "factory": ("HNSW32", _factory),
    "ef_construction": (100, SEARCH_BREADTH),
    "ef_search": (64, SEARCH_BREADTH),
    "n_probe": (16, SEARCH_BREADTH),
}


@contextmanager
def _own_threads() -> Iterator[None]:
    """Let FAISS, and the BLAS that it brings, use the processors that are free.

    The limit is one of OpenMP, which holds for the calling thread.
    """
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(min(before, free_processors()))
    try:
        yield
    finally:
        faiss.omp_set_num_threads(before)


class FaissItems:
    """A FAISS index of uncompressed vectors, with its native inner product or L2.

    Options: `factory`, FAISS's own name for the kind of index; `ef_construction` and `ef_search`
    for HNSW, `n_probe` for IVF: larger values find more of the best items and take longer.
    """

    sparse = False

    def __init__(self, space: Space, **options: Any) -> None:
        self.options = checked_options("faiss", FAISS_OPTIONS, options)
        self.exact = self.options["factory"] == "Flat"
        self._space = space
        self._l2 = space.geometry == "l2"
        #: made with the first items: lists take memory, so there must not be more of them
        self.native: Any = None

    def _start(self, n_items: int) -> None:
        """Make the empty native index, if a library of lists has enough items for it."""
        factory = self.options["factory"]
        if n_items < _lists(factory):
            raise ValueError(
                f"faiss: items must be at least the {_lists(factory)} lists of {factory!r} at "
                f"first, got {n_items}; use fewer lists."
            )
        metric = faiss.METRIC_L2 if self._l2 else faiss.METRIC_INNER_PRODUCT
        self.native = native = faiss.index_factory(self._space.n_features, factory, metric)
        if isinstance(native, faiss.IndexHNSW):
            native.hnsw.efConstruction = self.options["ef_construction"]
            native.hnsw.efSearch = self.options["ef_search"]
        if isinstance(native, faiss.IndexIVF):
            native.nprobe = self.options["n_probe"]
            native.make_direct_map()  # to reconstruct vectors by number

    def __len__(self) -> int:
        return 0 if self.native is None else int(self.native.ntotal)

    def add(self, vectors: Array) -> None:
        """Add items; the first ones train an index that needs training."""
        vectors = np.ascontiguousarray(vectors)
        if self.native is None:
            self._start(len(vectors))
        with _own_threads():
            if not self.native.is_trained:
                self.native.train(vectors)
            self.native.add(vectors)

    def search(self, Q: Array, k: int) -> FoundItems:
        """Return the best k items of each query; row -1 where FAISS finds fewer."""
        with _own_threads():
            scores, rows = self.native.search(np.ascontiguousarray(Q), k)
        return rows, -scores if self._l2 else scores

    def vectors(self) -> Array:
        """Vectors of all items."""
        with _own_threads():
            return self.native.reconstruct_n(0, len(self))

    def tensors(self) -> dict[str, Array]:
        """The vectors, and the centers of lists if there are any."""
        tensors = {"vectors": self.vectors()}
        if n_lists := _lists(self.options["factory"]):
            tensors["centers"] = self.native.quantizer.reconstruct_n(0, n_lists)
        return tensors

    def restore(self, tensors: dict[str, Array]) -> None:
        """Build the index again; lists keep their centers."""
        vectors = tensors["vectors"]
        self._start(len(vectors))
        if n_lists := _lists(self.options["factory"]):
            centers = tensors["centers"]
            if centers.shape != (n_lists, self._space.n_features) or centers.dtype != np.float32:
                raise ValueError(f"centers of shape {centers.shape} and dtype {centers.dtype}")
            self.native.quantizer.add(centers)
            self.native.is_trained = True
        self.add(vectors)
