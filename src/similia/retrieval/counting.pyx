"""Scores counted while they are in the cache; see `retrieval.passing`."""

import numpy as np

from cython cimport floating
from similia.retrieval.measures cimport Filler
from similia.retrieval.ranks cimport all_finite, count_band

from similia.retrieval.measures import most_relevant

cdef enum:
    STRIP = 64  # scores searched together for those to set aside


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
