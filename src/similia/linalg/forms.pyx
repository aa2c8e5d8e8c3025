"""Products of one row with a matrix, and forms of sparse rows."""

import numpy as np

from cython cimport floating
from similia.linalg.clones cimport void_clones


def row_product(const floating[::1] q, const floating[:, ::1] B):
    """Product of one row with a matrix: on this thread, as a BLAS would wake up others for it."""
    out = np.zeros(B.shape[1], np.asarray(B).dtype)
    cdef floating[::1] into = out
    with nogil:
        _add_rows[floating](into, q, B)
    return out


cdef void_clones _add_rows(
    floating[::1] out, const floating[::1] q, const floating[:, ::1] B
) noexcept nogil:
    cdef Py_ssize_t i, j, n = q.shape[0] - q.shape[0] % 8
    cdef floating first, last
    for i in range(0, n, 8):  # an eighth of the traffic of one at a time
        for j in range(out.shape[0]):
            first = (q[i] * B[i, j] + q[i + 1] * B[i + 1, j]) + (
                q[i + 2] * B[i + 2, j] + q[i + 3] * B[i + 3, j]
            )
            last = (q[i + 4] * B[i + 4, j] + q[i + 5] * B[i + 5, j]) + (
                q[i + 6] * B[i + 6, j] + q[i + 7] * B[i + 7, j]
            )
            out[j] += first + last
    for i in range(n, q.shape[0]):
        for j in range(out.shape[0]):
            out[j] += q[i] * B[i, j]


def sparse_forms(
    const floating[:, :] W,
    const Py_ssize_t[::1] q_ptr,
    const Py_ssize_t[::1] q_index,
    const floating[::1] q_value,
    const Py_ssize_t[::1] p_ptr,
    const Py_ssize_t[::1] p_index,
    const floating[::1] p_value,
):
    """q_tᵀ W p_t for rows in CSR form."""
    forms = np.zeros(q_ptr.shape[0] - 1, np.asarray(W).dtype)
    cdef floating[::1] into = forms
    cdef Py_ssize_t i, a, b
    cdef double total, score
    with nogil:
        for i in range(into.shape[0]):
            total = 0.0
            for a in range(q_ptr[i], q_ptr[i + 1]):
                score = 0.0
                for b in range(p_ptr[i], p_ptr[i + 1]):
                    score += W[q_index[a], p_index[b]] * p_value[b]
                total += q_value[a] * score
            into[i] = <floating>total
    return forms


def sparse_quadratic(
    const floating[:, :] A,
    const Py_ssize_t[::1] ptr,
    const Py_ssize_t[::1] index,
    const floating[::1] value,
):
    """zᵀAz for rows in CSR form without duplicates; A is symmetric."""
    forms = np.empty(ptr.shape[0] - 1, np.asarray(A).dtype)
    cdef floating[::1] into = forms
    cdef Py_ssize_t i, a, b
    cdef double total, half
    with nogil:
        for i in range(into.shape[0]):
            total = 0.0
            for a in range(ptr[i], ptr[i + 1]):
                half = 0.5 * A[index[a], index[a]] * value[a]
                for b in range(a + 1, ptr[i + 1]):
                    half += A[index[a], index[b]] * value[b]
                total += value[a] * half
            into[i] = <floating>(2.0 * total)
    return forms
