cdef class Filler:
    cdef const Py_ssize_t[::1] group, starts, items, own
    cdef const double[::1] relevant_gains
    cdef const Py_ssize_t[:, :] codes
    cdef double[:, :] values
    cdef Py_ssize_t[:] n_relevant
    cdef const Py_ssize_t[::1] items_of(self, Py_ssize_t query) noexcept nogil
    cdef void fill_row(
        self,
        Py_ssize_t query,
        const Py_ssize_t[::1] ranks,
        const Py_ssize_t[::1] order,
        double[:, ::1] gains,
    ) noexcept nogil
