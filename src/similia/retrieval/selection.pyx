"""The best items of a row of scores, and scores of sparse vectors."""

import numpy as np

from cython cimport floating
from libc.math cimport INFINITY
from similia.retrieval.grid cimport set_best_first
from similia.retrieval.ranks cimport all_finite

ctypedef fused index:
    int
    long long


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
