"""Exact search over sparse items: one operation for each entry that a query and an item share."""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from similia.contract import Array
from similia.index.backends import checked_options
from similia.retrieval import top_k
from similia.retrieval.scorers import BLOCK_BYTES
from similia.retrieval.vectors import sparse_products
from similia.validation import positive_integer

#: arrays of a CSR matrix, as they are saved
PARTS = ("data", "indices", "indptr")


def checked_sparse(owner: str, name: str, X: Any, dtype: Any, n_features: int | None) -> Any:
    """Give X as a CSR matrix of that precision without repeated entries, or raise the error."""
    if X.ndim != 2 or X.dtype.kind not in "iuf" or X.shape[1] != (n_features or X.shape[1]):
        wanted = n_features if n_features is not None else "n_features"
        raise ValueError(
            f"{owner}: {name} must be a matrix of numbers of shape (n, {wanted}), "
            f"got shape {X.shape} and dtype {X.dtype}."
        )
    X = sparse.csr_array(X, dtype=dtype)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    if not np.isfinite(X.data).all():
        raise ValueError(f"{owner}: {name} must be finite, but it contains NaN or infinity.")
    return X


class Implementation:
    """All items in one CSR matrix, and by feature, for inner products only.

    New items are joined to the others by the next search.
    """

    exact = True
    sparse = True

    def __init__(self, n_features: int, geometry: str, dtype: Any, **options: Any) -> None:
        self.options = checked_options(
            "exact", {"block_bytes": positive_integer}, {"block_bytes": BLOCK_BYTES}, options
        )
        if geometry != "inner_product":
            raise ValueError(
                f"exact: geometry must be 'inner_product' for sparse items, got {geometry!r}; "
                "give a dense array."
            )
        self._parts = [sparse.csr_array((0, n_features), dtype=dtype)]
        self._fill: Any = None

    def __len__(self) -> int:
        return sum(part.shape[0] for part in self._parts)

    def add(self, vectors: Any) -> None:
        """Add items, given as CSR or as an array."""
        self._parts.append(sparse.csr_array(vectors, dtype=self._parts[0].dtype, copy=True))
        self._fill = None

    def search(self, Q: Any, k: int) -> tuple[NDArray[np.int64], Array]:
        """Give the best k items of each query; of equal scores the earlier item first."""
        items = self.vectors()
        if self._fill is None:
            self._fill = sparse_products(items)

        def scores(rows: Any, _: Any) -> Array:
            out = np.empty((rows.shape[0], items.shape[0]), items.dtype)
            self._fill(out, rows)
            return out

        return top_k(scores, Q, items, k, block_bytes=self.options["block_bytes"])

    def vectors(self) -> Any:
        """Give the vectors of all items, as CSR."""
        if len(self._parts) > 1:
            self._parts = [sparse.vstack(self._parts, format="csr")]
        return self._parts[0]

    def tensors(self) -> dict[str, Array]:
        """Give the arrays of the CSR matrix."""
        items = self.vectors()
        return {name: getattr(items, name) for name in PARTS}

    @classmethod
    def restored(
        cls, n_features: int, geometry: str, dtype: Any, options: Any, tensors: dict[str, Array]
    ) -> "Implementation":
        """Give the index that `tensors` describes."""
        data, indices, indptr = (tensors[name] for name in PARTS)
        kinds = {array.dtype.kind for array in (indices, indptr)}
        if data.dtype != dtype or kinds != {"i"} or {a.ndim for a in tensors.values()} != {1}:
            raise ValueError("the items are no sparse matrix of this precision")
        items = sparse.csr_array((data, indices, indptr), shape=(len(indptr) - 1, n_features))
        items.check_format(full_check=True)
        index = cls(n_features, geometry, dtype, **options)
        index._parts = [items]
        return index
