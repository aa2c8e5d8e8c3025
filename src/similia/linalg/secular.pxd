cdef Py_ssize_t deflated(
    double* values,
    Py_ssize_t n,
    double* rows,
    Py_ssize_t m,
    const double* z,
    double rho,
    Py_ssize_t[::1] places,
    double[::1] poles,
    double[::1] weights,
    double* scale,
    double* strength,
) noexcept nogil
cdef void set_roots(
    Py_ssize_t start,
    Py_ssize_t stop,
    Py_ssize_t k,
    const double* d,
    const double* u,
    double rho,
    double* roots,
    double* gaps,
) noexcept nogil
cdef void set_weights(
    Py_ssize_t start,
    Py_ssize_t stop,
    Py_ssize_t k,
    const double* d,
    const double* u,
    const double* gaps,
    double* weights,
) noexcept nogil
cdef void set_vectors(
    Py_ssize_t start, Py_ssize_t stop, Py_ssize_t k, const double* weights, double* gaps
) noexcept nogil
