"""Blend's W, learnt from pairs, and the evidence for it.

.. [Herbster1998] M. Herbster, M. K. Warmuth, "Tracking the Best Expert", Machine Learning 32, 1998.
"""

from functools import partial

import numpy as np

from similia.linalg.blas import add_cross_products, products, row_products
from similia.linalg.compiled import compiled, eliminate_row
from similia.linalg.downdates import downdate
from similia.linalg.threads import side_by_side
from similia.updates.blend import choices

#: share of choices between two items that say nothing
SLIP_OF_PAIRS = 0.1
#: how much of W counts: candidates side by side. W starts so wide that it learns fast, and is too
#: sure of itself; a part of it ranks like a W of a smaller prior
PARTS_OF_W = 2.0 ** np.arange(2, -7, -1)
#: W has drawn level if it is behind by no more than this, which may be rounding
LEVEL = 1e-9
#: queries that W has not learnt from, and any: what each judgement says before it is learnt
NEW, ANY = range(2)
#: places in the `tallies` of each of the two
W_EVIDENCE, W_COUNTED, W_SQUARES, W_CLUSTERED, W_TRUST = range(5)
#: places in the `totals`
BEHIND, W_ORDERS, JUDGED, QUERIES, RESTARTS = range(5)


@compiled
def pairs_of_lists(starts, gains, offsets, others):
    """Each choice of a list as one pair: the item chosen, and the nearest one it was chosen over.

    Given that one of the two was chosen, the rest of the list has no say; neighbours were seen in
    the most similar circumstances. Returns the lists, the two items, and the means and variances of
    the margins before learning.
    """
    total = 0
    for t in range(len(starts) - 1):
        total += choices(gains[starts[t] : starts[t + 1]])
    lists, pairs = np.empty(total, np.intp), np.empty((total, 2), np.intp)
    margins, variances = np.empty(total), np.empty(total)
    k = place = 0
    for t in range(len(starts) - 1):
        begin, n = starts[t], starts[t + 1] - starts[t]
        C = others[place : place + n * n].reshape(n, n)
        place += n * n
        for i in range(n):
            nearest = -1
            for j in range(n):
                lower = gains[begin + j] < gains[begin + i]
                if lower and (nearest < 0 or abs(j - i) < abs(nearest - i)):
                    nearest = j
            if nearest >= 0:
                lists[k], pairs[k, 0], pairs[k, 1] = t, begin + i, begin + nearest
                margins[k] = offsets[begin + i] - offsets[begin + nearest]
                variances[k] = C[i, i] + C[nearest, nearest] - 2 * C[i, nearest]
                k += 1
    return lists, pairs, margins, variances


@compiled
def _scale(v):
    """1/√(1 + πv/8): σ of a mean margin times this stands for the mean of σ over N(0, v) around."""
    return 1.0 / np.sqrt(1.0 + np.pi * v / 8.0)


@compiled
def _likelihood(s, scale):
    """P of a pair with the mean margin s."""
    q = 1.0 / (1.0 + np.exp(-min(max(scale * s, -500.0), 500.0)))
    return SLIP_OF_PAIRS / 2 + (1 - SLIP_OF_PAIRS) * q


@compiled
def step_and_gain(s, v):
    """Log-likelihood of a pair with margin N(s, v), its slope in s, and minus its curvature.

    σ(s/√(1 + πv/8)) stands for the mean of the logistic function, so that all are closed forms.
    """
    scale = _scale(v)
    q = 1.0 / (1.0 + np.exp(-min(max(scale * s, -500.0), 500.0)))
    likelihood = SLIP_OF_PAIRS / 2 + (1 - SLIP_OF_PAIRS) * q
    slope = (1 - SLIP_OF_PAIRS) * q * (1 - q) * scale / likelihood
    curvature = (1 - SLIP_OF_PAIRS) * q * (1 - q) * (1 - 2 * q) * scale * scale / likelihood
    return np.log(likelihood), slope, max(slope * slope - curvature, 0.0)


@compiled
def meet(met, places):
    """Note that queries, known by their places, are met; return which were not before."""
    new = np.empty(len(places), np.bool_)
    for t in range(len(places)):
        new[t] = not met[places[t]]
        met[places[t]] = True
    return new


def matrix_pass(W, Lambda, Omega, Q, P, offsets, others, weights, stop=None):
    """Learn W ~ N(W, Λ ⊗ Ω) from a block of pairs; same updates as one at a time.

    The total margin of a pair is its offset plus qᵀWp, the total variance `others` plus ab with
    a = qᵀΛq and b = pᵀΩp. With their step g and gain h,

        W += g Λq pᵀΩ,    Ω -= ah/(m - (m-1)abh) Ωp pᵀΩ,    Λ -= bh/(n - (n-1)abh) Λq qᵀΛ,

    AROMA's (12) to (14), where h = 1/(r + ab). A pair of weight 0 is only scored. Returns qᵀWp as
    it was before each pair was learnt, and a copy of W before the pair `stop`, unless that is None.
    """
    (m, n), (QW, QL, PO) = W.shape, products((Q, W), (Q, Lambda), (P, Omega))
    H, G = products((QL, Q.T), (PO, P.T))
    steps, taken = np.zeros((3, len(weights)), W.dtype), np.empty(len(weights), np.intp)
    scores, given = row_products(QW, P), (offsets, others, weights, (m, n))
    count = _matrix_walk(H, G, scores, *given, steps, taken)
    if count:
        taken = taken[:count]
        left, right = (QL, PO) if count == len(QL) else (QL[taken], PO[taken])
        alpha, c_Lambda, c_Omega = steps[:, :count]
        tasks = (
            partial(downdate, Lambda, left, H, c_Lambda, taken),
            partial(downdate, Omega, right, G, c_Omega, taken),
        )
        side_by_side(tasks, count * (m * m + n * n))
    then, begin = None, 0
    if stop is not None:
        begin = np.searchsorted(taken[:count], stop)
        if begin:
            add_cross_products((W, left[:begin], right[:begin], alpha[:begin]))
        then = W.copy()
    if begin < count:
        add_cross_products((W, left[begin:], right[begin:], alpha[begin:]))
    return scores, then


