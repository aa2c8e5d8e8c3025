"""Neighborhood gerrymandering: the best sets of neighbors, and the pull that follows from them.

A set h of k items votes on the class of a query. Of each class the best set holds the nearest
items, so it is determined by its number of votes for each class, and only the k nearest items of
each class matter.
"""

from collections import namedtuple
from functools import partial

import numpy as np

from similia.linalg.blas import panels
from similia.linalg.threads import processors, side_by_side

from cython cimport floating
from libc.math cimport INFINITY, isfinite
from similia.linalg.bound cimport multiply
from similia.linalg.clones cimport void_clones

PANEL_BYTES = 4 * 2**20  #: bytes of distances that one thread holds at a time
BETA_1, BETA_2 = 0.9, 0.999  #: decay of Adam's moments


#: Losses of B queries, which of them are solvable, and the items that each pulls and pushes: `rows`
#: and `weights` (B, 2k), items in the right set only have +1, in the rival only -1, none 0.
Pull = namedtuple("Pull", "losses solvable rows weights", module=__name__)


def infer(A, B, starts, own, y, cost, k, ties):
    """Loss of each query, and the items that it pulls and pushes, by exact inference.

        loss = max_h [S(h) + Δ(y, h)] - max_{h: Δ(y,h)=0} S(h),   S(h) = -Σ_{i∈h} |a - b_i|²

    over all sets h of k items without the query itself [Trivedi notes, 7, 13, 14]. A query for
    which no set has Δ(y, h) = 0 (its class is too small to win) has no loss and no pull.

    A (B, p) are queries and B (M, p) items sorted by class, class r from starts[r] to starts[r+1];
    own (B,) is the row of each query among the items, or -1; y (B,) are classes and cost (R, R) is
    Δ; `ties` counts a tie as the best of its classes instead of the worst.
    """
    pull = Pull(
        np.zeros(len(A)),
        np.zeros(len(A), np.bool_),
        np.full((len(A), 2 * k), -1, np.intp),
        np.zeros((len(A), 2 * k), A.dtype),
    )
    size = max(16, PANEL_BYTES // max(1, len(B) * A.itemsize))
    count = max((len(A) + size - 1) // size, min(processors(), (len(A) + 15) // 16))
    items, ballot = (B, np.vecdot(B, B), starts), (cost, k, ties)
    tasks = []
    for start, stop in panels(len(A), count):
        queries = tuple(part[start:stop] for part in (A, own, y))
        parts = Pull(*(part[start:stop] for part in pull))
        tasks.append(partial(_infer_panel, queries, items, ballot, parts))
    side_by_side(tasks, A.size * len(B))
    return pull


def _infer_panel(queries, items, ballot, pull):
    (A, own, y), (B, squares, starts), (costs, k, ties) = queries, items, ballot
    # |a|² is left out: it occurs k times in either set.
    D = np.empty((len(A), len(B)), A.dtype)
    D[:] = squares
    kinds = (np.intp, np.intp, np.intp, np.float64)
    given = [np.ascontiguousarray(x, kind) for x, kind in zip((own, y, starts, costs), kinds)]
    losses, solvable, rows, weights = pull
    _infer(A * A.dtype.type(-2), B, D, *given, k, ties, losses, solvable.view(np.uint8), rows, weights)


cdef class _Ballot:
    """Memory for the sets of one query, of k items from any of R classes."""

    cdef Py_ssize_t n_classes, k
    cdef bint ties
    cdef double[::1] near, least  # (R k), (k + 1)
    cdef Py_ssize_t[::1] found, sizes, order, spare, right, rival, votes

    def __cinit__(self, Py_ssize_t n_classes, Py_ssize_t k, bint ties):
        self.n_classes, self.k, self.ties = n_classes, k, ties
        self.near, self.least = np.empty(n_classes * k), np.empty(k + 1)
        self.found, self.order, self.spare = np.empty((3, n_classes * k), np.intp)
        self.sizes, self.right, self.rival, self.votes = np.zeros((4, n_classes), np.intp)


def _infer(
    const floating[:, ::1] A,
    const floating[:, ::1] B,
    floating[:, ::1] D,
    const Py_ssize_t[::1] own,
    const Py_ssize_t[::1] y,
    const Py_ssize_t[::1] starts,
    const double[:, ::1] costs,
    Py_ssize_t k,
    bint ties,
    double[::1] losses,
    unsigned char[::1] solvable,
    Py_ssize_t[:, ::1] rows,
    floating[:, ::1] weights,
):
    cdef _Ballot ballot = _Ballot(starts.shape[0] - 1, k, ties)
    cdef Py_ssize_t i, j, r, place, total
    cdef Py_ssize_t[::1] right = ballot.right, rival = ballot.rival
    cdef double S, augmented
    with nogil:
        multiply[floating](False, A, True, B, 1.0, D)
        for i in range(A.shape[0]):
            _set_nearest[floating](D[i], starts, own[i], ballot)
            total = _set_order(ballot)
            S = _best_set(ballot, total, costs[y[i]], False, right)
            if not isfinite(S):
                continue
            solvable[i] = True
            augmented = _best_set(ballot, total, costs[y[i]], True, rival)
            losses[i] = max(0.0, augmented - S)
            place = 0
            for r in range(ballot.n_classes):
                for j in range(min(right[r], rival[r]), max(right[r], rival[r])):
                    rows[i, place] = ballot.found[r * k + j]
                    weights[i, place] = 1 if right[r] > rival[r] else -1
                    place += 1


cdef void _set_nearest(
    const floating[::1] distances, const Py_ssize_t[::1] starts, Py_ssize_t own, _Ballot ballot
) noexcept nogil:
    """Find the k nearest items of each class but `own`, nearest first; of equal ones, the earlier.

    Sets `near` and `found` to distances (infinite without an item) and rows, and `sizes`.
    """
    cdef Py_ssize_t k = ballot.k, r, j, size, place
    cdef double[::1] near = ballot.near
    cdef Py_ssize_t[::1] found = ballot.found
    cdef double d, worst
    for r in range(ballot.n_classes):
        size, worst = 0, INFINITY
        for j in range(starts[r], starts[r + 1]):
            d = distances[j]
            if (size == k and d >= worst) or j == own:
                continue
            place = size if size < k else k - 1
            while place > 0 and near[r * k + place - 1] > d:
                near[r * k + place] = near[r * k + place - 1]
                found[r * k + place] = found[r * k + place - 1]
                place -= 1
            near[r * k + place], found[r * k + place] = d, j
            size = min(size + 1, k)
            worst = near[r * k + size - 1]
        ballot.sizes[r] = size
        for place in range(size, k):
            near[r * k + place] = INFINITY


cdef Py_ssize_t _set_order(_Ballot ballot) noexcept nogil:
    """Sort `near` into `order`, by merging its classes, each sorted; return how many are items."""
    cdef Py_ssize_t n = ballot.n_classes * ballot.k, width = ballot.k, total = 0
    cdef Py_ssize_t start, middle, stop, i, j, place
    cdef Py_ssize_t[::1] order = ballot.order, spare = ballot.spare
    cdef double[::1] near = ballot.near
    for i in range(n):
        order[i] = i
    for i in range(ballot.n_classes):
        total += ballot.sizes[i]
    while width < n:
        start = 0
        while start + width < n:
            middle, stop = start + width, min(start + 2 * width, n)
            for i in range(start, middle):
                spare[i] = order[i]
            i, j, place = start, middle, start
            while i < middle:
                if j < stop and near[order[j]] < near[spare[i]]:
                    order[place] = order[j]
                    j += 1
                else:
                    order[place] = spare[i]
                    i += 1
                place += 1
            start = stop
        width *= 2
    return total


cdef double _best_set(
    _Ballot ballot, Py_ssize_t total, const double[::1] cost, bint augmented, Py_ssize_t[::1] best
) noexcept nogil:
    """Set `best` (R,) to the votes of the best set of k items; return its value.

    That is max S(h) over h with Δ(h) = 0, or, augmented, max [S(h) + Δ(h)] over all h, with Δ of
    each winner in `cost` (R,); -inf without such an h. `order` sorts the `total` items of `near`.

    For a winner c with n votes the best h has the n nearest of c and the nearest of the others, at
    most n of a class, or n - 1 if that class must not tie: a partition matroid, for which the
    greedy choice is exact. A tie counts as its worst class, so in a set of Δ = 0 no class with a
    cost may tie; with `ties` as its best one, so in an augmented set none may that costs less.
    """
    cdef Py_ssize_t k = ballot.k, i, c, n, e, r, missing
    cdef double[::1] near = ballot.near, least = ballot.least
    cdef Py_ssize_t[::1] votes = ballot.votes, order = ballot.order
    cdef double found = -INFINITY, gain, own, sum
    cdef bint strict
    # Each n needs k - n others, which cost at least as much as the k - n nearest of all.
    least[0] = 0.0
    for i in range(k):
        least[i + 1] = least[i] + near[order[i]] if i < total else 0.0
    for c in range(ballot.n_classes):
        if not augmented and cost[c] > 0.0:
            continue
        gain = cost[c] if augmented else 0.0
        own = 0.0
        for n in range(1, min(k, ballot.sizes[c]) + 1):
            own += near[c * k + n - 1]
            if gain - own - least[k - n] <= found:
                continue
            for r in range(ballot.n_classes):
                votes[r] = 0
            votes[c] = n
            missing, sum = k - n, own
            for e in range(total):
                if missing == 0:
                    break
                r = order[e] // k
                if ballot.ties:
                    strict = augmented and cost[r] < cost[c]
                else:
                    strict = not augmented and cost[r] > 0.0
                if r == c or votes[r] >= n - strict:
                    continue
                votes[r] += 1
                sum += near[order[e]]
                missing -= 1
            if missing == 0 and gain - sum > found:
                found = gain - sum
                for r in range(ballot.n_classes):
                    best[r] = votes[r]
    return found


def pulls(A, B, pull):
    """Half of the gradient of the losses' sum by a and by b_j, and the j of the latter.

    With w_ij = 1 in the right set alone, -1 in the rival alone, and as many of either,

        ∂/∂a_i = 2 Σ_j w_ij (a_i - b_j) = -2 Σ_j w_ij b_j,    ∂/∂b_j = 2 Σ_i w_ij (b_j - a_i)

    from which the gradients by the maps follow: (∂/∂a)ᵀX and (∂/∂b)ᵀZ  [Trivedi notes, 9, 10].
    """
    touched = np.unique(pull.rows)
    touched = touched[touched >= 0]
    place = np.full(len(B), -1, np.intp)
    place[touched] = np.arange(len(touched))
    by_query = np.zeros(A.shape, A.dtype)
    by_item = np.zeros((len(touched), A.shape[1]), A.dtype)
    _gather(A, B, pull.rows, pull.weights, place, by_query, by_item)
    return by_query, by_item, touched


def _gather(
    const floating[:, ::1] A,
    const floating[:, ::1] B,
    const Py_ssize_t[:, ::1] rows,
    const floating[:, ::1] weights,
    const Py_ssize_t[::1] place,
    floating[:, ::1] by_query,
    floating[:, ::1] by_item,
):
    with nogil:
        _add_pulls[floating](A, B, rows, weights, place, by_query, by_item)


cdef void_clones _add_pulls(
    const floating[:, ::1] A,
    const floating[:, ::1] B,
    const Py_ssize_t[:, ::1] rows,
    const floating[:, ::1] weights,
    const Py_ssize_t[::1] place,
    floating[:, ::1] by_query,
    floating[:, ::1] by_item,
) noexcept nogil:
    cdef Py_ssize_t i, e, l, j, z
    cdef floating w
    for i in range(rows.shape[0]):
        for e in range(rows.shape[1]):
            j = rows[i, e]
            if j < 0:
                break
            w, z = weights[i, e], place[j]
            for l in range(A.shape[1]):
                by_query[i, l] -= w * B[j, l]
            for l in range(A.shape[1]):
                by_item[z, l] += w * (B[j, l] - A[i, l])


def adam_step(M, G, first, second, t, rate):
    """Move M against its gradient G by Adam; `first` and `second` are its moments, t ≥ 1 the time.

        m += (1-β₁)(g - m),   v += (1-β₂)(g² - v),   M -= rate m̂/(√v̂ + ε)        [Kingma2015]

    with m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ). Here ε is the root of the rounding unit times the root mean
    square of √v̂: free of units, and gradients that are only rounding move nothing.
    """
    first += (1.0 - BETA_1) * (G - first)
    second += (1.0 - BETA_2) * (G * G - second)
    total = float(second.sum(dtype=np.float64))
    if total > 0.0:
        least = float(np.finfo(M.dtype).eps ** 0.5 * np.sqrt(total / M.size))
        scale = float(rate * np.sqrt(1.0 - BETA_2**t) / (1.0 - BETA_1**t))
        M -= scale * first / (np.sqrt(second) + least)
