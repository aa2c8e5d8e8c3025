"""Constraints tr(WC) ≤ shift for general matrices."""

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse

from similia.constraints.base import Constraints
from similia.constraints.checks import per_constraint
from similia.contract import Array

#: departure from being Hermitian that counts as rounding, relative to the largest entry
ROUNDING = 1e-10


class MatrixConstraints(Constraints):
    """Constraints tr(W C_j) ≤ shift_j for symmetric or Hermitian matrices, dense or sparse.

    Parameters
    ----------
    matrices : array of shape (n_constraints, n_features, n_features), or sequence of matrices
        The C_j. If any of a sequence is a scipy sparse matrix, all are kept sparse.
    shifts : number or array of shape (n_constraints,)
        The bounds.

    Notes
    -----
    A matrix that is not symmetric is refused: for symmetric W, tr(WC) = tr(W (C + Cᵀ)/2), so give
    (C + Cᵀ)/2 instead.

    Examples
    --------
    >>> import numpy as np
    >>> from similia import MatrixConstraints
    >>> MatrixConstraints([np.diag([1.0, -1.0]), np.eye(2)], [0.0, 0.5]).values(np.eye(2) / 2)
    array([0. , 0.5])
    """

    def __init__(self, matrices: Any, shifts: Any = 0.0) -> None:
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
        self._flat = _flattened(each, self.dtype)

    @classmethod
    def joined(cls, sets: Sequence["MatrixConstraints"]) -> Self:
        """Give the constraints of all these sets as one, without checking them again."""
        whole = cls.__new__(cls)
        whole.n_features = sets[0].n_features
        whole.dtype = np.result_type(*(one.dtype for one in sets))
        for name in ("shifts", "_lowest", "_highest"):
            setattr(whole, name, np.concatenate([getattr(one, name) for one in sets]))
        rows = [one._flat for one in sets]
        thin = any(sparse.issparse(part) for part in rows)
        whole._flat = sparse.csr_array(sparse.vstack(rows)) if thin else np.concatenate(rows)
        return whole

    def _values(self, W: Array, which: Any) -> Array:
        # tr(WC) = Σ W_ab C_ba = Σ W_ab conj(C_ab).
        return np.asarray((self._flat[which].conj() @ np.asarray(W).ravel()).real)

    def _combination(self, weights: Array) -> Array:
        M = np.asarray(self._flat.T @ weights).reshape(self.n_features, self.n_features)
        return 0.5 * (M + M.conj().T)

    def matrix(self, j: int) -> Array:
        """Give C_j, dense."""
        row = self._flat[[j]]
        C = (row.toarray() if sparse.issparse(row) else row).reshape(self.n_features, -1).copy()
        C[np.diag_indices_from(C)] -= self.shifts[j]
        return C


def _checked(owner: str, j: int, C: Any) -> Any:
    C = sparse.csr_array(C) if sparse.issparse(C) else np.asarray(C)
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
            "give (C + Cᵀ)/2, which has the same tr(WC)."
        )
    return C


def _extreme_eigenvalues(C: Any) -> tuple[float, float]:
    """Least and greatest eigenvalue; of a sparse matrix from the rows that are not empty."""
    outside = False
    if sparse.issparse(C):
        rows = np.unique(C.nonzero()[0])
        outside = len(rows) < C.shape[0]
        C = C[rows][:, rows].toarray()
    values = linalg.eigvalsh(C) if C.size else np.zeros(1)
    low, high = float(values[0]), float(values[-1])
    return (min(low, 0.0), max(high, 0.0)) if outside else (low, high)


def _flattened(each: Sequence[Any], dtype: Any) -> Any:
    if any(sparse.issparse(C) for C in each):
        rows = [sparse.coo_array(C).reshape(1, -1) for C in each]
        return sparse.csr_array(sparse.vstack(rows), dtype=dtype)
    return np.stack([C.ravel() for C in each]).astype(dtype)
