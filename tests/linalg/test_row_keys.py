"""Keys by which equal rows are recognised."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.linalg.row_keys import KEY_SEED, row_keys

SEEDS = st.integers(0, 2**32 - 1)
HASH = 2**64


def key_of(q):
    """Σ_i mix((bits of q_i + 1)(2m_i + 1)) with fixed m, mixed again, modulo 2⁶⁴."""
    multipliers = np.random.default_rng(KEY_SEED).integers(2**63, size=len(q), dtype=np.uint64)
    total = 0
    for value, m in zip(q, multipliers, strict=True):
        bits = int((np.float32(value) + np.float32(0)).view(np.uint32))
        mixed = (bits + 1) * (2 * int(m) + 1) % HASH
        total += mixed ^ (mixed >> 29)
    total %= HASH
    return (total ^ (total >> 32)) * 0x9E3779B97F4A7C15 % HASH


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
