import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.updates.oasis import oasis_pass
from tests.problems import blocks
from tests.reference.oasis import oasis_step

FORM = st.sampled_from([np.asarray, sparse.csr_array])


@given(blocks(), st.sampled_from([0.01, 1.0, 1e9]), FORM, st.integers(1, 40))
def test_blocks_equal_the_paper_one_triplet_at_a_time(block, C, form, size):
    Q, P = block
    W, moment = np.zeros((2, Q.shape[1], P.shape[1]))
    expected = total = W.copy()
    updates = 0
    for q, p in zip(Q, P, strict=True):
        expected = oasis_step(expected, q, p, C)
        total = total + expected
    for start in range(0, len(Q), size):
        rows = form(Q[start : start + size]), form(P[start : start + size])
        updates += oasis_pass(W, moment, start, *rows, C)
    scale = max(1.0, np.abs(expected).max())
    np.testing.assert_allclose(W, expected, atol=1e-10 * scale)
    np.testing.assert_allclose((len(Q) + 1) * W - moment, total, atol=1e-9 * scale * len(Q))
    assert updates <= len(Q)


@given(blocks(max_length=1))
def test_an_uncapped_step_meets_the_margin(block):
    Q, P = block
    W = np.zeros((Q.shape[1], P.shape[1]))
    if oasis_pass(W, np.zeros((0, 0)), 0, Q, P, np.inf):
        assert Q[0] @ W @ P[0] == pytest.approx(1.0)


@given(blocks(max_length=1), st.sampled_from([0.01, 0.5]))
def test_no_step_is_longer_than_c(block, C):
    Q, P = block
    W = np.zeros((Q.shape[1], P.shape[1]))
    oasis_pass(W, np.zeros((0, 0)), 0, Q, P, C)
    V = np.outer(Q[0], P[0])
    assert np.linalg.norm(W) <= C * np.linalg.norm(V) * (1 + 1e-12)
