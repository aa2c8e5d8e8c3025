import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from similia.linalg.blas import add_cross_products, products, row_products
from similia.linalg.blocks import squared
from similia.linalg.bound import add_square, gemm, solve_unit_lower
from similia.linalg.downdates import downdate, eliminate_row
from similia.linalg.threads import SMALL
from tests.problems import FORMS

SEED = st.integers(0, 2**32 - 1)


@given(SEED, st.integers(1, 8), st.integers(1, 20))
def test_a_block_of_downdates_equals_one_at_a_time(seed, d, length):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(d, d))
    A, Z = B @ B.T + np.eye(d), rng.normal(size=(length, d))
    skipped = rng.random(length) < 0.3
    (ZA,) = products((Z, A))
    (H,) = products((ZA, Z.T))
    c, expected, moved = np.zeros(length), A.copy(), []
    for t in range(length):
        eliminate_row(H, c, t, t, t)
        assert H[t, t] == pytest.approx(Z[t] @ expected @ Z[t], rel=1e-8)
        if not skipped[t]:
            c[t] = 1.0 / (1.0 + H[t, t])
            moved.append(expected @ Z[t])
            expected = expected - c[t] * np.outer(moved[-1], moved[-1])
    rows = np.flatnonzero(c)
    if len(rows):
        actual = ZA[rows]
        downdate(A, actual, H[rows], c[rows], rows)
        np.testing.assert_allclose(actual, moved, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(A, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_products_are_those_of_numpy_in_the_same_precision(rng, dtype, form):
    A, B = rng.normal(size=(5, 3)).astype(dtype), rng.normal(size=(3, 4)).astype(dtype)
    D = rng.normal(size=(6, 3)).astype(dtype)
    near = {"rtol": 1e-5, "atol": 1e-5}
    for actual, expected in (
        (products((form(A), B))[0], A @ B),
        (products((A, form(D).T))[0], A @ D.T),
        (row_products(A, form(A)), (A * A).sum(axis=1)),
        (squared(form(A)) @ B, (A * A) @ B),
    ):
        assert actual.dtype == dtype
        np.testing.assert_allclose(actual, expected, **near)


def test_accumulating_products_work_in_place(rng):
    C, A, B, w = (rng.normal(size=s) for s in ((3, 4), (5, 3), (5, 4), 5))
    expected = C + A.T @ np.diag(w) @ B
    add_cross_products((C, A, B, w))
    np.testing.assert_allclose(C, expected)
    L = np.tril(rng.normal(size=(5, 5)), -1) + np.eye(5)
    solved = np.linalg.solve(L, B)
    solve_unit_lower(L, B)
    np.testing.assert_allclose(B, solved)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transpose_A", [False, True])
@pytest.mark.parametrize("transpose_B", [False, True])
def test_bound_products_work_on_panels_of_larger_arrays(rng, dtype, transpose_A, transpose_B):
    A, B, C = (rng.normal(size=(9, 9)).astype(dtype) for _ in range(3))
    rows, inner, columns = slice(1, 5), slice(2, 8), slice(3, 6)
    left = A[inner, rows].T if transpose_A else A[rows, inner]
    right = B[columns, inner].T if transpose_B else B[inner, columns]
    expected = C.copy()
    expected[rows, columns] = left @ right + 0.5 * C[rows, columns]
    gemm(
        transpose_A,
        left.T if transpose_A else left,
        transpose_B,
        right.T if transpose_B else right,
        0.5,
        C[rows, columns],
    )
    np.testing.assert_allclose(C, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [1, 5, 32, 70])
def test_subtracting_a_square_keeps_exact_symmetry(rng, dtype, n):
    B, Z = rng.normal(size=(n, n)).astype(dtype), rng.normal(size=(3, n)).astype(dtype)
    A = B + B.T
    expected = A - Z.T @ Z
    add_square(A, -1.0, Z)
    np.testing.assert_allclose(A, expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(A, A.T)


def test_downdates_may_also_add(rng):
    A, z, c = np.eye(4), rng.normal(size=(1, 4)), np.array([-0.5])
    moved = z.copy()
    downdate(A, moved, np.ones((1, 1)), c, np.arange(1))
    np.testing.assert_allclose(A, np.eye(4) + 0.5 * z.T @ z)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_large_products_are_shared_out_and_come_together(rng, form):
    """Two pairs at once, large enough for panels."""
    A, B, D = (rng.normal(size=s) for s in ((80, 250), (250, 230), (80, 230)))
    assert A.shape[0] * B.size > SMALL
    first, second = products((form(A), B), (form(D), B.T))
    np.testing.assert_allclose(first, A @ B)
    np.testing.assert_allclose(second, D @ B.T)
    C, E, w = rng.normal(size=(250, 230)), rng.normal(size=(230, 250)), rng.normal(size=80)
    expected = C + A.T @ np.diag(w) @ D, E + D.T @ np.diag(w) @ A
    add_cross_products((C, A, D, w), (E, D, A, w))
    np.testing.assert_allclose(C, expected[0])
    np.testing.assert_allclose(E, expected[1])
