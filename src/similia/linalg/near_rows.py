"""Rows of length 1 whose inner product with a vector exceeds a limit, most by sketches of 512 bits.

The first rows are compared with the vector one by one. Of the others the sketch is looked at: the
signs of 512 coordinates after a random rotation. Of two vectors at the angle θ a bit differs with
the probability θ/π, whatever the vectors are. Only rows that differ in at most

    512 p + 2 √(512 p (1 - p)),   p = arccos(limit)/π,

bits are multiplied. A row at the limit itself is missed with a probability of 2 % (less where
features are few, as bits of a rotation vary less than independent ones), and one that is a fifth of
the way from there to 1 with at most 0.1 %. For whoever weighs rows by κ = (product - limit) /
(1 - limit), the expected loss is at most 0.0006 of a whole row. Whether a row is found depends
on its place, on the row and on the vector, and on nothing else.
"""

from functools import cache
from threading import Lock

import numpy as np

from similia.linalg.compiled import compiled, compiled_in_order

EXACT = 1024  #: rows that are compared one by one
LANES = 64  #: rows that are scanned side by side
WORDS, WORD = 8, 64  #: numbers in a sketch, and bits in a number
BITS = WORDS * WORD
TOGETHER = 16  #: rows that are sketched side by side
DOUBT = 2.0  #: standard deviations by which a row at the limit may differ in more bits
SIGNS_SEED = 7
ONE = np.uint64(1)


class NearRows:
    """Sketches of rows of length 1 (or 0), kept beside them, to find those near a vector.

    A search costs 64 bytes for each row, and the rows that it looks at.
    """

    def __init__(self, exact=EXACT):
        """Compare so many rows, the first ones, without sketches."""
        self.exact = exact
        self._codes = np.zeros((0, WORDS, LANES), np.uint64)
        self._n = 0
        self._lock = Lock()

    def kept(self, rows):
        """What `find_near` and `keep_row` need; rows added since the last time are sketched."""
        signs = _signs(max(BITS, 1 << (rows.shape[1] - 1).bit_length()))
        if len(rows) > self._n:
            with self._lock:  # several threads may search
                self._grow(rows, signs)
        return self._codes, signs, self.exact

    def _grow(self, rows, signs):
        n = len(rows)
        if n > LANES * len(self._codes):
            codes = np.zeros((-(-max(n, 2 * self._n) // LANES), WORDS, LANES), np.uint64)
            codes[: len(self._codes)] = self._codes
            self._codes = codes
        _keep_rows(self._codes, signs, self.exact, rows, self._n)
        self._n = n

    def find(self, rows, q, limit):
        """Places of the rows whose inner product with q, of length 1, exceeds the limit, and it."""
        kept = self.kept(rows)
        places, products = np.empty(len(rows), np.intp), np.empty(len(rows), rows.dtype)
        count = find_near(kept, rows, q, limit, places, products)
        return places[:count].copy(), products[:count].copy()


@cache
def _signs(n):
    """Random signs for two rounds."""
    return np.random.default_rng(SIGNS_SEED).choice(np.array([-1.0, 1.0], np.float32), (2, n))


@compiled_in_order
def _add_and_subtract(x, y):
    """Replace x by x + y and y by x - y. Of two arrays, not of one, whole vectors are loaded."""
    for j in range(len(x)):
        a, b = x[j], y[j]
        x[j], y[j] = a + b, a - b


@compiled_in_order
def _turn(x, signs, side_by_side):
    """Multiply by HDHD as many vectors as are side by side in x."""
    for D in signs:
        for i in range(len(D)):
            for j in range(i * side_by_side, (i + 1) * side_by_side):
                x[j] *= D[i]
        half = side_by_side
        while half < len(x):
            for i in range(0, len(x), 2 * half):
                _add_and_subtract(x[i : i + half], x[i + half : i + 2 * half])
            half *= 2


@compiled_in_order
def sketch(x, signs, code):
    """Signs of the first coordinates of HDHDx: Hadamard's matrix H and random signs D, twice."""
    n = signs.shape[1]
    turned = np.zeros(n, x.dtype)
    for j in range(len(x)):
        turned[j] = x[j]
    _turn(turned, signs, 1)
    for w in range(WORDS):
        code[w] = np.uint64(0)
        for j in range(WORD):
            code[w] |= np.uint64(turned[WORD * w + j] > 0) << np.uint64(j)


@compiled_in_order
def keep_row(kept, place, x):
    """Note that a row is x from now on."""
    codes, signs, exact = kept
    if place >= exact:
        sketch(x, signs, codes[place // LANES, :, place % LANES])


@compiled_in_order
def _keep_rows(codes, signs, exact, rows, begin):
    """Sketch the rows from `begin` on as `sketch` does, in every bit, but several side by side."""
    n, begin = signs.shape[1], max(begin, exact)
    turned, code = np.empty((n, TOGETHER), rows.dtype), np.empty((WORDS, TOGETHER), np.uint64)
    for start in range(begin, len(rows), TOGETHER):
        some = rows[start : start + TOGETHER]
        turned[:] = 0
        for i in range(len(some)):
            for j in range(some.shape[1]):
                turned[j, i] = some[i, j]
        _turn(turned.reshape(-1), signs, TOGETHER)
        code[:] = 0
        for w in range(WORDS):
            for j in range(WORD):
                for i in range(TOGETHER):
                    code[w, i] |= np.uint64(turned[WORD * w + j, i] > 0) << np.uint64(j)
        for i in range(len(some)):
            for w in range(WORDS):
                codes[(start + i) // LANES, w, (start + i) % LANES] = code[w, i]


@compiled
def find_near(kept, rows, q, limit, places, products):
    """Fill in where rows are whose product with q exceeds the limit, and it; return how many."""
    codes, signs, exact = kept
    count = min(exact, len(rows))
    for i in range(count):
        places[i] = i
    if len(rows) > exact:
        code = np.empty(WORDS, np.uint64)
        sketch(q, signs, code)
        p = np.arccos(limit) / np.pi
        most = np.uint64(BITS * p + DOUBT * np.sqrt(BITS * p * (1 - p)))
        count = _add_alike(codes, code, most, exact, len(rows), places)
    found = 0
    for i in range(count):
        row, product = rows[places[i]], rows.dtype.type(0)
        for j in range(len(q)):
            product += row[j] * q[j]
        if product > limit:
            places[found], products[found] = places[i], product
            found += 1
    return found


@compiled
def _add_alike(codes, code, most, begin, end, places):
    """Add the rows from `begin` on that differ from the code in at most so many bits."""
    count, differ = begin, np.empty(LANES, np.uint64)
    for block in range(begin // LANES, -(-end // LANES)):
        first, alike, words = block * LANES, 0, codes[block]
        for i in range(LANES):
            bits = np.uint64(0)
            for w in range(WORDS):
                bits += _ones(words[w, i] ^ code[w])
            differ[i] = bits
            alike += bits <= most
        if alike:
            for i in range(max(begin - first, 0), min(LANES, end - first)):
                if differ[i] <= most:
                    places[count] = first + i
                    count += 1
    return count


@compiled
def _ones(x):
    """How many bits are 1: two, four, then eight at a time; compiled to one instruction."""
    x -= (x >> ONE) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return (x * np.uint64(0x0101010101010101)) >> np.uint64(56)
