"""Balanced passes: each class learns from all of its examples and from as many others.

Every example is a positive one of its class and a negative one of another. Both are learnt at one
visit, so that its row is read from memory only once, whatever the number of classes.
"""

import numpy as np

from similia.linalg.compiled import compiled
from similia.linalg.memory import prefetch_row
from similia.losses import loss_slope

CONSTANT, LINEAR, SQRT, INVERSE = range(4)

AHEAD = 4  #: steps ahead of its own at which a row is prefetched
LISTED = 1024  #: visits whose steps are listed at a time
NEAR = 2**14  #: bytes of Z that the nearest cache holds beside the rows: no need to prefetch them
NEIGHBORS = 32  #: neighboring rows that a pass visits one after the other, in random order
#: share of all rows above which a class is too large for its negatives to be dealt out
LARGEST = 0.125


@compiled
def shrunk(kind, t, total, horizon):
    """Factor of the step at time t: see `linear.passes.SCHEDULES`."""
    if kind == LINEAR:
        return max(1.0 - t / total, 0.0)
    if kind == SQRT:
        return 1.0 / np.sqrt(1.0 + t / horizon)
    if kind == INVERSE:
        return 1.0 / (1.0 + t / horizon)
    return 1.0


@compiled
def visits_pass(Z, moment, rows, visits, some, steps, clock, code):
    """Teach the classes some[0] <= c < some[1] by visits, in order: 4k operations for each.

    visits = (row, ours, others): visit p is to a row of U that is a positive example of class
    ours[p] and a negative one of class others[p], -1 for none. rows = (U, weights, norms2). Steps
    are η·shrunk·weight, at most 1/(F''(0)|u|²), with steps = (kind, η, total, horizon, F''(0)).
    Empty weights are ones, empty `norms2` mean no bound. clock = (t, seen, tick): the schedule's
    time, the moment's, and the time of a visit. `moment`, unless empty, gathers Σ time·ΔZ.

    Two steps in a row for different classes are independent. They are taken together, so that the
    sums of one fill the time in which the other waits for its slope.
    """
    U, far = rows[0], (some[1] - some[0]) * Z[0].size * Z.itemsize > NEAR
    places, classes = np.empty(2 * LISTED + 1, np.int64), np.empty(2 * LISTED + 1, np.int64)
    lengths, signs, times = np.empty((3, 2 * LISTED + 1))
    due = (places, classes, lengths, signs, times)
    for start in range(0, len(visits[0]), LISTED):
        count = _list_steps(due, start, rows, visits, some, steps, clock)
        for s in range(min(AHEAD, count)):
            _prefetch(Z, U, places[s], classes[s], far)
        s = 0
        while s < count:
            for later in range(s + AHEAD, min(s + AHEAD + 2, count)):
                _prefetch(Z, U, places[later], classes[later], far)
            # Numbers, not arrays: an array is seven arguments, too many for so short a step.
            one = (places[s], classes[s], lengths[s], signs[s], times[s])
            n = s + 1
            if n < count and classes[s] != classes[n]:
                other = (places[n], classes[n], lengths[n], signs[n], times[n])
                _two_steps(Z, moment, U, one, other, code)
                s += 2
            else:
                _step(Z, moment, U, one, code)
                s += 1


@compiled
def _list_steps(due, start, rows, visits, some, steps, clock):
    """Fill `due` with the steps of classes in `some`, from visit `start` on; return the count."""
    places, classes, lengths, signs, times = due
    (_, weights, norms2), (row, ours, others) = rows, visits
    kind, eta, total, horizon, steepest = steps
    (t, seen, tick), (first, last), count = clock, some, 0
    for p in range(start, min(start + LISTED, len(row))):
        i = row[p]
        length = eta * shrunk(kind, t + p * tick, total, horizon)
        if weights.size:
            length *= weights[i]
        if norms2.size:
            length = min(length, 1.0 / max(steepest * norms2[i], 1e-30))
        for c, y in ((ours[p], 1.0), (others[p], -1.0)):
            places[count], classes[count] = i, c
            lengths[count], signs[count], times[count] = length, y, seen + (p + 1) * tick
            # A step of another class is overwritten by the next: no branch to mispredict.
            count += (first <= c) & (c < last)
    return count


@compiled
def _prefetch(Z, U, i, c, far):
    prefetch_row(U, i)
    if far:
        prefetch_row(Z, c)


