"""Rows of length 1 whose inner product with a vector exceeds a limit: exact, reading few bits.

A row u is kept as a sketch û: its coordinates in the leading directions V of the rows, rounded to
4 bits each, and the lengths of what is lost within these directions, E, and outside of them, F. By
Cauchy and Schwarz, with q_V the part of q within the span of V and q_⊥ the rest,

    qᵀu ≤ qᵀû + |q_V| E + |q_⊥| F,

so only rows for which the right-hand side exceeds the limit are looked at. Directions are as many
as that takes: of 384 that are all alike about 290, of 384 of a sentence encoder about 150.
"""

from threading import Lock

import numpy as np

from similia.linalg.compiled import compiled

LANES = 64  #: rows that are scanned side by side
SAMPLE = 1024  #: rows that directions are found from, and as many that say how good these are
MOST = 384  #: most directions
USUAL = 0.98  #: share of rows that should not be looked at
MARGIN = 0.03  #: for the rounding of a vector's own coordinates, and for rows that lose more
#: best step of 16 equal levels, and the mean square lost, for a normal variable of variance 1
STEP, LOST = 0.3352, 0.01154
MIDDLE = np.float32(7.5)
#: codes summed up in 16 bits, and the largest sum: room is left for the rounding of weights
COLUMNS, LARGEST = 16, 32_000
#: more than single precision rounds off
ROUNDING = 1e-4


