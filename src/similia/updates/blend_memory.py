"""Blend's memory: an item-space vector for each query, and decisions about it."""

import numpy as np

from similia.linalg.compiled import compiled, overwrite
from similia.linalg.near_rows import find_near, keep_row
from similia.updates.blend import add_choices, choices, log_sum

#: kinds of evidence, and a query's own memory where someone has decided about it
OWN, NEIGHBORS, DECIDED = 0, 1, 2
#: largest variance of a score: beyond it, rounding would swallow what the other items say
WIDEST = 1e12
#: sides of products below which loops beat the BLAS
FEW = 8


@compiled
def meet(met, slots, times, ages):
    """Note when each of some queries, one after the other, was met; `ages` are since when not."""
    for t in range(len(slots)):
        ages[t] = times[t] - met[slots[t]]
        met[slots[t]] = times[t]


@compiled
def remember_lists(lists, rows, spread, offsets, others, state, known, scales):
    """Learn an item-space vector for the query of each list, one after the other.

    m ~ N(0, v S) for each query and each prior variance v of `scales`; `spread` are the rows times
    S. The total score of an item p is its offset plus mᵀp, the total covariance that of the offsets
    plus v times the items' products pᵀSp. Directions that a list says nothing about keep v; one
    number for all of them takes the mean of the information over what it says something about.

    Where items are so long that a score could be anything, the step is that of a variance of
    `WIDEST`.

    Evidence for a query's own memory is what it adds to repeats of the query; for that of its
    neighbours, weighted by κ, what it adds to the query's first list. In `totals` scales mix by
    what each had in evidence before the list.

    `known` are the queries of the lists, of length 1, those that are remembered, by slot, what
    `find_near` needs, and the cosine from which on two are neighbours. The `marks` of a list, bits,
    join those of its query in `alike`.
    """
    starts, gains, weights, marks, slots, fresh, left = lists
    vectors, variances, met, weight, alike, evidence, totals = state
    units, queries, kept, limit = known
    gained, logs, place, longest = np.zeros(len(scales)), np.zeros(len(scales)), 0, 0
    for t in range(len(weights)):
        longest = max(longest, starts[t + 1] - starts[t])
    scores_of, g_of, squares = np.empty(longest), np.empty(longest), np.empty((4, longest**2))
    near, cosines = np.empty(len(queries), np.intp), np.empty(len(queries), queries.dtype)
    m = np.empty(rows.shape[1], rows.dtype)
    for t in range(len(weights)):
        begin, end = starts[t], starts[t + 1]
        n, slot = end - begin, slots[t]
        gain, offset, R = gains[begin:end], offsets[begin:end], rows[begin:end]
        C = others[place : place + n * n].reshape(n, n)
        place += n * n
        if fresh[t]:
            vectors[:, slot], met[slot], weight[slot], alike[slot] = 0.0, 0, 0.0, 0
            variances[:, slot] = scales
            overwrite(queries[slot], units[t])
            keep_row(kept, slot, units[t])
        elif left[t] < 1.0:
            vectors[:, slot] *= left[t]
            variances[:, slot] = scales - left[t] * (scales - variances[:, slot])
        if not choices(gain):
            continue
        inner, H = squares[0, : n * n].reshape(n, n), squares[1, : n * n].reshape(n, n)
        seen, A = squares[2, : n * n].reshape(n, n), squares[3, : n * n].reshape(n, n)
        scores, g = scores_of[:n], g_of[:n]
        _multiply(R, spread[begin:end].T, inner)
        plain = _choices_of(offset, gain, weights[t], g, H)
        kind = 0 if met[slot] else 1
        n_near = 0
        if kind:
            for i in range(find_near(kept, queries, units[t], limit, near, cosines)):
                if near[i] != slot:
                    near[n_near], cosines[n_near] = near[i], cosines[i]
                    n_near += 1
        for c in range(len(scales)):
            gained[c] = 0.0
            if n_near:
                m[:] = 0.0
                for i in range(n_near):
                    kappa = R.dtype.type((cosines[i] - limit) / (1 - limit))
                    for d in range(len(m)):
                        m[d] += kappa * vectors[c, near[i], d]
                _add_scores(offset, R, m, scores)
                gained[c] = _choices_of(scores, gain, weights[t], g, H) - plain
            _add_scores(offset, R, vectors[c, slot], scores)
            found = _choices_of(scores, gain, weights[t], g, H)
            if not kind:
                gained[c] = found - plain
            v, widest, part = variances[c, slot], 0.0, 1.0
            for i in range(n):
                widest = max(widest, C[i, i] + v * inner[i, i])
            if widest > WIDEST:
                part = WIDEST / widest
            _multiply(H, C, A)
            _multiply(H, inner, seen)
            total = square = 0.0
            for i in range(n):
                total += seen[i, i]
                for j in range(n):
                    square += seen[i, j] * seen[j, i]
                    A[i, j] = part * (A[i, j] + v * seen[i, j])
                A[i, i] += 1.0
            eliminate(A, g)
            for i in range(n):
                step = R.dtype.type(part * v * g[i])
                for d in range(len(m)):
                    vectors[c, slot, d] += step * spread[begin + i, d]
            if total > 0.0:
                variances[c, slot] = v / (1.0 + v * square / total)
        for c in range(len(scales)):  # what repeats say of a scale counts for neighbours too
            logs[c] = evidence[0, c] + (evidence[1, c] if kind else 0.0)
        totals[kind] += log_sum(logs + gained) - log_sum(logs)
        evidence[kind] += gained
        met[slot] += 1
        weight[slot] += min(weights[t], 1.0)
        alike[slot] |= marks[t]


