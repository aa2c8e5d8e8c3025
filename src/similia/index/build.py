"""Build an index from item vectors."""

from typing import Any

import numpy as np
from scipy.sparse import issparse

from similia.index.backends import GEOMETRIES, backend_class
from similia.index.frozen import FrozenMetric
from similia.index.ids import checked_ids
from similia.index.index import Index, checked_vectors
from similia.index.queries import check_model
from similia.index.recall import Asked, sampled_rows
from similia.index.sparse import checked_sparse
from similia.validation import check_parameters, none, one_of, positive_integer


def build_index(
    Z: Any,
    model: Any = None,
    *,
    backend: str = "exact",
    geometry: str | None = None,
    ids: Any = None,
    queries: Any = None,
    recall_at: int = 10,
    **options: Any,
) -> Index:
    """Build an index of items, and measure what it finds against exact search.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n_items, n_features)
        Item vectors. They are copied, except that exact search leaves an array that is mapped from
        a file (`numpy.load` with ``mmap_mode="r"``) where it is. Sparse items are searched exactly,
        by inner products.
    model : learner, optional
        A metric must be given, as its items are transformed. A bilinear learner need not be: its
        items stay as they are, and `Index.search` takes it.
    backend : {"exact", "faiss", "usearch", "hnswlib"}
        Who searches. All but "exact" are approximate, in single precision, and extras to install.
    geometry : {"inner_product", "l2"}, optional
        Without a model, what to search by; an inner product by default.
    ids : array of shape (n_items,), optional
        Integers or strings, each once; the number of the row if None.
    queries : array of shape (n_queries, n_query_features), optional
        Queries to measure recall with, transformed by `model`; by default some of the items.
    recall_at : int
        How many of the best items recall is about.
    **options
        Of the backend, such as ``ef_search=128``; see its module.

    Returns
    -------
    Index
        With the figures in its `report`.

    Examples
    --------
    >>> import numpy as np
    >>> from similia.index import build_index
    >>> index = build_index(np.eye(3), ids=["x", "y", "z"])
    >>> index.search(np.array([[0.1, 0.7, 0.2]]), k=2).ids.tolist()
    [['y', 'z']]
    """
    rules = {
        "geometry": none | one_of(*GEOMETRIES),
        "recall_at": positive_integer,
    }
    check_parameters("build_index", rules, {"geometry": geometry, "recall_at": recall_at})
    space = _geometry(model, geometry)
    implementation = backend_class("build_index", backend, sparse=issparse(Z))
    if issparse(Z) and space == "l2":
        raise ValueError(
            "build_index: items must be a dense array where squared distances are searched by, "
            "got a sparse matrix."
        )
    checked = checked_sparse if issparse(Z) else checked_vectors
    given = Z if issparse(Z) else np.asanyarray(Z)
    dtype = np.float64 if backend == "exact" and given.dtype != np.float32 else np.float32
    given = checked("build_index", "items", given, dtype, None)
    if given.shape[0] == 0:
        raise ValueError("build_index: items must be at least one, got none.")
    # Checked by the learner even where it gives the items back as they are.
    vectors = given if model is None else model.item_vectors(given)
    moves = model is not None and space == "l2"
    frozen = FrozenMetric.of(model, given, vectors) if moves else None
    vectors = checked("build_index", "items", vectors, dtype, None)
    n, width = vectors.shape
    index = Index(backend, implementation(width, space, dtype, **options), space, dtype, width)
    index.frozen = frozen
    names = checked_ids("build_index", ids, n)
    asked = _asked(index, given, vectors, queries, model)
    index._extend(vectors, names)
    index._say(recall_at, asked)
    return index


def _asked(index: Index, Z: Any, vectors: Any, queries: Any, model: Any) -> Asked:
    """Give the queries to measure recall with, as `search` would hand them to the backend."""
    if queries is not None:
        return Asked(index.query_vectors(queries, model=model), None)
    own = sampled_rows(Z.shape[0])
    if getattr(model, "n_features_in_", Z.shape[1]) != Z.shape[1]:
        return Asked(vectors[own], own)  # queries have other features than items
    return Asked(index.query_vectors(Z[own], model=model), own)


def _geometry(model: Any, geometry: str | None) -> str:
    if model is None:
        return geometry or "inner_product"
    check_model("build_index", model)
    if geometry not in (None, model.geometry):
        raise ValueError(
            f"build_index: geometry must be that of the model, {model.geometry!r}, "
            f"got {geometry!r}."
        )
    return str(model.geometry)
