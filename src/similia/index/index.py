"""An index: item vectors that learning does not touch, searched by whatever was learnt."""

import time
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import (
    Array,
    Geometry,
    Indices,
    LearntRanker,
    Matrix,
    Searchable,
    Side,
    State,
)
from similia.exceptions import ModelFileError
from similia.index.backends import (
    BACKENDS,
    Backend,
    Space,
    backend_class,
    check_saved,
    checked_vectors,
)
from similia.index.exact import CSR_ARRAYS, exact_search
from similia.index.ids import joined_ids, refuse_repeats, restored_ids, stored_ids
from similia.index.models import FrozenMetric, check_model, is_learnt, query_vectors
from similia.index.recall import BuildReport, check_report, measured_recall, sampled_rows
from similia.persistence import reading, saving
from similia.persistence.saving import PathLike
from similia.retrieval.vectors import geometry as known_geometry
from similia.retrieval.vectors import is_sparse
from similia.safety.turns import one_state
from similia.safety.whole import held_signals
from similia.validation import check_parameters, none, positive_integer
from similia.views import Views

#: features of sparse items that a file may ask for, however small it is
MAX_SPARSE_FEATURES = 2**20
#: fields of a frozen metric that are saved
FROZEN_FIELDS = ("name", "fingerprint", "matrix", "probe", "image")


class Search(NamedTuple):
    """Items found, best first: ids and scores of shape (n_queries, k), or (k,) for a single query.

    Larger scores are closer; "l2" scores are negated squared distances.
    """

    ids: Array
    scores: Array


