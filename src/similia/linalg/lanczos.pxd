from cython cimport floating


cdef class Space:
    cdef Py_ssize_t n, rows
    cdef unsigned char[::1] basis, w
    cdef double[::1] diagonal, beside, pivots, unit, u, x, half
    cdef double[:, ::1] upper, factor
    cdef void grow(self, Py_ssize_t itemsize) noexcept with gil


cdef double find_negative(
    Space space,
    const floating[:, ::1] A,
    const floating[:, ::1] R,
    const floating[::1] c,
    Py_ssize_t terms,
    const floating[::1] v,
    double alpha,
    double tol,
    floating[::1] u,
) noexcept nogil
