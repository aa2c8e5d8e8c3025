"""Arrays that grow within a buffer equal those that are copied."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.growing import Rooms

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.sampled_from([0, 1]), st.integers(1, 40))
def test_a_grown_array_is_a_padded_one(seed, axis, most):
    rng = np.random.default_rng(seed)
    rooms, value = Rooms(), rng.normal(size=(2, 3))
    wanted = value
    for _ in range(12):
        added = int(rng.integers(4))
        room = [(0, 0), (0, 0)]
        room[axis] = (0, added)
        wanted = np.pad(wanted, room)
        value = rooms.grown("x", value, axis, wanted.shape[axis], most)
        value += 1.0
        wanted = wanted + 1.0
        whole = rooms.whole("x", value)
        assert whole.flags.c_contiguous
        assert np.shares_memory(whole, value)
        np.testing.assert_array_equal(value, wanted)
        if rng.random() < 0.2:  # someone replaces it
            value = value.copy()
            assert rooms.whole("x", value) is value


@given(SEEDS)
def test_an_array_with_rows_added_and_dropped_is_a_part_of_all(seed):
    rng = np.random.default_rng(seed)
    rooms, value, wanted = Rooms(), np.zeros((0, 2)), np.zeros((0, 2))
    for _ in range(30):
        added = rng.normal(size=(int(rng.integers(5)), 2))
        dropped = int(rng.integers(len(wanted) + len(added) + 1))
        wanted = np.vstack([wanted, added])[dropped:]
        value = rooms.appended("x", value, added, dropped)
        np.testing.assert_array_equal(value, wanted)
        if rng.random() < 0.2:
            value = value[::-1].copy()
            wanted = wanted[::-1]
    other = rooms.appended("x", np.ones((3, 2)), np.zeros((1, 2)), 0)
    np.testing.assert_array_equal(other, [[1, 1]] * 3 + [[0, 0]])


def test_growing_one_by_one_copies_rarely():
    rooms, value, buffers = Rooms(), np.zeros((1, 2)), set()
    for n in range(2, 1000):
        value = rooms.grown("x", value, 0, n, 10_000)
        buffers.add(id(value.base))
    assert len(buffers) < 30
