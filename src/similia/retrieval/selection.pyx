"""Order among scores: cells between sorted values, stable sorting, the best items of a row.

The values of a grid cut the line into cells: cell 2u holds the scores between values u - 1 and u,
cell 2u + 1 those equal to value u. A uniform grid of bins finds the cell: the bin of a score is a
non-decreasing function of the score, so a bin with at most one value (its pivot) needs one
comparison, and only a bin with several needs a binary search. Rounding is harmless, because scores
and values are binned by the same arithmetic.
"""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY, isfinite
from similia.linalg.clones cimport void_clones

cdef enum:
    MAX_BINS = 262_144
    BINS_PER_VALUE = 8
    SHORT = 64  # values up to which insertion is fastest

ctypedef fused index:
    int
    long long


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


def fill_best(
    Py_ssize_t[:, ::1] indices,
    floating[:, ::1] best,
    const Py_ssize_t[:] own,
    const floating[:, ::1] scores,
    const Py_ssize_t[:] queries,
):
    """Set the best items of `queries` and their scores; a `Fill` with its first three arguments."""
    cdef Py_ssize_t k = indices.shape[1], place, query, i, bad = -1
    cdef Py_ssize_t[::1] pool = np.empty(2 * k, np.intp), order = np.empty(2 * k, np.intp)
    cdef Py_ssize_t[::1] ends = np.empty(2 * k + 1, np.intp)
    cdef floating[:, ::1] values = np.empty((2, 2 * k), np.asarray(best).dtype)
    with nogil:
        for place in range(queries.shape[0]):
            if not all_finite[floating](scores[place]):
                bad = place
                break
            query = queries[place]
            _select_best[floating](pool, values, order, ends, scores[place], own[query], k)
            for i in range(k):
                indices[query, i], best[query, i] = pool[i], values[0, i]
    return bad


cdef void _select_best(
    Py_ssize_t[::1] pool,
    floating[:, ::1] values,
    Py_ssize_t[::1] order,
    Py_ssize_t[::1] ends,
    const floating[::1] scores,
    Py_ssize_t excluded,
    Py_ssize_t k,
) noexcept nogil:
    """Collect candidates for the best k in a pool of 2k, cut back to the best k when full.

    A later score that only equals the k-th is no candidate, because lower indices go first.
    """
    cdef Py_ssize_t i, size = 0
    cdef floating bound = -INFINITY
    for i in range(scores.shape[0]):
        if scores[i] > bound and i != excluded:
            pool[size], values[0, size] = i, scores[i]
            size += 1
            if size == 2 * k:
                _cut[floating](pool, values, order, ends, size, k)
                size = k
                bound = values[0, k - 1]
    _cut[floating](pool, values, order, ends, size, min(size, k))


cdef void _cut(
    Py_ssize_t[::1] pool,
    floating[:, ::1] values,
    Py_ssize_t[::1] order,
    Py_ssize_t[::1] ends,
    Py_ssize_t size,
    Py_ssize_t k,
) noexcept nogil:
    """Move the best k to the front, best first; equal scores stay in order of index."""
    cdef Py_ssize_t i
    set_best_first[floating](values[0], size, order, ends)
    for i in range(k):
        values[1, i] = values[0, order[i]]
        ends[i] = pool[order[i]]
    for i in range(k):
        pool[i], values[0, i] = ends[i], values[1, i]


cdef bint all_finite(const floating[::1] scores) noexcept nogil:
    """Whether no score is infinite or NaN."""
    cdef int finite = 0
    _count_finite[floating](scores, &finite)
    return finite == scores.shape[0]


cdef void_clones _count_finite(const floating[::1] scores, int* finite) noexcept nogil:
    # Counters as wide as a score let the compiler compare as many at once as fit into a register.
    cdef int single = 0
    cdef long long twice = 0
    cdef Py_ssize_t i
    for i in range(scores.shape[0]):
        if floating is float:
            single += scores[i] - scores[i] == 0
        else:
            twice += scores[i] - scores[i] == 0
    finite[0] = single + <int>twice


def fill_products(
    floating[:, ::1] out,
    const Py_ssize_t[::1] q_starts,
    const Py_ssize_t[::1] q_features,
    const floating[::1] q_values,
    const index[::1] starts,
    const index[::1] items,
    const floating[::1] values,
):
    """Set out[i, j] to the inner product of sparse query i and sparse item j.

    Queries are stored by row, items by feature; the cost is one operation per feature that a query
    and an item share.
    """
    cdef Py_ssize_t i, p, e, feature
    cdef floating weight
    with nogil:
        for i in range(out.shape[0]):
            for p in range(out.shape[1]):
                out[i, p] = 0
            for p in range(q_starts[i], q_starts[i + 1]):
                feature, weight = q_features[p], q_values[p]
                for e in range(starts[feature], starts[feature + 1]):
                    out[i, items[e]] += weight * values[e]
