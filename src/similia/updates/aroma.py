"""AROMA: a Gaussian over weight matrices, with diagonal or factored covariance [Crammer2012].

A pass takes the rows of one block: queries q_t in Q and differences p_t = better - worse in P,
dense or CSR. It changes the state in place and returns the number of updates. `moment`, unless
empty, gathers Σ_t t ΔW_t for the average of the states; `t` counts the triplets before the block.
"""

from functools import partial

import numpy as np
from scipy import sparse

from similia.linalg.blas import add_cross_products, bilinear_forms, products
from similia.linalg.blocks import dense
from similia.linalg.compiled import compiled
from similia.linalg.downdates import downdate, eliminate_row
from similia.linalg.threads import side_by_side

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
    consecutive = places[-1] - places[0] == len(places) - 1
    return slice(places[0], places[-1] + 1) if consecutive else places


@compiled
def _factored_walk(H, G, s, columns, given, steps, taken):
    """Walk over scores in order; H and G have rows for the triplets at `columns` only.

    Rows learnt from move to the front of H and G, and `taken` lists them. Ends before a triplet
    that needs a row and has none. Returns the numbers of triplets learnt from and walked over.
    """
    mr, nr, r, threshold = given
    alpha, c_Lambda, c_Omega = steps[0], steps[1], steps[2]
    row = k = np.intp(0)  # a literal 0 would be a type of its own, and compile all twice
    for t in range(len(s)):
        known = row < len(columns) and columns[row] == t
        row += known
        if s[t] < threshold:
            if not known:
                return k, t
            eliminate_row(H, c_Lambda, k, row - 1, t)
            eliminate_row(G, c_Omega, k, row - 1, t)
            # Only rounding can make a tiny variance negative.
            a, b = max(H[k, t], 0.0), max(G[k, t], 0.0)
            if a * b > 0.0:
                alpha[k] = (1.0 - s[t]) / (r + a * b)
                c_Omega[k] = a / (mr + a * b)
                c_Lambda[k] = b / (nr + a * b)
                for u in range(t + 1, len(s)):
                    s[u] += alpha[k] * H[k, u] * G[k, u]
                taken[k] = row - 1
                k += 1
    return k, len(s)


def factored_analysed_pass(W, Lambda, Omega, moment, t, Q, P, r, threshold):
    """Learn a block of triplets in the form that the proof of Theorem 2 covers.

    Λ and Ω move as in `factored_pass`. The mean is W = ΛθΩ with the *new* Λ, Ω and θ += qpᵀ, which
    is, with L = I - b/(nr+ab) Λqqᵀ and R = I - a/(mr+ab) ppᵀΩ,

        W <- L (W + Λq pᵀΩ) R.

    A triplet costs 2 mn flops for its score and four passes over memory if it is learnt from.
    """
    return _factored_analysed(W, Lambda, Omega, moment, t, dense(Q), dense(P), r, threshold)


@compiled
def _factored_analysed(W, Lambda, Omega, moment, t, Q, P, r, threshold):
    (m, n), real, updates = W.shape, W.dtype.type, 0
    qW, Wp, left, right = np.empty(n, real), np.empty(m, real), np.empty(m, real), np.empty(n, real)
    for i in range(len(Q)):
        q, p = Q[i], P[i]
        s = _form(W, q, p, Wp)
        if not s < threshold:
            continue
        a, b = _form(Lambda, q, q, left), _form(Omega, p, p, right)
        if not (a > 0.0 and b > 0.0):
            continue
        updates += 1
        qW[:] = real(0)
        for k in range(m):
            for l in range(n):
                qW[l] += q[k] * W[k, l]
        c_Lambda, c_Omega = b / (n * r + a * b), a / (m * r + a * b)
        both = (1.0 - c_Lambda * a) * (1.0 - c_Omega * b) + c_Lambda * c_Omega * s
        for k in range(m):
            along_right = real(both * left[k] - c_Omega * Wp[k])
            along_qW = real(-c_Lambda * left[k])
            for l in range(n):
                change = along_right * right[l] + along_qW * qW[l]
                W[k, l] += change
                if moment.size:
                    moment[k, l] += real(t + i + 1) * change
        _subtract_square(Lambda, real(c_Lambda), left)
        _subtract_square(Omega, real(c_Omega), right)
    return updates


@compiled
def _form(A, x, y, Ay):
    """Bilinear form xᵀAy; Ay is set on the way."""
    total = 0.0
    for k in range(len(x)):
        dot = A.dtype.type(0)
        for l in range(len(y)):
            dot += A[k, l] * y[l]
        Ay[k] = dot
        total += x[k] * dot
    return total


@compiled
def _subtract_square(A, c, x):
    """A -= c xxᵀ."""
    for k in range(len(x)):
        scaled = c * x[k]
        for l in range(len(x)):
            A[k, l] -= scaled * x[l]


