import numpy as np
import pytest

from similia import DiagonalAROMA
from similia.linalg.blocks import LINE, aligned_zeros


@pytest.mark.parametrize("shape", [(0, 0), (1, 1), (3, 5), (100, 257)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_arrays_begin_with_a_line_and_are_like_others(shape, dtype):
    A = aligned_zeros(shape, np.dtype(dtype))
    assert A.shape == shape
    assert A.dtype == dtype
    assert A.flags.c_contiguous
    assert A.flags.writeable
    assert A.size == 0 or A.ctypes.data % LINE == 0
    assert not A.any()


def test_the_dense_state_of_diagonal_aroma_begins_with_a_line(rng):
    learner = DiagonalAROMA(average=True).learn(rng.normal(size=(9, 5)), [[0, 1, 2]])
    for state in (learner.W_, learner.Sigma_, learner.moment_):
        assert state.ctypes.data % LINE == 0