@compiled
def _multiply(A, B, out):
    """Replace `out` by AB. A call of the BLAS costs more than a few products."""
    if len(out) > FEW:
        out[:] = A @ B
        return
    for i in range(len(out)):
        for j in range(out.shape[1]):
            total = A.dtype.type(0)
            for k in range(A.shape[1]):
                total += A[i, k] * B[k, j]
            out[i, j] = total


@compiled
def _add_scores(offsets, R, m, scores):
    """Replace scores by offsets + Rm."""
    for i in range(len(scores)):
        total = m.dtype.type(0)
        for d in range(len(m)):
            total += R[i, d] * m[d]
        scores[i] = offsets[i] + total


@compiled
def _choices_of(scores, gains, weight, g, H):
    """Replace g and H by the gradient and the information of a list's choices; return log P."""
    g[:], H[:] = 0.0, 0.0
    return add_choices(scores, gains, weight, g, H)


@compiled
def eliminate(A, x):
    """Replace x by A⁻¹x for a small A, which is lost: Gauss's elimination, with pivots."""
    n = len(x)
    for k in range(n):
        pivot = k
        for i in range(k + 1, n):
            if abs(A[i, k]) > abs(A[pivot, k]):
                pivot = i
        if pivot != k:
            for j in range(k, n):
                A[k, j], A[pivot, j] = A[pivot, j], A[k, j]
            x[k], x[pivot] = x[pivot], x[k]
        for i in range(k + 1, n):
            factor = A[i, k] / A[k, k]
            if factor != 0.0:
                for j in range(k + 1, n):
                    A[i, j] -= factor * A[k, j]
                x[i] -= factor * x[k]
    for k in range(n - 1, -1, -1):
        for j in range(k + 1, n):
            x[k] -= A[k, j] * x[j]
        x[k] /= A[k, k]


@compiled
def decided_pairs(starts, gains, trusted):
    """Each item of a trusted list above each one of a smaller gain: lists, and the two items.

    If no item has a gain, "none of these", all are below something else: -1.
    """
    most = 0
    for t in range(len(trusted)):
        most += trusted[t] * (starts[t + 1] - starts[t]) ** 2
    found, total = np.empty((3, most), np.intp), 0
    for t in range(len(trusted)):
        if not trusted[t]:
            continue
        begin, end = starts[t], starts[t + 1]
        nothing = gains[begin:end].max() == 0.0
        for i in range(begin, begin + 1 if nothing else end):
            for j in range(begin, end):
                if nothing or gains[i] > gains[j]:
                    found[0, total], found[1, total], found[2, total] = t, i, j
                    if nothing:
                        found[1, total] = -1
                    total += 1
    return found[0, :total], found[1, :total], found[2, :total]


@compiled
def recall_queries(found, asked, memory, decisions, shares, ranking, sweeps):
    """Turn what W adds to queries into all that was learnt about them, one query after the other.

    To each row of `found` is added m(q), the query's own memory or else, by κ, that of its
    neighbours. The sum is divided by the strength of the base, and then moved by the least that
    obeys decisions about the query.

    `asked` are the queries, their keys, and where they are remembered, or -1. Shares of the scales
    are those for each kind of memory.
    """
    (queries, keys, slots), (vectors, known, kept, limit) = asked, memory
    (decided, features, better), (weights, strength, margin) = decisions, ranking
    real = found.dtype.type
    room = len(known) if (slots < 0).any() and shares[NEIGHBORS].any() else 0
    near, cosines = np.empty(room, np.intp), np.empty(room, known.dtype)
    for t in range(len(found)):
        row, key, slot, n_own = found[t], keys[t], slots[t], 0
        for i in range(len(decided)):
            n_own += decided[i] == key
        if slot >= 0:
            _add_mean(row, 1.0, vectors, slot, shares[DECIDED if n_own else OWN])
        elif room:
            q = _unit(queries[t])
            for i in range(find_near(kept, known, q, limit, near, cosines)):
                kappa = (cosines[i] - limit) / (1 - limit)
                _add_mean(row, kappa, vectors, near[i], shares[NEIGHBORS])
        for d in range(len(row)):
            row[d] /= real(strength)
        if n_own and sweeps:
            own, gaps, k = np.empty(n_own, np.intp), np.zeros(n_own), 0
            for i in range(len(decided)):
                if decided[i] == key:
                    own[k] = i
                    for v in range(len(weights)):
                        gaps[k] += features[i, v] * weights[v]
                    k += 1
            vector = row.astype(np.float64)
            _obey_decisions(vector, better, own, gaps, margin, sweeps)
            overwrite(row, vector)


@compiled
def _unit(x):
    """A vector of length 1; zeros stay."""
    total = x.dtype.type(0)
    for value in x:
        total += value * value
    return x / x.dtype.type(max(np.sqrt(total), 1e-30))


@compiled
def _add_mean(row, kappa, vectors, slot, shares):
    """Add κ times the mean over the scales of what is remembered."""
    for c in range(len(shares)):
        weight = row.dtype.type(kappa * shares[c])
        if weight != 0:
            x = vectors[c, slot]
            for d in range(len(row)):
                row[d] += weight * x[d]


@compiled
def _obey_decisions(vector, better, own, gaps, margin, sweeps):
    """Move a vector by the least that puts its own decisions above the margin, the newest last.

    `better` are differences between items, better less worse, and `gaps` what else is between them.
    """
    for _ in range(sweeps):
        moved = False
        for i in range(len(own)):
            x = better[own[i]]
            length = score = 0.0
            for d in range(len(x)):
                length += np.float64(x[d]) * x[d]
                score += x[d] * vector[d]
            short = margin - gaps[i] - score
            if short > 0.0 and length > 1e-12:
                moved = True
                for d in range(len(x)):
                    vector[d] += short * 1.0001 / length * x[d]
        if not moved:
            break
