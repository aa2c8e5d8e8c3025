"""From a learner to the query vectors of an index: at once after learning, and only as often."""

import hashlib
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from similia.contract import Array
from similia.index.backends import GEOMETRIES

_CONTRACT = ("query_vectors", "item_vectors", "geometry")


def check_model(owner: str, model: Any) -> None:
    """Refuse what cannot say its vectors."""
    missing = [name for name in _CONTRACT if not hasattr(model, name)]
    if missing:
        raise ValueError(
            f"{owner}: model must have query_vectors, item_vectors and geometry, "
            f"got {type(model).__name__} without {missing[0]}; an index holds finite vectors of "
            "similarities and distances only."
        )
    if model.geometry not in GEOMETRIES:
        raise ValueError(
            f"{owner}: model.geometry must be one of {', '.join(GEOMETRIES)}, "
            f"got {model.geometry!r}."
        )


def fingerprint(model: Any) -> str:
    """Give the SHA-256 of what a learner has learnt: the same before saving and after loading."""
    sha = hashlib.sha256(type(model).__name__.encode())
    for name, value in sorted(model.get_state().items()):
        array = np.asarray(value)
        text = array.dtype.kind in "OU"
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(repr(array.tolist()).encode() if text else array.tobytes())
    return sha.hexdigest()


class _Kept(NamedTuple):
    revision: Any
    matrix: Array | None


class QueryMap:
    """Query vectors of learners whose query matrix is made once for each of their revisions.

    With averaging, or for a metric, the matrix costs far more than the product with it. So it is
    kept until the learner's revision is another one.
    """

    def __init__(self) -> None:
        self._kept: WeakKeyDictionary[Any, _Kept] = WeakKeyDictionary()

    def __call__(self, model: Any, Q: Any) -> Array:
        """Give the query vectors that `model` has for Q now."""
        if type(Q) is not np.ndarray or not hasattr(model, "query_matrix"):
            return np.asarray(model.query_vectors(Q))
        matrix = self.matrix(model)
        if matrix is None or Q.ndim != 2 or Q.dtype != matrix.dtype or Q.shape[1] != len(matrix):
            return np.asarray(model.query_vectors(Q))  # it converts, or says what is wrong
        return Q @ matrix

    def matrix(self, model: Any) -> Array | None:
        """Give the learner's query matrix as it is now; None if it has none."""
        revision, kept = model.revision(), self._kept.get(model)
        if kept is None or kept.revision != revision:
            kept = _Kept(revision, model.query_matrix())
            self._kept[model] = kept
        return kept.matrix