def diagonal_pass(W, Sigma, moment, t, Q, P, r, threshold, analysed):
    """Learn a block of triplets with one variance for each entry of W.

    With x = qpᵀ, v = Σ_kl x²Σ, s = qᵀWp before the update, whenever s < threshold, as printed:

        W += (1-s)/(v+r) Σ⊙x,    Σ -= (Σ⊙x)²/(v+r)                              [Crammer2012, 5, 6]

    or, `analysed`, in the form that Theorem 1 covers: W = Σ⊙θ with θ += x, 1/Σ += x²/r.

    Cost: k_q k_p for rows with that many nonzeros; for dense rows one pass over W and Σ a triplet.
    """
    if sparse.issparse(Q):
        rows = (Q.indptr, Q.indices, Q.data, P.indptr, P.indices, P.data)
        return _diagonal_sparse(W, Sigma, moment, t, rows, r, threshold, analysed)
    return _diagonal_dense(W, Sigma, moment, t, Q, P, r, threshold, analysed)


@compiled
def _moved(w, sigma, x, step, analysed):
    """New mean and variance of one entry, in either form."""
    alpha, gain, inverse_r, zero, one = step
    if analysed:
        shrink = one / (one + inverse_r * sigma * x * x)
        return (w + sigma * x) * shrink, sigma * shrink
    g = sigma * x
    # σ(1 - σx²/(v+r)) ≥ σr/(v+r) > 0; the floor is for rounding if r is negligible.
    return w + alpha * g, max(sigma - gain * g * g, zero)


@compiled
def _step_sizes(s, v, r, real):
    """Arguments of `_moved` in the precision of the state: a plain 1.0 would widen its loop."""
    return real((1.0 - s) / (v + r)), real(1.0 / (v + r)), real(1.0 / r), real(0.0), real(1.0)


@compiled
def _diagonal_dense(W, Sigma, moment, t, Q, P, r, threshold, analysed):
    """Learn a dense block; the loop that updates a row also scores it for the next triplet."""
    real, flat = W.dtype.type, moment.reshape(-1)
    updates, s, v = 0, 0.0, 0.0
    for i in range(-1, len(Q)):
        # Learn triplet i from its score s and variance v; score triplet i + 1.
        moving = i >= 0 and s < threshold and v > 0.0
        updates += moving
        step, time = _step_sizes(s, v, r, real), real(t + i + 1)
        following = min(i + 1, len(Q) - 1)
        s = v = 0.0
        for k in range(len(W)):
            q, next_q = Q[max(i, 0), k], Q[following, k]
            if moving and q != 0.0:
                averaged = moment[k] if moment.size else flat
                score, variance = _update_row(
                    W[k], Sigma[k], averaged, time, q, P[i], P[following], step, analysed
                )
            elif next_q != 0.0:
                score, variance = _score_row(W[k], Sigma[k], P[following])
            else:
                continue
            s += next_q * score
            v += next_q * next_q * variance
    return updates


@compiled
def _update_row(w, sigma, moment, time, q, p, next_p, step, analysed):
    """Update a row with one triplet and score it with the next, while it is in the cache."""
    score = variance = w.dtype.type(0)
    if moment.size:
        for l in range(len(p)):
            new, _ = _moved(w[l], sigma[l], q * p[l], step, analysed)
            moment[l] += time * (new - w[l])
    for l in range(len(p)):
        new_w, new_sigma = _moved(w[l], sigma[l], q * p[l], step, analysed)
        w[l], sigma[l] = new_w, new_sigma
        score += new_w * next_p[l]
        variance += new_sigma * next_p[l] * next_p[l]
    return score, variance


@compiled
def _score_row(w, sigma, p):
    score = variance = w.dtype.type(0)
    for l in range(len(p)):
        score += w[l] * p[l]
        variance += sigma[l] * p[l] * p[l]
    return score, variance


@compiled
def _diagonal_sparse(W, Sigma, moment, t, rows, r, threshold, analysed):
    real = W.dtype.type
    q_ptr, q_index, q_value, p_ptr, p_index, p_value = rows
    updates = 0
    for i in range(len(q_ptr) - 1):
        q_range = range(q_ptr[i], q_ptr[i + 1])
        p_range = range(p_ptr[i], p_ptr[i + 1])
        s = v = 0.0
        for a in q_range:
            w, sigma = W[q_index[a]], Sigma[q_index[a]]
            score = variance = 0.0
            for b in p_range:
                score += w[p_index[b]] * p_value[b]
                variance += sigma[p_index[b]] * p_value[b] * p_value[b]
            s += q_value[a] * score
            v += q_value[a] * q_value[a] * variance
        if not (s < threshold and v > 0.0):
            continue
        updates += 1
        step, time = _step_sizes(s, v, r, real), real(t + i + 1)
        for a in q_range:
            k = q_index[a]
            for b in p_range:
                l = p_index[b]
                x = q_value[a] * p_value[b]
                new, Sigma[k, l] = _moved(W[k, l], Sigma[k, l], x, step, analysed)
                if moment.size:
                    moment[k, l] += time * (new - W[k, l])
                W[k, l] = new
    return updates
