"""Approximation of a matrix by crosses of its own rows and columns; see `linalg.cauchy`."""

import numpy as np

from libc.math cimport fabs
from similia.linalg.bound cimport multiply

#: largest difference between a matrix and its approximation; entries are at most one
ACCURACY = 4.0 * 2.0**-52
cdef double LARGEST = 4.0 * 2.0**-52  # the same

cdef enum:
    COMPARED = 32  # rows that are compared at a time


def crosses(const double[:, :] A, Py_ssize_t row, double[:, ::1] U, double[:, ::1] V):
    """Set U and V so that UᵀV = A to `ACCURACY` in each entry, from rows and columns of A itself.

    Each term makes one row (`row` at first) and one column exact. Returns the number of terms, or
    -1 if there is not enough room.
    """
    cdef unsigned char[::1] used = np.zeros(A.shape[0], np.uint8)
    cdef double[:, ::1] found = np.empty((COMPARED, A.shape[1]))
    cdef Py_ssize_t rank = 0, rows = A.shape[0], columns = A.shape[1]
    cdef Py_ssize_t i, j, q, column, following, terms = -1
    cdef double largest, size, pivot
    with nogil:
        while rank < U.shape[0]:
            for j in range(columns):
                V[rank, j] = A[row, j]
            for q in range(rank):
                for j in range(columns):
                    V[rank, j] -= U[q, row] * V[q, j]
            used[row] = True
            column, largest = 0, 0.0
            for j in range(columns):
                if fabs(V[rank, j]) > largest:
                    column, largest = j, fabs(V[rank, j])
            following, size = -1, 0.0
            if largest > 0.1 * LARGEST:
                pivot = V[rank, column]
                for i in range(rows):
                    U[rank, i] = A[i, column]
                for q in range(rank):
                    for i in range(rows):
                        U[rank, i] -= U[q, i] * V[q, column]
                for j in range(columns):
                    V[rank, j] /= pivot
                rank += 1
                for i in range(rows):
                    if fabs(U[rank - 1, i]) > size and not used[i]:
                        following, size = i, fabs(U[rank - 1, i])
            if size <= 0.1 * LARGEST:
                # Seemingly done: compare, and continue where it differs.
                following = _worst_row(A, U[:rank], V[:rank], found, &size)
                if size <= LARGEST:
                    terms = rank
                    break
                if used[following]:  # rounding, which no further term mends
                    break
            row = following
    return terms


cdef Py_ssize_t _worst_row(
    const double[:, :] A,
    const double[:, ::1] U,
    const double[:, ::1] V,
    double[:, ::1] found,
    double* size,
) noexcept nogil:
    """Row in which UᵀV differs most from A, and by how much."""
    cdef Py_ssize_t worst = 0, part, start, stop, i, j
    cdef double difference
    size[0] = 0.0
    for part in range((A.shape[0] + COMPARED - 1) // COMPARED):
        start, stop = part * COMPARED, min((part + 1) * COMPARED, A.shape[0])
        multiply[double](True, U[:, start:stop], False, V, 0.0, found[: stop - start])
        for i in range(start, stop):
            for j in range(A.shape[1]):
                difference = fabs(A[i, j] - found[i - start, j])
                if difference > size[0]:
                    worst, size[0] = i, difference
    return worst
