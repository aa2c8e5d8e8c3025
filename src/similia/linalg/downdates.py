"""Sequences of rank-one downdates of a symmetric matrix, carried out in blocks.

Second-order online learners change a symmetric matrix A by

    A_t = A_{t-1} - c_t (A_{t-1} z_t)(A_{t-1} z_t)ᵀ,

where c_t depends on z_tᵀ A_{t-1} z_t. Done one at a time this is bound by memory. For a block of
rows Z, everything that the *decisions* need are the numbers

    H[j, t] = z_jᵀ A_{j-1} z_t   (j ≤ t),

which follow from H = Z A_0 Zᵀ by symmetric elimination:

    H[j, t] <- H[j, t] - Σ_{i<j} c_i H[i, j] H[i, t].

The block is walked in order on these numbers alone, and A is changed once, by a matrix product.
The states at the end of a block are those of the one-at-a-time form, up to rounding.
"""

import numpy as np

from similia.linalg.bound import add_square, gemm, solve_unit_lower
from similia.linalg.compiled import compiled, overwrite


@compiled
def eliminate_row(H, c, t):
    """Turn row t of Z A_0 Zᵀ into z_tᵀ A_{t-1} z_u for u ≥ t, given the rows and c before t."""
    eliminate_some_row(H, c, t, t, t)


@compiled
def eliminate_some_row(H, c, k, row, column):
    """Do the same where H has rows for some of Z only: `row` is that of z_column.

    The k rows done before are the first of H, and the new one is put behind them (k ≤ row).
    """
    done = H[row, column:].copy()
    # Four rows at a time: a quarter of the traffic of one at a time.
    for i in range(0, k - 3, 4):
        p, q, r, s = H[i, column:], H[i + 1, column:], H[i + 2, column:], H[i + 3, column:]
        f, g, h, j = c[i] * p[0], c[i + 1] * q[0], c[i + 2] * r[0], c[i + 3] * s[0]
        for u in range(len(done)):
            done[u] -= (f * p[u] + g * q[u]) + (h * r[u] + j * s[u])
    for i in range(k - k % 4, k):
        p = H[i, column:]
        f = c[i] * p[0]
        for u in range(len(done)):
            done[u] -= f * p[u]
    overwrite(H[k, column:], done)


@compiled
def unit_lower(H, c, columns):
    """Give L with ones on its diagonal such that L⁻¹ turns rows of Z A_0 into rows A_{t-1} z_t.

    H and c hold only what takes part (c_t ≠ 0); `columns` says where in the block that is.
    """
    k = len(columns)
    L = np.zeros((k, k), dtype=H.dtype)
    for j in range(k):
        L[j, j] = 1.0
        for t in range(j + 1, k):
            L[t, j] = c[j] * H[j, columns[t]]
    return L


@compiled
def downdate(A, moved, L, c):
    """Turn the rows Z A_0 in `moved` into A_{t-1} z_t, and subtract Σ_t c_t times their squares."""
    solve_unit_lower(L, moved)
    squares = c.min() >= 0.0
    weighted = np.empty_like(moved)
    for t in range(len(c)):
        weight = np.sqrt(c[t]) if squares else -c[t]
        for k in range(moved.shape[1]):
            weighted[t, k] = weight * moved[t, k]
    if squares:
        add_square(A, -1.0, weighted)
    else:
        gemm(True, moved, False, weighted, 1.0, A)