class NearRows:
    """Sketches of rows of length 1 (or 0) that may change, to find those near a vector.

    A search costs half a byte for each direction and row, and the rows that it looks at.
    """

    def __init__(self, rows, limit):
        """Choose directions for these rows, two or more, and for searches with this limit."""
        chosen = np.random.default_rng(0).permutation(len(rows))[: 2 * SAMPLE]
        some, others = np.array_split(rows[chosen].astype(np.float64), 2)
        V = _leading(some)
        squares = np.mean((others @ V) ** 2, axis=0)
        usual = float(np.quantile(some @ others.T, USUAL))
        V = V[:, : _enough(squares, limit - usual - MARGIN)]
        # Directions in any order: sums of a few have about the same size.
        order = np.random.default_rng(0).permutation(V.shape[1])
        self._V = np.ascontiguousarray(V[:, order], dtype=np.float32)
        self._steps = (STEP * np.sqrt(np.maximum(squares[order], 1e-12))).astype(np.float32)
        self._codes = np.zeros((0, 2 * -(-len(order) // 8), LANES), np.uint16)
        self._lost = np.zeros((2, 0), np.float32)
        self._n = 0
        self._changed: list[np.ndarray] = []
        self._lock = Lock()
        self.refresh(rows)

    def change(self, places):
        """Note that these rows are no longer what they were."""
        if len(places):
            self._changed.append(places)

    def refresh(self, rows):
        """Sketch rows that have changed or were added."""
        n, old = len(rows), self._n
        if n > self._lost.shape[1]:
            blocks = -(-max(n, 2 * old) // LANES)
            codes = np.zeros((blocks, *self._codes.shape[1:]), np.uint16)
            lost = np.full((2, blocks * LANES), -10.0, np.float32)  # no row: never near
            codes[: len(self._codes)], lost[:, : self._lost.shape[1]] = self._codes, self._lost
            self._codes, self._lost = codes, lost
        places = np.unique(np.concatenate([*self._changed, np.arange(old, n)]).astype(np.intp))
        self._changed, self._n = [], n
        for begin in range(0, len(places), 4096):
            self._sketch(rows, places[begin : begin + 4096])

    def _sketch(self, rows, places):
        given = rows[places].astype(np.float32, copy=False)
        a = given @ self._V
        numbers = np.clip(np.rint(a / self._steps + MIDDLE), 0, 15)
        self._lost[0, places] = np.linalg.norm(a - (numbers - MIDDLE) * self._steps, axis=1)
        self._lost[1, places] = _root(np.vecdot(given, given) - np.vecdot(a, a))
        parts = np.zeros((len(places), 4 * self._codes.shape[1]), np.uint16)
        parts[:, : numbers.shape[1]] = numbers
        a, b, c, d = np.split(parts, 4, axis=1)
        self._codes[places // LANES, :, places % LANES] = a | b << 4 | c << 8 | d << 12

    def find(self, rows, q, limit):
        """Places of the rows whose inner product with q, of length 1, exceeds the limit, and it."""
        if self._changed or len(rows) != self._n:
            with self._lock:  # several threads may search
                self.refresh(rows)
        a = q.astype(np.float32, copy=False) @ self._V
        weights = np.zeros((4, self._codes.shape[1]))
        weights.reshape(-1)[: len(a)] = a * self._steps
        sums = np.add.reduceat(np.abs(weights).sum(axis=0), np.arange(0, weights.shape[1], COLUMNS))
        unit = max(15 * float(sums.max()) / LARGEST, 1e-30)
        whole = np.rint(weights / unit)
        # Codes count from their middle, also where weights are rounded.
        start = 7.5 * float(np.abs(weights - unit * whole).sum() - unit * whole.sum()) + ROUNDING
        lengths = float(np.linalg.norm(a)), float(_root(q @ q - a @ a))
        given = tuple(np.float32(value) for value in (unit, start - limit, *lengths))
        blocks = -(-self._n // LANES)
        room = np.empty(blocks * LANES, np.intp)
        count = _possible(self._codes[:blocks], self._lost, whole.astype(np.int16), given, room)
        places = room[:count].copy()
        near = rows[places] @ q
        kept = near > limit
        return places[kept], near[kept]


def _root(x):
    """Length from a square that is a difference: never less than it is, in spite of rounding."""
    return np.sqrt(np.maximum(x, 0.0) + 1e-6)


def _leading(sample):
    """Orthonormal directions of the rows, as columns, those with the largest squares first."""
    if len(sample) < sample.shape[1]:
        return np.linalg.svd(sample, full_matrices=False)[2][:MOST].T
    return np.linalg.eigh(sample.T @ sample)[1][:, ::-1][:, :MOST]


def _enough(squares, allowed):
    """Fewest directions, with these mean squares of rows, that lose no more than allowed."""
    within = np.cumsum(squares)
    lost = np.sqrt(LOST) * within + np.maximum(1.0 - within, 0.0)
    return min(int(np.argmax(lost <= allowed)) + 1 if lost[-1] <= allowed else MOST, len(squares))


@compiled
def _part(code, shift):
    return np.int16((code >> np.uint16(shift)) & np.uint16(15))


@compiled
def _possible(codes, lost, weights, given, room):
    """List rows that may be near: those whose bound exceeds the limit."""
    unit, start, within, outside = given
    sums, totals, count = np.empty(LANES, np.int16), np.empty(LANES, np.float32), 0
    for block in range(len(codes)):
        first = block * LANES
        for i in range(LANES):
            totals[i] = start + within * lost[0, first + i] + outside * lost[1, first + i]
        for left in range(0, codes.shape[1], COLUMNS):
            for i in range(LANES):
                sums[i] = 0
            for j in range(left, min(left + COLUMNS, codes.shape[1]), 2):
                a, b = codes[block, j], codes[block, j + 1]
                s, t, u, v = weights[0, j], weights[1, j], weights[2, j], weights[3, j]
                k = j + 1
                w, x, y, z = weights[0, k], weights[1, k], weights[2, k], weights[3, k]
                for i in range(LANES):
                    sums[i] += (
                        (_part(a[i], 0) * s + _part(a[i], 4) * t)
                        + (_part(a[i], 8) * u + _part(a[i], 12) * v)
                        + (_part(b[i], 0) * w + _part(b[i], 4) * x)
                        + (_part(b[i], 8) * y + _part(b[i], 12) * z)
                    )
            for i in range(LANES):
                totals[i] += np.float32(sums[i]) * unit
        for i in range(LANES):
            if totals[i] > 0:
                room[count] = first + i
                count += 1
    return count
