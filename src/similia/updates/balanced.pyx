"""Balanced passes: each class learns from all of its examples and from as many others.

Every example is a positive one of its class and a negative one of another. Both are learnt at one
visit, so that its row is read from memory only once, whatever the number of classes.
"""

import numpy as np

from cython cimport floating
from libc.math cimport sqrt
from similia.linalg.clones cimport void_clones
from similia.loss_functions cimport loss_slope

cdef extern from * nogil:
    """
    #if defined(__GNUC__)
    #define SIMILIA_PREFETCH(place) __builtin_prefetch(place)
    #else
    #define SIMILIA_PREFETCH(place) ((void)0)
    #endif
    """
    void prefetch "SIMILIA_PREFETCH"(const void* place)

CONSTANT, LINEAR, SQRT, INVERSE = range(4)

cdef enum:
    LINEAR_STEPS = 1
    SQRT_STEPS = 2
    INVERSE_STEPS = 3
    AHEAD = 4  # steps ahead of its own at which a row is prefetched
    LISTED = 1024  # visits whose steps are listed at a time
    NEAR = 16_384  # bytes of Z that the nearest cache holds beside the rows: no need to prefetch them
    NEIGHBORS = 32  # neighboring rows that a pass visits one after the other, in random order
    LINE = 64  # bytes that the processor fetches at a time

#: share of all rows above which a class is too large for its negatives to be dealt out
LARGEST = 0.125


cdef struct Due:
    Py_ssize_t place, row_of_Z
    double length, sign, time


cdef struct Steps:
    int kind
    double eta, total, horizon, steepest, t, seen, tick


cdef double _shrunk(int kind, double t, double total, double horizon) noexcept nogil:
    """Factor of the step at time t: see `linear.passes.SCHEDULES`."""
    if kind == LINEAR_STEPS:
        return max(1.0 - t / total, 0.0)
    if kind == SQRT_STEPS:
        return 1.0 / sqrt(1.0 + t / horizon)
    if kind == INVERSE_STEPS:
        return 1.0 / (1.0 + t / horizon)
    return 1.0


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
    U, weights, norms2 = rows
    weights, norms2 = (np.ascontiguousarray(part, np.float64) for part in (weights, norms2))
    visits = (np.ascontiguousarray(part, np.intp) for part in visits)
    _visits_pass(Z, moment, U, weights, norms2, *visits, *some, steps, clock, code)


def _visits_pass(
    floating[:, ::1] Z,
    floating[:, ::1] moment,
    const floating[:, ::1] U,
    const double[::1] weights,
    const double[::1] norms2,
    const Py_ssize_t[::1] row,
    const Py_ssize_t[::1] ours,
    const Py_ssize_t[::1] others,
    Py_ssize_t first,
    Py_ssize_t last,
    steps,
    clock,
    int code,
):
    cdef Steps rule
    rule.kind, rule.eta, rule.total, rule.horizon, rule.steepest = steps
    rule.t, rule.seen, rule.tick = clock
    cdef Due[2 * LISTED + 1] due
    cdef Py_ssize_t start = 0, count
    cdef bint far = (last - first) * Z.shape[1] * <Py_ssize_t>sizeof(floating) > NEAR
    with nogil:
        while start < row.shape[0]:
            count = _list_steps(due, start, weights, norms2, row, ours, others, first, last, &rule)
            _take_steps[floating](Z, moment, U, due, count, far, code)
            start += LISTED


cdef Py_ssize_t _list_steps(
    Due* due,
    Py_ssize_t start,
    const double[::1] weights,
    const double[::1] norms2,
    const Py_ssize_t[::1] row,
    const Py_ssize_t[::1] ours,
    const Py_ssize_t[::1] others,
    Py_ssize_t first,
    Py_ssize_t last,
    Steps* rule,
) noexcept nogil:
    """Fill `due` with the steps of classes in `some`, from visit `start` on; return the count."""
    cdef Py_ssize_t p, i, side, c, count = 0
    cdef double length
    for p in range(start, min(start + LISTED, row.shape[0])):
        i = row[p]
        length = rule.eta * _shrunk(rule.kind, rule.t + p * rule.tick, rule.total, rule.horizon)
        if weights.shape[0]:
            length *= weights[i]
        if norms2.shape[0]:
            length = min(length, 1.0 / max(rule.steepest * norms2[i], 1e-30))
        for side in range(2):
            c = others[p] if side else ours[p]
            due[count].place, due[count].row_of_Z, due[count].length = i, c, length
            due[count].sign = -1.0 if side else 1.0
            due[count].time = rule.seen + (p + 1) * rule.tick
            # A step of another class is overwritten by the next: no branch to mispredict.
            count += (first <= c) & (c < last)
    return count


