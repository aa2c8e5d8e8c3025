import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from similia.linalg.blas import bilinear_forms, quadratic_forms, wide_row_products
from tests.problems import blocks


@given(blocks(), st.sampled_from([np.asarray, sparse.csr_array]))
def test_forms_are_the_sums_that_define_them(block, form):
    Q, P = block
    rng = np.random.default_rng(0)
    W, B = rng.normal(size=(Q.shape[1], P.shape[1])), rng.normal(size=(P.shape[1],) * 2)
    A = B + B.T
    bilinear = np.einsum("ti,ij,tj->t", Q, W, P)
    quadratic = np.einsum("ti,ij,tj->t", P, A, P)
    np.testing.assert_allclose(bilinear_forms(W, form(Q), form(P)), bilinear, atol=1e-9)
    np.testing.assert_allclose(quadratic_forms(A, form(P)), quadratic, atol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_forms_keep_single_precision(form):
    Z = np.ones((2, 3), np.float32)
    assert quadratic_forms(np.eye(3, dtype=np.float32), form(Z)).dtype == np.float32


def test_products_of_single_precision_are_summed_in_double(rng):
    A, B = rng.normal(size=(2, 600, 300)).astype(np.float32)
    exact = np.vecdot(A.astype(np.float64), B.astype(np.float64))
    np.testing.assert_allclose(wide_row_products(A, B), exact, rtol=1e-13, atol=1e-13)
