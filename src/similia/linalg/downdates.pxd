from cython cimport floating

cdef void eliminate(
    floating[:, ::1] H, const floating[::1] c, Py_ssize_t k, Py_ssize_t row, Py_ssize_t t
) noexcept nogil
