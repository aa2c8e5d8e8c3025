import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import sparse

from similia.updates.paum import largest_squares, paum_pass, with_squared_radius
from tests.problems import blocks
from tests.reference.paum import paum_step

TAUS = st.tuples(*[st.sampled_from([0.0, 0.3, 7.0])] * 2)
ETA = st.sampled_from([0.1, 1.0])
FORM = st.sampled_from([np.asarray, sparse.csr_array])


@given(blocks(largest=1), TAUS, ETA, FORM, st.integers(1, 40))
def test_blocks_equal_the_paper_one_example_at_a_time(block, taus, eta, form, size):
    X, signs = block[0], np.where(block[1][:, 0] >= 0, 1.0, -1.0)
    n, d = X.shape
    w, b, R = np.zeros(d), 0.0, 0.0
    expected, total, steps = [], np.zeros(d + 1), 0
    for x, y in zip(X, signs, strict=True):
        R = max(R, np.linalg.norm(x))
        gap = y * (w @ x + b) - taus[0 if y > 0 else 1]
        assume(abs(gap) > 1e-10 or not steps)  # on its margin to rounding: either way is right
        before = w
        w, b = paum_step(w, b, x, y, R, eta, *taus)
        steps += w is not before
        expected.append(R**2)
        total += [*w, b]
    learnt, moment, R2, taken = np.zeros(d + 1), np.zeros(d + 1), 0.0, 0
    for start in range(0, n, size):
        rows = np.hstack([X, np.ones((n, 1))])[start : start + size]
        squares = largest_squares(form(rows), R2)
        np.testing.assert_allclose(squares, expected[start : start + size], rtol=1e-12)
        R2, moves = squares[-1], with_squared_radius(form(rows), squares)
        part = signs[start : start + size]
        taken += paum_pass(learnt, moment, start, form(rows), moves, part, eta, taus)
    scale = 1 + np.abs(learnt).max()
    np.testing.assert_allclose(learnt, [*w, b], atol=1e-10 * scale)
    np.testing.assert_allclose((n + 1) * learnt - moment, total, atol=1e-8 * scale)
    assert taken == steps


@given(blocks(), FORM)
def test_only_the_margins_relative_to_the_step_matter(block, form):
    X, signs = block[0], np.where(block[1][:, 0] >= 0, 1.0, -1.0)
    one, four = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    none = np.zeros((0, 0))
    paum_pass(one, none, 0, form(X), form(X), signs, 1.0, (3.0, 0.5))
    # A power of two: the same sums, rounded in the same way.
    paum_pass(four, none, 0, form(X), form(X), signs, 4.0, (12.0, 2.0))
    np.testing.assert_array_equal(four, 4 * one)


@given(blocks())
def test_rows_that_keep_their_margin_change_nothing(block):
    X = block[0]
    w = np.ones(X.shape[1])
    signs = np.where(X @ w >= 0, 1.0, -1.0)
    margin = np.abs(X @ w).min() * (1 - 1e-9)
    kept = np.abs(X @ w) > margin
    assert paum_pass(w, np.zeros((0, 0)), 0, X[kept], X[kept], signs[kept], 1.0, (margin,) * 2) == 0
    np.testing.assert_array_equal(w, 1.0)
