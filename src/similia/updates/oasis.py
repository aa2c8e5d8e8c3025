"""OASIS: passive-aggressive steps on a bilinear similarity [Chechik2010]."""

import numpy as np
from scipy import sparse

from similia.linalg.blas import add_cross_products, bilinear_forms, products
from similia.linalg.compiled import compiled


def oasis_pass(W, moment, t, Q, P, C):
    """Learn a block of triplets: change W, gather `moment` (see `updates.aroma`), count updates.

    With q the query, p = better - worse, each triplet moves W just far enough to meet the margin:

        W += tau q pᵀ,    tau = min(C, loss / (|q|²|p|²)),    loss = max(0, 1 - qᵀWp)

    Sparse rows cost k_q k_p each. For dense rows the scores of a block follow from the Gram
    matrices of Q and P, so that W is read and written once a block, by matrix products.
    """
    if sparse.issparse(Q):
        rows = (Q.indptr, Q.indices, Q.data, P.indptr, P.indices, P.data)
        return _oasis_sparse(W, moment, t, rows, C)
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


@compiled
def _oasis_walk(s, H, G, C, tau):
    for t in range(len(s)):
        loss, norm2 = 1.0 - s[t], H[t, t] * G[t, t]
        if loss > 0.0 and norm2 > 0.0:
            tau[t] = min(C, loss / norm2)
            for u in range(t + 1, len(s)):
                s[u] += tau[t] * H[t, u] * G[t, u]


@compiled
def _oasis_sparse(W, moment, t, rows, C):
    q_ptr, q_index, q_value, p_ptr, p_index, p_value = rows
    updates = 0
    for i in range(len(q_ptr) - 1):
        q_range = range(q_ptr[i], q_ptr[i + 1])
        p_range = range(p_ptr[i], p_ptr[i + 1])
        p_norm2 = 0.0
        for b in p_range:
            p_norm2 += p_value[b] * p_value[b]
        q_norm2 = s = 0.0
        for a in q_range:
            w = W[q_index[a]]
            score = 0.0
            for b in p_range:
                score += w[p_index[b]] * p_value[b]
            s += q_value[a] * score
            q_norm2 += q_value[a] * q_value[a]
        loss, norm2 = 1.0 - s, q_norm2 * p_norm2
        if not (loss > 0.0 and norm2 > 0.0):
            continue
        updates += 1
        tau = min(C, loss / norm2)
        for a in q_range:
            for b in p_range:
                step = W.dtype.type(tau * q_value[a] * p_value[b])
                W[q_index[a], p_index[b]] += step
                if moment.size:
                    moment[q_index[a], p_index[b]] += W.dtype.type(t + i + 1) * step
    return updates
