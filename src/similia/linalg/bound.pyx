"""Products without Python's lock: scipy's BLAS, in place and accumulating; forms of sparse rows.

Arrays are C-ordered, or panels of such; BLAS sees each transposed, so factors are handed over in
reverse. Each function of a bare verb is for compiled code, which has checked its arrays.
"""

import numpy as np

from cython cimport floating
from libc.math cimport fabs, sqrt
from scipy.linalg.cython_blas cimport dgemm, dsymv, dsyrk, dtrsm, sgemm, ssymv, ssyrk, strsm

cdef enum:
    TILE = 32  # side of the squares in which a triangle is copied: both ends stay in the cache


cdef inline int _leading(const floating[:, :] A) noexcept nogil:
    """Distance between rows. A single one has none, but BLAS wants a possible one all the same."""
    cdef Py_ssize_t distance = A.strides[0] // <Py_ssize_t>sizeof(floating)
    return <int>max(distance if A.shape[0] > 1 else 0, A.shape[1], 1)


def _check(*arrays):
    for A in arrays:
        if A.shape[1] > 1 and A.strides[1] != A.itemsize:
            raise ValueError("BLAS: arrays must be C-ordered or panels of such.")


cdef inline const floating* _start(const floating[:, :] A) noexcept nogil:
    return <const floating*>&A[0, 0] if A.shape[0] and A.shape[1] else NULL


def gemm(
    bint transpose_A,
    const floating[:, :] A,
    bint transpose_B,
    const floating[:, :] B,
    double beta,
    floating[:, :] C,
):
    """Replace C by op(A) op(B) + beta C, where op transposes or does not."""
    _check(A, B, C)
    with nogil:
        multiply[floating](transpose_A, A, transpose_B, B, beta, C)


cdef void multiply(
    bint transpose_A, const floating[:, :] A, bint transpose_B, const floating[:, :] B,
    double beta, floating[:, :] C,
) noexcept nogil:
    cdef char op_A = b"T" if transpose_A else b"N"
    cdef char op_B = b"T" if transpose_B else b"N"
    cdef int rows = <int>C.shape[0], columns = <int>C.shape[1]
    cdef int inner = <int>(A.shape[0] if transpose_A else A.shape[1])
    cdef int lda = _leading(A), ldb = _leading(B), ldc = _leading(C)
    cdef floating one = 1, scale = <floating>beta
    cdef floating* a = <floating*>_start(A)
    cdef floating* b = <floating*>_start(B)
    if rows == 0 or columns == 0:
        return
    if floating is float:
        sgemm(&op_B, &op_A, &columns, &rows, &inner, &one, b, &ldb, a, &lda, &scale, &C[0, 0], &ldc)
    else:
        dgemm(&op_B, &op_A, &columns, &rows, &inner, &one, b, &ldb, a, &lda, &scale, &C[0, 0], &ldc)


def solve_unit_lower(const floating[:, :] L, floating[:, :] B):
    """Replace B by L⁻¹B for a lower triangular L with ones on the diagonal, which is not read."""
    _check(L, B)
    with nogil:
        solve[floating](L, B)


cdef void solve(const floating[:, :] L, floating[:, :] B) noexcept nogil:
    cdef char right = b"R", upper = b"U", plain = b"N", unit = b"U"
    cdef int rows = <int>B.shape[0], columns = <int>B.shape[1], ldl = _leading(L), ldb = _leading(B)
    cdef floating one = 1
    if rows == 0 or columns == 0:
        return
    cdef floating* l = <floating*>&L[0, 0]
    if floating is float:
        strsm(&right, &upper, &plain, &unit, &columns, &rows, &one, l, &ldl, &B[0, 0], &ldb)
    else:
        dtrsm(&right, &upper, &plain, &unit, &columns, &rows, &one, l, &ldl, &B[0, 0], &ldb)


def add_square(floating[:, :] A, double weight, const floating[:, :] Z):
    """Add weight ZᵀZ to a symmetric A: half the work of a product, and exactly symmetric."""
    _check(A, Z)
    with nogil:
        add_half[floating](A, weight, Z)
        mirror[floating](A)


def add_squares(floating[:, :] A, const floating[::1] c, const floating[:, ::1] R):
    """Add Rᵀdiag(c)R to a symmetric A, with the positive and the negative c each as a square."""
    cdef floating[:, ::1] scaled = np.empty_like(R)
    with nogil:
        add_weighted[floating](A, c, R, c.shape[0], scaled)


cdef void add_weighted(
    floating[:, :] A,
    const floating[::1] c,
    const floating[:, ::1] R,
    Py_ssize_t n,
    floating[:, ::1] scaled,
) noexcept nogil:
    """`add_squares` of the first n rows, with memory for as many."""
    cdef Py_ssize_t side, t, j, k
    cdef floating weight
    cdef double sign
    for side in range(2):
        sign = 1.0 - 2.0 * side
        k = 0
        for t in range(n):
            if sign * c[t] > 0.0:
                weight = <floating>sqrt(fabs(c[t]))
                for j in range(R.shape[1]):
                    scaled[k, j] = weight * R[t, j]
                k += 1
        add_half[floating](A, sign, scaled[:k])
    mirror[floating](A)


cdef void add_half(floating[:, :] A, double weight, const floating[:, :] Z) noexcept nogil:
    """Add weight ZᵀZ to the upper triangle of A."""
    cdef char lower = b"L", plain = b"N"
    cdef int size = <int>A.shape[0], inner = <int>Z.shape[0], lda = _leading(A), ldz = _leading(Z)
    cdef floating one = 1, scale = <floating>weight
    if size == 0 or inner == 0:
        return
    cdef floating* z = <floating*>&Z[0, 0]
    if floating is float:
        ssyrk(&lower, &plain, &size, &inner, &scale, z, &ldz, &one, &A[0, 0], &lda)
    else:
        dsyrk(&lower, &plain, &size, &inner, &scale, z, &ldz, &one, &A[0, 0], &lda)


cdef void mirror(floating[:, :] A) noexcept nogil:
    """Copy the upper triangle to the lower one."""
    cdef Py_ssize_t n = A.shape[0], tiles = (n + TILE - 1) // TILE, top, left, i, j
    for top in range(tiles):
        for left in range(top + 1):
            for i in range(top * TILE, min((top + 1) * TILE, n)):
                for j in range(left * TILE, min((left + 1) * TILE, i)):
                    A[i, j] = A[j, i]


def symmetric_product(const floating[:, ::1] A, const floating[::1] x, floating[::1] y):
    """Replace y by Ax for a symmetric A, of which half is read."""
    with nogil:
        multiply_symmetric[floating](A, x, y)


cdef void multiply_symmetric(
    const floating[:, ::1] A, const floating[::1] x, floating[::1] y
) noexcept nogil:
    cdef char lower = b"L"
    cdef int size = <int>A.shape[0], step = 1
    cdef floating one = 1, zero = 0
    if size == 0:
        return
    cdef floating* a = <floating*>&A[0, 0]
    cdef floating* x_ = <floating*>&x[0]
    if floating is float:
        ssymv(&lower, &size, &one, a, &size, x_, &step, &zero, &y[0], &step)
    else:
        dsymv(&lower, &size, &one, a, &size, x_, &step, &zero, &y[0], &step)


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
