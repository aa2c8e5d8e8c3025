"""OASIS: passive-aggressive steps on a bilinear similarity [Chechik2010]."""

import numpy as np
from scipy import sparse

from similia.linalg.blas import add_cross_products, bilinear_forms, products, sparse_rows

from cython cimport floating


def oasis_pass(W, moment, t, Q, P, C):
    """Learn a block of triplets: change W, gather `moment` (see `updates.aroma`), count updates.

    With q the query, p = better - worse, each triplet moves W just far enough to meet the margin:

        W += tau q pᵀ,    tau = min(C, loss / (|q|²|p|²)),    loss = max(0, 1 - qᵀWp)

    Sparse rows cost k_q k_p each. For dense rows the scores of a block follow from the Gram
    matrices of Q and P, so that W is read and written once a block, by matrix products.
    """
    if sparse.issparse(Q):
        return _oasis_sparse(W, moment, t, *sparse_rows(Q), *sparse_rows(P), C)
    tau = np.zeros(len(Q), dtype=W.dtype)
    H, G = products((Q, Q.T), (P, P.T))
    _oasis_walk(bilinear_forms(W, Q, P), H, G, C, tau)
    moved = np.flatnonzero(tau)
    if len(moved):
        Q, P, tau = Q[moved], P[moved], tau[moved]
        terms = [(W, Q, P, tau)]
        if moment.size:
            terms.append((moment, Q, P, tau * (t + 1 + moved)))
        add_cross_products(*terms)
    return len(moved)


def _oasis_walk(
    floating[::1] s,
    const floating[:, ::1] H,
    const floating[:, ::1] G,
    double C,
    floating[::1] tau,
):
    cdef Py_ssize_t t, u
    cdef double loss, norm2
    cdef floating step
    with nogil:
        for t in range(s.shape[0]):
            loss, norm2 = 1.0 - s[t], H[t, t] * G[t, t]
            if loss > 0.0 and norm2 > 0.0:
                tau[t] = step = <floating>min(C, loss / norm2)
                for u in range(t + 1, s.shape[0]):
                    s[u] += step * H[t, u] * G[t, u]


def _oasis_sparse(
    floating[:, ::1] W,
    floating[:, ::1] moment,
    Py_ssize_t t,
    const Py_ssize_t[::1] q_ptr,
    const Py_ssize_t[::1] q_index,
    const floating[::1] q_value,
    const Py_ssize_t[::1] p_ptr,
    const Py_ssize_t[::1] p_index,
    const floating[::1] p_value,
    double C,
):
    cdef Py_ssize_t i, a, b, k, l, updates = 0
    cdef double p_norm2, q_norm2, s, score, loss, norm2, tau
    cdef bint averaged = moment.shape[0] * moment.shape[1] > 0
    cdef floating step
    with nogil:
        for i in range(q_ptr.shape[0] - 1):
            p_norm2 = q_norm2 = s = 0.0
            for b in range(p_ptr[i], p_ptr[i + 1]):
                p_norm2 += p_value[b] * p_value[b]
            for a in range(q_ptr[i], q_ptr[i + 1]):
                k, score = q_index[a], 0.0
                for b in range(p_ptr[i], p_ptr[i + 1]):
                    score += W[k, p_index[b]] * p_value[b]
                s += q_value[a] * score
                q_norm2 += q_value[a] * q_value[a]
            loss, norm2 = 1.0 - s, q_norm2 * p_norm2
            if not (loss > 0.0 and norm2 > 0.0):
                continue
            updates += 1
            tau = min(C, loss / norm2)
            for a in range(q_ptr[i], q_ptr[i + 1]):
                k = q_index[a]
                for b in range(p_ptr[i], p_ptr[i + 1]):
                    l = p_index[b]
                    step = <floating>(tau * q_value[a] * p_value[b])
                    W[k, l] += step
                    if averaged:
                        moment[k, l] += <floating>(t + i + 1) * step
    return updates
