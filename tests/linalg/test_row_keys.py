"""Keys by which equal rows are recognised."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.linalg.row_keys import row_keys
from tests.reference.blend import key_of

SEEDS = st.integers(0, 2**32 - 1)


@given(SEEDS, st.integers(1, 9), st.sampled_from([np.float32, np.float64]))
def test_keys_of_dense_and_sparse_rows_are_those_transcribed(seed, d, dtype):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(6, d)) * (rng.random((6, d)) < 0.5)).astype(dtype)
    X[1] = 0.0
    wanted = [key_of(row) for row in X]
    assert row_keys(X).tolist() == wanted
    assert row_keys(np.asfortranarray(X)).tolist() == wanted
    for kind in (np.int32, np.int64):
        Y = sparse.csr_array(X)
        Y.indices, Y.indptr = Y.indices.astype(kind), Y.indptr.astype(kind)
        assert row_keys(Y).tolist() == wanted


def test_a_zero_that_is_stored_or_negative_is_zero():
    stored = sparse.csr_array(([0.0, 2.0, -0.0], [0, 1, 2], [0, 3]), shape=(1, 4))
    assert row_keys(stored).tolist() == row_keys(np.array([[0.0, 2.0, 0.0, -0.0]])).tolist()


def test_different_rows_have_different_keys(rng):
    X = np.unique(rng.integers(3, size=(20_000, 12)), axis=0).astype(float)
    assert len(np.unique(row_keys(X))) == len(X)
