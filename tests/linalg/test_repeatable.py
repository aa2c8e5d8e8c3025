"""What is computed depends on values alone: not on the places of arrays, nor on other threads."""

import numpy as np
import pytest

from similia.linalg.compiled import compiled
from similia.linalg.eigen_update import EigenWorkspace
from similia.updates.meg import MEGSetting, _compiled_walk

#: bytes between two short arrays, as an allocator might leave them
GAPS = [0, 16, 32, 48, 64, 80, 112, 160, 256, 4096]


def placed(rng, arrays):
    """Copies of arrays in a random order in one piece of memory, at random distances."""
    memory = np.empty(sum(a.nbytes + max(GAPS) + 64 for a in arrays), np.uint8)
    copies, place = {}, -memory.ctypes.data % 64 + 16 * int(rng.integers(4))
    for i in rng.permutation(len(arrays)):
        a = arrays[i]
        copies[i] = memory[place : place + a.nbytes].view(a.dtype).reshape(a.shape)
        copies[i][...] = a
        place += a.nbytes + -a.nbytes % 16 + int(rng.choice(GAPS))
    return [copies[i] for i in range(len(arrays))]


@compiled
def scaled_sum(x, y):
    """Set y to x / 3 and return its sum of squares: a loop that both stores and sums."""
    total = 0.0
    for i in range(len(x)):
        y[i] = x[i] / 3.0
        total += y[i] * y[i]
    return total


@pytest.mark.parametrize("n", [3, 4, 5, 8, 13, 16, 31, 40])
def test_a_sum_is_the_same_wherever_its_arrays_lie(n, rng):
    x = rng.normal(size=n)
    found = {scaled_sum(*placed(rng, [x, np.empty(n)])) for _ in range(200)}
    assert len(found) == 1


@pytest.mark.parametrize("n", [4, 5, 8, 13])
def test_eigenpairs_follow_in_the_same_bits_wherever_their_arrays_lie(n, rng):
    values, rows = np.sort(rng.normal(size=n)), np.linalg.qr(rng.normal(size=(n, n)))[0]
    Z, targets = rng.normal(size=(30, n)), np.column_stack(2 * [rng.uniform(0, 3, size=30)])
    work = [np.empty((4, n)), *(np.empty(n * n) for _ in range(3)), np.empty(n, np.intp)]
    setting, none = MEGSetting(1.5, True, float(n), True), np.empty(0, np.intp)
    found = set()
    for _ in range(300):
        arrays = placed(rng, [values, rows, Z, targets, np.empty((2, n)), *work])
        v, r, z, t, memory, four, turn, before, after, places = arrays
        space = EigenWorkspace(places, *four, turn, before, after)
        block = (z, none, none, np.empty((0, 1)))
        _compiled_walk(v, r, np.empty((0, 0)), block, t, setting, space, memory)
        found.add(v.tobytes() + r.tobytes())
    assert len(found) == 1
