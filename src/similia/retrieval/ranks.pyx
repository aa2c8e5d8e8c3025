"""Ranks of the relevant items in one row of scores: all that a ranking measure needs."""

import numpy as np

from cython cimport floating
from similia.linalg.clones cimport void_clones
from similia.retrieval.selection cimport TILE, Grid, fill_cells, set_best_first, set_grid

cdef enum:
    FEW = 20  # relevant items up to which one comparison of the row for each is fastest
    SOME = 5  # relevant items, times this, beyond which sorting the whole row is fastest


cdef class Room:
    """Memory for the ranks of at most `most` relevant items among `n_items`.

    `rank_items` leaves the ranks of the items, best first, and the corresponding order.
    """

    def __cinit__(self, Py_ssize_t most, Py_ssize_t n_items):
        cdef Py_ssize_t whole = n_items if most > FEW and most * SOME > n_items else 0
        self.n_items = n_items
        self.order, self.ranks, self.all_ranks, self.place = np.empty((4, most), np.intp)
        self.counts = np.empty(2 * most + 1, np.intp)
        self.ends = np.empty(max(most, whole) + 1, np.intp)
        self.all_places = np.empty(2 * whole, np.intp)
        self.cells = np.empty(TILE, np.intc)
        self.relevant = np.empty(most)
        self.grid = Grid(most if most > FEW else 0)


def relevant_ranks(scores, items, Py_ssize_t excluded):
    """Return the ranks of `items`, best first, and the corresponding order of `items`.

    Ranking is by decreasing score, and by index among equal scores, so item j has rank

        rank_j = 1 + #{i < j : s_i >= s_j} + #{i > j : s_i > s_j}.

    Item `excluded` (-1 for none) is not ranked. `scores` (n_items,) are finite; `items` increase.
    Cost for n scores and R relevant items: about n + R operations if the scores spread evenly, and
    (n + R) log R at worst.
    """
    scores, room = np.ascontiguousarray(scores), Room(len(items), len(scores))
    return _relevant_ranks(scores, np.ascontiguousarray(items, np.intp), excluded, room)


def _relevant_ranks(
    const floating[::1] scores, const Py_ssize_t[::1] items, Py_ssize_t excluded, Room room
):
    cdef Py_ssize_t n
    with nogil:
        n = rank_items[floating](room, scores, items, excluded)
    return np.array(room.ranks[:n]), np.array(room.order[:n])


cdef Py_ssize_t rank_items(
    Room room,
    const floating[::1] scores,
    const Py_ssize_t[::1] items,
    Py_ssize_t excluded,
) noexcept nogil:
    """Set room.ranks and room.order; return how many items are ranked."""
    cdef Py_ssize_t r, i, j, n = items.shape[0], kept = 0
    cdef Py_ssize_t[::1] order = room.order, ranks = room.ranks, all_ranks = room.all_ranks
    for r in range(n):
        room.relevant[r] = scores[items[r]]
    set_best_first[double](room.relevant, n, order, room.ends)
    if n <= FEW:
        _rank_by_comparison[floating](room, scores, items)
    elif n * SOME <= scores.shape[0]:
        _rank_by_grid[floating](room, scores, items)
    else:
        _rank_by_sorting[floating](room, scores, items)
    for i in range(n):
        r = order[i]
        j = items[r]
        if j != excluded:
            ranks[kept], order[kept] = all_ranks[r], r
            if excluded >= 0:
                ranks[kept] -= scores[excluded] > scores[j] or (
                    scores[excluded] == scores[j] and excluded < j
                )
            kept += 1
    return kept


cdef void_clones count_band(
    const floating[::1] scores,
    Py_ssize_t start,
    Py_ssize_t stop,
    floating low,
    floating high,
    int* beyond,
    int* reaching,
) noexcept nogil:
    """Count the scores above the band from low to high, and those above or in it."""
    cdef int above = 0, within = 0
    cdef long long wide_above = 0, wide_within = 0
    cdef Py_ssize_t i
    for i in range(start, stop):
        if floating is float:
            above += scores[i] > high
            within += scores[i] >= low
        else:
            wide_above += scores[i] > high
            wide_within += scores[i] >= low
    beyond[0], reaching[0] = above + <int>wide_above, within + <int>wide_within


