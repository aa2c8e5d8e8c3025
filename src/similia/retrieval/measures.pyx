"""Measures of one ranking, as functions of the ranks of its relevant items.

`ranks` is the increasing integer array of the ranks r_1 < ... < r_R (from 1) of the R relevant
items of a query. For a query without relevant items, every measure is NaN.
"""

from collections import namedtuple

import numpy as np

from cython cimport floating
from libc.math cimport NAN, log2
from libc.stdlib cimport qsort
from similia.retrieval.ranks cimport Room, count_band, rank_items
from similia.retrieval.selection cimport all_finite

cdef enum:
    STRIP = 64  # scores searched together for those to set aside

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

    cdef const Py_ssize_t[::1] group, starts, items, own
    cdef const double[::1] relevant_gains
    cdef const Py_ssize_t[:, :] codes
    cdef double[:, :] values
    cdef Py_ssize_t[:] n_relevant

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


# -- scores counted while they are in the cache; see `retrieval.passing` ---------------------------


def inner_products(
    double[::1] exact,
    double[::1] size,
    const floating[:, ::1] q,
    const Py_ssize_t[::1] rows,
    const floating[:, :] z,
    const Py_ssize_t[::1] items,
):
    """Set inner products in double precision, and the same of absolute values."""
    cdef Py_ssize_t i, k
    cdef double total, absolute, part
    with nogil:
        for i in range(items.shape[0]):
            total = absolute = 0.0
            for k in range(q.shape[1]):
                part = <double>q[rows[i], k] * <double>z[items[i], k]
                total += part
                absolute += abs(part)
            exact[i], size[i] = total, absolute


def count_tile(
    Py_ssize_t[::1] beyond,
    Py_ssize_t[::1] n_aside,
    Py_ssize_t[:, ::1] aside,
    floating[:, ::1] aside_scores,
    unsigned char[::1] sure,
    const floating[:, ::1] tile,
    Py_ssize_t start,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] items,
    const floating[::1] low,
    const floating[::1] high,
):
    """Count the scores of a tile above each band, and set aside those within.

    Unsets `sure` for queries with scores that are not finite, or with too many to set aside.
    """
    cdef Py_ssize_t row, w
    cdef int above = 0, reaching = 0
    with nogil:
        for row in range(tile.shape[0]):
            if not sure[row]:
                continue
            if not all_finite[floating](tile[row]):
                sure[row] = False
                continue
            for w in range(starts[row], starts[row + 1]):
                count_band[floating](
                    tile[row], 0, tile.shape[1], low[w], high[w], &above, &reaching
                )
                beyond[w] += above
                if reaching != above and not _set_aside(
                    &n_aside[w], aside[w], aside_scores[w], tile[row], start, low[w], high[w]
                ):
                    sure[row] = False


cdef bint _set_aside(
    Py_ssize_t* count,
    Py_ssize_t[::1] items,
    floating[::1] values,
    const floating[::1] scores,
    Py_ssize_t start,
    floating low,
    floating high,
) noexcept nogil:
    """Keep the scores in the band; return whether there was room for them."""
    # Strips are compared as a whole: score by score the branch would be foreseen wrongly too often.
    cdef Py_ssize_t n = count[0], strip, stop, i
    cdef int above = 0, reaching = 0
    for strip in range((scores.shape[0] + STRIP - 1) // STRIP):
        stop = min((strip + 1) * STRIP, scores.shape[0])
        count_band[floating](scores, strip * STRIP, stop, low, high, &above, &reaching)
        if above == reaching:
            continue
        for i in range(strip * STRIP, stop):
            if low <= scores[i] <= high:
                if n == items.shape[0]:
                    return False
                items[n], values[n] = start + i, scores[i]
                n += 1
    count[0] = n
    return True


def fill_measured(wanted, sure, queries, watched, counts):
    """Set the measures of the queries whose ranks are sure; unset `sure` if a score is missing."""
    most = most_relevant(wanted, queries) + 1
    _fill_measured(Filler(wanted), sure, queries, watched.starts, watched.items, *counts, most)


def _fill_measured(
    Filler filler,
    unsigned char[::1] sure,
    const Py_ssize_t[::1] queries,
    const Py_ssize_t[::1] starts,
    const Py_ssize_t[::1] items,
    const Py_ssize_t[:, ::1] beyond,
    const Py_ssize_t[:, ::1] n_aside,
    const Py_ssize_t[:, :, ::1] aside,
    const floating[:, :, ::1] scores,
    Py_ssize_t most,
):
    cdef Py_ssize_t[::1] ranks = np.empty(most, np.intp), order = np.empty(most, np.intp)
    cdef double[:, ::1] gains = np.empty((2, most))
    cdef Py_ssize_t i, w, n, place, rank, own_rank
    with nogil:
        for i in range(queries.shape[0]):
            n = own_rank = 0
            for w in range(starts[i + 1] - 1, starts[i] - 1, -1):
                rank = _rank(beyond, n_aside, aside, scores, w, items[w])
                sure[i] = sure[i] and rank > 0
                if items[w] == filler.own[queries[i]]:
                    # The query itself is watched last and not ranked.
                    own_rank = rank if w == starts[i + 1] - 1 else own_rank
                    continue
                if own_rank and rank > own_rank:
                    rank -= 1
                place = n
                while place > 0 and ranks[place - 1] > rank:
                    ranks[place], order[place] = ranks[place - 1], order[place - 1]
                    place -= 1
                ranks[place], order[place] = rank, w - starts[i]
                n += 1
            if sure[i]:
                filler.fill_row(queries[i], ranks[:n], order[:n], gains)


cdef Py_ssize_t _rank(
    const Py_ssize_t[:, ::1] beyond,
    const Py_ssize_t[:, ::1] n_aside,
    const Py_ssize_t[:, :, ::1] aside,
    const floating[:, :, ::1] scores,
    Py_ssize_t w,
    Py_ssize_t item,
) noexcept nogil:
    """Rank of a watched item among all items; 0 if its score was not set aside.

    Before item j rank higher scores and, at lower indices, equal ones.
    """
    cdef Py_ssize_t share, e, rank = 1
    cdef floating own = 0
    cdef bint found = False
    for share in range(beyond.shape[0]):
        for e in range(n_aside[share, w]):
            if aside[share, w, e] == item:
                found, own = True, scores[share, w, e]
    if not found:
        return 0
    for share in range(beyond.shape[0]):
        rank += beyond[share, w]
        for e in range(n_aside[share, w]):
            rank += scores[share, w, e] > own or (
                scores[share, w, e] == own and aside[share, w, e] < item
            )
    return rank
