"""An index: item vectors that learning does not touch, searched by whatever was learnt."""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import issparse

from similia.contract import Array
from similia.index.backends import Backend
from similia.index.exact import Implementation as Exact
from similia.index.frozen import FrozenMetric
from similia.index.ids import checked_ids, joined_ids
from similia.index.queries import QueryMap, check_model
from similia.index.recall import Asked, BuildReport, measured_recall, sampled_rows
from similia.index.sparse import checked_sparse
from similia.index.storage import save
from similia.validation import positive_integer

#: numbers that are looked at one by one sooner than warnings are silenced
FEW = 4096


class Search(NamedTuple):
    """What was found: ids of shape (n_queries, k), best first, and their scores."""

    ids: Array
    scores: Array


def checked_vectors(owner: str, name: str, X: Any, dtype: Any, n_features: int | None) -> Array:
    """Give X as an array of that precision, or raise the house error."""
    if issparse(X):
        raise ValueError(f"{owner}: {name} must be a dense array, got a sparse matrix.")
    X = np.asanyarray(X)
    if X.ndim != 2 or X.dtype.kind not in "iuf" or X.shape[1] != (n_features or X.shape[1]):
        wanted = n_features if n_features is not None else "n_features"
        raise ValueError(
            f"{owner}: {name} must be a dense array of numbers of shape (n, {wanted}), "
            f"got shape {X.shape} and dtype {X.dtype}."
        )
    X = X.astype(dtype, order="C", copy=False)
    flat = X.reshape(-1)
    if not _all_finite(flat):
        raise ValueError(f"{owner}: {name} must be finite, but it contains NaN or infinity.")
    return X


def _all_finite(flat: Array) -> bool:
    if flat.size > FEW:
        # The squares sum to a number but for overflow, in a fraction of the time of a look at each.
        with np.errstate(over="ignore", invalid="ignore"):
            if np.isfinite(flat @ flat):
                return True
    return bool(np.isfinite(flat).all())


