"""Constraints tr(WC) ≤ shift for general matrices."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg, sparse

from similia.constraints.base import Constraints, Selection, per_constraint
from similia.contract import Array, Matrix
from similia.linalg.blocks import dense

#: departure from Hermitian symmetry that counts as rounding, relative to the largest entry
ROUNDING = 1e-10


class MatrixConstraints(Constraints):
    """Constraints tr(W C_j) ≤ shift_j for symmetric or Hermitian matrices, dense or sparse.

    Parameters
    ----------
    matrices : array of shape (n_constraints, n_features, n_features), or sequence of matrices
        The C_j. If any matrix of a sequence is sparse, all are stored sparse.
    shifts : number or array of shape (n_constraints,)
        The bounds.

    Notes
    -----
    A matrix that is not symmetric is refused: for symmetric W, tr(WC) = tr(W (C + Cᵀ)/2), so pass
    (C + Cᵀ)/2 instead.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import MatrixConstraints
    >>> MatrixConstraints([np.diag([1.0, -1.0]), np.eye(2)], [0.0, 0.5]).values(np.eye(2) / 2)
    array([0. , 0.5])
    """

    def __init__(
        self, matrices: Iterable[ArrayLike | sparse.sparray], shifts: ArrayLike = 0.0
    ) -> None:
        owner = "MatrixConstraints"
        each = [_checked(owner, j, C) for j, C in enumerate(matrices)]
        if not each:
            raise ValueError(f"{owner}: matrices must be at least one, got none.")
        shapes = {C.shape for C in each}
        if len(shapes) > 1:
            raise ValueError(f"{owner}: matrices must be of one shape, got {sorted(shapes)}.")
        self.n_features = each[0].shape[0]
        self.dtype = np.result_type(np.float64, *(C.dtype for C in each))
        self.shifts = per_constraint(owner, "shifts", shifts, len(each))
        extremes = np.array([_extreme_eigenvalues(C) for C in each])
        self._lowest, self._highest = extremes[:, 0].copy(), extremes[:, 1].copy()
        self._flat = _stacked([C.reshape(1, -1) for C in each])

    def _concatenate(self, sets: Sequence[Any]) -> None:
        super()._concatenate(sets)
        self._flat = _stacked([one._flat for one in sets])

    def _values(self, W: Array, which: Selection) -> Array:
        # tr(WC) = Σ W_ab C_ba = Σ W_ab conj(C_ab).
        return np.asarray((self._flat[which].conj() @ np.asarray(W).ravel()).real)

    def _combination(self, weights: Array) -> Array:
        M = np.asarray(self._flat.T @ weights).reshape(self.n_features, self.n_features)
        return 0.5 * (M + M.conj().T)

    def matrix(self, j: int) -> Array:
        """C_j, dense."""
        C = np.array(dense(self._flat[[j]])).reshape(self.n_features, -1)
        C[np.diag_indices_from(C)] -= self.shifts[j]
        return C


def _checked(owner: str, j: int, given: ArrayLike | sparse.sparray) -> Matrix:
    C = sparse.csr_array(given) if sparse.issparse(given) else np.asarray(given)
    if C.ndim != 2 or C.shape[0] != C.shape[1] or C.shape[0] < 1 or C.dtype.kind not in "fiuc":
        raise ValueError(
            f"{owner}: matrices must be square arrays of numbers, "
            f"got shape {C.shape} and dtype {C.dtype} for number {j}."
        )
    entries = C.data if sparse.issparse(C) else C
    if not np.isfinite(entries).all():
        raise ValueError(
            f"{owner}: matrices must be finite, but there is NaN or infinity in number {j}."
        )
    gap = abs(C - C.conj().T)
    if gap.max() > ROUNDING * max(abs(C).max(), np.finfo(float).tiny):
        raise ValueError(
            f"{owner}: matrices must be symmetric or Hermitian, but number {j} is not; "
            "pass (C + Cᵀ)/2, which has the same tr(WC)."
        )
    return C


def _extreme_eigenvalues(C: Matrix) -> tuple[float, float]:
    """Least and greatest eigenvalue; of a sparse matrix, from its nonempty rows."""
    outside = False
    if sparse.issparse(C):
        rows = np.unique(C.nonzero()[0])
        outside = len(rows) < C.shape[0]
        C = C[rows][:, rows].toarray()
    values = linalg.eigvalsh(C) if C.size else np.zeros(1)
    low, high = float(values[0]), float(values[-1])
    return (min(low, 0.0), max(high, 0.0)) if outside else (low, high)


def _stacked(rows: Sequence[Matrix]) -> Matrix:
    """Rows as one matrix of at least double precision, sparse if any of them is."""
    if any(sparse.issparse(part) for part in rows):
        both = sparse.csr_array(sparse.vstack([sparse.csr_array(part) for part in rows]))
    else:
        both = np.concatenate(rows)
    return both.astype(np.result_type(np.float64, both.dtype), copy=False)
