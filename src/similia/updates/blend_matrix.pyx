"""Blend's W, learnt from comparisons, and its weight."""

from functools import partial

import numpy as np

from similia.linalg.blas import add_cross_products, products, row_products
from similia.linalg.downdates import downdate
from similia.linalg.threads import side_by_side

from cython cimport floating
from libc.math cimport M_PI, log, sqrt
from similia.linalg.downdates cimport eliminate
from similia.updates.blend cimport BEST, SLIP, WORST, sigmoid, trust

#: places in the numbers of W
cpdef enum:
    WEIGHT = 0
    PRECISION = 1
    BEHIND = 2
    TURNED = 3
    RANKS = 4
    COUNT = 5
#: largest weight of W
cdef double LARGEST = 4.0
#: log-likelihood lost against doing without W after which W starts anew
cdef double ALARM = 12.0

globals().update(LARGEST=LARGEST, ALARM=ALARM)  # from Python, too


def matrix_pass(W, Lambda, Omega, Q, P, offsets, weights):
    """Learn W ~ N(W, Λ ⊗ Ω) from a block of comparisons; same updates as one at a time.

    The margin of a comparison is its offset plus qᵀWp, its variance ab with a = qᵀΛq, b = pᵀΩp.
    With their step g and gain h,

        W += g Λq pᵀΩ,    Ω -= ah/(m - (m-1)abh) Ωp pᵀΩ,    Λ -= bh/(n - (n-1)abh) Λq qᵀΛ,

    AROMA's (12) to (14), where h = 1/(r + ab). Returns qᵀWp as it was before each was learnt.
    """
    (m, n), (QW, QL, PO) = W.shape, products((Q, W), (Q, Lambda), (P, Omega))
    H, G = products((QL, Q.T), (PO, P.T))
    steps, taken = np.zeros((3, len(weights)), W.dtype), np.empty(len(weights), np.intp)
    scores = row_products(QW, P)
    count = matrix_walk(H, G, scores, offsets, weights, m, n, steps, taken)
    if count:
        taken = taken[:count]
        left, right = (QL, PO) if count == len(QL) else (QL[taken], PO[taken])
        alpha, c_Lambda, c_Omega = steps[:, :count]
        tasks = (
            partial(downdate, Lambda, left, H, c_Lambda, taken),
            partial(downdate, Omega, right, G, c_Omega, taken),
        )
        side_by_side(tasks, count * (m * m + n * n))
        add_cross_products((W, left, right, alpha))
    return scores


def matrix_walk(
    floating[:, ::1] H,
    floating[:, ::1] G,
    floating[::1] s,
    const double[:] offsets,
    const double[:] weights,
    double m,
    double n,
    floating[:, ::1] steps,
    Py_ssize_t[::1] taken,
):
    """Walk over a block in order; rows learnt from move to the front of H and G.

    σ(s/√(1 + πv/8)) stands for the mean of the logistic function of a margin N(s, v).
    """
    cdef floating[::1] alpha = steps[0], c_Lambda = steps[1], c_Omega = steps[2]
    cdef Py_ssize_t t, u, k = 0
    cdef double a, b, scale, q, likelihood, g, h
    with nogil:
        for t in range(s.shape[0]):
            eliminate[floating](H, c_Lambda, k, t, t)
            eliminate[floating](G, c_Omega, k, t, t)
            a, b = max(H[k, t], 0.0), max(G[k, t], 0.0)
            scale = 1.0 / sqrt(1.0 + M_PI * a * b / 8.0)
            q = sigmoid(scale * (offsets[t] + s[t]))
            likelihood = SLIP / 2 + (1 - SLIP) * q
            g = (1 - SLIP) * q * (1 - q) * scale / likelihood
            h = max(g * g - (1 - SLIP) * q * (1 - q) * (1 - 2 * q) * scale * scale / likelihood, 0.0)
            g, h = weights[t] * g, min(weights[t] * h, 0.99 / max(a * b, 1e-300))
            if g * a * b > 0.0:
                alpha[k] = <floating>(g)
                c_Lambda[k] = <floating>(b * h / (n - (n - 1) * a * b * h))
                c_Omega[k] = <floating>(a * h / (m - (m - 1) * a * b * h))
                for u in range(t + 1, s.shape[0]):
                    s[u] += alpha[k] * H[k, u] * G[k, u]
                taken[k] = t
                k += 1
    return k


def learn_weight(
    const floating[::1] scores,
    const double[:] offsets,
    const double[:] weights,
    double[::1] numbers,
):
    """Learn the weight of what W said of comparisons before it learnt them.

    One online Newton step for each, from 0 and not below. Evidence counts the comparisons whose
    order W turns: a W that only makes the views surer of themselves ranks no better. Returns
    whether W has fallen so far behind doing without it that it must start anew.
    """
    cdef Py_ssize_t t
    cdef double s, weight, margin, q, plain, likelihood, gained, slope, bend, step
    for t in range(scores.shape[0]):
        s, weight = min(max(scores[t], -1e6), 1e6), weights[t]
        margin = offsets[t] + numbers[WEIGHT] * s
        q = sigmoid(margin)
        plain = SLIP / 2 + (1 - SLIP) * sigmoid(offsets[t])
        likelihood = SLIP / 2 + (1 - SLIP) * q
        gained = weight * log(likelihood / plain)
        if (margin > 0.0) != (offsets[t] > 0.0):
            numbers[TURNED] = min(max(numbers[TURNED] + gained, WORST), BEST)
        numbers[BEHIND] = max(numbers[BEHIND] - gained, 0.0)
        if numbers[BEHIND] > ALARM:
            return True
        slope = (1 - SLIP) * q * (1 - q) / likelihood
        bend = max(slope * slope - slope * (1 - 2 * q), 0.0)
        numbers[PRECISION] += weight * bend * s * s
        step = weight * slope * s / numbers[PRECISION]
        numbers[WEIGHT] = min(max(numbers[WEIGHT] + step, 0.0), LARGEST)
    numbers[RANKS] = numbers[WEIGHT] * trust(numbers[TURNED])
    return False
