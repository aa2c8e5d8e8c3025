"""MEG on instances of any rank, dense or sparse: the same step as `updates.meg`, one at a time."""

import numpy as np
from scipy import linalg, sparse

from similia.linalg.eigen_update import eigen_workspace, real_components, update_eigenpairs
from similia.linalg.spectral import from_eigenpairs, hermitian_part, null_threshold
from similia.updates.meg import add_products, matrix_weights, recenter, step_size

#: rank of an instance above which a new eigendecomposition is cheaper than following it
LOW_RANK = 6


def meg_matrix_pass(values, rows, total, instances, targets, setting):
    """Learn from square matrices X, each with ŷ = s tr(WX); else as `updates.meg.meg_pass`.

        G <- G - 2η(ŷ - y) s sym(X)                                        [Tsuda2005, Algorithm 1]

    Only the rows and columns in which an instance has entries are looked at. A low rank is followed
    by rank-one steps, a high one by a new eigendecomposition.
    """
    updates, loss, largest = 0, 0.0, 0.0
    work, memory = eigen_workspace(rows), np.empty((2, len(values)))
    vectors = rows.view(np.complex128) if rows.shape[1] > len(rows) else rows
    for X, (low, high) in zip(instances, targets, strict=True):
        support, x, U = _eigenpairs(X)
        # Rows of eigenvectors of G in those of X: tr(WX) is a sum over both.
        overlap = np.abs(vectors[:, support].conj() @ U) ** 2
        matrix_weights(values, setting, memory)
        parts = memory[1] @ overlap
        predicted = setting.trace * float(parts @ x)
        error = predicted - min(max(predicted, low), high)
        spread = setting.trace * float(max(x.max(initial=0.0), 0.0) - min(x.min(initial=0.0), 0.0))
        loss, largest = loss + error**2, max(largest, spread)
        if error != 0.0 and spread > 0.0:
            eta = step_size(
                setting, spread, setting.trace * float(parts @ np.abs(x)), predicted - error
            )
            _move(values, vectors, -2.0 * eta * error * setting.trace * x, support, U, work)
            recenter(values, setting)
            updates += 1
        if total.size:
            matrix_weights(values, setting, memory)
            add_products(rows, memory, 1, total, work)
    return updates, loss, largest


def _eigenpairs(X):
    """Give the places where sym(X) has entries, and there its eigenvalues that are not zero."""
    X = hermitian_part(X)
    if sparse.issparse(X):
        support = np.unique(sparse.coo_array(X).coords[0])
        X = X.tocsr()[support][:, support].toarray()
    else:
        support = np.flatnonzero(X.any(axis=1))
        X = X[np.ix_(support, support)]
    if len(support) == 0:
        return support, np.empty(0), X
    x, U = linalg.eigh(X)
    kept = np.abs(x) > null_threshold(x)
    return support, x[kept], U[:, kept]


def _move(values, vectors, x, support, U, work):
    """Add Σ_k x_k u_k u_kᴴ to the matrix whose eigenpairs these are, in place."""
    n = len(values)
    if len(x) > LOW_RANK:
        G = from_eigenpairs(values, vectors.T)
        G[np.ix_(support, support)] += (U * x) @ U.conj().T
        values[:], columns = linalg.eigh(G)
        vectors[:] = columns.T
        return
    for rho, u in zip(x, U.T, strict=True):
        whole = np.zeros(n, vectors.dtype)
        whole[support] = u
        z = real_components(vectors, whole)
        update_eigenpairs(values, vectors.view(np.float64), z, rho, work)