cdef inline void _fetch(const floating* row, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t line
    for line in range((n * <Py_ssize_t>sizeof(floating) + LINE - 1) // LINE):
        prefetch(<const char*>row + line * LINE)


cdef void_clones _take_steps(
    floating[:, ::1] Z,
    floating[:, ::1] moment,
    const floating[:, ::1] U,
    const Due* due,
    Py_ssize_t count,
    bint far,
    int code,
) noexcept nogil:
    """Take the listed steps in order, two at once where they are of different classes."""
    cdef Py_ssize_t s = 0, ahead = 0, i, j, c, e, k, n = U.shape[1]
    cdef bint averaged = moment.shape[0] * moment.shape[1] > 0, two
    cdef floating score, score_j, step, step_j
    while s < count:
        while ahead < min(s + AHEAD + 2, count):
            _fetch[floating](&U[due[ahead].place, 0], n)
            if far:
                _fetch[floating](&Z[due[ahead].row_of_Z, 0], n)
            ahead += 1
        i, c = due[s].place, due[s].row_of_Z
        two = s + 1 < count and due[s + 1].row_of_Z != c
        score = score_j = 0
        if two:
            j, e = due[s + 1].place, due[s + 1].row_of_Z
            for k in range(n):
                score += Z[c, k] * U[i, k]
                score_j += Z[e, k] * U[j, k]
            step = _length(&due[s], score, code)
            step_j = _length(&due[s + 1], score_j, code)
            for k in range(n):
                Z[c, k] += step * U[i, k]
            for k in range(n):
                Z[e, k] += step_j * U[j, k]
            if averaged:
                for k in range(n):
                    moment[e, k] += <floating>due[s + 1].time * (step_j * U[j, k])
        else:
            for k in range(n):
                score += Z[c, k] * U[i, k]
            step = _length(&due[s], score, code)
            for k in range(n):
                Z[c, k] += step * U[i, k]
        if averaged:
            for k in range(n):
                moment[c, k] += <floating>due[s].time * (step * U[i, k])
        s += 1 + two


cdef inline double _length(const Due* due, double score, int code) noexcept nogil:
    """Length of a step along its row."""
    return -due.length * due.sign * loss_slope(code, due.sign * score)


def paired_visits(codes, unsigned long long seed):
    """One visit to each row: for its class, and as a negative example of another.

    Class c gets as many negative examples as it has positive ones: the classes are dealt out to the
    rows like shuffled cards, and a row that gets its own class swaps with another. No class may
    have more than `LARGEST` of the rows, or it would take the negatives of the small ones. Rows
    come in blocks of neighbors, blocks and neighbors in random order, so rows that are stored in
    random order are visited in random order.
    """
    cdef const Py_ssize_t[::1] own = np.ascontiguousarray(codes, np.intp)
    cdef Py_ssize_t n = own.shape[0], filled = 0, block, start, stop, i
    cdef Py_ssize_t[::1] others = np.array(own), row = np.empty(n, np.intp)
    cdef Py_ssize_t[::1] blocks = np.arange((n + NEIGHBORS - 1) // NEIGHBORS)
    with nogil:
        _shuffle(others, 0, n, &seed)
        _swap_own(own, others, &seed)
        _shuffle(blocks, 0, blocks.shape[0], &seed)
        for block in range(blocks.shape[0]):
            start = blocks[block] * NEIGHBORS
            stop = min(n, start + NEIGHBORS)
            for i in range(start, stop):
                row[filled + i - start] = i
            _shuffle(row, filled, filled + stop - start, &seed)
            filled += stop - start
    rows = np.asarray(row)
    return rows, np.asarray(own)[rows], np.asarray(others)[rows]


cdef void _shuffle(
    Py_ssize_t[::1] values, Py_ssize_t start, Py_ssize_t stop, unsigned long long* state
) noexcept nogil:
    """Put values[start:stop] in random order."""
    cdef Py_ssize_t i, j
    for i in range(stop - start - 1, 0, -1):
        j = start + _below(state, i + 1)
        values[start + i], values[j] = values[j], values[start + i]


cdef void _swap_own(
    const Py_ssize_t[::1] codes, Py_ssize_t[::1] others, unsigned long long* state
) noexcept nogil:
    """Swap at random until no row is a negative example of its own class."""
    cdef Py_ssize_t i, j, c
    for i in range(codes.shape[0]):
        c = codes[i]
        while others[i] == c:
            j = _below(state, codes.shape[0])
            if codes[j] != c and others[j] != c:
                others[i], others[j] = others[j], c


def balanced_visits(order, codes, Py_ssize_t j, ours, unsigned long long seed):
    """All examples `ours` of class j and as many others, in random order: i, or ~i for others.

    The others are the next ones of other classes in `order`, a random order of all rows, from a
    random place on: a uniform choice without repetition, at the cost of what is chosen.
    """
    cdef const Py_ssize_t[::1] places = np.ascontiguousarray(order, np.intp)
    cdef const Py_ssize_t[::1] classes = np.ascontiguousarray(codes, np.intp)
    cdef Py_ssize_t n = places.shape[0], known = len(ours), i, start, passed = 0
    visits = np.empty(known + min(known, n - known), np.intp)
    visits[:known] = ours
    cdef Py_ssize_t[::1] into = visits
    with nogil:
        start = _below(&seed, max(n, 1))
        for i in range(known, into.shape[0]):
            while classes[places[(start + passed) % n]] == j:
                passed += 1
            into[i] = ~places[(start + passed) % n]
            passed += 1
        _shuffle(into, 0, into.shape[0], &seed)
    return visits


cdef Py_ssize_t _below(unsigned long long* state, Py_ssize_t n) noexcept nogil:
    """Move the state, and return a random number below n < 2³² (SplitMix64)."""
    state[0] += <unsigned long long>0x9E3779B97F4A7C15
    cdef unsigned long long x = state[0]
    x = (x ^ (x >> 30)) * <unsigned long long>0xBF58476D1CE4E5B9
    x = (x ^ (x >> 27)) * <unsigned long long>0x94D049BB133111EB
    x = x ^ (x >> 31)
    # The upper half of x as a fraction of n: a remainder would take longer than all above.
    return <Py_ssize_t>(((x >> 32) * <unsigned long long>n) >> 32)


def shrink(double[::1] factors, int kind, t, double total, double horizon):
    """Set `factors` to the factor of the step at each of the times t."""
    cdef const double[::1] times = np.ascontiguousarray(t, np.float64)
    cdef Py_ssize_t i
    for i in range(times.shape[0]):
        factors[i] = _shrunk(kind, times[i], total, horizon)
