"""Blend's memory: an item-space vector for each query, and decisions about it."""

import numpy as np

from similia.linalg.compiled import compiled, overwrite
from similia.linalg.near_rows import find_near, keep_row
from similia.updates.blend import add_choices, choices, log_sum

#: kinds of evidence, and a query's own memory where someone has decided about it
OWN, NEIGHBORS, DECIDED = 0, 1, 2
#: largest variance of a score: beyond it, rounding would swallow what the other items say
WIDEST = 1e12


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
    `find_near` needs, and the cosine from which on two are neighbours.
    """
    starts, gains, weights, slots, fresh, left = lists
    vectors, variances, met, weight, evidence, totals = state
    units, queries, kept, limit = known
    gained, logs, place = np.zeros(len(scales)), np.zeros(len(scales)), 0
    near, cosines = np.empty(len(queries), np.intp), np.empty(len(queries), queries.dtype)
    for t in range(len(weights)):
        begin, end = starts[t], starts[t + 1]
        n, slot = end - begin, slots[t]
        gain = gains[begin:end]
        C = others[place : place + n * n].reshape(n, n)
        place += n * n
        if fresh[t]:
            vectors[:, slot], met[slot], weight[slot] = 0.0, 0, 0.0
            variances[:, slot] = scales
            overwrite(queries[slot], units[t])
            keep_row(kept, slot, units[t])
        elif left[t] < 1.0:
            vectors[:, slot] *= left[t]
            variances[:, slot] = scales - left[t] * (scales - variances[:, slot])
        if not choices(gain):
            continue
        R, SR = rows[begin:end], spread[begin:end]
        inner, eye = (R @ SR.T).astype(np.float64), np.eye(n)
        plain = add_choices(offsets[begin:end], gain, weights[t], np.zeros(n), np.zeros((n, n)))
        kind = 0 if met[slot] else 1
        n_near = find_near(kept, queries, units[t], limit, near, cosines) if kind else 0
        for c in range(len(scales)):
            g, H = np.zeros(n), np.zeros((n, n))
            scores = offsets[begin:end] + (R @ vectors[c, slot]).astype(np.float64)
            found = add_choices(scores, gain, weights[t], g, H)
            if kind:
                m = np.zeros(R.shape[1], R.dtype)
                for i in range(n_near):
                    if near[i] != slot:
                        m += (cosines[i] - limit) / (1 - limit) * vectors[c, near[i]]
                scores = offsets[begin:end] + (R @ m).astype(np.float64)
                found = add_choices(scores, gain, weights[t], np.zeros(n), np.zeros((n, n)))
            gained[c] = found - plain
            v = variances[c, slot]
            covariance, part = C + v * inner, 1.0
            widest = np.diag(covariance).max()
            if widest > WIDEST:
                part = WIDEST / widest
                covariance *= part
            a = np.linalg.solve(eye + H @ covariance, g)
            step = (part * v * a).astype(R.dtype)
            for i in range(n):
                for d in range(R.shape[1]):
                    vectors[c, slot, d] += step[i] * SR[i, d]
            seen = H @ inner
            total = np.trace(seen)
            if total > 0.0:
                variances[c, slot] = v / (1.0 + v * np.sum(seen * seen.T) / total)
        for c in range(len(scales)):  # what repeats say of a scale counts for neighbours too
            logs[c] = evidence[0, c] + (evidence[1, c] if kind else 0.0)
        totals[kind] += log_sum(logs + gained) - log_sum(logs)
        evidence[kind] += gained
        met[slot] += 1
        weight[slot] += min(weights[t], 1.0)


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
