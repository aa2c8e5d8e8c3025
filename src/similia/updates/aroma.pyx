"""AROMA: a Gaussian over weight matrices, with diagonal or factored covariance [Crammer2012].

A pass takes the rows of one block: queries q_t in Q and differences p_t = better - worse in P,
dense or CSR. It changes the state in place and returns the number of updates. `moment`, unless
empty, gathers Σ_t t ΔW_t for the average of the states; `t` counts the triplets before the block.
"""

from functools import partial

import numpy as np
from scipy import sparse

from similia.linalg.blas import add_cross_products, bilinear_forms, products, sparse_rows
from similia.linalg.blocks import dense
from similia.linalg.downdates import downdate
from similia.linalg.threads import side_by_side

from cython cimport floating
from similia.linalg.clones cimport void_clones
from similia.linalg.downdates cimport eliminate

NEAR = 0.25  #: scores this far above the threshold may still fall below it within a block
AT_ONCE = 128  #: most rows of one walk, whose own cost grows with their square


def factored_pass(W, Lambda, Omega, moment, t, Q, P, r, threshold):
    """Learn a block of triplets with a factored covariance; same updates as one at a time.

    With a = qᵀΛq, b = pᵀΩp, s = qᵀWp, all before the update, whenever s < threshold:

        W += (1-s)/(r+ab) Λq pᵀΩ                                            [Crammer2012, 12]
        Ω -= a/(mr+ab) Ωp pᵀΩ,    Λ -= b/(nr+ab) Λq qᵀΛ                     [Crammer2012, 13, 14]

    Cost for m = n: 2 mn flops a triplet for its score, 10 mn more if it is learnt from, in matrix
    products (see `similia.linalg.downdates`). Only the triplets learnt from need covariances. Which
    these are turns out during the walk, so covariances are computed for all that score near the
    threshold; a walk that meets another one below it stops there, and the next one starts.
    """
    (m, n), scores, updates, start = W.shape, bilinear_forms(W, Q, P), 0, 0
    while True:
        near = start + np.flatnonzero(scores[start:] < threshold + NEAR)[:AT_ONCE]
        if not len(near):
            return updates
        first, columns = near[0], near - near[0]
        rows = _rows(near)
        QL, PO = products((Q[rows], Lambda), (P[rows], Omega))
        H, G = products((QL, Q[first:].T), (PO, P[first:].T))
        given = (m * r, n * r, r, threshold)
        steps, taken = np.zeros((3, len(near)), W.dtype), np.empty(len(near), np.intp)
        count, length = _factored_walk(H, G, scores[first:], columns, given, steps, taken)
        start, updates, taken = first + length, updates + count, taken[:count]
        if count:
            rows = _rows(taken)
            left, right, columns = QL[rows], PO[rows], columns[rows]
            alpha, c_Lambda, c_Omega = steps[:, :count]
            tasks = (
                partial(downdate, Lambda, left, H, c_Lambda, columns),
                partial(downdate, Omega, right, G, c_Omega, columns),
            )
            side_by_side(tasks, count * (m * m + n * n))
            terms = [(W, left, right, alpha)]
            if moment.size:
                terms.append((moment, left, right, alpha * (t + 1 + first + columns)))
            add_cross_products(*terms)


def _rows(places):
    """Increasing places, as a slice if they are consecutive, so that rows are not copied."""
    first, last = places[0], places[len(places) - 1]
    return slice(first, last + 1) if last - first == len(places) - 1 else places


def _factored_walk(
    floating[:, ::1] H,
    floating[:, ::1] G,
    floating[::1] s,
    const Py_ssize_t[::1] columns,
    given,
    floating[:, ::1] steps,
    Py_ssize_t[::1] taken,
):
    """Walk over scores in order; H and G have rows for the triplets at `columns` only.

    Rows learnt from move to the front of H and G, and `taken` lists them. Ends before a triplet
    that needs a row and has none. Returns the numbers of triplets learnt from and walked over.
    """
    cdef double mr, nr, r, threshold, a, b
    cdef floating step
    mr, nr, r, threshold = given
    cdef floating[::1] alpha = steps[0], c_Lambda = steps[1], c_Omega = steps[2]
    cdef Py_ssize_t row = 0, k = 0, t, u, n = s.shape[0]
    cdef bint known
    with nogil:
        for t in range(n):
            known = row < columns.shape[0] and columns[row] == t
            row += known
            if s[t] < threshold:
                if not known:
                    n = t
                    break
                eliminate[floating](H, c_Lambda, k, row - 1, t)
                eliminate[floating](G, c_Omega, k, row - 1, t)
                # Only rounding can make a tiny variance negative.
                a, b = max(H[k, t], 0.0), max(G[k, t], 0.0)
                if a * b > 0.0:
                    alpha[k] = step = <floating>((1.0 - s[t]) / (r + a * b))
                    c_Omega[k] = <floating>(a / (mr + a * b))
                    c_Lambda[k] = <floating>(b / (nr + a * b))
                    for u in range(t + 1, n):
                        s[u] += step * H[k, u] * G[k, u]
                    taken[k] = row - 1
                    k += 1
    return k, n