@compiled
def _step(Z, moment, U, one, code):
    i, c, length, y, time = one
    z, u, real = Z[c], U[i], Z.dtype.type
    score = real(0.0)
    for k in range(len(u)):
        score += z[k] * u[k]
    step = real(-length * y * loss_slope(code, real(y) * score))
    for k in range(len(u)):
        z[k] += step * u[k]
    if moment.size:
        _remember(moment, c, u, step, time)


@compiled
def _two_steps(Z, moment, U, one, other, code):
    """Two steps, of different classes, at once."""
    i, c, length, y, time = one
    j, e, length_j, y_j, time_j = other
    z, u, z_j, u_j, real = Z[c], U[i], Z[e], U[j], Z.dtype.type
    score, score_j = real(0.0), real(0.0)
    for k in range(len(u)):
        score += z[k] * u[k]
        score_j += z_j[k] * u_j[k]
    step = real(-length * y * loss_slope(code, real(y) * score))
    step_j = real(-length_j * y_j * loss_slope(code, real(y_j) * score_j))
    for k in range(len(u)):
        z[k] += step * u[k]
        z_j[k] += step_j * u_j[k]
    if moment.size:
        _remember(moment, c, u, step, time)
        _remember(moment, e, u_j, step_j, time_j)


@compiled
def _remember(moment, c, u, step, time):
    later = moment.dtype.type(time)
    for k in range(len(u)):
        moment[c, k] += later * (step * u[k])


@compiled
def paired_visits(codes, seed):
    """One visit to each row: for its class, and as a negative example of another.

    Class c gets as many negative examples as it has positive ones: the classes are dealt out to the
    rows like shuffled cards, and a row that gets its own class swaps with another. No class may
    have more than `LARGEST` of the rows, or it would take the negatives of the small ones. Rows
    come in blocks of neighbors, blocks and neighbors in random order, so rows that are stored in
    random order are visited in random order.
    """
    state = np.uint64(seed)
    n, filled = len(codes), 0
    others, state = shuffled(codes, state)
    _swap_own(codes, others, state)
    row = np.empty(n, np.int64)
    blocks, state = shuffled(np.arange((n + NEIGHBORS - 1) // NEIGHBORS), state)
    for block in blocks:
        stop = min(n, (block + 1) * NEIGHBORS)
        inside, state = shuffled(np.arange(block * NEIGHBORS, stop), state)
        row[filled : filled + len(inside)] = inside
        filled += len(inside)
    return row, codes[row], others[row]


@compiled
def shuffled(values, state):
    """The values in random order, and the next state of the generator."""
    values = values.copy()
    for i in range(len(values) - 1, 0, -1):
        state, j = _below(state, i + 1)
        values[i], values[j] = values[j], values[i]
    return values, state


@compiled
def _swap_own(codes, others, state):
    """Swap at random until no row is a negative example of its own class."""
    for i in range(len(codes)):
        c = codes[i]
        while others[i] == c:
            state, j = _below(state, len(codes))
            if codes[j] != c and others[j] != c:
                others[i], others[j] = others[j], c


@compiled
def balanced_visits(order, codes, j, ours, seed):
    """All examples `ours` of class j and as many others, in random order: i, or ~i for others.

    The others are the next ones of other classes in `order`, a random order of all rows, from a
    random place on: a uniform choice without repetition, at the cost of what is chosen.
    """
    n = len(order)
    count = min(len(ours), n - len(ours))
    visits = np.empty(len(ours) + count, np.int64)
    visits[: len(ours)] = ours
    state, start = _below(np.uint64(seed), max(n, 1))
    passed = 0
    for i in range(len(ours), len(visits)):
        while codes[order[(start + passed) % n]] == j:
            passed += 1
        visits[i] = ~order[(start + passed) % n]
        passed += 1
    return shuffled(visits, state)[0]


@compiled
def _below(state, n):
    """Next state, and a random number below n < 2³² (SplitMix64)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    x = state
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    # The upper half of x as a fraction of n: a remainder would take longer than all above.
    return state, np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compiled
def shrink(factors, kind, t, total, horizon):
    """Set `factors` to the factor of the step at each of the times t."""
    for i in range(len(t)):
        factors[i] = shrunk(kind, t[i], total, horizon)