class Index:
    """Items that can be searched; made by `build_index` or `open_index`.

    Under an inner product only queries are transformed, so one index serves every bilinear learner,
    and the next search sees what a learner has learnt. A metric moves the items: such an index
    keeps the metric that it was built with, and refuses a learner that has changed since.

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

    report: BuildReport

    def __init__(
        self, name: str, backend: Backend, space: Space, frozen: FrozenMetric | None = None
    ) -> None:
        self.name = name
        self.backend = backend
        self.space = space
        self.n_features, self.geometry, self.dtype = space
        self.frozen = frozen
        self.ids: Array = np.arange(0)
        self._recall_at = 10

    def __len__(self) -> int:
        return len(self.ids)

    def __repr__(self) -> str:
        return f"<Index {self.report}>"

    # -- searching -----------------------------------------------------------------------------

    def search(
        self, Q: ArrayLike | Side, k: int = 10, *, model: Searchable | None = None
    ) -> Search:
        """Find the k best items of each query.

        Parameters
        ----------
        Q : array or CSR matrix of shape (n_queries, n_features), Views, or a vector
            Queries, not yet transformed. Sparse ones need a learner that takes them, or sparse
            items.
        k : int
            At most the number of items.
        model : learner, optional
            Model to search by. Without it, an inner-product index is searched by the plain vectors,
            an index of a metric by that metric.
        """
        if np.ndim(Q) == 1:
            row = (Q if is_sparse(Q) else np.asanyarray(Q)).reshape(1, -1)
            found = self.search(row, k, model=model)
            return Search(found.ids[0], found.scores[0])
        q = self.query_vectors(Q, model=model)
        if not (positive_integer.holds(k) and k <= len(self)):
            raise ValueError(
                f"Index.search: k must be an integer between 1 and the {len(self)} items, "
                f"got {k!r}."
            )
        rows, scores = self.backend.search(q, k)
        if not self.backend.exact and rows.size and rows.min() < 0:
            # Answer exactly those queries for which the backend found fewer than k items.
            rows, scores = rows.copy(), scores.copy()
            short = np.flatnonzero((rows < 0).any(axis=1))
            exact = exact_search(self.backend.vectors(), self.space)
            rows[short], scores[short] = exact.search(q[short], k)
        return Search(self.ids[rows], scores)

    def query_vectors(self, Q: ArrayLike | Side, *, model: Searchable | None = None) -> Matrix:
        """Vectors that `search` passes to the backend."""
        if self.frozen is not None:
            with one_state(model):
                Q = self.frozen.vectors("Index.search", _one_matrix(Q), model)
        elif model is not None:
            check_model("Index.search", model)
            if model.geometry != self.geometry or self.geometry == "l2":
                raise ValueError(
                    "Index.search: model must have the geometry 'inner_product' if the index holds "
                    f"untransformed items ({self.geometry!r}), got {model.geometry!r}; pass the "
                    "model to build_index as well."
                )
            Q = query_vectors(model, Q)
            if np.shape(Q)[1] != self.n_features:
                raise ValueError(
                    f"Index.search: model must rank by the {self.n_features} features that the "
                    f"index holds, got {np.shape(Q)[1]}: it learnt from further views; build its "
                    "own index (similia index ITEMS --model MODEL)."
                )
        return self._checked("Index.search", "queries", _one_matrix(Q))

    def _checked(self, owner: str, name: str, X: ArrayLike | Matrix) -> Matrix:
        allow_sparse = self.backend.sparse
        return checked_vectors(owner, name, X, self.dtype, self.n_features, allow_sparse)

    def is_stale(self, model: LearntRanker) -> bool:
        """Whether `model` has changed in a way that the items in the index do not reflect."""
        return self.frozen is not None and self.frozen.is_stale(model)

    # -- adding --------------------------------------------------------------------------------

    def add(
        self,
        Z: ArrayLike | Side,
        ids: ArrayLike | None = None,
        *,
        model: Searchable | None = None,
        measure: bool = True,
    ) -> BuildReport:
        """Add items and return the new `report`; an error leaves the index unchanged.

        Parameters
        ----------
        Z : array of shape (n_items, n_features)
            Untransformed item vectors; an index of sparse items also takes CSR matrices.
        ids : array of shape (n_items,), optional
            Integers or strings, like those of the index; consecutive numbers if None.
        model : learner, optional
            Needed only for Views, or if the index cannot keep the metric itself (`KernelPOLA`).
        measure : bool
            Whether to measure recall again, over all items.
        """
        if isinstance(Z, Views):
            Z = _vectors_of_views("Index.add", Z, model)
        elif self.frozen is not None:
            with one_state(model):
                Z = self.frozen.vectors("Index.add", Z, model, items=True)
        vectors = self._checked("Index.add", "items", Z)
        names = joined_ids("Index.add", self.ids, ids, vectors.shape[0])
        with held_signals():
            self._extend(vectors, names, measure=measure)
        return self.report

    def _extend(
        self,
        vectors: Matrix,
        ids: Array,
        asked: tuple[Matrix, Indices | None] | None = None,
        measure: bool = True,
    ) -> None:
        """Add checked vectors and report; measure recall with `asked`, or with some items."""
        start = time.perf_counter()
        self.backend.add(vectors)
        seconds = time.perf_counter() - start
        self.ids = ids
        k, recall, n_queries = min(self._recall_at, len(self)), None, 0
        if self.backend.exact:
            recall = 1.0
        elif measure:
            if asked is None:
                own = sampled_rows(len(self))
                asked = (self.backend.vectors()[own].astype(self.dtype, copy=False), own)
            recall = measured_recall(self.backend, self.geometry, *asked, k)
            n_queries = asked[0].shape[0]
        size = (len(self), self.n_features)
        self.report = BuildReport(self.name, self.geometry, *size, k, recall, n_queries, seconds)

    # -- saving --------------------------------------------------------------------------------

    def save(self, path: PathLike) -> None:
        """Write the index to one file, whole or not at all; `open_index` reads it."""
        metric = None if self.frozen is None else vars(self.frozen)
        parameters = {"backend": self.name, **self.space._asdict(), "dtype": self.dtype.name}
        parameters["options"] = dict(self.backend.options)
        attributes = {
            "items": self.backend.tensors(),
            "ids": stored_ids(self.ids),
            "report": self.report.to_dict(),
            "metric": metric and {name: metric[name] for name in FROZEN_FIELDS},
        }
        saving.write(path, "Index", parameters, attributes)


def build_index(
    Z: ArrayLike | Side,
    model: Searchable | None = None,
    *,
    backend: str = "exact",
    geometry: str | None = None,
    ids: ArrayLike | None = None,
    queries: ArrayLike | Side | None = None,
    recall_at: int = 10,
    **options: Any,
) -> Index:
    """Build an index of items, and measure its recall against exact search for its `report`.

    Parameters
    ----------
    Z : array or CSR matrix of shape (n_items, n_features), or Views
        Item vectors. They are copied, except that exact search leaves an array that is mapped from
        a file (`numpy.load` with ``mmap_mode="r"``) where it is. Sparse items are searched exactly,
        by inner products. Of dense and sparse views, a library searches the dense ones, and
        the best ``candidates`` (an option, 500) are re-ranked by all.
    model : learner, optional
        Required for Views, whose order it knows, and for a metric, which transforms the items.
        Optional for a bilinear learner, which leaves the items as they are: pass it to
        `Index.search`.
    backend : {"exact", "faiss", "usearch", "hnswlib"}
        Library that searches. All but "exact" are approximate, in single precision, and extras to
        install.
    geometry : {"inner_product", "l2"}, optional
        Geometry to search by without a model; an inner product by default.
    ids : array of shape (n_items,), optional
        Distinct integers or strings; row numbers if None.
    queries : array of shape (n_queries, n_query_features), optional
        Queries to measure recall with, not yet transformed; by default some of the items.
    recall_at : int
        Number of best items that recall is measured on.
    **options
        Options of the backend, such as ``ef_search=128``; see its module.

    Examples
    --------
    >>> import numpy as np
    >>> from similia.index import build_index
    >>> index = build_index(np.eye(3), ids=["x", "y", "z"])
    >>> index.search(np.array([0.1, 0.7, 0.2]), k=2).ids.tolist()
    ['y', 'z']
    """
    rules = {"geometry": none | known_geometry, "recall_at": positive_integer}
    check_parameters("build_index", rules, {"geometry": geometry, "recall_at": recall_at})
    kind = _geometry(model, geometry)
    views = Z if isinstance(Z, Views) else None
    if isinstance(Z, Views):
        Z = _vectors_of_views("build_index", Z, model)
    implementation = backend_class("build_index", backend, sparse_items=is_sparse(Z))
    if is_sparse(Z) and kind == "l2":
        raise ValueError(
            "build_index: items must be a dense array to search by squared distances, "
            "got a sparse matrix."
        )
    given = Z if is_sparse(Z) else np.asanyarray(Z)
    dtype = np.dtype(np.float64 if backend == "exact" and given.dtype != np.float32 else np.float32)
    given = checked_vectors("build_index", "items", given, dtype)
    if given.shape[0] == 0:
        raise ValueError("build_index: items must not be empty.")
    with one_state(model):
        vectors, frozen = given, None
        if model is not None and views is None:
            # A learner that leaves the items as they are still checks them.
            vectors = model.item_vectors(given)
            if kind == "l2":
                if not is_learnt(model):
                    raise ValueError(
                        "build_index: model must be a learner with a state if it moves the items, "
                        f"got {type(model).__name__}."
                    )
                frozen = FrozenMetric.of(model, given, vectors)
            vectors = checked_vectors("build_index", "items", vectors, dtype)
        space = Space(vectors.shape[1], kind, dtype)
        index = Index(backend, implementation(space, **options), space, frozen)
        index._recall_at = recall_at
        names = joined_ids("build_index", index.ids, ids, vectors.shape[0])
        own: Indices | None = None if queries is not None else sampled_rows(len(names))
        state = model.get_state() if model is not None and is_learnt(model) else {}
        width = state.get("n_features_in_", given.shape[1])
        if own is not None and views is None and width != given.shape[1]:
            asked = vectors[own]  # queries have other features than items
        else:
            if queries is None:
                queries = (given if views is None else views)[sampled_rows(len(names))]
            asked = index.query_vectors(queries, model=model)
    index._extend(vectors, names, (asked, own))
    return index


def _vectors_of_views(owner: str, Z: Views, model: Searchable | None) -> Matrix:
    if model is None:
        raise ValueError(f"{owner}: model must be given for several views, got None.")
    return model.item_vectors(Z)


def _one_matrix(X: ArrayLike | Side) -> ArrayLike | Matrix:
    """X itself, unless it is several views that no model has joined."""
    return np.asarray(X) if isinstance(X, Views) else X


def _geometry(model: Searchable | None, geometry: str | None) -> Geometry:
    if model is None:
        return "l2" if geometry == "l2" else "inner_product"
    check_model("build_index", model)
    if geometry not in (None, model.geometry):
        raise ValueError(
            f"build_index: geometry must be that of the model, {model.geometry!r}, "
            f"got {geometry!r}."
        )
    return model.geometry


def open_index(path: PathLike) -> Index:
    """Open a saved index; all checksums are compared before anything is used.

    Graphs are built again from the vectors, which takes as long as the first time: no bytes of a
    library are read from a file.

    Raises ModelFileError if the file is damaged, foreign, or of a newer format, and
    MissingExtraError without the library that the index was built with.

    Parameters
    ----------
    path : path
        A file written by `Index.save`.
    """
    document = reading.read_document_of(path, "Index", "index")
    backend = document["parameters"].get("backend")
    if backend not in BACKENDS:
        raise ModelFileError(
            f"{path} was built with {backend!r:.80}, which is none of {', '.join(BACKENDS)}; "
            "upgrade similia if a newer version has it."
        )
    backend_class("open_index", backend)  # a missing library is not the fault of the file
    return reading.rebuilt(path, document, _index)


def _index(parameters: dict[str, Any], attributes: State) -> Index:
    name, geometry, dtype = (parameters[key] for key in ("backend", "geometry", "dtype"))
    if not known_geometry.holds(geometry) or dtype not in ("float32", "float64"):
        raise ValueError("the geometry or the precision is unknown")
    space = Space(parameters["n_features"], geometry, np.dtype(dtype))
    items = attributes["items"]
    holds_sparse = set(items) == set(CSR_ARRAYS)
    if not holds_sparse:
        check_saved(space, items)
    elif not 0 < space.n_features <= MAX_SPARSE_FEATURES + 16 * items["indices"].nbytes:
        raise ValueError(f"there are few entries for {space.n_features} features")
    implementation = backend_class("open_index", name, sparse_items=holds_sparse)
    backend = implementation(space, **parameters["options"])
    backend.restore(items)
    index = Index(name, backend, space)
    index.ids = restored_ids(attributes["ids"])
    refuse_repeats("ids", index.ids)
    if len(index.ids) != len(backend):
        raise ValueError(f"there are {len(index.ids)} ids for {len(backend)} items")
    index.report = BuildReport(**attributes["report"])
    expected = (name, geometry, len(backend), space.n_features)
    check_report(index.report, expected)
    index._recall_at = index.report.k
    if attributes["metric"] is not None:
        index.frozen = FrozenMetric(**{name: attributes["metric"][name] for name in FROZEN_FIELDS})
        index.frozen.check(space.n_features)
    return index
