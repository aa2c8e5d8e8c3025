from cython cimport floating

cdef void multiply(
    bint transpose_A, const floating[:, :] A, bint transpose_B, const floating[:, :] B,
    double beta, floating[:, :] C,
) noexcept nogil
cdef void solve(const floating[:, :] L, floating[:, :] B) noexcept nogil
cdef void add_half(floating[:, :] A, double weight, const floating[:, :] Z) noexcept nogil
cdef void mirror(floating[:, :] A) noexcept nogil
cdef void multiply_symmetric(
    const floating[:, ::1] A, const floating[::1] x, floating[::1] y
) noexcept nogil
cdef void add_weighted(
    floating[:, :] A,
    const floating[::1] c,
    const floating[:, ::1] R,
    Py_ssize_t n,
    floating[:, ::1] scaled,
) noexcept nogil