def factored_analysed_pass(W, Lambda, Omega, moment, t, Q, P, r, threshold):
    """Learn a block of triplets in the form that the proof of Theorem 2 covers.

    Λ and Ω move as in `factored_pass`. The mean is W = ΛθΩ with the *new* Λ, Ω and θ += qpᵀ, which
    is, with L = I - b/(nr+ab) Λqqᵀ and R = I - a/(mr+ab) ppᵀΩ,

        W <- L (W + Λq pᵀΩ) R.

    A triplet costs 2 mn flops for its score and four passes over memory if it is learnt from.
    """
    return _factored_analysed(W, Lambda, Omega, moment, t, dense(Q), dense(P), r, threshold)


def _factored_analysed(
    floating[:, ::1] W,
    floating[:, ::1] Lambda,
    floating[:, ::1] Omega,
    floating[:, ::1] moment,
    Py_ssize_t t,
    const floating[:, ::1] Q,
    const floating[:, ::1] P,
    double r,
    double threshold,
):
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], i, k, l, updates = 0
    cdef bint averaged = moment.shape[0] * moment.shape[1] > 0
    cdef double s, a, b, c_Lambda, c_Omega, both
    cdef floating along_right, along_qW, change
    dtype = np.asarray(W).dtype
    cdef floating[::1] qW = np.empty(n, dtype), right = np.empty(n, dtype)
    cdef floating[::1] Wp = np.empty(m, dtype), left = np.empty(m, dtype)
    with nogil:
        for i in range(Q.shape[0]):
            s = _form(W, Q, P, i, Wp)
            if not s < threshold:
                continue
            a, b = _form(Lambda, Q, Q, i, left), _form(Omega, P, P, i, right)
            if not (a > 0.0 and b > 0.0):
                continue
            updates += 1
            for l in range(n):
                qW[l] = 0
            for k in range(m):
                for l in range(n):
                    qW[l] += Q[i, k] * W[k, l]
            c_Lambda, c_Omega = b / (n * r + a * b), a / (m * r + a * b)
            both = (1.0 - c_Lambda * a) * (1.0 - c_Omega * b) + c_Lambda * c_Omega * s
            for k in range(m):
                along_right = <floating>(both * left[k] - c_Omega * Wp[k])
                along_qW = <floating>(-c_Lambda * left[k])
                for l in range(n):
                    change = along_right * right[l] + along_qW * qW[l]
                    W[k, l] += change
                    if averaged:
                        moment[k, l] += <floating>(t + i + 1) * change
            _subtract_square(Lambda, <floating>c_Lambda, left)
            _subtract_square(Omega, <floating>c_Omega, right)
    return updates


cdef double _form(
    const floating[:, ::1] A,
    const floating[:, ::1] X,
    const floating[:, ::1] Y,
    Py_ssize_t i,
    floating[::1] Ay,
) noexcept nogil:
    """Bilinear form xᵀAy for rows i of X and Y; Ay is set on the way."""
    cdef double total = 0.0
    cdef floating dot
    cdef Py_ssize_t k, l
    for k in range(A.shape[0]):
        dot = 0
        for l in range(A.shape[1]):
            dot += A[k, l] * Y[i, l]
        Ay[k] = dot
        total += X[i, k] * dot
    return total


cdef void _subtract_square(floating[:, ::1] A, floating c, const floating[::1] x) noexcept nogil:
    """A -= c xxᵀ."""
    cdef Py_ssize_t k, l
    cdef floating scaled
    for k in range(A.shape[0]):
        scaled = c * x[k]
        for l in range(A.shape[1]):
            A[k, l] -= scaled * x[l]


def diagonal_pass(W, Sigma, moment, t, Q, P, r, threshold, analysed):
    """Learn a block of triplets with one variance for each entry of W.

    With x = qpᵀ, v = Σ_kl x²Σ, s = qᵀWp before the update, whenever s < threshold, as printed:

        W += (1-s)/(v+r) Σ⊙x,    Σ -= (Σ⊙x)²/(v+r)                              [Crammer2012, 5, 6]

    or, `analysed`, in the form that Theorem 1 covers: W = Σ⊙θ with θ += x, 1/Σ += x²/r.

    Cost: k_q k_p for rows with that many nonzeros; for dense rows one pass over W and Σ a triplet.
    """
    if sparse.issparse(Q):
        rows = *sparse_rows(Q), *sparse_rows(P)
        return _diagonal_sparse(W, Sigma, moment, t, *rows, r, threshold, analysed)
    return _diagonal_dense(W, Sigma, moment, t, Q, P, r, threshold, analysed)


def _diagonal_dense(
    floating[:, ::1] W,
    floating[:, ::1] Sigma,
    floating[:, ::1] moment,
    Py_ssize_t t,
    const floating[:, ::1] Q,
    const floating[:, ::1] P,
    double r,
    double threshold,
    bint analysed,
):
    cdef Py_ssize_t updates = 0
    with nogil:
        _learn_dense[floating](W, Sigma, moment, t, Q, P, r, threshold, analysed, &updates)
    return updates


