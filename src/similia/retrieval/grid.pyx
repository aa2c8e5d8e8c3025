"""Positions of scores among a few sorted values, in constant time for most scores.

The values cut the line into cells: cell 2u holds the scores between values u - 1 and u, cell
2u + 1 those equal to value u. A uniform grid of bins finds the cell: the bin of a score is a
non-decreasing function of the score, so a bin with at most one value (its pivot) needs one
comparison, and only a bin with several needs a binary search. Rounding is harmless, because scores
and values are binned by the same arithmetic.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cython cimport floating
from libc.math cimport INFINITY, isfinite

Floats = NDArray[np.floating[Any]]
Integers = NDArray[np.integer[Any]]

cdef enum:
    MAX_BINS = 262_144
    BINS_PER_VALUE = 8
    SHORT = 64  # values up to which insertion is fastest


cdef class Grid:
    """Bins over increasing `values`; bin b holds values[starts[b]:starts[b + 1]].

    `cells` has the cell of a score in bin b below its pivot, -1 if b has several values; `pivots`
    the only value in bin b, infinite if there is none.
    """

    def __cinit__(self, Py_ssize_t room):
        bins = max(1, min(MAX_BINS, BINS_PER_VALUE * room))
        self.values = np.empty(room)
        self.starts = np.empty(bins + 1, np.intc)
        self.cells = np.empty(bins, np.intc)
        self.pivots = np.empty(bins)


cdef inline void _set_range(
    floating* low, floating* high, floating* scale, Py_ssize_t n_bins
) noexcept nogil:
    """Set the number of bins per unit, and low and high to equal values for a single bin."""
    cdef floating unit = high[0] - low[0]
    scale[0] = <floating>(n_bins - 1) / unit if unit > 0 else unit
    if scale[0] == 0 or not isfinite(scale[0]):
        # The range is empty, overflows or is too narrow to divide: a single bin holds all values.
        high[0], scale[0] = low[0], 0


cdef inline int _bin_of(floating score, floating low, floating high, floating scale) noexcept nogil:
    return <int>((min(max(score, low), high) - low) * scale)


cdef void set_grid(Grid grid, Py_ssize_t n_values, floating kind) noexcept nogil:
    """Set the bins over grid.values[:n_values], distinct and increasing, for scores of a kind."""
    cdef Py_ssize_t n_bins = min(MAX_BINS, BINS_PER_VALUE * n_values), u, b
    cdef double[::1] values = grid.values, pivots = grid.pivots
    cdef int[::1] starts = grid.starts, cells = grid.cells
    cdef floating low = <floating>values[0], high = <floating>values[n_values - 1], scale
    _set_range(&low, &high, &scale, n_bins)
    for b in range(n_bins):
        starts[b], pivots[b] = 0, INFINITY
    starts[n_bins] = 0
    for u in range(n_values):
        b = _bin_of(<floating>values[u], low, high, scale)
        starts[b + 1] += 1
        pivots[b] = values[u]
    for b in range(n_bins):
        cells[b] = 2 * starts[b] if starts[b + 1] <= 1 else -1
        starts[b + 1] += starts[b]
    grid.low, grid.high, grid.scale, grid.n_values = low, high, scale, n_values


cdef void fill_cells(
    int[::1] cells, Grid grid, const floating[::1] scores, Py_ssize_t start, Py_ssize_t stop
) noexcept nogil:
    """Set cells[i] to the cell of scores[start + i]."""
    cdef floating low = <floating>grid.low, high = <floating>grid.high, scale = <floating>grid.scale
    cdef double[::1] values = grid.values, pivots = grid.pivots
    cdef int[::1] starts = grid.starts, cell_of_bin = grid.cells
    cdef Py_ssize_t i, first, end, middle
    cdef double score, pivot
    cdef int b, cell
    for i in range(stop - start):
        cells[i] = _bin_of(scores[start + i], low, high, scale)
    for i in range(stop - start):
        score, b = scores[start + i], cells[i]
        cell, pivot = cell_of_bin[b], pivots[b]
        if cell >= 0:
            cells[i] = cell + (score > pivot) + (score >= pivot)
            continue
        first, end = starts[b], starts[b + 1]
        while first < end:
            middle = (first + end) // 2
            if values[middle] < score:
                first = middle + 1
            else:
                end = middle
        cells[i] = <int>(2 * first) + (first < starts[b + 1] and values[first] == score)


def best_first(const floating[::1] values):
    """Stable order of decreasing `values`, in linear time if they spread evenly."""
    order = np.empty(values.shape[0], np.intp)
    cdef Py_ssize_t[::1] into = order, ends = np.empty(values.shape[0] + 1, np.intp)
    with nogil:
        set_best_first[floating](values, values.shape[0], into, ends)
    return order


cdef void set_best_first(
    const floating[::1] values,
    Py_ssize_t n,
    Py_ssize_t[::1] order,
    Py_ssize_t[::1] ends,
) noexcept nogil:
    """Set order[:n] to that of values[:n]; `ends`, longer by one, is overwritten."""
    cdef Py_ssize_t i, b, most = 0
    cdef floating low, high, scale
    for i in range(n):
        order[i] = i
    if n < SHORT:
        _sort_nearly_sorted[floating](order, 0, n, values)
        return
    low = high = values[0]
    for i in range(n):
        low, high = min(low, values[i]), max(high, values[i])
    _set_range(&low, &high, &scale, n)
    for b in range(n + 1):
        ends[b] = 0
    for i in range(n):
        ends[_bin_of(values[i], low, high, scale)] += 1
    for b in range(n):
        most = max(most, ends[b])
    if most > SHORT:
        _merge_sort[floating](order, n, values, ends)
        return
    for b in range(n - 1, -1, -1):
        ends[b] += ends[b + 1]
    for i in range(n - 1, -1, -1):
        b = _bin_of(values[i], low, high, scale)
        ends[b] -= 1
        order[ends[b]] = i
    _sort_nearly_sorted[floating](order, 0, n, values)


cdef void _sort_nearly_sorted(
    Py_ssize_t[::1] order, Py_ssize_t start, Py_ssize_t stop, const floating[::1] values
) noexcept nogil:
    """Insertion sort of order[start:stop] by decreasing value; equal values keep their order."""
    cdef Py_ssize_t p, place, i
    for p in range(start + 1, stop):
        place, i = p, order[p]
        while place > start and values[order[place - 1]] < values[i]:
            order[place] = order[place - 1]
            place -= 1
        order[place] = i


cdef void _merge_sort(
    Py_ssize_t[::1] order, Py_ssize_t n, const floating[::1] values, Py_ssize_t[::1] spare
) noexcept nogil:
    """Stable sort of order[:n] by decreasing value: short runs by insertion, then merged."""
    cdef Py_ssize_t width = SHORT // 4, start, middle, stop, i, j, k
    for start in range((n + width - 1) // width):
        _sort_nearly_sorted[floating](order, start * width, min((start + 1) * width, n), values)
    while width < n:
        start = 0
        while start + width < n:
            middle, stop = start + width, min(start + 2 * width, n)
            for i in range(start, middle):
                spare[i] = order[i]
            i, j, k = start, middle, start
            while i < middle:
                if j < stop and values[order[j]] > values[spare[i]]:
                    order[k] = order[j]
                    j += 1
                else:
                    order[k] = spare[i]
                    i += 1
                k += 1
            start = stop
        width *= 2
