"""The protocol of a vector search library, and the one list of those libraries."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from numbers import Integral
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from scipy import sparse

from similia.contract import Array, Geometry, Matrix
from similia.retrieval.vectors import is_finite, is_sparse
from similia.safety.bounds import check_numeric
from similia.validation import Rule, between, check_parameters, one_of

#: module and class by name, imported on demand: only the chosen one needs its library
BACKENDS = {
    "exact": ("similia.index.exact", "ExactItems"),
    "faiss": ("similia.index.faiss", "FaissItems"),
    "usearch": ("similia.index.usearch", "UsearchItems"),
    "hnswlib": ("similia.index.hnswlib", "HnswlibItems"),
}

#: links of a node of a graph; memory grows with them
GRAPH_LINKS = replace(between(1, 1025), words="an integer between 2 and 1024", kind=Integral)
#: candidates that a search holds
SEARCH_BREADTH = replace(
    between(0, 2**20), words=f"a positive integer below {2**20}", kind=Integral
)

#: rows and scores of the best items of each query
FoundItems: TypeAlias = tuple[NDArray[np.int64], Array]
BackendOptions: TypeAlias = dict[str, Any]


class Space(NamedTuple):
    """The space of the vectors in an index."""

    n_features: int
    geometry: Geometry
    dtype: np.dtype[Any]


class Backend(Protocol):
    """Item vectors that can be searched; rows are numbered in order of addition.

    A class of `BACKENDS` is called with a space and options, and starts empty.
    """

    #: whether the best items are certain to be found
    exact: bool
    #: whether items are a CSR matrix, and queries may be one
    sparse: bool
    #: all options, including defaults
    options: BackendOptions

    def __len__(self) -> int:
        """Number of items."""
        ...

    def add(self, vectors: Matrix) -> None:
        """Add items; the array is copied unless it is mapped from a file."""
        ...

    def search(self, Q: Matrix, k: int) -> FoundItems:
        """Return the best k items of each query, best first; row -1 where missing."""
        ...

    def vectors(self) -> Matrix:
        """Vectors of all items."""
        ...

    def tensors(self) -> dict[str, Array]:
        """Arrays to save."""
        ...

    def restore(self, tensors: dict[str, Array]) -> None:
        """Replace the items of a new backend by saved ones, which `check_saved` has passed."""
        ...


def backend_class(owner: str, name: str, *, sparse_items: bool = False) -> Any:
    """Class of that name; raises MissingExtraError without its library."""
    check_parameters(owner, {"backend": one_of(*BACKENDS)}, {"backend": name})
    module, class_name = BACKENDS[name]
    library = getattr(import_module(module), class_name)
    if not sparse_items:
        return library
    if name == "exact":
        return import_module(module).SparseItems
    return partial(import_module("similia.index.reranked").RerankedItems, library)


def checked_options(
    owner: str, known: Mapping[str, tuple[object, Rule]], given: BackendOptions
) -> BackendOptions:
    """Options given, completed by defaults; `known` has a default and a rule for each."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise ValueError(f"{owner}: options must be some of {', '.join(known)}, got {unknown[0]}.")
    options = {**{name: default for name, (default, _) in known.items()}, **given}
    check_parameters(owner, {name: rule for name, (_, rule) in known.items()}, options)
    return options


def check_saved(space: Space, tensors: dict[str, Array]) -> None:
    """Refuse dense items from a file that do not fit the space, before a library sees them.

    The bytes of a library's own index are never stored: their readers trust them, and so crash or
    open other files for whoever wrote the bytes.
    """
    if "native" in tensors:
        raise ValueError("it holds the bytes of a library, which are no longer read; build it anew")
    vectors = tensors["vectors"]
    fits = vectors.ndim == 2 and vectors.shape[1] == space.n_features and len(vectors) > 0
    if not fits or vectors.dtype != space.dtype:
        raise ValueError(f"vectors of shape {vectors.shape} and dtype {vectors.dtype}")


def checked_vectors(
    owner: str,
    name: str,
    X: ArrayLike | Matrix,
    dtype: DTypeLike,
    n_features: int | None = None,
    allow_sparse: bool = True,
) -> Matrix:
    """X as an array, or if allowed a CSR matrix, of finite numbers in that precision."""
    found_sparse = is_sparse(X)
    check_numeric(owner, name, X)
    if found_sparse and not allow_sparse:
        raise ValueError(f"{owner}: {name} must be a dense array, got a sparse matrix.")
    rows: Matrix = X if found_sparse else np.asanyarray(X)
    fits = rows.ndim == 2 and n_features in (None, rows.shape[1])
    if not fits or rows.dtype.kind not in "iuf":
        kind = "a matrix" if found_sparse else "a dense array"
        shape = f"(n, {n_features or 'n_features'})"
        raise ValueError(
            f"{owner}: {name} must be {kind} of numbers of shape {shape}, "
            f"got shape {rows.shape} and dtype {rows.dtype}."
        )
    if found_sparse:
        rows = sparse.csr_array(rows, dtype=dtype)
        if not rows.has_canonical_format:
            rows = rows.copy()
            rows.sum_duplicates()
    else:
        rows = rows.astype(dtype, order="C", copy=False)
    if not is_finite(rows):
        raise ValueError(f"{owner}: {name} must be finite, but it contains NaN or infinity.")
    return rows