class Index:
    """Items that can be searched; made by `build` or `open_index`.

    Under an inner product only queries are transformed, so one index serves every bilinear learner,
    and one that learns is seen by the next search. A metric moves the items: such an index keeps
    the metric that it was built with, and refuses a learner that has learnt since.

    Attributes
    ----------
    report : BuildReport
        Of the last build or addition.
    geometry : {"inner_product", "l2"}
    n_features : int
        Features of the vectors in the index.
    ids : array of shape (n_items,)
    backend : Backend
    """

    def __init__(
        self,
        name: str,
        backend: Backend,
        geometry: str,
        dtype: Any,
        n_features: int,
        frozen: FrozenMetric | None = None,
    ) -> None:
        self.name = name
        self.backend = backend
        self.geometry = geometry
        self.dtype = np.dtype(dtype)
        self.n_features = n_features
        self.frozen = frozen
        self.ids: Array = np.arange(0)
        self.report: BuildReport
        self._wanted = 10
        self._seconds = 0.0
        self._map = QueryMap()

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<Index {self.report}>"

    # -- searching -----------------------------------------------------------------------------

    def search(self, Q: Any, k: int = 10, *, model: Any = None) -> Search:
        """Find the k best items of each query.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features)
            Queries, as they are: they are transformed here. Sparse ones need a learner that takes
            them, or sparse items.
        k : int
            At most the number of items.
        model : learner, optional
            What to search by. Without it an inner-product index is searched by the plain vectors,
            an index of a metric by that metric.

        Returns
        -------
        Search
            `ids` and `scores` of shape (n_queries, k); larger scores are closer, and "l2" gives the
            negated squared distance.
        """
        q = self.query_vectors(Q, model=model)
        if not (positive_integer.holds(k) and k <= len(self)):
            raise ValueError(
                f"Index.search: k must be an integer between 1 and the {len(self)} items, "
                f"got {k!r}."
            )
        rows, scores = self.backend.search(q, k)
        if not self.backend.exact and rows.size and rows.min() < 0:
            rows, scores = self._completed(q, k, rows, scores)
        return Search(self.ids[rows], scores)

    def query_vectors(self, Q: Any, *, model: Any = None) -> Array:
        """Give the vectors that `search` hands to the backend."""
        if self.frozen is not None:
            q = self.frozen.vectors("Index.search", Q, model)
        elif model is None:
            q = Q
        else:
            check_model("Index.search", model)
            if model.geometry != self.geometry or self.geometry == "l2":
                raise ValueError(
                    f"Index.search: model must have the geometry 'inner_product' where the items "
                    f"are in the index as they are ({self.geometry!r}), got {model.geometry!r}; "
                    "give the model to build as well."
                )
            q = self._map(model, Q)
        return self._checked("Index.search", "queries", q)

    def _checked(self, owner: str, name: str, X: Any) -> Any:
        if self.backend.sparse and issparse(X):
            return checked_sparse(owner, name, X, self.dtype, self.n_features)
        return checked_vectors(owner, name, X, self.dtype, self.n_features)

    def is_stale(self, model: Any) -> bool:
        """Give whether `model` has changed in a way that the items in the index do not show."""
        return self.frozen is not None and self.frozen.is_stale(model)

    def _completed(
        self, q: Array, k: int, rows: NDArray[np.int64], scores: Array
    ) -> tuple[NDArray[np.int64], Array]:
        """Answer those queries exactly for which the backend found fewer than k items."""
        short = np.flatnonzero((rows < 0).any(axis=1))
        exact = Exact(self.n_features, self.geometry, self.dtype)
        exact.add(self.backend.vectors())
        rows, scores = rows.copy(), scores.copy()
        rows[short], scores[short] = exact.search(q[short], k)
        return rows, scores

    # -- adding --------------------------------------------------------------------------------

    def add(
        self, Z: Any, ids: Any = None, *, model: Any = None, measure: bool = True
    ) -> BuildReport:
        """Add items to those that are there.

        Parameters
        ----------
        Z : array of shape (n_items, n_features)
            Item vectors as they are; a metric's index transforms them. An index of sparse items
            takes CSR matrices as well.
        ids : array of shape (n_items,), optional
            Integers or strings as those of the index; numbers that go on where it ends if None.
        model : learner, optional
            Needed only where the index cannot keep the metric itself (`KernelPOLA`).
        measure : bool
            Whether to measure recall again, over all items.

        Returns
        -------
        report : BuildReport
            Also kept as `report`. On an error nothing has changed.
        """
        if self.frozen is not None:
            Z = self.frozen.vectors("Index.add", Z, model)
        vectors = self._checked("Index.add", "items", Z)
        names = checked_ids("Index.add", ids, vectors.shape[0], start=len(self))
        joined = joined_ids("Index.add", self.ids, names)
        self._extend(vectors, joined)
        asked = self._asked() if measure and not self.backend.exact else None
        self._say(self._wanted, asked)
        return self.report

    def _extend(self, vectors: Array, ids: Array) -> None:
        start = time.perf_counter()
        self.backend.add(vectors)
        self._seconds = time.perf_counter() - start
        self.ids = ids

    def _asked(self) -> Asked:
        """Give some of the items, as they are in the index, as queries."""
        own = sampled_rows(len(self))
        return Asked(np.asarray(self.backend.vectors()[own], self.dtype), own)

    def _say(self, k: int, asked: Asked | None) -> None:
        """Make the report, with recall over these queries; without measuring it if None."""
        self._wanted = k
        k = min(k, len(self))
        exact = self.backend.exact
        if not exact and asked is not None:
            recall = measured_recall(self.backend, self.geometry, asked, k)
        self.report = BuildReport(
            backend=self.name,
            geometry=self.geometry,
            n_items=len(self),
            n_features=self.n_features,
            k=k,
            recall=1.0 if exact else None if asked is None else recall,
            n_queries=0 if exact or asked is None else asked.queries.shape[0],
            seconds=self._seconds,
        )

    # -- keeping -------------------------------------------------------------------------------

    def save(self, path: Any) -> None:
        """Write the index to one file, in place of any that is there; see `open_index`."""
        save(self, path)
