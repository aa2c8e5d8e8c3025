"""Query vectors of a model: from a cached matrix, or by the metric that built the index."""

import hashlib
from dataclasses import dataclass
from typing import TypeGuard
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike

from similia.contract import Array, LearntRanker, Matrix, Searchable, Side
from similia.exceptions import StaleIndexError
from similia.retrieval.vectors import geometry
from similia.safety.bounds import check_numeric
from similia.safety.turns import of_one_state
from similia.validation import check_parameters

#: largest difference caused by rounding, relative to the largest entry of a vector
IMAGE_ROUNDING = 1e-3

#: whether each class of models seen so far is a `LearntRanker`; asking a protocol takes 50 µs
_learns: dict[type, bool] = {}
#: query matrices of learners, with the revisions that they belong to
_matrices: WeakKeyDictionary[LearntRanker, tuple[object, Array | None]] = WeakKeyDictionary()


def check_model(owner: str, model: Searchable) -> None:
    """Refuse a model without vectors, or of an unknown geometry."""
    if type(model) not in _learns:
        if not isinstance(model, Searchable):
            raise ValueError(
                f"{owner}: model must have query_vectors, item_vectors and geometry, got "
                f"{type(model).__name__}; an index holds finite vectors of similarities and "
                "distances only."
            )
        _learns[type(model)] = isinstance(model, LearntRanker)
    if not geometry.holds(model.geometry):
        check_parameters(owner, {"model.geometry": geometry}, {"model.geometry": model.geometry})


def is_learnt(model: Searchable) -> TypeGuard[LearntRanker]:
    """Whether a checked model is a learner, with a revision and perhaps a query matrix."""
    return _learns[type(model)]


def fingerprint(model: LearntRanker) -> str:
    """SHA-256 of the state of a learner: the same before saving and after loading."""
    sha = hashlib.sha256(type(model).__name__.encode())
    for name, value in sorted(model.get_state().items()):
        array = np.asarray(value)
        text = array.dtype.kind in "OU"
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(repr(array.tolist()).encode() if text else array.tobytes())
    return sha.hexdigest()


@of_one_state
def query_vectors(model: Searchable, Q: ArrayLike | Side) -> Matrix:
    """Vectors of Q by the current state of a checked model.

    The query matrix of a learner is computed once per revision: with averaging, or for a metric, it
    costs far more than the product with it.
    """
    if type(Q) is np.ndarray and Q.ndim == 2 and is_learnt(model):
        revision, kept = model.revision(), _matrices.get(model)
        if kept is None or kept[0] != revision:
            kept = _matrices[model] = (revision, model.query_matrix())
        matrix = kept[1]
        if matrix is not None and Q.dtype == matrix.dtype and Q.shape[1] == len(matrix):
            return Q @ matrix
    return model.query_vectors(Q)  # which converts, or says what is wrong


@dataclass
class FrozenMetric:
    """The metric that built an index: it maps queries, and detects later changes of a learner."""

    name: str  # class of the learner
    fingerprint: str  # of its state
    matrix: Array | None  # maps queries; None if no matrix does, so that a search needs the learner
    #: one item and its vector, as (1, n) each: factors of one metric may differ by a rotation, and
    #: then do not belong to the same index
    probe: Array
    image: Array
    _seen: tuple[ref[LearntRanker], object] | None = None  # an unchanged learner and its revision

    def check(self, n_features: int) -> None:
        """Refuse a metric from a file that does not map to vectors of `n_features`."""
        arrays = [self.image, self.probe, *([] if self.matrix is None else [self.matrix])]
        right = all(isinstance(A, np.ndarray) and A.ndim == 2 for A in arrays)
        right = right and all(A.dtype.kind == "f" and A.shape[1] > 0 for A in arrays)
        widths = {A.shape[1] for A in arrays if A is not self.probe} if right else set()
        if widths != {n_features} or not isinstance(self.name, str):
            raise ValueError("the metric does not fit the vectors")

    @classmethod
    def of(cls, model: LearntRanker, Z: Array, vectors: Array) -> "FrozenMetric":
        """Freeze the metric that maps Z to these vectors."""
        probe, image = np.array(Z[:1]), np.array(vectors[:1])
        name, seen = type(model).__name__, (ref(model), model.revision())
        return cls(name, fingerprint(model), model.query_matrix(), probe, image, seen)

    def is_stale(self, model: LearntRanker) -> bool:
        """Whether `model` differs from the metric that the index was built with."""
        if self._seen is not None and self._seen[0]() is model:
            if self._seen[1] == model.revision():
                return False
        elif type(model).__name__ != self.name:
            return True
        if fingerprint(model) != self.fingerprint:
            return True
        self._seen = (ref(model), model.revision())
        return False

    def vectors(
        self, owner: str, X: ArrayLike | Matrix, model: Searchable | None, *, items: bool = False
    ) -> Matrix:
        """Vectors of queries or items by the frozen metric; `model` must be that metric, if given.

        Raises StaleIndexError if `model` has changed since the build.
        """
        if model is not None:
            check_model(owner, model)
            if not is_learnt(model) or self.is_stale(model):
                raise StaleIndexError(
                    f"{owner}: model must be the {self.name} that the index was built with, in the "
                    "state that it had then; a metric moves the items, so build the index again."
                )
        if self.matrix is not None:
            check_numeric(owner, "vectors", X)
            X = np.asarray(X)
            if X.ndim != 2 or X.shape[1] != len(self.matrix):
                raise ValueError(
                    f"{owner}: vectors must be of shape (n, {len(self.matrix)}), got {X.shape}."
                )
            return np.asarray(X @ self.matrix)
        if model is None:
            raise ValueError(
                f"{owner}: model must be given, because no matrix maps vectors as {self.name} "
                "does, got None."
            )
        image = model.item_vectors(self.probe)
        if np.abs(image - self.image).max() > IMAGE_ROUNDING * max(np.abs(self.image).max(), 1e-30):
            raise StaleIndexError(
                f"{owner}: model must give items the vectors that the index holds; build the index "
                "again on this machine."
            )
        return model.item_vectors(X) if items else model.query_vectors(X)