cdef void_clones _learn_dense(
    floating[:, ::1] W,
    floating[:, ::1] Sigma,
    floating[:, ::1] moment,
    Py_ssize_t t,
    const floating[:, ::1] Q,
    const floating[:, ::1] P,
    double r,
    double threshold,
    bint analysed,
    Py_ssize_t* updates,
) noexcept nogil:
    """Learn a dense block; the loop that updates a row also scores it for the next triplet."""
    cdef Py_ssize_t i, following, k, l, m = W.shape[0], n = W.shape[1]
    cdef bint moving, averaged = moment.shape[0] * moment.shape[1] > 0
    cdef double s = 0.0, v = 0.0, next_s, next_v
    cdef floating q, next_q, x, w, sigma, score, variance
    cdef floating alpha, gain, inverse_r = <floating>(1.0 / r), time
    for i in range(-1, Q.shape[0]):
        # Learn triplet i from its score s and variance v; score triplet i + 1.
        moving = i >= 0 and s < threshold and v > 0.0
        updates[0] += moving
        alpha, gain = <floating>((1.0 - s) / (v + r)), <floating>(1.0 / (v + r))
        time, following = t + i + 1, min(i + 1, Q.shape[0] - 1)
        next_s = next_v = 0.0
        for k in range(m):
            q, next_q = Q[max(i, 0), k], Q[following, k]
            score = variance = 0
            if moving and q != 0:
                if averaged:
                    for l in range(n):
                        w, sigma, x = W[k, l], Sigma[k, l], q * P[i, l]
                        _move(&w, &sigma, x, alpha, gain, inverse_r, analysed)
                        moment[k, l] += time * (w - W[k, l])
                        W[k, l], Sigma[k, l] = w, sigma
                        score += w * P[following, l]
                        variance += sigma * P[following, l] * P[following, l]
                else:
                    for l in range(n):
                        w, sigma, x = W[k, l], Sigma[k, l], q * P[i, l]
                        _move(&w, &sigma, x, alpha, gain, inverse_r, analysed)
                        W[k, l], Sigma[k, l] = w, sigma
                        score += w * P[following, l]
                        variance += sigma * P[following, l] * P[following, l]
            elif next_q != 0:
                for l in range(n):
                    score += W[k, l] * P[following, l]
                    variance += Sigma[k, l] * P[following, l] * P[following, l]
            else:
                continue
            next_s += next_q * score
            next_v += next_q * next_q * variance
        s, v = next_s, next_v


cdef inline void _move(
    floating* w,
    floating* sigma,
    floating x,
    floating alpha,
    floating gain,
    floating inverse_r,
    bint analysed,
) noexcept nogil:
    """Move mean and variance of one entry, in either form."""
    cdef floating g = sigma[0] * x, zero = 0, one = 1, shrink
    if analysed:
        shrink = one / (one + inverse_r * g * x)
        w[0] = (w[0] + g) * shrink
        sigma[0] *= shrink
    else:
        w[0] += alpha * g
        # σ(1 - σx²/(v+r)) ≥ σr/(v+r) > 0; the floor is for rounding if r is negligible.
        sigma[0] = max(sigma[0] - gain * g * g, zero)


def _diagonal_sparse(
    floating[:, ::1] W,
    floating[:, ::1] Sigma,
    floating[:, ::1] moment,
    Py_ssize_t t,
    const Py_ssize_t[::1] q_ptr,
    const Py_ssize_t[::1] q_index,
    const floating[::1] q_value,
    const Py_ssize_t[::1] p_ptr,
    const Py_ssize_t[::1] p_index,
    const floating[::1] p_value,
    double r,
    double threshold,
    bint analysed,
):
    cdef Py_ssize_t i, a, b, k, l, updates = 0
    cdef bint averaged = moment.shape[0] * moment.shape[1] > 0
    cdef double s, v, score, variance
    cdef floating x, w, sigma, alpha, gain, inverse_r = <floating>(1.0 / r), time
    with nogil:
        for i in range(q_ptr.shape[0] - 1):
            s = v = 0.0
            for a in range(q_ptr[i], q_ptr[i + 1]):
                k = q_index[a]
                score = variance = 0.0
                for b in range(p_ptr[i], p_ptr[i + 1]):
                    l = p_index[b]
                    score += W[k, l] * p_value[b]
                    variance += Sigma[k, l] * p_value[b] * p_value[b]
                s += q_value[a] * score
                v += q_value[a] * q_value[a] * variance
            if not (s < threshold and v > 0.0):
                continue
            updates += 1
            alpha, gain = <floating>((1.0 - s) / (v + r)), <floating>(1.0 / (v + r))
            time = t + i + 1
            for a in range(q_ptr[i], q_ptr[i + 1]):
                k = q_index[a]
                for b in range(p_ptr[i], p_ptr[i + 1]):
                    l = p_index[b]
                    w, sigma, x = W[k, l], Sigma[k, l], q_value[a] * p_value[b]
                    _move(&w, &sigma, x, alpha, gain, inverse_r, analysed)
                    if averaged:
                        moment[k, l] += time * (w - W[k, l])
                    W[k, l], Sigma[k, l] = w, sigma
    return updates
