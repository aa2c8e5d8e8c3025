"""Balanced passes: each class learns from all of its examples and from as many others.

Every example is learnt from as a positive one of its class, and as a negative one of another. If
both are done at one visit, its row is read from memory once for the two, and the number of classes
does not matter.
"""

import numpy as np

from similia.linalg.compiled import compiled
from similia.linalg.prefetch import prefetch_row
from similia.losses import loss_slope

CONSTANT, LINEAR, SQRT, INVERSE = range(4)

#: steps before its own at which a row is asked for
AHEAD = 4

#: visits whose steps are listed at a time
LISTED = 1024

#: bytes of all z that the nearest cache holds beside the rows: they need not be asked for
NEAR = 2**14

#: neighbouring rows that a pass visits one after the other, in random order
NEIGHBOURS = 32

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
    are η·shrunk·weight, at most 1/(F''(0)|u|²), with steps = (kind, η, total, horizon, F''(0)); no
    weights or no `norms2` stand for ones and for no bound. clock = (t, seen, tick): the schedule's
    time and the moment's, and what a visit adds to them. `moment` gathers Σ time·ΔZ, if it has a
    size.

    Two steps for different classes that follow each other know nothing of one another: they are
    taken together, so that one's sums fill the time in which the other waits for its slope.
    """
    U, far = rows[0], (some[1] - some[0]) * Z[0].size * Z.itemsize > NEAR
    places, classes = np.empty(2 * LISTED + 1, np.int64), np.empty(2 * LISTED + 1, np.int64)
    lengths, signs, times = np.empty((3, 2 * LISTED + 1))
    due = (places, classes, lengths, signs, times)
    for start in range(0, len(visits[0]), LISTED):
        count = _list_steps(due, start, rows, visits, some, steps, clock)
        for s in range(min(AHEAD, count)):
            _ask_for(Z, U, places[s], classes[s], far)
        s = 0
        while s < count:
            for later in range(s + AHEAD, min(s + AHEAD + 2, count)):
                _ask_for(Z, U, places[later], classes[later], far)
            # Numbers, not arrays: an array is seven arguments, which a step is too short for.
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
    """Fill `due` with the steps of a class in `some`, from visit `start` on; give their number.

    Whose step it is cannot be foreseen, so all are written down, and others are written over.
    """
    places, classes, lengths, signs, times = due
    _, weights, norms2 = rows
    row, ours, others = visits
    kind, eta, total, horizon, steepest = steps
    t, seen, tick = clock
    first, last = some
    count = 0
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
            count += (first <= c) & (c < last)
    return count


@compiled
def _ask_for(Z, U, i, c, far):
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
    """Steps of different classes, at once."""
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
    """Give visits to each row once: for its class, and as a negative example of another.

    Class c is given as many negative examples as it has own ones: the classes are dealt out to the
    rows like shuffled cards, and a row that gets its own class swaps with another. No class may
    have more than `LARGEST` of the rows: as each row is dealt to one class, it would take them from
    the small ones. Rows come in blocks of neighbours, blocks and neighbours in random order: rows
    kept in random order are visited in random order.
    """
    state = np.uint64(seed)
    others, state = shuffled(codes, state)
    _swap_own(codes, others, state)
    row, state = _blocks(len(codes), state)
    return row, codes[row], others[row]


@compiled
def shuffled(values, state):
    """Give the values in random order, and the next state of the generator."""
    values = values.copy()
    for i in range(len(values) - 1, 0, -1):
        state, j = _below(state, i + 1)
        values[i], values[j] = values[j], values[i]
    return values, state


@compiled
def _blocks(n, state):
    count = (n + NEIGHBOURS - 1) // NEIGHBOURS
    blocks, state = shuffled(np.arange(count), state)
    row, filled = np.empty(n, np.int64), 0
    for block in blocks:
        start, stop = block * NEIGHBOURS, min(n, (block + 1) * NEIGHBOURS)
        row[filled : filled + stop - start], state = shuffled(np.arange(start, stop), state)
        filled += stop - start
    return row, state


@compiled
def _swap_own(codes, others, state):
    """Let no row be a negative example of its own class, by swaps with rows chosen at random."""
    for i in range(len(codes)):
        c = codes[i]
        while others[i] == c:
            state, j = _below(state, len(codes))
            if codes[j] != c and others[j] != c:
                others[i], others[j] = others[j], c


@compiled
def balanced_visits(order, codes, j, ours, seed):
    """Give all examples `ours` of class j and as many others, in random order: i, or ~i for others.

    Others are the next ones of another class in `order`, a random order of all, from a random place
    on: a uniform choice without repetition, at the cost of what is chosen.
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
    """Give the next state and a random number below n < 2³² (SplitMix64)."""
    state = state + np.uint64(0x9E3779B97F4A7C15)
    x = state
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    # The upper half of x as a fraction of n: a remainder would take longer than all of the above.
    return state, np.int64(((x >> np.uint64(32)) * np.uint64(n)) >> np.uint64(32))


@compiled
def shrink(factors, kind, t, total, horizon):
    """Set `factors` to the factor of the step at each of the times t."""
    for i in range(len(t)):
        factors[i] = shrunk(kind, t[i], total, horizon)