@compiled
def _matrix_walk(H, G, s, offsets, others, weights, sizes, steps, taken):
    """Walk over a block in order; rows learnt from move to the front of H and G."""
    m, n = sizes
    alpha, c_Lambda, c_Omega = steps[0], steps[1], steps[2]
    k = np.intp(0)  # a literal 0 would be a type of its own, and compile all twice
    for t in range(len(s)):
        eliminate_row(H, c_Lambda, k, t, t)
        eliminate_row(G, c_Omega, k, t, t)
        a, b = max(H[k, t], 0.0), max(G[k, t], 0.0)
        _, g, h = step_and_gain(offsets[t] + s[t], others[t] + a * b)
        g, h = weights[t] * g, min(weights[t] * h, 0.99 / max(a * b, 1e-300))
        if g * a * b > 0.0:
            alpha[k] = g
            c_Omega[k] = a * h / (m - (m - 1) * a * b * h)
            c_Lambda[k] = b * h / (n - (n - 1) * a * b * h)
            for u in range(t + 1, len(s)):
                s[u] += alpha[k] * H[k, u] * G[k, u]
            taken[k] = t
            k += 1
    return k


@compiled
def count_evidence(scores, offsets, others, counted, clusters, state, limits):
    """Count what W gained, judgement by judgement; return where it fell behind by `alarm`, or -1.

    Each part of W is scored by log P with it minus log P without W, its mean taken at its word:
    what is unknown of a wide W would drown what is known of the base. They mix by their gains on
    what W had not learnt from; a fixed share of 1/(n + 1) lets another one win later
    [Herbster1998]_: the more W has learnt, the larger the part that suits. In the same way trust
    in W starts from `belief`, and moves with the gains and back to it. Both are counted twice, for
    queries that W has not learnt from, `counted`, and for any, as W may know some queries before
    it knows others; of these a query counts until it is judged more often than the average by one.
    Trust in the orders that W turns moves with the gains on these judgements alone, of any query:
    a W that only makes the base surer of itself ranks no better.

    The alarm asks whether W is worse than nothing with what was right so far, so the parts mix by
    their sums there, and nobody switches. What W lost counts once for each query until it is made
    up for, as one person who insists is no change of taste.
    """
    logs, sums, tallies, totals, cluster, told, heard = state
    (belief, alarm), K = limits, len(PARTS_OF_W)
    ratios, turned, shares = np.empty(K), np.empty(K), np.empty(K)  # of P with W to P without it
    for t in range(len(scores)):
        scale = _scale(others[t])
        plain = _likelihood(offsets[t], scale)
        for c in range(K):
            margin = offsets[t] + PARTS_OF_W[c] * scores[t]
            ratios[c] = _likelihood(margin, scale) / plain
            turned[c] = ratios[c] if np.sign(margin) != np.sign(offsets[t]) else 1.0
        if not heard[clusters[t]]:
            heard[clusters[t]] = True
            top, after, before = sums.max(), 0.0, 0.0
            for c in range(K):
                share = np.exp(sums[c] - top)
                after, before = after + share * ratios[c], before + share
            totals[BEHIND] -= np.log(after / before)
            if totals[BEHIND] > alarm:
                return t
            if totals[BEHIND] <= LEVEL:
                totals[BEHIND] = 0.0
                heard[:] = False
        if counted[t]:
            for c in range(K):
                sums[c] += np.log(ratios[c])
        ahead = told[clusters[t]] * totals[QUERIES] > totals[JUDGED] + totals[QUERIES]
        totals[QUERIES] += told[clusters[t]] == 0
        totals[JUDGED] += 1.0
        told[clusters[t]] += 1
        for kind in range(NEW if counted[t] else ANY, NEW + 1 if ahead else ANY + 1):
            mixed = of_orders = 0.0
            for c in range(K):
                shares[c] = np.exp(logs[kind, c])
                of_orders += shares[c] * turned[c]
                mixed += shares[c] * ratios[c]
            gain, of_orders = np.log(mixed), np.log(of_orders)
            tally, before = tallies[kind], cluster[kind, clusters[t]]
            tally[W_EVIDENCE] += gain
            tally[W_COUNTED] += 1.0
            tally[W_SQUARES] += gain * gain
            tally[W_CLUSTERED] += (before + gain) ** 2 - before * before
            cluster[kind, clusters[t]] = before + gain
            effect = max(1.0, tally[W_CLUSTERED] / max(tally[W_SQUARES], 1e-12))
            share = 1.0 / (tally[W_COUNTED] + 1.0)
            tally[W_TRUST] = moved_trust(tally[W_TRUST], gain / effect, share, belief)
            if kind == ANY:
                totals[W_ORDERS] = moved_trust(totals[W_ORDERS], of_orders / effect, share, belief)
            for c in range(K):
                kept = shares[c] * ratios[c] / mixed
                logs[kind, c] = np.log((1 - share) * kept + share / K)
    return -1


@compiled
def moved_trust(trust, gain, share, belief):
    """Trust after a judgement of this log-likelihood ratio, less a share that falls back."""
    odds = trust * np.exp(gain)
    return (1 - share) * odds / (odds + 1 - trust) + share * belief
