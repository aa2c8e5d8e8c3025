"""Bilinear forms qᵀWp and quadratic forms zᵀAz of rows, dense or sparse."""

import numpy as np
from scipy import sparse

from similia.linalg.blas import products, row_products
from similia.linalg.compiled import compiled


def bilinear_forms(W, Q, P):
    """q_tᵀ W p_t for the rows of Q and P, both dense or both CSR."""
    if sparse.issparse(Q):
        rows = (Q.indptr, Q.indices, Q.data, P.indptr, P.indices, P.data)
        return _sparse_forms(W, rows)
    (QW,) = products((Q, W))
    return row_products(QW, P)


@compiled
def _sparse_forms(W, rows):
    q_ptr, q_index, q_value, p_ptr, p_index, p_value = rows
    forms = np.zeros(len(q_ptr) - 1, dtype=W.dtype)
    for i in range(len(forms)):
        total = 0.0
        for a in range(q_ptr[i], q_ptr[i + 1]):
            w = W[q_index[a]]
            score = 0.0
            for b in range(p_ptr[i], p_ptr[i + 1]):
                score += w[p_index[b]] * p_value[b]
            total += q_value[a] * score
        forms[i] = total
    return forms


def quadratic_forms(A, Z):
    """zᵀAz for the rows of Z, dense or CSR without duplicates; A is symmetric."""
    if sparse.issparse(Z):
        return _sparse_quadratic(A, Z.indptr, Z.indices, Z.data)
    return bilinear_forms(A, Z, Z)


@compiled
def _sparse_quadratic(A, ptr, index, value):
    forms = np.empty(len(ptr) - 1, dtype=A.dtype)
    for i in range(len(forms)):
        total = 0.0
        for a in range(ptr[i], ptr[i + 1]):
            row = A[index[a]]
            half = 0.5 * row[index[a]] * value[a]
            for b in range(a + 1, ptr[i + 1]):
                half += row[index[b]] * value[b]
            total += value[a] * half
        forms[i] = 2.0 * total
    return forms
