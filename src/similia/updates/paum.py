"""PAUM: the Perceptron with a margin for each class [Li2002]."""

import numpy as np
from scipy import sparse

from similia.linalg.compiled import compiled


def paum_pass(w, moment, t, X, moves, signs, eta, taus):
    """Learn a block of rows X with labels `signs` in {+1, -1}; count the steps.

    An example x with taus = (tau_positive, tau_negative) and

        y xᵀw <= tau_y   moves   w += eta y x̃                                [Li2002, Algorithm 1]

    where x̃, its row of `moves`, is x itself, but for an intercept: that has 1 as the last entry of
    x and R² as the last entry of x̃ (see `with_squared_radius`). `moment` gathers Σ_t t Δw_t if it
    has a size. Cost: four operations for each non-zero entry.
    """
    if sparse.issparse(X):
        rows = (X.indptr, X.indices, X.data, moves.data)
        return _paum_sparse(w, moment, t, rows, signs, eta, taus)
    return _paum_dense(w, moment, t, X, moves, signs, eta, taus)


@compiled
def _paum_dense(w, moment, t, X, moves, signs, eta, taus):
    real = w.dtype.type
    steps = 0
    for i in range(len(signs)):
        score = real(0)
        for k in range(len(w)):
            score += w[k] * X[i, k]
        if signs[i] * score > (taus[0] if signs[i] > 0 else taus[1]):
            continue
        steps += 1
        step, time = real(eta * signs[i]), real(t + i + 1)
        for k in range(len(w)):
            w[k] += step * moves[i, k]
        if moment.size:
            for k in range(len(w)):
                moment[k] += time * (step * moves[i, k])
    return steps


@compiled
def _paum_sparse(w, moment, t, rows, signs, eta, taus):
    real = w.dtype.type
    ptr, index, value, move = rows
    steps = 0
    for i in range(len(signs)):
        score = real(0)
        for a in range(ptr[i], ptr[i + 1]):
            score += w[index[a]] * value[a]
        if signs[i] * score > (taus[0] if signs[i] > 0 else taus[1]):
            continue
        steps += 1
        step, time = real(eta * signs[i]), real(t + i + 1)
        for a in range(ptr[i], ptr[i + 1]):
            w[index[a]] += step * move[a]
            if moment.size:
                moment[index[a]] += time * (step * move[a])
    return steps


def largest_squares(X, before):
    """Give max(before, |x_1|², …, |x_i|²) for each row x_i, whose last entry, 1, is not counted."""
    values = (X.data if sparse.issparse(X) else X).astype(np.float64) ** 2
    if sparse.issparse(X):
        values[_last_entries(X)] = 0.0
        squares = np.add.reduceat(values, X.indptr[:-1])
    else:
        squares = values[:, :-1].sum(axis=1)
    return np.maximum.accumulate(np.maximum(squares, before))


def with_squared_radius(X, R2):
    """Give X with R2, one number for each row, in place of its last column of ones."""
    moves = X.copy()
    if sparse.issparse(X):
        moves.data[_last_entries(X)] = R2
    else:
        moves[:, -1] = R2
    return moves


def _last_entries(X):
    """Give the places of the last column, which has an entry, the last one, in every row."""
    return X.indptr[1:] - 1
