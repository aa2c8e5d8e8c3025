"""AROW: a Gaussian over a weight vector [Crammer2009].

The diagonal form is `updates.aroma.diagonal_pass` on a matrix of one row; this is the full one.
"""

import numpy as np

from similia.linalg.blas import products
from similia.linalg.downdates import downdate

from cython cimport floating
from similia.linalg.downdates cimport eliminate


def arow_pass(w, Sigma, moment, t, X, signs, r):
    """Learn a block of rows X with labels `signs` in {+1, -1}; return the number of updates.

    Whenever y xᵀw < 1, with v = xᵀΣx:

        w += (1 - y xᵀw)/(r+v) y Σx,    Σ -= Σx xᵀΣ/(r+v)                       [Crammer2009, 4]

    `moment`, unless empty, gathers Σ_t t Δw_t. Cost: 4 d² flops a row, in matrix products.
    """
    (XS,) = products((X, Sigma))
    (H,) = products((XS, X.T))
    steps = np.zeros((2, len(signs)), dtype=w.dtype)
    _arow_walk(H, np.asarray(X @ w), np.asarray(signs, np.float64), r, steps)
    rows = np.flatnonzero(steps[0])
    if len(rows):
        alpha, c = steps[:, rows]
        moved = XS[rows]
        downdate(Sigma, moved, H[rows], c, rows)
        w += alpha @ moved
        if moment.size:
            moment += (alpha * (t + 1 + rows)).astype(w.dtype) @ moved
    return len(rows)


def _arow_walk(
    floating[:, ::1] H,
    floating[::1] scores,
    const double[:] signs,
    double r,
    floating[:, ::1] steps,
):
    cdef floating[::1] alpha = steps[0], c = steps[1]
    cdef Py_ssize_t t, u
    cdef double margin, v
    with nogil:
        for t in range(scores.shape[0]):
            margin = signs[t] * scores[t]
            if margin < 1.0:
                eliminate[floating](H, c, t, t, t)
                # Only rounding can make a tiny variance negative.
                v = max(H[t, t], 0.0)
                if v > 0.0:
                    alpha[t] = <floating>(signs[t] * (1.0 - margin) / (r + v))
                    c[t] = <floating>(1.0 / (r + v))
                    for u in range(t + 1, scores.shape[0]):
                        scores[u] += alpha[t] * H[t, u]
