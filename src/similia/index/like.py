"""Indexes of the same kind: trained once, for shards of one collection."""

import time

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Matrix, Searchable
from similia.index.backends import backend_class, checked_vectors
from similia.index.ids import joined_ids
from similia.index.index import Index
from similia.index.recall import BuildReport


def index_like(
    other: Index,
    Z: ArrayLike | Matrix,
    ids: ArrayLike | None = None,
    *,
    model: Searchable | None = None,
) -> Index:
    """Build an index of other items, configured and trained like an existing one.

    Lists of faiss keep their centers, and a metric stays as it was. Recall is not measured.

    Parameters
    ----------
    other : Index
        Index of dense items.
    Z : array of shape (n_items, n_features)
        Untransformed item vectors.
    ids : array of shape (n_items,), optional
        Distinct integers or strings; row numbers if None.
    model : learner, optional
        Needed only if the index cannot keep the metric itself (`KernelPOLA`).
    """
    if other.backend.sparse:
        raise ValueError("index_like: other must be an index of dense items, got sparse ones.")
    if other.frozen is not None:
        Z = other.frozen.vectors("index_like", Z, model, items=True)
    vectors = checked_vectors("index_like", "items", Z, other.dtype, other.n_features, False)
    if not vectors.shape[0]:
        raise ValueError("index_like: items must not be empty.")
    backend = backend_class("index_like", other.name)(other.space, **other.backend.options)
    index = Index(other.name, backend, other.space, other.frozen)
    names = joined_ids("index_like", index.ids, ids, vectors.shape[0])
    start = time.perf_counter()
    backend.restore({**other.backend.tensors(), "vectors": np.ascontiguousarray(vectors)})
    seconds, index.ids = time.perf_counter() - start, names
    size, k = (len(names), other.n_features), min(other.report.k, len(names))
    index.report = BuildReport(other.name, other.geometry, *size, k, None, 0, seconds)
    return index
