"""The metric that an index was built with: its items lie where that metric put them."""

from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np

from similia.contract import Array
from similia.exceptions import StaleIndexError
from similia.index.queries import check_model, fingerprint

#: largest difference, relative to the largest entry, that rounding makes in a vector
ROUNDING = 1e-3


@dataclass
class FrozenMetric:
    """A metric as it was at the build: what maps queries, and what tells whether it has changed.

    Attributes
    ----------
    name : str
        Class of the learner.
    fingerprint : str
        SHA-256 of its state.
    matrix : array of shape (n_features, n_vector_features) or None
        What queries are multiplied with; None where vectors are more than a product, so that the
        learner itself is needed for every search.
    probe, image : arrays of shape (1, n_features), (1, n_vector_features)
        One item and its vector: factors of one metric may differ by a rotation, and then do not
        belong to the same index.
    """

    name: str
    fingerprint: str
    matrix: Array | None
    probe: Array
    image: Array
    _seen: tuple[Any, Any] | None = None  # a weak reference to the learner, and its revision

    @classmethod
    def of(cls, model: Any, Z: Array, vectors: Array) -> "FrozenMetric":
        """Freeze the metric that gives Z these vectors."""
        frozen = cls(
            name=type(model).__name__,
            fingerprint=fingerprint(model),
            matrix=model.query_matrix(),
            probe=np.array(Z[:1]),
            image=np.array(vectors[:1]),
        )
        frozen._remember(model)
        return frozen

    def _remember(self, model: Any) -> None:
        self._seen = (ref(model), model.revision())

    def is_stale(self, model: Any) -> bool:
        """Give whether `model` is another than it was when the index was built."""
        if self._seen is not None and self._seen[0]() is model:
            if self._seen[1] == model.revision():
                return False
        elif type(model).__name__ != self.name:
            return True
        if fingerprint(model) != self.fingerprint:
            return True
        self._remember(model)
        return False

    def check(self, owner: str, model: Any) -> None:
        """Raise StaleIndexError unless `model` is as it was."""
        check_model(owner, model)
        if self.is_stale(model):
            raise StaleIndexError(
                f"{owner}: model must be the {self.name} that the index was built with, as it was "
                "then, got another state; a metric moves the items, so build the index again."
            )

    def vectors(self, owner: str, X: Any, model: Any = None) -> Array:
        """Give the vectors of rows, queries or items, by the frozen metric."""
        if model is not None:
            self.check(owner, model)
        if self.matrix is not None:
            X = np.asarray(X)
            if X.ndim != 2 or X.shape[1] != len(self.matrix):
                raise ValueError(
                    f"{owner}: vectors must be of shape (n, {len(self.matrix)}), got {X.shape}."
                )
            return np.asarray(X @ self.matrix)
        if model is None:
            raise ValueError(
                f"{owner}: model must be given, as the vectors of a {self.name} are no product "
                "with a matrix that the index could keep, got None."
            )
        image = model.item_vectors(self.probe)
        if np.abs(image - self.image).max() > ROUNDING * max(np.abs(self.image).max(), 1e-30):
            raise StaleIndexError(
                f"{owner}: model must give items the vectors that are in the index, got others; "
                "build the index again on this machine."
            )
        return np.asarray(model.query_vectors(X))
