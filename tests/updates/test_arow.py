import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.updates.aroma import diagonal_pass
from similia.updates.arow import arow_pass
from tests.problems import blocks
from tests.reference.arow import arow_diagonal_step, arow_step

R = st.sampled_from([0.05, 1.0, 20.0])
FORM = st.sampled_from([np.asarray, sparse.csr_array])
NO_MOMENT = np.zeros((0, 0))


def signs_of(P):
    return np.where(P[:, 0] >= 0, 1.0, -1.0)


@given(blocks(), R, FORM, st.integers(1, 40))
def test_full_blocks_equal_the_paper_one_example_at_a_time(block, r, form, size):
    X, signs = block[0], signs_of(block[1])
    d = X.shape[1]
    w, Sigma, moment = np.zeros(d), np.eye(d), np.zeros(d)
    state, total = (np.zeros(d), np.eye(d)), np.zeros(d)
    for x, y in zip(X, signs, strict=True):
        state = arow_step(*state, x, y, r)
        total = total + state[0]
    for start in range(0, len(X), size):
        stop = start + size
        arow_pass(w, Sigma, moment, start, form(X[start:stop]), signs[start:stop], r)
    np.testing.assert_allclose(w, state[0], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(Sigma, state[1], rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose((len(X) + 1) * w - moment, total, rtol=1e-9, atol=1e-8)


@given(blocks(), R, FORM)
def test_d_aroma_on_one_column_and_on_one_row_is_diagonal_arow(block, r, form):
    X, signs = block[0], signs_of(block[1])
    d = X.shape[1]
    state = np.zeros(d), np.ones(d)
    for x, y in zip(X, signs, strict=True):
        state = arow_diagonal_step(*state, x, y, r)
    sides = {(d, 1): (X, signs[:, None]), (1, d): (signs[:, None], X)}
    for shape, (Q, P) in sides.items():
        W, Sigma = np.zeros(shape), np.ones(shape)
        diagonal_pass(W, Sigma, NO_MOMENT, 0, form(Q), form(P), r, 1.0, False)
        np.testing.assert_allclose(W.ravel(), state[0], rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(Sigma.ravel(), state[1], rtol=1e-9, atol=1e-12)
