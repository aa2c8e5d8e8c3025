"""Documents that are kept, and how far a new one is from each of them."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from similia.linalg.bilinear import quadratic_forms
from similia.linalg.rows import RowStore, row_of

Array = NDArray[Any]


def _has_plain_matrix(learner: Any, n_features: int) -> bool:
    """Whether the learner's distance is (x-z)ᵀA(x-z) with its `A_`, or the average of it."""
    special = any(getattr(learner, name, None) is not None for name in ("kernel", "n_components"))
    A: Any = getattr(learner, "A_", None)
    return not special and np.shape(A) == (n_features, n_features)


class KeptDocuments(RowStore):
    """Documents z with their squared distances to a new one under a learner.

    For a learner of (x-z)ᵀA(x-z), that is xᵀAx - 2zᵀAx + zᵀAz, of which zᵀAz is kept for as long
    as the learner does not change. Others are asked for their `pairwise_score`.
    """

    def __init__(self, like: Any) -> None:
        """Start without documents, in the form of the rows `like`."""
        super().__init__(like)
        self._A: Any = None
        self._version: tuple[Any, ...] = ()
        self._own = np.empty(0)  # zᵀAz of the first documents kept

    def remove_first(self) -> None:
        """Take the oldest document away."""
        super().remove_first()
        self._own = self._own[1:]

    def squared_distances(self, learner: Any, X: Any, i: int) -> Array:
        """Give the squared distance of row i of X to each document."""
        Z = self.rows
        if not _has_plain_matrix(learner, Z.shape[1]):
            return np.asarray(-learner.pairwise_score(X[i : i + 1], Z)[0])
        self._look_at(learner)
        if len(self._own) < len(self):
            new = Z[len(self._own) :].astype(self._A.dtype, copy=False)
            self._own = np.concatenate([self._own, quadratic_forms(self._A, new)])
        x = row_of(X, i)
        Ax = x.values @ self._A[x.places]
        return np.maximum(Ax[x.places] @ x.values - 2 * (Z @ Ax) + self._own, 0.0)

    def _look_at(self, learner: Any) -> None:
        """Take the learner's matrix, unless it is the one that was taken last."""
        # The same array, changed in place, is known by the count of its updates; an average moves
        # with every pair.
        average = getattr(learner, "average", False)
        seen = learner.n_seen_ if average else None
        version = (learner.A_, learner.n_updates_, seen)
        known = self._version
        if known and known[0] is version[0] and known[1:] == version[1:]:
            return
        self._version = version
        self._A = learner.A_average_ if average else learner.A_
        self._own = np.empty(0, dtype=self._A.dtype)
