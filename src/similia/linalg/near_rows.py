"""Rows of length 1 whose inner product with a vector exceeds a limit, by sketches of 512 bits.

A sketch is the signs of 512 coordinates after a random rotation. Of two vectors at the angle θ a
bit differs with the probability θ/π, whatever the vectors are. Only rows that differ in at most

    512 p + 2 √(512 p (1 - p)),   p = arccos(limit)/π,

bits are multiplied. A row at the limit itself is missed with a probability of 2 % (less where
features are few, as bits of a rotation vary less than independent ones), and one that is a fifth of
the way from there to 1 with at most 0.1 %. For whoever weighs rows by κ = (product - limit) /
(1 - limit), the expected loss is at most 0.0006 of a whole row. Of most rows only 320 bits are
read: where these differ by three standard deviations more than at the limit, which one row in a
thousand does there, the others have no say.

Of the first rows all are multiplied that differ in at most 64 bits, six standard deviations, more
than a row at the limit does on average: they are those of the full product. Whether a row is found
depends on its place, on the row and on the vector, and on nothing else.
"""

from functools import cache
from threading import Lock

import numpy as np

from similia.linalg.compiled import compiled, compiled_in_order

EXACT = 1024  #: rows of which none is missed
FEW = 2**15  #: numbers in such rows up to which a sketch costs more than it saves
LANES = 32  #: rows that are scanned side by side
FIRST, REST, WORD = 5, 3, 64  #: numbers in a sketch that are read first, others, and their bits
BITS = (FIRST + REST) * WORD
TOGETHER = 16  #: rows that are sketched side by side
DOUBT = 2.0  #: standard deviations by which a row at the limit may differ in more bits
FIRST_DOUBT = 3.0  #: the same for the bits that are read first
SURE = BITS // 8  #: bits by which none of the first rows at the limit differs more
SIGNS_SEED = 7
ONE = np.uint64(1)


class NearRows:
    """Sketches of rows of length 1 (or 0), kept beside them, to find those near a vector.

    A search costs 40 bytes for each row, 24 more where one of its block looks alike, and the rows
    that do.
    """

    def __init__(self, exact=EXACT):
        """Miss none of so many rows, the first ones."""
        self.exact = exact
        self._codes = _room(0)
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
        n, codes = len(rows), self._codes
        if n > LANES * len(codes[0]):
            codes = _room(max(n, 2 * self._n))
            for new, old in zip(codes, self._codes, strict=True):
                new[: len(old)] = old
        _keep_rows(codes, signs, rows, self._n)
        self._codes, self._n = codes, max(n, self._n)  # another thread may have had more rows

    def find(self, rows, q, limit):
        """Places of the rows whose inner product with q, of length 1, exceeds the limit, and it."""
        kept = self.kept(rows)
        places, products = np.empty(len(rows), np.intp), np.empty(len(rows), rows.dtype)
        count = find_near(kept, rows, q, limit, places, products)
        return places[:count].copy(), products[:count].copy()


def _room(n):
    """Sketches of n rows, in blocks of rows side by side: what is read first, and the rest."""
    blocks = -(-n // LANES)
    return tuple(np.zeros((blocks, words, LANES), np.uint64) for words in (FIRST, REST))


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
    for w in range(FIRST + REST):
        code[w] = np.uint64(0)
        for j in range(WORD):
            code[w] |= np.uint64(turned[WORD * w + j] > 0) << np.uint64(j)


@compiled_in_order
def keep_row(kept, place, x):
    """Note that a row is x from now on."""
    codes, signs, _ = kept
    code = np.empty(FIRST + REST, np.uint64)
    sketch(x, signs, code)
    _put(codes, place, code)


@compiled_in_order
def _put(codes, place, code):
    first, rest = codes
    for w in range(FIRST):
        first[place // LANES, w, place % LANES] = code[w]
    for w in range(REST):
        rest[place // LANES, w, place % LANES] = code[FIRST + w]


@compiled_in_order
def _keep_rows(codes, signs, rows, begin):
    """Sketch the rows from `begin` on as `sketch` does, in every bit, but several side by side."""
    n, words = signs.shape[1], FIRST + REST
    turned, code = np.empty((n, TOGETHER), rows.dtype), np.empty((words, TOGETHER), np.uint64)
    for start in range(begin, len(rows), TOGETHER):
        some = rows[start : start + TOGETHER]
        turned[:] = 0
        for i in range(len(some)):
            for j in range(some.shape[1]):
                turned[j, i] = some[i, j]
        _turn(turned.reshape(-1), signs, TOGETHER)
        code[:] = 0
        for w in range(words):
            for j in range(WORD):
                for i in range(TOGETHER):
                    code[w, i] |= np.uint64(turned[WORD * w + j, i] > 0) << np.uint64(j)
        for i in range(len(some)):
            _put(codes, start + i, code[:, i])


@compiled
def find_near(kept, rows, q, limit, places, products):
    """Fill in where rows are whose product with q exceeds the limit, and it; return how many."""
    codes, signs, exact = kept
    first, count = min(exact, len(rows)), 0
    if first == len(rows) and rows.size <= FEW:
        for i in range(first):
            places[i] = i
        count = first
    else:
        code = np.empty(FIRST + REST, np.uint64)
        sketch(q, signs, code)
        p = np.arccos(limit) / np.pi
        sure = _most(p, BITS, 0.0) + SURE
        limits = _most(p, FIRST * WORD, FIRST_DOUBT), _most(p, BITS, DOUBT)
        count = _add_alike(codes, code, (sure, sure), 0, first, places, count)
        count = _add_alike(codes, code, limits, first, len(rows), places, count)
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
def _most(p, bits, doubt):
    """In how many of some bits a row may differ, if each differs with the probability p."""
    return np.int64(bits * p + doubt * np.sqrt(bits * p * (1 - p)))


@compiled
def _add_alike(codes, code, limits, begin, end, places, count):
    """Add rows that differ from the code in few of the bits that are read first, and of all."""
    first, rest = codes
    (most_of_first, most), differ = limits, np.empty(LANES, np.int64)
    for block in range(begin // LANES, -(-end // LANES)):
        start, alike, words, others = block * LANES, 0, first[block], rest[block]
        for i in range(LANES):
            bits = 0
            for w in range(FIRST):
                bits += _ones(words[w, i] ^ code[w])
            differ[i] = bits
            alike += bits <= most_of_first
        if alike:
            for i in range(LANES):  # all of them: no branch that would be guessed wrong
                bits = differ[i]
                for w in range(REST):
                    bits += _ones(others[w, i] ^ code[FIRST + w])
                differ[i] = bits if differ[i] <= most_of_first else BITS + 1
            for i in range(max(begin - start, 0), min(LANES, end - start)):
                if differ[i] <= most:
                    places[count] = start + i
                    count += 1
    return count


@compiled
def _ones(x):
    """How many bits are 1: two, four, then eight at a time; compiled to one instruction."""
    x -= (x >> ONE) & np.uint64(0x5555555555555555)
    x = (x & np.uint64(0x3333333333333333)) + ((x >> np.uint64(2)) & np.uint64(0x3333333333333333))
    x = (x + (x >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return np.int64((x * np.uint64(0x0101010101010101)) >> np.uint64(56))
