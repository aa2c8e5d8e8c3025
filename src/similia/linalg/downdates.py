"""Sequences of rank-one downdates of a symmetric matrix, carried out in blocks.

Second-order online learners change a symmetric matrix A by

    A_t = A_{t-1} - c_t (A_{t-1} z_t)(A_{t-1} z_t)ᵀ,

where c_t depends on z_tᵀ A_{t-1} z_t. One at a time, this is bound by memory. For a block of rows
Z the *decisions* need only H[j, t] = z_jᵀ A_{j-1} z_t, j ≤ t, which follow from H = Z A_0 Zᵀ by
symmetric elimination, H[j, t] <- H[j, t] - Σ_{i<j} c_i H[i, j] H[i, t]. The block is walked in
order on these numbers alone, and A is changed once, by a matrix product.
"""

import numpy as np

from similia.linalg.bound import add_squares, solve_unit_lower
from similia.linalg.compiled import compiled


@compiled
def eliminate_row(H, c, k, row, t):
    """Turn row `row` of Z A_0 Zᵀ into z_tᵀ A_{t-1} z_u for u ≥ t, and move it to row k of H.

    H may have rows for some of Z only: `row` is that of z_t, and the k ≤ row before it are done.
    """
    done = H[row, t:].copy()
    # Four rows at a time: a quarter of the traffic of one at a time.
    for i in range(0, k - 3, 4):
        p, q, r, s = H[i, t:], H[i + 1, t:], H[i + 2, t:], H[i + 3, t:]
        f, g, h, j = c[i] * p[0], c[i + 1] * q[0], c[i + 2] * r[0], c[i + 3] * s[0]
        for u in range(len(done)):
            done[u] -= (f * p[u] + g * q[u]) + (h * r[u] + j * s[u])
    for i in range(k - k % 4, k):
        p = H[i, t:]
        f = c[i] * p[0]
        for u in range(len(done)):
            done[u] -= f * p[u]
    for u in range(len(done)):
        H[k, t + u] = done[u]


@compiled
def downdate(A, moved, H, c, columns):
    """Turn the rows Z A_0 in `moved` into A_{t-1} z_t; subtract Σ_t c_t times their squares from A.

    `moved`, H and c hold only the rows that take part (c_t ≠ 0); `columns` are their places in the
    block. The rows follow from L⁻¹ Z A_0 with L[t, j] = c_j H[j, t] below a diagonal of ones.
    """
    k = len(columns)
    L, negated = np.empty((k, k), A.dtype), np.empty(k, A.dtype)
    for j in range(k):
        negated[j] = -c[j]
        for t in range(j + 1, k):
            L[t, j] = c[j] * H[j, columns[t]]
    solve_unit_lower(L, moved)
    add_squares(A, negated, moved)
