cdef class Work:
    cdef Py_ssize_t[::1] places
    cdef double[::1] poles, weights, exact, roots, turn, before, after


cdef Py_ssize_t step_eigenpairs(
    double[::1] values, double[:, ::1] rows, const double[::1] z, double rho, Work work
) noexcept nogil
cdef void set_gibbs_line(
    const double[::1] values, const double[::1] z, double rho, Work work, double* line
) noexcept nogil
