"""What an index asks of a library for vector search, and the one list of those libraries."""

from importlib import import_module
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from similia.contract import Array
from similia.validation import check_parameters, one_of

GEOMETRIES = ("inner_product", "l2")

#: modules are named, not imported: only the one that is asked for needs its library
BACKENDS = {
    "exact": "similia.index.exact",
    "faiss": "similia.index.faiss",
    "usearch": "similia.index.usearch",
    "hnswlib": "similia.index.hnswlib",
}

#: what searches sparse items, under the name "exact"
SPARSE = "similia.index.sparse"


class Backend(Protocol):
    """Item vectors that can be searched; rows are numbered in the order in which they came.

    An implementation is made as ``Implementation(n_features, geometry, dtype, **options)``, empty,
    or by ``Implementation.restored(n_features, geometry, dtype, options, tensors)``.
    """

    #: whether the best items are found for certain
    exact: bool
    #: whether items are held as a CSR matrix, and queries may be one
    sparse: bool
    #: all options, with the defaults of those that were not given
    options: dict[str, Any]

    def __len__(self) -> int:
        """Give the number of items."""
        ...

    def add(self, vectors: Array) -> None:
        """Add items; the array is not kept unless it is mapped from a file."""
        ...

    def search(self, Q: Array, k: int) -> tuple[NDArray[np.int64], Array]:
        """Give rows and scores of the best k items of each query, best first; -1 where missing."""
        ...

    def vectors(self) -> Any:
        """Give the vectors of all items."""
        ...

    def tensors(self) -> dict[str, Array]:
        """Give all there is to save."""
        ...


def backend_class(owner: str, name: str, *, sparse: bool = False) -> Any:
    """Give the implementation of that name; raise MissingExtraError without its library."""
    check_parameters(owner, {"backend": one_of(*BACKENDS)}, {"backend": name})
    if sparse and name != "exact":
        raise ValueError(
            f"{owner}: backend must be 'exact' for sparse items, got {name!r}, whose library takes "
            "dense vectors only."
        )
    return import_module(SPARSE if sparse else BACKENDS[name]).Implementation


def checked_options(
    owner: str, rules: dict[str, Any], defaults: dict[str, Any], given: dict[str, Any]
) -> dict[str, Any]:
    """Give the defaults with what was given in their place."""
    unknown = sorted(set(given) - set(defaults))
    if unknown:
        raise ValueError(
            f"{owner}: options must be some of {', '.join(defaults)}, got {unknown[0]}."
        )
    options = {**defaults, **given}
    check_parameters(owner, rules, options)
    return options


def native_bytes(tensors: dict[str, Array]) -> Array:
    """Give the library's own serialized index from what was saved."""
    (native,) = tensors.values()
    if native.dtype != np.uint8 or native.ndim != 1:
        raise ValueError("the index of the library is not an array of bytes")
    return native