def _ranks_by_comparison(const floating[::1] scores, const Py_ssize_t[::1] items):
    room = Room(len(items), len(scores))
    _rank_by_comparison[floating](room, scores, items)
    return np.asarray(room.all_ranks)


cdef void _rank_by_comparison(
    Room room, const floating[::1] scores, const Py_ssize_t[::1] items
) noexcept nogil:
    """Compare each relevant score with every score, a tile of the row at a time."""
    cdef Py_ssize_t tile, start, stop, r, j, own, n = scores.shape[0]
    cdef Py_ssize_t[::1] ranks = room.all_ranks
    cdef int beyond = 0, reaching = 0
    for r in range(items.shape[0]):
        ranks[r] = 1
    for tile in range((n + TILE - 1) // TILE):
        start, stop = tile * TILE, min((tile + 1) * TILE, n)
        for r in range(items.shape[0]):
            j = items[r]
            own = min(max(j, start), stop)
            count_band[floating](scores, start, own, scores[j], scores[j], &beyond, &reaching)
            ranks[r] += reaching
            count_band[floating](scores, own, stop, scores[j], scores[j], &beyond, &reaching)
            ranks[r] += beyond


def _ranks_by_grid(
    const floating[::1] scores, const Py_ssize_t[::1] items, const Py_ssize_t[::1] order
):
    room = Room(len(items), len(scores))
    room.grid, room.order = Grid(len(items)), np.array(order)
    room.relevant = np.asarray(scores)[np.asarray(items)].astype(float)
    _rank_by_grid[floating](room, scores, items)
    return np.asarray(room.all_ranks)


cdef void _rank_by_grid(
    Room room, const floating[::1] scores, const Py_ssize_t[::1] items
) noexcept nogil:
    """Count the scores in each cell between and at the distinct relevant scores.

    Scores are visited in order of index, so the count in the cell of item j, when j is reached, is
    the number of equal scores with a lower index.
    """
    cdef Py_ssize_t[::1] counts = room.counts, ranks = room.all_ranks, place = room.place
    cdef int[::1] cells = room.cells
    cdef Py_ssize_t start, stop, tile, i, r, n = scores.shape[0], n_values, arrived = 0, above = 0
    cdef int cell
    cdef floating kind = 0
    n_values = _set_distinct_values(room, items.shape[0])
    set_grid[floating](room.grid, n_values, kind)
    for i in range(2 * n_values + 1):
        counts[i] = 0
    for tile in range((n + TILE - 1) // TILE):
        start, stop = tile * TILE, min((tile + 1) * TILE, n)
        fill_cells[floating](cells, room.grid, scores, start, stop)
        for i in range(start, stop):
            cell = cells[i - start]
            if cell & 1 and arrived < items.shape[0] and items[arrived] == i:
                ranks[arrived] = 1 + counts[cell]
                arrived += 1
            counts[cell] += 1
    for i in range(2 * n_values, -1, -1):
        counts[i], above = above, above + counts[i]
    for r in range(items.shape[0]):
        ranks[r] += counts[2 * place[r] + 1]


cdef Py_ssize_t _set_distinct_values(Room room, Py_ssize_t n) noexcept nogil:
    """Set grid.values to the distinct relevant scores, increasing, and the place of each item's."""
    cdef Py_ssize_t i, r, n_values = 0
    cdef double[::1] values = room.grid.values
    for i in range(n - 1, -1, -1):
        r = room.order[i]
        if n_values == 0 or room.relevant[r] != values[n_values - 1]:
            values[n_values] = room.relevant[r]
            n_values += 1
        room.place[r] = n_values - 1
    return n_values


def _ranks_by_sorting(const floating[::1] scores, const Py_ssize_t[::1] items):
    room = Room(len(items), len(scores))
    room.ends, room.all_places = np.empty((2, 2 * len(scores) + 1), np.intp)
    _rank_by_sorting[floating](room, scores, items)
    return np.asarray(room.all_ranks)


cdef void _rank_by_sorting(
    Room room, const floating[::1] scores, const Py_ssize_t[::1] items
) noexcept nogil:
    """Sort the whole row."""
    cdef Py_ssize_t i, n = scores.shape[0]
    cdef Py_ssize_t[::1] order = room.all_places, places = room.all_places[n:]
    set_best_first[floating](scores, n, order, room.ends)
    for i in range(n):
        places[order[i]] = i + 1
    for i in range(items.shape[0]):
        room.all_ranks[i] = places[items[i]]
