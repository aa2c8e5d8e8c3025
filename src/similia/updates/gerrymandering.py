"""Neighborhood gerrymandering: the best sets of neighbors, and the pull that follows from them.

A set h of k items votes on the class of a query. Of each class the best set holds the nearest
items, so it is determined by its number of votes for each class, and only the k nearest items of
each class matter.
"""

from functools import partial
from typing import NamedTuple

import numpy as np

from similia.contract import Array
from similia.linalg.blas import panels
from similia.linalg.bound_by_numba import gemm
from similia.linalg.compiled import compiled
from similia.linalg.threads import processors, side_by_side

PANEL_BYTES = 4 * 2**20  #: bytes of distances that one thread holds at a time
BETA_1, BETA_2 = 0.9, 0.999  #: decay of Adam's moments


class Pull(NamedTuple):
    """Losses of B queries, which of them are solvable, and the items that each pulls and pushes.

    rows and weights (B, 2k): items in the right set only have +1, in the rival only -1, none 0.
    """

    losses: Array
    solvable: Array
    rows: Array
    weights: Array


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
        np.full((len(A), 2 * k), -1, np.int64),
        np.zeros((len(A), 2 * k), A.dtype),
    )
    size = max(16, PANEL_BYTES // max(1, len(B) * A.itemsize))
    count = max(-(-len(A) // size), min(processors(), -(-len(A) // 16)))
    items, ballot = (B, np.vecdot(B, B), starts), (cost, k, ties)
    tasks = []
    for start, stop in panels(len(A), count):
        queries = tuple(part[start:stop] for part in (A, own, y))
        parts = Pull(*(part[start:stop] for part in pull))
        tasks.append(partial(_infer_panel, queries, items, ballot, parts))
    side_by_side(tasks, A.size * len(B))
    return pull


@compiled
def _infer_panel(queries, items, ballot, pull):
    (A, own, y), (B, squares, starts), (costs, k, ties) = queries, items, ballot
    # |a|² is left out: it occurs k times in either set.
    D = np.empty((len(A), len(B)), A.dtype)
    for i in range(len(A)):
        D[i] = squares
    gemm(False, A * A.dtype.type(-2), True, B, 1.0, D)
    n_classes = len(starts) - 1
    near = np.empty((n_classes, k))
    found = np.empty((n_classes, k), np.int64)
    sizes = np.empty(n_classes, np.int64)
    right = np.zeros(n_classes, np.int64)
    rival, votes = np.zeros_like(right), np.zeros_like(right)
    for i in range(len(A)):
        nearest_by_class(D[i], starts, own[i], near, found, sizes)
        order = np.argsort(near.ravel(), kind="mergesort")[: sizes.sum()]
        S = best_set(near, sizes, order, costs[y[i]], ties, False, right, votes)
        if not np.isfinite(S):
            continue
        pull.solvable[i] = True
        augmented = best_set(near, sizes, order, costs[y[i]], ties, True, rival, votes)
        pull.losses[i] = max(0.0, augmented - S)
        place = 0
        for r in range(n_classes):
            for j in range(min(right[r], rival[r]), max(right[r], rival[r])):
                pull.rows[i, place] = found[r, j]
                pull.weights[i, place] = 1.0 if right[r] > rival[r] else -1.0
                place += 1


@compiled
def nearest_by_class(distances, starts, own, near, found, sizes):
    """Find the k nearest items of each class but `own`, nearest first; of equal ones, the earlier.

    Sets `near` and `found` (R, k) to distances (infinite without an item) and rows, `sizes` (R,).
    """
    k = near.shape[1]
    for r in range(len(sizes)):
        size, worst = 0, np.inf
        for j in range(starts[r], starts[r + 1]):
            d = distances[j]
            if (size == k and d >= worst) or j == own:
                continue
            place = size if size < k else k - 1
            while place > 0 and near[r, place - 1] > d:
                near[r, place] = near[r, place - 1]
                found[r, place] = found[r, place - 1]
                place -= 1
            near[r, place] = d
            found[r, place] = j
            size = min(size + 1, k)
            worst = near[r, size - 1]
        sizes[r] = size
        near[r, size:] = np.inf


@compiled
def best_set(near, sizes, order, cost, ties, augmented, best, votes):
    """Set `best` (R,) to the votes of the best set of k items; return its value.

    That is max S(h) over h with Δ(h) = 0, or, augmented, max [S(h) + Δ(h)] over all h, with Δ of
    each winner in `cost` (R,); -inf without such an h. `order` sorts `near` (R, k).

    For a winner c with n votes the best h has the n nearest of c and the nearest of the others, at
    most n of a class, or n - 1 if that class must not tie: a partition matroid, for which the
    greedy choice is exact. A tie counts as its worst class, so in a set of Δ = 0 no class with a
    cost may tie; with `ties` as its best one, so in an augmented set none may that costs less.
    """
    n_classes, k = near.shape
    found = -np.inf
    # Each n needs k - n others, which cost at least as much as the k - n nearest of all.
    least = np.zeros(k + 1)
    for i in range(min(k, len(order))):
        least[i + 1] = least[i] + near.flat[order[i]]
    for c in range(n_classes):
        if not augmented and cost[c] > 0.0:
            continue
        gain = cost[c] if augmented else 0.0
        own = 0.0
        for n in range(1, min(k, sizes[c]) + 1):
            own += near[c, n - 1]
            if gain - own - least[k - n] <= found:
                continue
            votes[:] = 0
            votes[c] = n
            missing, total = k - n, own
            for place in order:
                if missing == 0:
                    break
                r = place // k
                if ties:
                    strict = augmented and cost[r] < cost[c]
                else:
                    strict = not augmented and cost[r] > 0.0
                if r == c or votes[r] >= n - strict:
                    continue
                votes[r] += 1
                total += near.flat[place]
                missing -= 1
            if missing == 0 and gain - total > found:
                found = gain - total
                best[:] = votes
    return found


def pulls(A, B, pull):
    """Half of the gradient of the losses' sum by a and by b_j, and the j of the latter.

    With w_ij = 1 in the right set alone, -1 in the rival alone, and as many of either,

        ∂/∂a_i = 2 Σ_j w_ij (a_i - b_j) = -2 Σ_j w_ij b_j,    ∂/∂b_j = 2 Σ_i w_ij (b_j - a_i)

    from which the gradients by the maps follow: (∂/∂a)ᵀX and (∂/∂b)ᵀZ  [Trivedi notes, 9, 10].
    """
    touched = np.unique(pull.rows)
    touched = touched[touched >= 0]
    place = np.full(len(B), -1, np.int64)
    place[touched] = np.arange(len(touched))
    by_query = np.zeros(A.shape, A.dtype)
    by_item = np.zeros((len(touched), A.shape[1]), A.dtype)
    _gather(A, B, pull.rows, pull.weights, place, by_query, by_item)
    return by_query, by_item, touched


@compiled
def _gather(A, B, rows, weights, place, by_query, by_item):
    for i in range(len(rows)):
        a, x = A[i], by_query[i]
        for e in range(rows.shape[1]):
            if rows[i, e] < 0:
                break
            w, b = weights[i, e], B[rows[i, e]]
            z = by_item[place[rows[i, e]]]
            for l in range(len(a)):
                x[l] -= w * b[l]
                z[l] += w * (b[l] - a[l])


def adam_step(M, G, first, second, t, rate):
    """Move M against its gradient G by Adam; `first` and `second` are its moments, t ≥ 1 the time.

        m += (1-β₁)(g - m),   v += (1-β₂)(g² - v),   M -= rate m̂/(√v̂ + ε)        [Kingma2015]

    with m̂ = m/(1-β₁ᵗ), v̂ = v/(1-β₂ᵗ). Here ε is the root of the rounding unit times the root mean
    square of √v̂: free of units, and gradients that are only rounding move nothing.
    """
    _adam(*(A.reshape(-1) for A in (M, G, first, second)), t, rate, np.finfo(M.dtype).eps ** 0.5)


@compiled
def _adam(M, G, first, second, t, rate, share):
    total = 0.0
    for i in range(len(M)):
        first[i] += (1.0 - BETA_1) * (G[i] - first[i])
        second[i] += (1.0 - BETA_2) * (G[i] * G[i] - second[i])
        total += second[i]
    if total == 0.0:
        return
    least = share * np.sqrt(total / len(M))
    scale = rate * np.sqrt(1.0 - BETA_2**t) / (1.0 - BETA_1**t)
    for i in range(len(M)):
        M[i] -= scale * first[i] / (np.sqrt(second[i]) + least)
