"""What is computed depends on values alone: not on the places of arrays, nor on other threads."""

import copy
import pickle
import threading

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from similia.linalg.eigen_update import EigenWorkspace
from similia.linalg.threads import processors, single_blas_thread
from similia.registry import ALL_LEARNERS, LEARNERS, learner_class
from similia.updates.meg import MEGSetting, _compiled_walk

MERGING = [name for name in LEARNERS if learner_class(name).merges]

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


# -- threads of the BLAS ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def wide():
    """Rows of four classes, wide enough for a BLAS to share out their products."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 4
    return rng.normal(size=(240, 150)) + 0.3 * rng.normal(size=(4, 150))[y], y


def learnt(name, X, y):
    """Bits of what a learner has learnt from labels, at once and in two parts that are merged."""
    learner = learner_class(name)()
    few = {"n_triplets": 60, "n_pairs": 40, "random_state": 0, "max_iter": 1, "average": True}
    known = learner.get_params()
    learner.set_params(**{key: value for key, value in few.items() if key in known}).fit(X, y)
    if name in MERGING:
        parts = [copy.deepcopy(learner).partial_fit(X[i::2], y[i::2]) for i in range(2)]
        for part in parts:
            part.n_updates_ += 10**6  # as if they had learnt enough to be merged
        learner = learner.merge(parts)
    return pickle.dumps(learner.get_state())


@pytest.mark.skipif(processors() < 2, reason="needs two processors")
@pytest.mark.parametrize("name", ALL_LEARNERS)
def test_what_is_learnt_does_not_depend_on_the_threads_that_a_blas_may_use(name, wide):
    found = set()
    for n in (1, 2):
        with threadpool_limits(n, user_api="blas"):
            found.add(learnt(name, *wide))
    assert len(found) == 1


@pytest.mark.parametrize("name", ["FactoredAROMA", "MEG", "NeighborhoodGerrymandering"])
def test_what_is_learnt_does_not_depend_on_other_threads_that_learn(name, wide):
    quiet, done = learnt(name, *wide), threading.Event()

    def learn():
        while not done.is_set():
            with single_blas_thread():
                learner_class("OASIS")(n_triplets=20).fit(*wide)

    others = [threading.Thread(target=learn) for _ in range(2)]
    for thread in others:
        thread.start()
    try:
        assert all(learnt(name, *wide) == quiet for _ in range(3))
    finally:
        done.set()
        for thread in others:
            thread.join()
