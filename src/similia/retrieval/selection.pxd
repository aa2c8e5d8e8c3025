from cython cimport floating

cdef enum:
    TILE = 4096  # scores binned together, so that they stay in the L1 cache


cdef class Grid:
    cdef double low, high, scale  # ends of the values, and bins per unit of score
    cdef Py_ssize_t n_values
    cdef double[::1] values
    cdef int[::1] starts
    cdef int[::1] cells
    cdef double[::1] pivots


cdef void set_grid(Grid grid, Py_ssize_t n_values, floating kind) noexcept nogil
cdef void fill_cells(
    int[::1] cells, Grid grid, const floating[::1] scores, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil
cdef void set_best_first(
    const floating[::1] values,
    Py_ssize_t n,
    Py_ssize_t[::1] order,
    Py_ssize_t[::1] ends,
) noexcept nogil
cdef bint all_finite(const floating[::1] scores) noexcept nogil
