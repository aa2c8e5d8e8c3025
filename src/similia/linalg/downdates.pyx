"""Sequences of rank-one downdates of a symmetric matrix, carried out in blocks.

Second-order online learners change a symmetric matrix A by

    A_t = A_{t-1} - c_t (A_{t-1} z_t)(A_{t-1} z_t)ᵀ,

where c_t depends on z_tᵀ A_{t-1} z_t. One at a time, this is bound by memory. For a block of rows
Z the *decisions* need only H[j, t] = z_jᵀ A_{j-1} z_t, j ≤ t, which follow from H = Z A_0 Zᵀ by
symmetric elimination, H[j, t] <- H[j, t] - Σ_{i<j} c_i H[i, j] H[i, t]. The block is walked in
order on these numbers alone, and A is changed once, by a matrix product.
"""

import numpy as np

from similia.linalg.bound import add_squares

from cython cimport floating
from similia.linalg.bound cimport solve


def eliminate_row(
    floating[:, ::1] H, const floating[::1] c, Py_ssize_t k, Py_ssize_t row, Py_ssize_t t
):
    """Turn row `row` of Z A_0 Zᵀ into z_tᵀ A_{t-1} z_u for u ≥ t, and move it to row k of H.

    H may have rows for some of Z only: `row` is that of z_t, and the k ≤ row before it are done.
    """
    eliminate[floating](H, c, k, row, t)


cdef void eliminate(
    floating[:, ::1] H, const floating[::1] c, Py_ssize_t k, Py_ssize_t row, Py_ssize_t t
) noexcept nogil:
    cdef Py_ssize_t i, u, n = H.shape[1]
    cdef floating f, g, h, j
    # Four rows at a time: a quarter of the traffic of one at a time.
    for i in range(0, k - 3, 4):
        f, g = c[i] * H[i, t], c[i + 1] * H[i + 1, t]
        h, j = c[i + 2] * H[i + 2, t], c[i + 3] * H[i + 3, t]
        for u in range(t, n):
            H[row, u] -= (f * H[i, u] + g * H[i + 1, u]) + (h * H[i + 2, u] + j * H[i + 3, u])
    for i in range(k - k % 4, k):
        f = c[i] * H[i, t]
        for u in range(t, n):
            H[row, u] -= f * H[i, u]
    if row != k:
        for u in range(t, n):
            H[k, u] = H[row, u]


def downdate(
    floating[:, :] A,
    floating[:, ::1] moved,
    const floating[:, ::1] H,
    const floating[:] c,
    const Py_ssize_t[:] columns,
):
    """Turn the rows Z A_0 in `moved` into A_{t-1} z_t; subtract Σ_t c_t times their squares from A.

    `moved`, H and c hold only the rows that take part (c_t ≠ 0); `columns` are their places in the
    block. The rows follow from L⁻¹ Z A_0 with L[t, j] = c_j H[j, t] below a diagonal of ones.
    """
    cdef Py_ssize_t j, t, k = len(columns)
    cdef floating[:, ::1] L = np.empty((k, k), np.asarray(A).dtype)
    with nogil:
        for j in range(k):
            for t in range(j + 1, k):
                L[t, j] = c[j] * H[j, columns[t]]
        solve[floating](L, moved)
    add_squares(A, np.negative(c), moved)
