"""Measures of one ranking, as functions of the ranks of its relevant items.

`ranks` is the increasing integer array of the ranks r_1 < ... < r_R (from 1) of the R relevant
items of a query. For a query without relevant items, every measure is NaN.
"""

from collections import namedtuple

import numpy as np

from cython cimport floating
from libc.math cimport NAN, log2
from libc.stdlib cimport qsort
from similia.retrieval.ranks cimport Room, all_finite, rank_items

MEASURES = ("precision", "recall", "ndcg", "map", "mrr", "r_precision")
AT_K = ("precision", "recall", "ndcg")  # those that need a cut-off


def precision_at_k(ranks, Py_ssize_t k):
    """Share of the first k items that are relevant: #{i : r_i <= k} / k.

    The divisor is k even if fewer than k items are relevant, or exist.
    """
    return _measure(0, np.ascontiguousarray(ranks, np.intp), NO_GAINS, k)


def recall_at_k(ranks, Py_ssize_t k):
    """Share of the relevant items that are among the first k: #{i : r_i <= k} / R."""
    return _measure(1, np.ascontiguousarray(ranks, np.intp), NO_GAINS, k)


def ndcg_at_k(ranks, gains, Py_ssize_t k):
    """Discounted gain of the first k items over that of the best possible order: DCG / IDCG.

    DCG = Σ_{i : r_i <= k} g_i / log2(1 + r_i), and IDCG = Σ_{i <= k} g_(i) / log2(1 + i) with the
    gains in decreasing order. `gains` (R,) are positive and in the order of `ranks`: plain grades,
    or their `exponential_gain`.
    """
    gains = np.array([gains, gains], np.float64)
    return _measure(2, np.ascontiguousarray(ranks, np.intp), gains, k)


def average_precision(ranks, Py_ssize_t k=0):
    """Mean over the relevant items of the precision at their ranks: (1/R) Σ_i i / r_i.

    Its mean over queries is mAP. With a cut-off k > 0, ranks above k add nothing.
    """
    return _measure(3, np.ascontiguousarray(ranks, np.intp), NO_GAINS, k)


def reciprocal_rank(ranks, Py_ssize_t k=0):
    """One over the rank of the first relevant item: 1 / r_1. Its mean over queries is MRR.

    With a cut-off k > 0 it is 0 if that rank is above k.
    """
    return _measure(4, np.ascontiguousarray(ranks, np.intp), NO_GAINS, k)


def r_precision(ranks):
    """Precision at R, which equals recall at R: #{i : r_i <= R} / R."""
    return _measure(5, np.ascontiguousarray(ranks, np.intp), NO_GAINS, 0)


NO_GAINS = np.empty((2, 0))


cdef double _measure(
    Py_ssize_t code, const Py_ssize_t[::1] ranks, double[:, ::1] gains, Py_ssize_t k
) noexcept nogil:
    """Measure at place `code` of MEASURES; the second row of `gains` is to be sorted."""
    cdef Py_ssize_t n = ranks.shape[0], i
    cdef double total = 0.0
    if n == 0:
        return NAN
    if code == 0:
        return <double>_hits(ranks, k) / k
    if code == 1:
        return <double>_hits(ranks, k) / n
    if code == 2:
        return _discounted(ranks, gains, k)
    if code == 3:
        for i in range(_hits(ranks, k) if k else n):
            total += (i + 1.0) / ranks[i]
        return total / n
    if code == 4:
        return 1.0 / ranks[0] if k == 0 or ranks[0] <= k else 0.0
    return <double>_hits(ranks, n) / n


cdef Py_ssize_t _hits(const Py_ssize_t[::1] ranks, Py_ssize_t k) noexcept nogil:
    """Number of ranks up to k."""
    cdef Py_ssize_t first = 0, end = ranks.shape[0], middle
    while first < end:
        middle = (first + end) // 2
        if ranks[middle] <= k:
            first = middle + 1
        else:
            end = middle
    return first


cdef double _discounted(
    const Py_ssize_t[::1] ranks, double[:, ::1] gains, Py_ssize_t k
) noexcept nogil:
    cdef Py_ssize_t n = ranks.shape[0], i
    cdef double found = 0.0, ideal = 0.0
    cdef bint equal = True
    for i in range(1, n):
        equal = equal and gains[0, i] == gains[0, 0]
    if not equal:
        qsort(&gains[1, 0], n, sizeof(double), _larger_first)
    for i in range(_hits(ranks, k)):
        found += gains[0, i] / log2(1.0 + ranks[i])
    for i in range(min(k, n)):
        ideal += gains[1, i] / log2(2.0 + i)
    return found / ideal


cdef int _larger_first(const void* a, const void* b) noexcept nogil:
    cdef double x = (<const double*>a)[0], y = (<const double*>b)[0]
    return (x < y) - (x > y)


#: Measures to compute, and arrays for their values: `own` is the item that is each query itself, or
#: -1; `codes` are places in MEASURES and cut-offs; `values` (queries, codes)
Wanted = namedtuple("Wanted", "relevant own codes values n_relevant")


cdef class Filler:
    """Sets the measures of single queries."""

    def __cinit__(self, wanted):
        relevant = wanted.relevant
        self.group, self.starts, self.items = relevant.group, relevant.starts, relevant.items
        self.relevant_gains, self.own = relevant.gains, wanted.own
        self.codes, self.values, self.n_relevant = wanted.codes, wanted.values, wanted.n_relevant

    cdef const Py_ssize_t[::1] items_of(self, Py_ssize_t query) noexcept nogil:
        """Relevant items of a query."""
        cdef Py_ssize_t group = self.group[query]
        return self.items[self.starts[group] : self.starts[group + 1]]

    cdef void fill_row(
        self,
        Py_ssize_t query,
        const Py_ssize_t[::1] ranks,
        const Py_ssize_t[::1] order,
        double[:, ::1] gains,
    ) noexcept nogil:
        """Set the measures of a query from the ranks of its items, best first, in their order."""
        cdef Py_ssize_t i, start = self.starts[self.group[query]]
        self.n_relevant[query] = ranks.shape[0]
        for i in range(ranks.shape[0]):
            gains[0, i] = gains[1, i] = self.relevant_gains[start + order[i]]
        for i in range(self.codes.shape[0]):
            self.values[query, i] = _measure(self.codes[i, 0], ranks, gains, self.codes[i, 1])


def most_relevant(wanted, queries):
    """Largest number of relevant items of these queries."""
    groups = wanted.relevant.group[queries]
    return np.diff(wanted.relevant.starts)[groups].max(initial=0)


def fill_values(wanted, const floating[:, ::1] scores, const Py_ssize_t[:] queries):
    """Set the measures of `queries`; a `Fill` with its first argument."""
    cdef Filler filler = Filler(wanted)
    cdef Py_ssize_t most = most_relevant(wanted, queries), place, query, n, bad = -1
    cdef Room room = Room(most, scores.shape[1])
    cdef double[:, ::1] gains = np.empty((2, most))
    with nogil:
        for place in range(queries.shape[0]):
            query = queries[place]
            if not all_finite[floating](scores[place]):
                bad = place
                break
            n = rank_items[floating](room, scores[place], filler.items_of(query), filler.own[query])
            filler.fill_row(query, room.ranks[:n], room.order[:n], gains)
    return bad
