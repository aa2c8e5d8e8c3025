from cython cimport floating

from similia.linalg.clones cimport void_clones
from similia.retrieval.selection cimport Grid


cdef class Room:
    cdef Py_ssize_t n_items
    cdef Py_ssize_t[::1] order, ranks, all_ranks, place, counts, ends, all_places
    cdef int[::1] cells
    cdef double[::1] relevant
    cdef Grid grid


cdef Py_ssize_t rank_items(
    Room room,
    const floating[::1] scores,
    const Py_ssize_t[::1] items,
    Py_ssize_t excluded,
) noexcept nogil
cdef void_clones count_band(
    const floating[::1] scores,
    Py_ssize_t start,
    Py_ssize_t stop,
    floating low,
    floating high,
    int* beyond,
    int* reaching,
) noexcept nogil
